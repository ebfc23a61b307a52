//! A group that threads join, leave and die in, with hardly more room than their ends need. What they read must be one
//! sequence, the same for all; in it each member joins, ends once, and rejoins. When all are gone, the group knows it.
//! A worker whose record a recoverer has claimed is no member any more: the group has been notified of the death, even
//! if the recoverer is stopped. Who looks at the group as `fsck` does finds it sound at any time.
//!
//! In every other run there is a damaged group too. It must not keep any worker from being recovered.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use cenote::memory::Memory;
use cenote::pod::death::watch::Watch;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::format::record::Phase;
use cenote::pod::group::{self, Creation, Event, EventKind, Group, GroupHandle, Status};
use cenote::pod::instance::hooks::Dead;
use cenote::pod::{Pod, Worker, names::directory};
use cenote::{Error, Result};

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::account;
use super::pool::Member;
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, SimMemory};
use cenote::memory::{Published, Unpublished};

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Unpublished::at(at, len) }
}

const NAME: &str = "group";
const DAMAGED: &str = "damaged";
const TOKEN: &[u8] = b"token";
/// A word of a group's header, of which 0 is damage.
const MEMBERS_AT: u64 = 8;

/// What the subject's threads share.
struct Shared {
    load: Load,
    log: Log,
    /// Events that any thread has read, by number. They lie outside the machine.
    events: RefCell<BTreeMap<u64, Event>>,
    gathering: Gathering,
    changes: Changes,
    /// Where the damaged group is, and what its damaged word held.
    damaged: Cell<Option<(u64, u64)>>,
}

/// Joins and leaves: how many have begun, and how many are over.
#[derive(Default)]
struct Changes {
    begun: Cell<u64>,
    over: Cell<u64>,
}

impl Changes {
    fn during<R>(&self, change: impl FnOnce() -> R) -> R {
        self.begun.set(self.begun.get() + 1);
        let result = change();
        self.over.set(self.over.get() + 1);
        result
    }

    /// How many there were, if none is running.
    fn finished(&self) -> Option<u64> {
        let begun = self.begun.get();
        (begun == self.over.get()).then_some(begun)
    }
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        events: RefCell::default(),
        gathering: Gathering::new(load.gathers),
        changes: Changes::default(),
        damaged: Cell::new(None),
    };
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 4, log, shared, parts)
}

fn prepare<const C: bool>(context: &Context<C>, shared: &Shared) -> Result<()> {
    let Load { hosts, threads, .. } = shared.load;
    let member = Member::join(context, !C)?;
    {
        let worker = Worker::attach(&member.pod, true)?;
        let threads = u64::from(hosts * threads);
        let creation = Creation {
            members: threads + 2,
            events: 2 * threads + 3,
            salt: 1,
        };
        Group::open_or_create(&worker, NAME, TOKEN, creation)?;
        if !matches!(
            Group::open(&worker, NAME, b"guess"),
            Err(Error::WrongToken { .. })
        ) {
            shared.log.fault("a wrong token was taken");
        }
        if shared.load.seed.is_multiple_of(2) {
            Group::open_or_create(&worker, DAMAGED, TOKEN, creation)?;
            let named = directory::list(&worker)?
                .into_iter()
                .find(|named| named.name == DAMAGED);
            let at = named.map_or(0, |named| named.offset) + MEMBERS_AT;
            shared.log.may_be_damaged();
            shared
                .damaged
                .set(Some((at, published(at, 8).read_word(worker.mem()))));
            write(&worker, at, 0);
        }
    }
    member.leave(context);
    Ok(())
}

fn work<const C: bool>(context: &Context<C>, pod: &Arc<Pod<SimMemory<C>>>, shared: &Shared) -> Result<()> {
    let Shared {
        load,
        gathering,
        changes,
        ..
    } = shared;
    let mut random = random(load.seed, context.thread());
    let worker = Worker::attach(pod, load.guidelines.replicate)?;
    let group = Group::open(&worker, NAME, TOKEN)?;
    let named = directory::find(&worker, NAME)?;
    let mut watch = Watch::default();
    let mut handle: Option<(GroupHandle, bool)> = None;
    gathering.arrive(context);
    for _ in 0..load.operations {
        check_claimed(&worker, &group, &shared.log)?;
        match (below(&mut random, 4), handle.take()) {
            (0, Some((handle, _))) => changes.during(|| group.leave(&worker, handle))?,
            (0 | 1, None) => {
                handle = changes.during(|| join(context, &worker, &group, load.threads, &mut random))?;
            }
            (2, sits) => {
                // As `Membership::next` waits.
                let event_counts = [Watch::prepare_wait(&worker), group::prepare_wait(worker.mem())];
                watch.poll(&worker, true);
                handle = sits;
                let events = match &mut handle {
                    Some((sits, is_new)) => read(&worker, &group, sits, *is_new, 1, shared)?,
                    None => 0,
                };
                if let Some((_, is_new)) = &mut handle {
                    *is_new &= events == 0;
                }
                if events == 0 {
                    watch.wait(&worker, &event_counts, watch.timeout());
                    if let Some((sits, is_new)) = &mut handle {
                        *is_new &= !check_after_sleep(context, &worker, &group, sits, shared)?;
                    }
                }
            }
            (_, Some((mut sits, is_new))) => {
                let count = below(&mut random, 6);
                let events = read(&worker, &group, &mut sits, is_new, count, shared)?;
                handle = Some((sits, is_new && events == 0));
            }
            // As `fsck` does, while others change it.
            (_, None) => {
                if let Some(named) = &named {
                    let _ = group::audit(&worker, named)?;
                }
            }
        }
    }
    if let Some((handle, _)) = handle {
        changes.during(|| group.leave(&worker, handle))?;
    }
    Ok(())
}

/// Writes a word of a group's header: damages or mends it.
fn write<const C: bool>(worker: &Worker<SimMemory<C>>, at: u64, word: u64) {
    let mem = worker.mem();
    unpublished(at, 8).write_word(mem, word);
    mem.write_back(at, 8);
    mem.fence();
}

/// If a recoverer has claimed a worker's record, the group must have been notified of the worker's death.
fn check_claimed<const C: bool>(worker: &Worker<SimMemory<C>>, group: &Group, log: &Log) -> Result<()> {
    let claimed: Vec<u64> = worker
        .pod()
        .attached_workers()
        .into_iter()
        .filter(|(_, state)| state.phase == Phase::Recovering)
        .map(|(index, state)| Dead::at(index, state).identity())
        .collect();
    if claimed.is_empty() {
        return Ok(());
    }
    let is_not_notified = |member: &&cenote::pod::group::Member| {
        member.status == Status::Joined && claimed.contains(&member.identity)
    };
    if let Some(member) = group.members(worker)?.iter().find(is_not_notified) {
        log.fault(format!(
            "the record of {member:?} is claimed, and nobody was notified of its death"
        ));
    }
    Ok(())
}

/// Looks for an event after a sleep; whether there is one. If nothing has woken the thread, no join or leave that is
/// over can have left an event that it has not read. Deaths are different: others notify of them at any later time.
fn check_after_sleep<const C: bool>(
    context: &Context<C>,
    worker: &Worker<SimMemory<C>>,
    group: &Group,
    handle: &mut GroupHandle,
    shared: &Shared,
) -> Result<bool> {
    let changes = &shared.changes;
    let Some(finished) = changes
        .finished()
        .filter(|_| context.overslept() && context.killed() == 0)
    else {
        return Ok(false);
    };
    let found = read(worker, group, handle, false, 1, shared)? != 0;
    if found && changes.finished() == Some(finished) && context.killed() == 0 {
        shared
            .log
            .fault("a member has slept until its time was over, although there was an event for it");
    }
    Ok(found)
}

/// Joins under a name of this host that no member has, or only observes. No room and no place are right answers.
fn join<const C: bool>(
    context: &Context<C>,
    worker: &Worker<SimMemory<C>>,
    group: &Group,
    threads: u32,
    random: &mut rand_xoshiro::Xoshiro256PlusPlus,
) -> Result<Option<(GroupHandle, bool)>> {
    if below(random, 8) == 0 {
        return match group.observe(worker) {
            Ok(handle) => Ok(Some((handle, false))),
            Err(Error::GroupCrowded { .. }) => Ok(None),
            Err(other) => Err(other),
        };
    }
    for n in 0..threads {
        match group.join(worker, &format!("{}.{n}", context.host())) {
            Ok(handle) => return Ok(Some((handle, true))),
            Err(Error::MemberTaken { .. }) => {}
            Err(Error::GroupFull { .. } | Error::GroupCrowded { .. }) => return Ok(None),
            Err(other) => return Err(other),
        }
    }
    Ok(None)
}

/// Reads some events; how many there were. The first event of a member must be its own.
fn read<const C: bool>(
    worker: &Worker<SimMemory<C>>,
    group: &Group,
    handle: &mut GroupHandle,
    is_new: bool,
    count: u64,
    shared: &Shared,
) -> Result<u64> {
    let mut is_first = is_new;
    for n in 0..count {
        let Some(event) = group.next(worker, handle)? else {
            if is_first {
                shared.log.fault("a member does not find its own joining");
            }
            return Ok(n);
        };
        let is_own = event.identity == worker.identity()
            && matches!(event.kind, EventKind::Joined | EventKind::Rejoined);
        if is_first && !is_own {
            shared.log.fault(format!("a member's first event is {event:?}"));
        }
        is_first = false;
        let mut events = shared.events.borrow_mut();
        if events.entry(event.number).or_insert_with(|| event.clone()) != &event {
            shared
                .log
                .fault(format!("event {} was read in two ways", event.number));
        }
    }
    Ok(count)
}

/// Checks what was read, as far as it has no gaps, and that the group knows that all are gone.
fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> Result<()> {
    let log = &shared.log;
    let events = shared.events.borrow();
    check_order(&events, log);
    let member = Member::join(context, false)?;
    {
        let worker = std::rc::Rc::new(Worker::attach(&member.pod, true)?);
        let left = member.pod.attached_workers().len() - 1;
        if left > 0 {
            log.fault(format!("recovery has left {left} of the dead"));
        }
        if let Some((at, word)) = shared.damaged.get() {
            write(&worker, at, word);
            member.pod.forget_failures();
        }
        for named in directory::list(&worker)? {
            let group = Group::at(&worker, named.offset)?;
            for member in group.members(&worker)? {
                let kind = match member.status {
                    Status::Left => EventKind::Left,
                    Status::Died => EventKind::Died,
                    _ => {
                        log.fault(format!("all are gone, and {member:?} is a member"));
                        continue;
                    }
                };
                let since = events.get(&member.since_event);
                if since.is_some_and(|event| event.kind != kind || event.member != member.name) {
                    log.fault(format!("{member:?} is so since {since:?}"));
                }
            }
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}

fn check_order(events: &BTreeMap<u64, Event>, log: &Log) {
    let mut last_number = 0;
    let mut last: BTreeMap<&str, &Event> = BTreeMap::new();
    for (&number, event) in events {
        if number != last_number + 1 {
            // No living thread has read what lies between.
            last.clear();
        }
        last_number = number;
        let before = last.insert(&event.member, event);
        let Some(before) = before else { continue };
        let was_here = matches!(before.kind, EventKind::Joined | EventKind::Rejoined);
        let fits = match event.kind {
            // Where places run out, the first that left are forgotten.
            EventKind::Joined => !was_here,
            EventKind::HostDied => false,
            EventKind::Rejoined => !was_here,
            EventKind::Left | EventKind::Died => was_here && before.identity == event.identity,
        };
        if !fits {
            log.fault(format!("{event:?} comes after {before:?}"));
        }
    }
}
