//! Onlookers: threads that read the whole pool as `cenote stat` does, while others write to maps, take a lock, join a
//! group, and die. What an onlooker reads decides nothing, but each word that it must see is checked, and so is what
//! must always hold.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use cenote::index::hash::HashMap;
use cenote::index::ordered::OrderedMap;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::group::{Creation, Group, GroupHandle};
use cenote::pod::{Pod, Worker};
use cenote::store::{Stat, stat};
use cenote::sync::{QueueLock, Timeout};
use cenote::{Error, Owner, Result};

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::account;
use super::pool::Member;
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, SimMemory};

/// Keys of each map.
const KEYS: u64 = 4;

struct Shared {
    load: Load,
    log: Log,
    gathering: Gathering,
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        gathering: Gathering::new(load.gathers),
    };
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 8, log, shared, parts)
}

/// What a thread has open. The first thread makes it.
struct Things<const C: bool> {
    hash: HashMap<SimMemory<C>>,
    ordered: OrderedMap<SimMemory<C>>,
    lock: QueueLock<SimMemory<C>>,
    group: Group,
}

impl<const C: bool> Things<C> {
    fn open(worker: &Rc<Worker<SimMemory<C>>>, load: Load) -> Result<Self> {
        let threads = u64::from(load.hosts * load.threads);
        let creation = Creation {
            members: 2 * threads,
            events: 16 * threads,
            salt: 1,
        };
        Ok(Self {
            hash: HashMap::open_or_create(worker.clone(), "hash", load.guidelines)?,
            ordered: OrderedMap::open_or_create(worker.clone(), "ordered", load.guidelines)?,
            lock: QueueLock::open_or_create(worker.clone(), "lock")?,
            group: Group::open_or_create(worker, "group", b"token", creation)?,
        })
    }
}

fn prepare<const C: bool>(_: &Context<C>, _: &Shared) -> Result<()> {
    Ok(())
}

fn work<const C: bool>(context: &Context<C>, pod: &Arc<Pod<SimMemory<C>>>, shared: &Shared) -> Result<()> {
    let load = shared.load;
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    shared.gathering.arrive(context);
    let things = Things::open(&worker, load)?;
    let handle = join(context, &worker, &things.group, load.threads)?;
    // A pool may be full at any time; a thread that has joined leaves all the same.
    let outcome = operate(context, &worker, &things, shared);
    match handle {
        Some(handle) => outcome.and(things.group.leave(&worker, handle)),
        None => outcome,
    }
}

fn operate<const C: bool>(
    context: &Context<C>,
    worker: &Rc<Worker<SimMemory<C>>>,
    things: &Things<C>,
    shared: &Shared,
) -> Result<()> {
    let Shared { load, log, .. } = shared;
    let mut random = random(load.seed, context.thread());
    for n in 0..load.operations {
        let key = below(&mut random, KEYS).to_le_bytes();
        let value = [n as u8; 24];
        match below(&mut random, 6) {
            0 => drop(things.hash.put(&key, &value)?),
            1 => drop(things.hash.remove(&key)?),
            2 => drop(things.ordered.put(&key, &value)?),
            3 => hold(worker, &things.lock, u64::from(n) + 1, log)?,
            _ => examine(&stat(worker, None)?, log),
        }
        if worker.pod().has_lost_flush_server() {
            log.fault("a background thread that lives is said to have died");
        }
    }
    Ok(())
}

/// Joins under a name of this host that no member has.
fn join<const C: bool>(
    context: &Context<C>,
    worker: &Worker<SimMemory<C>>,
    group: &Group,
    threads: u32,
) -> Result<Option<GroupHandle>> {
    for n in 0..threads {
        match group.join(worker, &format!("{}.{n}", context.host())) {
            Ok(handle) => return Ok(Some(handle)),
            Err(Error::MemberTaken { .. }) => {}
            Err(Error::GroupFull { .. } | Error::GroupCrowded { .. }) => return Ok(None),
            Err(other) => return Err(other),
        }
    }
    Ok(None)
}

/// Takes the lock, leaves a note, and reads the lock's owner.
fn hold<const C: bool>(
    worker: &Rc<Worker<SimMemory<C>>>,
    lock: &QueueLock<SimMemory<C>>,
    note: u64,
    log: &Log,
) -> Result<()> {
    let Some(guard) = lock.lock_with(Timeout::Polls(100))? else {
        return Ok(());
    };
    guard.set_note(note);
    let me = Owner::of(worker.identity());
    for seen in stat(worker, None)?.locks {
        let owner = seen.seen.owner.map(|owner| owner.who);
        if owner != Some(me) || seen.seen.note != note {
            log.fault(format!(
                "{me:?} holds the lock with note {note}, and sees {:?}",
                seen.seen
            ));
        }
    }
    Ok(())
}

/// What must hold whenever the pool is read.
fn examine(stat: &Stat, log: &Log) {
    let alive: Vec<u64> = stat
        .processes
        .iter()
        .filter(|process| process.is_alive)
        .map(|process| process.pid)
        .collect();
    let distinct: BTreeSet<u64> = alive.iter().copied().collect();
    if distinct.len() != alive.len() {
        log.fault(format!(
            "two living processes have the same id: {:?}",
            stat.processes
        ));
    }
}

fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> Result<()> {
    let log = &shared.log;
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let stat = stat(&worker, None)?;
        examine(&stat, log);
        if stat.processes.len() != 1 {
            log.fault(format!("nobody else runs, and there are {:?}", stat.processes));
        }
        for lock in &stat.locks {
            let seen = &lock.seen;
            if seen.owner.is_some_and(|owner| owner.is_alive)
                || !seen.waiting.is_empty()
                || !seen.readers.is_empty()
            {
                log.fault(format!("nobody else runs, and a lock is held: {seen:?}"));
            }
        }
        if stat.groups.iter().any(|group| group.members > 0) {
            log.fault(format!(
                "nobody else runs, and there are members: {:?}",
                stat.groups
            ));
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
