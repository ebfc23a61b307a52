//! Groups that are dropped by their names, while others join them, read their events, and die. A task list is made and
//! dropped beside them, so that a group's frame becomes something else. A member reads its own joining first, and then
//! every event; it is told that its group was dropped only if somebody dropped it. Once a drop is over that found
//! nobody at work, no older handle may be of use. In the end all is dropped, and nothing may be left.

use std::rc::Rc;
use std::sync::Arc;

use cenote::causes::Table;
use cenote::index::dropping::finish_dropped;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::group::{Creation, Event, EventKind, Group, GroupHandle, Status};
use cenote::pod::reclaim::collect;
use cenote::pod::tasks::{Plan, TaskList};
use cenote::pod::{Pod, Worker};
use cenote::{Error, Result};

use super::assemble::{Parts, assemble};
use super::drop_times::{DropTimes, Opened, drop_all};
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
    times: DropTimes<{ NAMES.len() }>,
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        times: DropTimes::new(NAMES, log.clone()),
    };
    let prepare = |_: &Context<C>, _: &Shared| Ok(());
    let audit = |context: &Context<C>, shared: &Shared| drop_all(context, &shared.log);
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 8, log, shared, parts)
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
    when: Opened,
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
            0 | 1 => shared.times.drop_named(&thread.worker, name)?,
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
        if self
            .shared
            .times
            .on(name, handle.when, || work(self, &mut handle))?
        {
            self.handles[name] = Some(handle);
        }
        Ok(())
    }

    fn fault(&self, text: String) {
        self.shared.log.fault(text);
    }

    fn open(&self, name: usize) -> Result<Handle<C>> {
        let threads = u64::from(self.shared.load.hosts * self.shared.load.threads);
        let creation = Creation {
            members: 2 * threads,
            events: 16 * threads,
            salt: 1,
        };
        let (structure, when) = self.shared.times.open(|| match name {
            TASKS => {
                let plan = Plan::single(TASKS_MAX);
                TaskList::open_or_create(self.worker.clone(), NAMES[name], &plan).map(Structure::Tasks)
            }
            _ => Ok(Structure::Group {
                group: Group::open_or_create(&self.worker, NAMES[name], b"token", creation)?,
                place: None,
            }),
        })?;
        Ok(Handle { structure, when })
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
