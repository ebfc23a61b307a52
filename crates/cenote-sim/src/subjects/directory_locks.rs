//! Directory locks: threads of all processes read and write what two locks cover, with long and short timeouts, and die
//! anywhere.
//!
//! The subject writes down, beside the simulated machine, who holds which lock, and what the last thread that unlocked
//! had written. So it checks at each hold:
//!
//! - nobody else alive has the lock, or all who have it read;
//! - what it covers is what was written last, all of it, unless the holder is told of a death;
//! - a holder is told of the death of a thread that wrote, and of none if nobody has died.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cenote::Acquired;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::{Pod, Worker};
use cenote::sync::Timeout;
use cenote::sync::directory::DirectoryLock;
use cenote::sync::directory::guard::{ReadGuard, WriteGuard};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::account;
use super::pool::Member;
use super::slots::all_at_rest;
use super::{Load, Log, Scenario, below, random};
use crate::check::exclusion::Mode;
use crate::exec::{Context, SimMemory};

/// Locks that a run has.
const LOCKS: usize = 2;
/// Most steps for which a thread holds a lock and does nothing.
const PAUSES: u64 = 6;
/// Bytes of each region.
const REGIONS: [u64; 2] = [136, 8];
/// Words that are read and written, by region and offset: some in one line, some in others.
const WORDS: [(usize, u64); 4] = [(0, 0), (0, 8), (0, 128), (1, 0)];

/// What is known of a lock beside the machine.
#[derive(Default)]
struct Shadow {
    /// Threads that have it.
    holders: Vec<(u32, Mode)>,
    /// What the thread that unlocked last had written; `None` once a thread has died writing.
    expected: Option<u64>,
}

struct Shared {
    load: Load,
    log: Log,
    gathering: Gathering,
    shadows: [RefCell<Shadow>; LOCKS],
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shadow = || {
        RefCell::new(Shadow {
            expected: Some(0),
            ..Shadow::default()
        })
    };
    let shared = Shared {
        load,
        log: log.clone(),
        gathering: Gathering::new(load.gathers),
        shadows: [shadow(), shadow()],
    };
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 4, log, shared, parts)
}

fn open<const C: bool>(
    worker: &Rc<Worker<SimMemory<C>>>,
    n: usize,
    nodes: u8,
) -> cenote::Result<DirectoryLock<SimMemory<C>>> {
    DirectoryLock::open_or_create(worker.clone(), &format!("lock {n}"), nodes, &REGIONS)
}

fn prepare<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        // Few of them, so that numbers of the dead are used again: processes, those that begin in their stead, and who
        // audits.
        let nodes = shared.load.hosts as u8 + 1;
        for n in 0..LOCKS {
            open(&worker, n, nodes)?;
        }
    }
    member.leave(context);
    Ok(())
}

/// A hold of either kind.
enum Hold<'l, const C: bool> {
    Read(ReadGuard<'l, SimMemory<C>>),
    Write(WriteGuard<'l, SimMemory<C>>),
}

/// One thread, and what it needs to check.
struct Thread<'a, const C: bool> {
    context: &'a Context<C>,
    shared: &'a Shared,
    random: Xoshiro256PlusPlus,
}

impl<const C: bool> Thread<'_, C> {
    fn fault(&self, lock: usize, what: impl std::fmt::Display) {
        let (thread, step) = (self.context.thread(), self.context.step());
        self.shared
            .log
            .fault(format!("step {step}: lock {lock}, thread {thread}: {what}"));
    }

    /// Writes down that this thread has a lock.
    fn granted(&self, lock: usize, mode: Mode, acquired: Acquired) {
        let mut shadow = self.shared.shadows[lock].borrow_mut();
        let died_writing =
            |holder: &(u32, Mode)| self.context.was_killed(holder.0) && holder.1 == Mode::Exclusive;
        if shadow.holders.iter().any(died_writing) {
            shadow.expected = None;
        }
        shadow.holders.retain(|holder| !self.context.was_killed(holder.0));
        let conflicts = |holder: &&(u32, Mode)| mode == Mode::Exclusive || holder.1 == Mode::Exclusive;
        if let Some((other, held)) = shadow.holders.iter().find(conflicts) {
            self.fault(
                lock,
                format!("has it {mode:?}, and thread {other} has it {held:?}"),
            );
        }
        match acquired {
            Acquired::Clean if shadow.expected.is_none() => {
                self.fault(lock, "is not told that a thread died writing")
            }
            Acquired::Recovered { from, .. } if !self.context.was_anybody_killed() => {
                self.fault(lock, format!("is told of {from:?}, and nobody has died"));
            }
            _ => {}
        }
        shadow.holders.push((self.context.thread(), mode));
    }

    /// Writes down that this thread is about to unlock, and what it has written.
    fn released(&self, lock: usize, wrote: Option<u64>) {
        let mut shadow = self.shared.shadows[lock].borrow_mut();
        shadow.holders.retain(|holder| holder.0 != self.context.thread());
        if wrote.is_some() {
            shadow.expected = wrote;
        }
    }

    /// Checks what the lock covers, if the last thread that wrote has unlocked.
    fn check(&self, lock: usize, acquired: Acquired, word: impl Fn(usize, u64) -> u64) {
        let expected = self.shared.shadows[lock].borrow().expected;
        let (Acquired::Clean, Some(expected)) = (acquired, expected) else {
            return;
        };
        let found = WORDS.map(|(region, at)| word(region, at));
        if found != [expected; WORDS.len()] {
            self.fault(lock, format!("finds {found:?}, and {expected} was written last"));
        }
    }

    /// Asks for a lock, uses it for a while, and gives it up.
    fn visit(
        &mut self,
        locks: &[DirectoryLock<SimMemory<C>>],
        lock: usize,
        mode: Mode,
        timeout: Timeout,
        value: u64,
    ) -> cenote::Result<()> {
        let hold = match mode {
            Mode::Shared => locks[lock].read_with(timeout)?.map(Hold::Read),
            Mode::Exclusive => locks[lock].write_with(timeout)?.map(Hold::Write),
        };
        match hold {
            None => {}
            Some(Hold::Read(guard)) => {
                self.granted(lock, mode, guard.acquired());
                self.check(lock, guard.acquired(), |region, at| guard.word(region, at));
                self.pause();
                self.check(lock, guard.acquired(), |region, at| guard.word(region, at));
                self.released(lock, None);
            }
            Some(Hold::Write(mut guard)) => {
                self.granted(lock, mode, guard.acquired());
                self.check(lock, guard.acquired(), |region, at| guard.word(region, at));
                if below(&mut self.random, 4) == 0 {
                    guard.set_note(value);
                }
                for (region, at) in WORDS {
                    guard.set_word(region, at, value);
                    self.pause();
                }
                self.released(lock, Some(value));
            }
        }
        Ok(())
    }

    fn pause(&mut self) {
        for _ in 0..below(&mut self.random, PAUSES) {
            self.context.wait();
        }
    }
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let Shared { load, .. } = shared;
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    let mut locks = [open(&worker, 0, 1)?, open(&worker, 1, 1)?];
    let random = random(load.seed, context.thread());
    let mut thread = Thread {
        context,
        shared,
        random,
    };
    shared.gathering.arrive(context);
    // Of so many holds one writes.
    let writes = 1 + load.seed % 4;
    for n in 0..load.operations {
        let value = u64::from(context.thread()) << 32 | u64::from(n) << 8 | 1;
        let lock = usize::from(below(&mut thread.random, 4) == 0);
        let mode = match below(&mut thread.random, writes) {
            0 => Mode::Exclusive,
            _ => Mode::Shared,
        };
        let timeout = match below(&mut thread.random, 4) {
            0 => Timeout::None,
            1 => Timeout::Polls(below(&mut thread.random, 100) as u32),
            _ => Timeout::Forever,
        };
        // A process that closes its last handle gives up what it has, while other threads of it may open the lock.
        if below(&mut thread.random, 4) == 0 {
            let [first, second] = locks;
            drop((first, second));
            locks = [open(&worker, 0, 1)?, open(&worker, 1, 1)?];
        }
        // Several times in a row: the lock is cached.
        for _ in 0..=below(&mut thread.random, 3) {
            thread.visit(&locks, lock, mode, timeout, value)?;
        }
    }
    Ok(())
}

fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let log = &shared.log;
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let locks = [open(&worker, 0, 1)?, open(&worker, 1, 1)?];
        let random = random(shared.load.seed, u32::MAX);
        let mut thread = Thread {
            context,
            shared,
            random,
        };
        for lock in (0..LOCKS).chain(0..LOCKS) {
            for mode in [Mode::Shared, Mode::Exclusive] {
                thread.visit(&locks, lock, mode, Timeout::Forever, 7)?;
            }
        }
        drop(locks);
        all_at_rest(&worker, log);
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
