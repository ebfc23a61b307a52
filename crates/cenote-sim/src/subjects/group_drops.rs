//! Groups that are dropped by their names, while others join them, read their events, and die. A task list is made and
//! dropped beside them, so that a group's frame becomes something else. A member reads its own joining first, and then
//! every event; it is told that its group was dropped only if somebody dropped it. Once a drop is over that found
//! nobody at work, no older handle may be of use. In the end all is dropped, and nothing may be left.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use cenote::causes::Table;
use cenote::index::dropping::{drop_named, finish_dropped};
use cenote::pod::format::geometry::Parameters;
use cenote::pod::group::{Creation, Event, EventKind, Group, GroupHandle, Status};
use cenote::pod::names::directory;
use cenote::pod::reclaim::collect;
use cenote::pod::tasks::{Plan, TaskList};
use cenote::pod::{Pod, Worker};
use cenote::{Dropped, Error, Result};

use super::assemble::{Parts, assemble};
use super::hash::account;
use super::pool::Member;
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, SimMemory};

/// What is dropped: two groups, and a task list.
const NAMES: [&str; 3] = ["group", "other group", "tasks"];
const TASKS: usize = 2;
/// As many as make the list a frame of its own, like a group.
const TASKS_MAX: u64 = 4_500;

struct Shared {
    load: Load,
    log: Log,
    /// Counts moments: openings and drops.
    now: Cell<u64>,
    /// Handles of each name that were opened before this are of no use.
    dropped: [Cell<u64>; NAMES.len()],
    /// Drops of each name that have begun and not ended, and when the last one ended.
    dropping: [Cell<u64>; NAMES.len()],
    ended: [Cell<u64>; NAMES.len()],
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        now: Cell::default(),
        dropped: Default::default(),
        dropping: Default::default(),
        ended: Default::default(),
    };
    let prepare = |_: &Context<C>, _: &Shared| Ok(());
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 8, log, shared, parts)
}

impl Shared {
    fn tick(&self) -> u64 {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }
}

/// What a thread has open of a name.
enum Structure<const C: bool> {
    Group { group: Group, place: Option<Place> },
    Tasks(TaskList<SimMemory<C>>),
}

/// A thread's place in a group.
struct Place {
    handle: GroupHandle,
    is_member: bool,
    /// The number of the last event that it has read, and how many it has read.
    last: u64,
    read: u64,
}

struct Handle<const C: bool> {
    structure: Structure<C>,
    /// When it began to be opened, and when it was open.
    began: u64,
    opened: u64,
}

struct Thread<'a, const C: bool> {
    shared: &'a Shared,
    worker: Rc<Worker<SimMemory<C>>>,
    /// Its name in groups.
    name: String,
    handles: [Option<Handle<C>>; NAMES.len()],
}

fn work<const C: bool>(context: &Context<C>, pod: &Arc<Pod<SimMemory<C>>>, shared: &Shared) -> Result<()> {
    let mut random = random(shared.load.seed, context.thread());
    let mut thread = Thread {
        shared,
        worker: Rc::new(Worker::attach(pod, shared.load.guidelines.replicate)?),
        name: format!("thread {}", context.thread()),
        handles: Default::default(),
    };
    for _ in 0..shared.load.operations {
        let name = below(&mut random, NAMES.len() as u64) as usize;
        match below(&mut random, 12) {
            0 | 1 => thread.drop_named(name)?,
            2 => {
                finish_dropped(&thread.worker)?;
                collect::collect_now(&thread.worker)?;
            }
            chosen => thread.on(name, |thread, handle| thread.operate(handle, chosen))?,
        }
    }
    for name in 0..NAMES.len() {
        if let Some(handle) = thread.handles[name].take() {
            thread.leave(handle)?;
        }
    }
    Ok(())
}

impl<const C: bool> Thread<'_, C> {
    fn drop_named(&mut self, name: usize) -> Result<()> {
        let began = self.shared.tick();
        let (dropping, ended) = (&self.shared.dropping[name], &self.shared.ended[name]);
        dropping.set(dropping.get() + 1);
        let outcome = drop_named(&self.worker, NAMES[name]);
        dropping.set(dropping.get() - 1);
        ended.set(self.shared.tick());
        match outcome {
            Ok(Dropped::Freed) => {
                let dropped = &self.shared.dropped[name];
                dropped.set(dropped.get().max(began));
            }
            Ok(Dropped::InUse) | Err(Error::NoSuch { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Does something with a handle, which is opened if there is none; it goes if it is of no use any more.
    fn on(&mut self, name: usize, work: impl FnOnce(&Self, &mut Handle<C>) -> Result<()>) -> Result<()> {
        let mut handle = match self.handles[name].take() {
            Some(handle) => handle,
            None => match self.open(name) {
                // Entries of what was dropped and is in use still.
                Err(Error::TooMany {
                    what: Table::Names, ..
                }) => return Ok(()),
                opened => opened?,
            },
        };
        let is_over = handle.opened < self.shared.dropped[name].get();
        match work(self, &mut handle) {
            Err(Error::Dropped) => {
                let (dropping, ended) = (self.shared.dropping[name].get(), self.shared.ended[name].get());
                if dropping == 0 && ended < handle.began {
                    self.fault(format!(
                        "{} is said to be dropped, and nobody did so",
                        NAMES[name]
                    ));
                }
                return Ok(());
            }
            Ok(()) if is_over => self.fault(format!("{} is of use after it was dropped", NAMES[name])),
            done => done?,
        }
        self.handles[name] = Some(handle);
        Ok(())
    }

    fn fault(&self, text: String) {
        self.shared.log.fault(text);
    }

    fn open(&self, name: usize) -> Result<Handle<C>> {
        let began = self.shared.tick();
        let threads = u64::from(self.shared.load.hosts * self.shared.load.threads);
        let structure = match name {
            TASKS => {
                let plan = Plan::single(TASKS_MAX);
                Structure::Tasks(TaskList::open_or_create(self.worker.clone(), NAMES[name], &plan)?)
            }
            _ => Structure::Group {
                group: Group::open_or_create(
                    &self.worker,
                    NAMES[name],
                    b"token",
                    Creation {
                        members: 2 * threads,
                        events: 16 * threads,
                        salt: 1,
                    },
                )?,
                place: None,
            },
        };
        Ok(Handle {
            structure,
            began,
            opened: self.shared.tick(),
        })
    }

    fn operate(&self, handle: &mut Handle<C>, chosen: u64) -> Result<()> {
        let worker = &*self.worker;
        let (group, place) = match &mut handle.structure {
            Structure::Group { group, place } => (group, place),
            Structure::Tasks(list) => {
                let task = chosen + (TASKS_MAX - 12);
                let _ = list.commit(task, b"done")?;
                return match list.result(task)?.as_deref() {
                    Some(b"done") => Ok(()),
                    found => {
                        self.fault(format!("the result of task {task} is {found:?}"));
                        Ok(())
                    }
                };
            }
        };
        match (chosen, place.as_mut()) {
            (_, None) => *place = self.enter(group, chosen != 3)?,
            (3, Some(_)) => {
                if let Some(place) = place.take() {
                    group.leave(worker, place.handle)?;
                }
            }
            (4, Some(place)) => {
                let members = group.members(worker)?;
                let is_mine = |member: &cenote::pod::group::Member| {
                    member.status == Status::Joined && member.identity == worker.identity()
                };
                if place.is_member != members.iter().any(is_mine) {
                    self.fault(format!("{} is not among the members {members:?}", self.name));
                }
            }
            (_, Some(place)) => {
                if let Some(event) = group.next(worker, &mut place.handle)? {
                    self.judge(place, &event);
                }
            }
        }
        Ok(())
    }

    fn enter(&self, group: &Group, as_member: bool) -> Result<Option<Place>> {
        let entered = match as_member {
            true => group.join(&self.worker, &self.name),
            false => group.observe(&self.worker),
        };
        match entered {
            Ok(handle) => Ok(Some(Place {
                last: handle.read(),
                handle,
                is_member: as_member,
                read: 0,
            })),
            Err(Error::GroupFull { .. } | Error::GroupCrowded { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn judge(&self, place: &mut Place, event: &Event) {
        let is_own = event.identity == self.worker.identity() && event.member == self.name;
        let is_joining = matches!(event.kind, EventKind::Joined | EventKind::Rejoined);
        if place.is_member && place.read == 0 && !(is_own && is_joining) {
            self.fault(format!("{} reads {event:?} before its own joining", self.name));
        }
        if event.number != place.last + 1 {
            self.fault(format!("event {} comes after event {}", event.number, place.last));
        }
        place.last = event.number;
        place.read += 1;
    }

    fn leave(&self, handle: Handle<C>) -> Result<()> {
        if let Structure::Group {
            group,
            place: Some(place),
        } = handle.structure
        {
            match group.leave(&self.worker, place.handle) {
                Err(Error::Dropped) => {}
                left => return left,
            }
        }
        Ok(())
    }
}

/// Drops everything, and accounts for every byte.
fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> Result<()> {
    let log = &shared.log;
    // Alone: a background thread would free what is being accounted for.
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        account(&worker, log)?;
        for named in directory::list(&*worker)? {
            if drop_named(&worker, &named.name)? != Dropped::Freed {
                log.fault(format!("nobody uses {named:?}, and it is not taken apart"));
            }
        }
        let left = finish_dropped(&worker)?;
        if left > 0 || directory::dropped(&worker).next().is_some() {
            log.fault(format!("{left} structures are left that nobody uses"));
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
