//! A condition variable: threads make tokens and take them under a mutex, and wait while there are none. Where no
//! thread dies, they wait without a timeout as long as another thread may make a token, so a lost notification shows.
//! Where threads die, they wait with a timeout.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use cenote::pod::format::geometry::Parameters;
use cenote::pod::{Pod, Worker};
use cenote::sync::{Condvar, Mutex, Timeout};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::account;
use super::pool::Member;
use super::slots::all_at_rest;
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, SimMemory};

struct Shared {
    load: Load,
    log: Log,
    gathering: Gathering,
    /// Changed under the mutex.
    tokens: Cell<u64>,
    waiting: Cell<u32>,
    ended: Cell<u32>,
    /// The thread that has the mutex.
    owner: Cell<Option<u32>>,
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        gathering: Gathering::new(load.gathers),
        tokens: Cell::default(),
        waiting: Cell::default(),
        ended: Cell::default(),
        owner: Cell::default(),
    };
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 4, log, shared, parts)
}

fn prepare<const C: bool>(context: &Context<C>, _: &Shared) -> cenote::Result<()> {
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        Mutex::open_or_create(worker.clone(), "mutex")?;
        Condvar::open_or_create(worker, "condvar")?;
    }
    member.leave(context);
    Ok(())
}

impl Shared {
    /// Writes down that a thread has the mutex, which no other living thread may have.
    fn enters<const C: bool>(&self, context: &Context<C>) {
        let before = self.owner.replace(Some(context.thread()));
        if let Some(before) = before
            && !context.was_killed(before)
        {
            self.log.fault(format!(
                "thread {} has the mutex, and {before} has it",
                context.thread()
            ));
        }
    }

    fn leaves(&self) {
        self.owner.set(None);
    }

    /// Whether another thread may make a token.
    fn may_be_made(&self) -> bool {
        self.ended.get() + self.waiting.get() + 1 < self.load.hosts * self.load.threads
    }
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let load = shared.load;
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    let mutex = Mutex::open(worker.clone(), "mutex")?;
    let condvar = Condvar::open(worker, "condvar")?;
    shared.gathering.arrive(context);
    let mut random = random(load.seed, context.thread());
    let timeout = match load.crashes {
        0 => Timeout::Forever,
        _ => Timeout::Polls(1 + below(&mut random, 20) as u32),
    };
    for _ in 0..load.operations {
        let mut guard = mutex.lock()?;
        shared.enters(context);
        match below(&mut random, 2) {
            0 => {
                shared.tokens.set(shared.tokens.get() + 1);
                // The notifier may have unlocked before.
                if below(&mut random, 2) == 0 {
                    shared.leaves();
                    drop(guard);
                    notify(&condvar, &mut random)?;
                    continue;
                }
                notify(&condvar, &mut random)?;
            }
            _ => {
                while shared.tokens.get() == 0 && (load.crashes > 0 || shared.may_be_made()) {
                    shared.waiting.set(shared.waiting.get() + 1);
                    shared.leaves();
                    let waited = condvar.wait_with(guard, timeout)?;
                    guard = waited.guard;
                    shared.enters(context);
                    shared.waiting.set(shared.waiting.get().saturating_sub(1));
                    if waited.has_timed_out {
                        break;
                    }
                }
                shared.tokens.set(shared.tokens.get().saturating_sub(1));
            }
        }
        shared.leaves();
        drop(guard);
    }
    let guard = mutex.lock()?;
    shared.enters(context);
    shared.ended.set(shared.ended.get() + 1);
    condvar.notify_all()?;
    shared.leaves();
    drop(guard);
    Ok(())
}

fn notify<const C: bool>(
    condvar: &Condvar<SimMemory<C>>,
    random: &mut Xoshiro256PlusPlus,
) -> cenote::Result<()> {
    match below(random, 3) {
        0 => condvar.notify_all(),
        _ => condvar.notify_one(),
    }
}

fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let log = &shared.log;
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        if Mutex::open(worker.clone(), "mutex")?.try_lock()?.is_none() {
            log.fault("nobody runs, and the mutex cannot be had");
        }
        all_at_rest(&worker, log);
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
