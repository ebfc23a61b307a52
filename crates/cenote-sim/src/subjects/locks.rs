//! Locks, most of them of one form. Threads ask for one or two of them, with long and short timeouts, leave notes, and
//! die anywhere. In the end every lock can be acquired, and every slot is at rest.

use std::rc::Rc;
use std::sync::Arc;

use cenote::memory::Memory;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::{Pod, Worker};
use cenote::sync::guard::Release;
use cenote::sync::object::LockKind;
use cenote::sync::{Guard, Mutex, QueueLock, ReadGuard, ReadWriteLock, SpinLock, Timeout};
use cenote::{Acquired, Owner};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::account;
use super::pool::Member;
use super::slots::all_at_rest;
use super::{Load, Log, Scenario, below, random};
use crate::check::exclusion::Mode;
use crate::check::notified::Event;
use crate::exec::{Context, SimMemory};

/// Locks that a run has.
const LOCKS: u64 = 2;
/// Most steps that an owner does nothing.
const PAUSES: u64 = 6;

struct Shared {
    load: Load,
    /// Of each lock.
    forms: [LockKind; LOCKS as usize],
    log: Log,
    gathering: Gathering,
}

pub fn scenario<const C: bool>(load: Load, form: LockKind, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    // A slot is used for locks of all forms in turn.
    let second = match (load.seed % 4, form) {
        (0, _) => form,
        (1, LockKind::Rw) | (_, LockKind::Spin) => LockKind::Queue,
        (1, _) => LockKind::Rw,
        (2, LockKind::Rw | LockKind::Queue) => LockKind::Mutex,
        (2, _) => LockKind::Queue,
        _ => LockKind::Spin,
    };
    let shared = Shared {
        load,
        forms: [form, second],
        log: log.clone(),
        gathering: Gathering::new(load.gathers),
    };
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 4, log, shared, parts)
}

/// A lock of any form, as one thread has it open.
pub(super) enum Lock<M: Memory> {
    Spin(SpinLock<M>),
    Mutex(Mutex<M>),
    Queue(QueueLock<M>),
    Rw(ReadWriteLock<M>),
}

/// A hold of a lock of any form.
pub(super) enum Hold<'l, M: Memory> {
    Spin(Guard<'l, M, SpinLock<M>>),
    Mutex(Guard<'l, M, Mutex<M>>),
    Queue(Guard<'l, M, QueueLock<M>>),
    Write(Guard<'l, M, ReadWriteLock<M>>),
    Read(ReadGuard<'l, M>),
}

impl<M: Memory> Lock<M> {
    pub(super) fn open(worker: &Rc<Worker<M>>, form: LockKind, n: u64) -> cenote::Result<Self> {
        let (worker, name) = (worker.clone(), format!("lock {n}"));
        Ok(match form {
            LockKind::Spin => Self::Spin(SpinLock::open_or_create(worker, &name)?),
            LockKind::Mutex => Self::Mutex(Mutex::open_or_create(worker, &name)?),
            LockKind::Queue => Self::Queue(QueueLock::open_or_create(worker, &name)?),
            _ => Self::Rw(ReadWriteLock::open_or_create(worker, &name)?),
        })
    }

    pub(super) fn take(&self, mode: Mode, timeout: Timeout) -> cenote::Result<Option<Hold<'_, M>>> {
        Ok(match self {
            Self::Spin(lock) => lock.lock_with(timeout)?.map(Hold::Spin),
            Self::Mutex(lock) => lock.lock_with(timeout)?.map(Hold::Mutex),
            Self::Queue(lock) if timeout == Timeout::None => lock.try_lock()?.map(Hold::Queue),
            Self::Queue(lock) => lock.lock_with(timeout)?.map(Hold::Queue),
            Self::Rw(lock) if mode == Mode::Shared => lock.read_with(timeout)?.map(Hold::Read),
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

    fn note(&self, note: u64) {
        fn set<M: Memory, L: Release<M>>(guard: &Guard<'_, M, L>, note: u64) {
            guard.set_note(note);
        }
        match self {
            Self::Spin(guard) => set(guard, note),
            Self::Mutex(guard) => set(guard, note),
            Self::Queue(guard) => set(guard, note),
            Self::Write(guard) => set(guard, note),
            Self::Read(_) => {}
        }
    }
}

fn prepare<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        for (n, form) in (0..).zip(shared.forms) {
            Lock::open(&worker, form, n)?;
        }
    }
    member.leave(context);
    Ok(())
}

/// One thread, and what it needs to write down.
struct Thread<'a, const C: bool> {
    context: &'a Context<C>,
    log: &'a Log,
    worker: Rc<Worker<SimMemory<C>>>,
    random: Xoshiro256PlusPlus,
}

impl<const C: bool> Thread<'_, C> {
    fn process(&self) -> u32 {
        self.context.thread()
    }

    /// Asks for a lock, and writes down what came of it.
    fn take<'l>(
        &self,
        lock: &'l Lock<SimMemory<C>>,
        number: u64,
        mode: Mode,
        timeout: Timeout,
    ) -> cenote::Result<Option<Hold<'l, SimMemory<C>>>> {
        let process = self.process();
        self.log.lock(
            self.context,
            Event::Requested {
                lock: number,
                process,
                worker: Owner::of(self.worker.identity()),
            },
        );
        let taken = lock.take(mode, timeout)?;
        let event = match &taken {
            Some(hold) => Event::Granted {
                lock: number,
                process,
                mode,
                acquired: hold.acquired(),
            },
            None => Event::Withdrawn {
                lock: number,
                process,
            },
        };
        self.log.lock(self.context, event);
        Ok(taken)
    }

    /// Holds a lock for a while, and gives it up.
    fn hold(&mut self, hold: Hold<'_, SimMemory<C>>, lock: u64, note: u64) {
        let process = self.process();
        for _ in 0..below(&mut self.random, PAUSES) {
            self.context.wait();
        }
        if below(&mut self.random, 2) == 0 && !matches!(hold, Hold::Read(_)) {
            self.log.lock(self.context, Event::Noting { lock, process, note });
            hold.note(note);
        }
        self.log.lock(self.context, Event::Released { lock, process });
        drop(hold);
        self.log.lock(self.context, Event::Ended { lock, process });
    }

    fn timeout(&mut self) -> Timeout {
        match below(&mut self.random, 4) {
            0 => Timeout::None,
            1 => Timeout::Polls(below(&mut self.random, 100) as u32),
            _ => Timeout::Forever,
        }
    }
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let Shared { load, forms, log, .. } = shared;
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    let locks = [
        Lock::open(&worker, forms[0], 0)?,
        Lock::open(&worker, forms[1], 1)?,
    ];
    let mut thread = Thread {
        context,
        log,
        worker,
        random: random(load.seed, context.thread()),
    };
    shared.gathering.arrive(context);
    for n in 0..load.operations {
        let note = u64::from(context.thread()) << 32 | u64::from(n) << 8 | 1;
        let shares = below(&mut thread.random, 3) > 0;
        let timeout = thread.timeout();
        // Most are about the first, so that they meet. A thread that wants both takes the first one first.
        let (first, both) = match below(&mut thread.random, 6) {
            0 => (1, false),
            1 => (0, true),
            _ => (0, false),
        };
        let mode = match forms[first as usize] {
            LockKind::Rw if shares => Mode::Shared,
            _ => Mode::Exclusive,
        };
        let Some(held) = thread.take(&locks[first as usize], first, mode, timeout)? else {
            continue;
        };
        if both && let Some(second) = thread.take(&locks[1], 1, Mode::Exclusive, timeout)? {
            thread.hold(second, 1, note | 2);
        }
        thread.hold(held, first, note);
    }
    Ok(())
}

fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let log = &shared.log;
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let mut thread = Thread {
            context,
            log,
            worker: worker.clone(),
            random: random(shared.load.seed, u32::MAX),
        };
        for n in (0..LOCKS).chain(0..LOCKS) {
            let lock = Lock::open(&worker, shared.forms[n as usize], n)?;
            match thread.take(&lock, n, Mode::Exclusive, Timeout::None)? {
                Some(hold) => thread.hold(hold, n, 0),
                None => log.fault(format!("nobody runs, and lock {n} cannot be had")),
            }
        }
        all_at_rest(&worker, log);
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
