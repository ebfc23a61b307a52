//! Locks whose names are removed and given again. Threads open locks of any form under few names, keep handles, ask for
//! the locks by handles old and new, remove them, and die anywhere.
//!
//! Exclusion is checked for each incarnation of a lock. Besides, no thread gets a lock whose removal was acknowledged;
//! no call says that a lock was removed before a thread has begun to remove it; and all handles on an incarnation were
//! opened by one name.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use cenote::memory::Memory;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::names::directory::{self, KIND_LOCK};
use cenote::pod::{Pod, Worker};
use cenote::sync::guard::Release;
use cenote::sync::object::LockKind;
use cenote::sync::{Guard, Mutex, QueueLock, ReadGuard, ReadWriteLock, SpinLock, Timeout};
use cenote::{Acquired, Error, Owner};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::account;
use super::pool::{Member, is_full};
use super::slots::all_at_rest;
use super::{Load, Log, Scenario, below, random};
use crate::check::exclusion::Mode;
use crate::check::notified::Event;
use crate::exec::{Context, SimMemory};

/// Names that locks have; the directory has as many places, and one more.
const NAMES: u64 = 3;
/// Handles that a thread keeps.
const HANDLES: usize = 3;
/// Bits of an incarnation.
const INCARNATION: u32 = 20;
/// Most steps that an owner does nothing.
const PAUSES: u64 = 6;

struct Shared {
    load: Load,
    log: Log,
    gathering: Gathering,
    known: RefCell<Known>,
}

/// What is known of incarnations of locks.
#[derive(Default)]
struct Known {
    /// The name that a handle on each was opened by first.
    names: BTreeMap<u64, u64>,
    /// Those whose removal a thread has begun while it had the lock.
    begun: BTreeSet<u64>,
    /// Those whose removal was acknowledged.
    removed: BTreeSet<u64>,
    /// What each worker has asked for last.
    asked: BTreeMap<(u32, u32), u64>,
}

impl Known {
    /// What an owner is notified of that matters: the death of a worker in the queue of a queue lock, under a name that
    /// was removed before, says nothing of the lock that has the queue now.
    fn notified(&self, number: u64, acquired: Acquired) -> Acquired {
        let Acquired::Recovered { from, .. } = acquired else {
            return acquired;
        };
        match self.asked.get(&(from.worker, from.generation)) {
            Some(asked) if *asked != number && asked >> INCARNATION == number >> INCARNATION => {
                Acquired::Clean
            }
            _ => acquired,
        }
    }
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        gathering: Gathering::new(load.gathers),
        known: RefCell::default(),
    };
    let prepare = |_: &Context<C>, _: &Shared| Ok(());
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 4, log, shared, parts)
}

enum Lock<M: Memory> {
    Spin(SpinLock<M>),
    Mutex(Mutex<M>),
    Queue(QueueLock<M>),
    Rw(ReadWriteLock<M>),
}

enum Hold<'l, M: Memory> {
    Spin(Guard<'l, M, SpinLock<M>>),
    Mutex(Guard<'l, M, Mutex<M>>),
    Queue(Guard<'l, M, QueueLock<M>>),
    Write(Guard<'l, M, ReadWriteLock<M>>),
    Read(ReadGuard<'l, M>),
}

impl<M: Memory> Lock<M> {
    fn open(worker: &Rc<Worker<M>>, form: LockKind, name: &str) -> cenote::Result<Self> {
        let worker = worker.clone();
        Ok(match form {
            LockKind::Spin => Self::Spin(SpinLock::open_or_create(worker, name)?),
            LockKind::Mutex => Self::Mutex(Mutex::open_or_create(worker, name)?),
            LockKind::Queue => Self::Queue(QueueLock::open_or_create(worker, name)?),
            _ => Self::Rw(ReadWriteLock::open_or_create(worker, name)?),
        })
    }

    /// What tells incarnations of locks apart.
    fn number(&self) -> u64 {
        let (offset, incarnation) = match self {
            Self::Spin(lock) => lock.handle().identity(),
            Self::Mutex(lock) => lock.handle().identity(),
            Self::Queue(lock) => lock.handle().identity(),
            Self::Rw(lock) => lock.handle().identity(),
        };
        offset << INCARNATION | incarnation
    }

    fn take(&self, mode: Mode, timeout: Timeout) -> cenote::Result<Option<Hold<'_, M>>> {
        // As for users who give no timeout.
        let waits = timeout == Timeout::Forever;
        Ok(match self {
            Self::Spin(lock) if waits => Some(Hold::Spin(lock.lock()?)),
            Self::Spin(lock) => lock.lock_with(timeout)?.map(Hold::Spin),
            Self::Mutex(lock) if waits => Some(Hold::Mutex(lock.lock()?)),
            Self::Mutex(lock) => lock.lock_with(timeout)?.map(Hold::Mutex),
            Self::Queue(lock) if waits => Some(Hold::Queue(lock.lock()?)),
            Self::Queue(lock) if timeout == Timeout::None => lock.try_lock()?.map(Hold::Queue),
            Self::Queue(lock) => lock.lock_with(timeout)?.map(Hold::Queue),
            Self::Rw(lock) if mode == Mode::Shared && waits => Some(Hold::Read(lock.read()?)),
            Self::Rw(lock) if mode == Mode::Shared => lock.read_with(timeout)?.map(Hold::Read),
            Self::Rw(lock) if waits => Some(Hold::Write(lock.write()?)),
            Self::Rw(lock) => lock.write_with(timeout)?.map(Hold::Write),
        })
    }
}

impl<M: Memory> Hold<'_, M> {
    fn acquired(&self) -> Acquired {
        match self {
            Self::Spin(guard) => guard.acquired(),
            Self::Mutex(guard) => guard.acquired(),
            Self::Queue(guard) => guard.acquired(),
            Self::Write(guard) => guard.acquired(),
            Self::Read(guard) => guard.acquired(),
        }
    }

    /// Removes the lock; whether this holds it so that it can.
    fn remove(self) -> cenote::Result<bool> {
        match self {
            Self::Spin(guard) => guard.remove()?,
            Self::Mutex(guard) => guard.remove()?,
            Self::Queue(guard) => guard.remove()?,
            Self::Write(guard) => guard.remove()?,
            Self::Read(_) => return Ok(false),
        }
        Ok(true)
    }
}

/// All names have the same length, so that a wrong one shows by nothing else.
fn name(n: u64) -> String {
    format!("lock-{n}-{}", "x".repeat(60))
}

fn form(n: u64) -> LockKind {
    match n {
        0 => LockKind::Spin,
        1 => LockKind::Mutex,
        2 => LockKind::Queue,
        _ => LockKind::Rw,
    }
}

/// One thread, and what it needs to write down.
struct Thread<'a, const C: bool> {
    context: &'a Context<C>,
    shared: &'a Shared,
    worker: Rc<Worker<SimMemory<C>>>,
    random: Xoshiro256PlusPlus,
}

impl<const C: bool> Thread<'_, C> {
    /// Opens a lock of a name; `None` if there is no room, or the name is that of another form.
    fn open(&mut self, n: u64) -> cenote::Result<Option<Lock<SimMemory<C>>>> {
        // One form is used more than others, so that objects are used again.
        let form = match below(&mut self.random, 3) {
            0 => form(below(&mut self.random, 4)),
            _ => form(self.shared.load.seed % 4),
        };
        let lock = match Lock::open(&self.worker, form, &name(n)) {
            Ok(lock) => lock,
            Err(Error::OtherKind { .. }) => return Ok(None),
            Err(error) if is_full(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let number = lock.number();
        let first = *self.shared.known.borrow_mut().names.entry(number).or_insert(n);
        if first != n {
            self.shared.log.fault(format!(
                "lock {number:#x} is found by the name {n}, and was found by the name {first}"
            ));
        }
        Ok(Some(lock))
    }

    /// Asks for a lock, and writes down what came of it; whether it was removed.
    fn take<'l>(
        &self,
        lock: &'l Lock<SimMemory<C>>,
        mode: Mode,
        timeout: Timeout,
    ) -> cenote::Result<(Option<Hold<'l, SimMemory<C>>>, bool)> {
        let (process, number, log) = (self.context.thread(), lock.number(), &self.shared.log);
        log.lock(
            self.context,
            Event::Requested {
                lock: number,
                process,
                worker: Owner::of(self.worker.identity()),
            },
        );
        let me = Owner::of(self.worker.identity());
        let asked = (me.worker, me.generation);
        self.shared.known.borrow_mut().asked.insert(asked, number);
        let was_removed = self.shared.known.borrow().removed.contains(&number);
        let (taken, is_removed) = match lock.take(mode, timeout) {
            Ok(taken) => (taken, false),
            Err(Error::LockRemoved) => (None, true),
            Err(error) => return Err(error),
        };
        let event = match &taken {
            Some(hold) => Event::Granted {
                lock: number,
                process,
                mode,
                acquired: self.shared.known.borrow().notified(number, hold.acquired()),
            },
            None => Event::Withdrawn {
                lock: number,
                process,
            },
        };
        log.lock(self.context, event);
        if taken.is_some() && self.shared.known.borrow().removed.contains(&number) {
            log.fault(format!(
                "process {process} gets lock {number:#x}, which was removed"
            ));
        }
        if is_removed && !self.shared.known.borrow().begun.contains(&number) {
            log.fault(format!(
                "lock {number:#x} is said to be removed, and nobody removes it"
            ));
        }
        if was_removed && !is_removed && taken.is_none() {
            log.fault(format!(
                "lock {number:#x} is said to be held, and was removed before"
            ));
        }
        Ok((taken, is_removed))
    }

    /// Holds a lock for a while, and gives it up or removes it.
    fn hold(&mut self, hold: Hold<'_, SimMemory<C>>, lock: u64, removes: bool) -> cenote::Result<()> {
        let (process, log) = (self.context.thread(), &self.shared.log);
        for _ in 0..below(&mut self.random, PAUSES) {
            self.context.wait();
        }
        let removes = removes && !matches!(hold, Hold::Read(_));
        if removes {
            self.shared.known.borrow_mut().begun.insert(lock);
            // It may have been given up when this dies.
            log.lock(self.context, Event::Released { lock, process });
            if hold.remove()? {
                self.shared.known.borrow_mut().removed.insert(lock);
            }
        } else {
            log.lock(self.context, Event::Released { lock, process });
            drop(hold);
        }
        log.lock(self.context, Event::Ended { lock, process });
        Ok(())
    }
}

impl<const C: bool> Thread<'_, C> {
    /// Asks for a lock in some way, and if it gets it, gives it up or removes it; whether it was removed before.
    fn use_lock(&mut self, lock: &Lock<SimMemory<C>>) -> cenote::Result<bool> {
        let mode = match (lock, below(&mut self.random, 2)) {
            (Lock::Rw(_), 0) => Mode::Shared,
            _ => Mode::Exclusive,
        };
        let timeout = match below(&mut self.random, 4) {
            0 => Timeout::None,
            1 => Timeout::Polls(below(&mut self.random, 100) as u32),
            _ => Timeout::Forever,
        };
        let (taken, is_removed) = self.take(lock, mode, timeout)?;
        let removes = below(&mut self.random, 3) == 0;
        if let Some(hold) = taken {
            self.hold(hold, lock.number(), removes)?;
        }
        Ok(is_removed)
    }
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let load = shared.load;
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    let mut thread = Thread {
        context,
        shared,
        worker,
        random: random(load.seed, context.thread()),
    };
    let mut kept: Vec<Lock<_>> = Vec::new();
    shared.gathering.arrive(context);
    for _ in 0..load.operations {
        if kept.is_empty() || below(&mut thread.random, 2) == 0 {
            // In half of the runs most are about the first, so that they meet.
            let n = match load.seed / 4 % 2 + below(&mut thread.random, 3) {
                0 | 1 => 0,
                _ => below(&mut thread.random, NAMES),
            };
            let Some(lock) = thread.open(n)? else {
                continue;
            };
            kept.push(lock);
            if kept.len() > HANDLES {
                kept.remove(below(&mut thread.random, HANDLES as u64) as usize);
            }
        }
        let which = below(&mut thread.random, kept.len() as u64) as usize;
        let is_removed = thread.use_lock(&kept[which])?;
        // Some ask again all the same.
        if is_removed && below(&mut thread.random, 3) > 0 {
            kept.swap_remove(which);
        }
    }
    Ok(())
}

fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let log = &shared.log;
    let member = Member::join(context, !C)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let named = directory::list(&*worker)?;
        for (n, one) in named.iter().enumerate() {
            let twin = named[..n].iter().any(|other| other.name == one.name);
            let is_known = (0..NAMES).any(|n| one.name == name(n));
            if twin || !is_known || one.kind != KIND_LOCK {
                log.fault(format!("{one:?} is in the directory, among {named:?}"));
            }
        }
        // Every lock can be acquired and removed; then every name can be given again, to any form.
        for one in named {
            if let Err(error) = cenote::sync::removal::remove(worker.clone(), &one.name, Timeout::None) {
                log.fault(format!("nobody runs, and {one:?} cannot be removed: {error}"));
            }
        }
        for form in (0..4).map(form) {
            // All at once, so that each entry's lock of the form is used again.
            let locks: Vec<_> = (0..=NAMES)
                .map(|n| Lock::open(&worker, form, &name(n)))
                .collect::<cenote::Result<_>>()?;
            for lock in &locks {
                match lock.take(Mode::Exclusive, Timeout::None)? {
                    Some(hold) => drop(hold.remove()?),
                    None => log.fault(format!("nobody runs, and a new {form:?} lock cannot be had")),
                }
            }
        }
        all_at_rest(&worker, log);
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
