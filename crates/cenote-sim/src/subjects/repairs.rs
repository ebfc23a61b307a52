//! Processes that come and go, and some of them have the pool alone for a while, as who repairs it: nobody else may be
//! at work then, in whatever process.
//!
//! Who is at work, and who repairs, is written down outside the pool. What the killed have left there is not told from
//! what the living say, so once somebody was killed only that everybody goes on is looked at: a dead repairer keeps
//! nobody out.
//!
//! A repair is a plain store to a word that all others read: a process that comes after it must find it. Some who come
//! while a repair lasts would be hosts first, and none of them may go up.

use std::cell::Cell;
use std::rc::Rc;

use cenote::memory::{Memory, SyncWord};
use cenote::pod::Worker;
use cenote::pod::format::geometry::{Geometry, Parameters};
use cenote::pod::format::host_entry::HostRecord;
use cenote::pod::hosts::agent::bring_up;
use cenote::pod::instance::repair;
use cenote::sync::object::{LockKind, Object};
use cenote::{Error, Result};

use super::assemble::join;
use super::hash::account;
use super::pool::{Member, format};
use super::{Load, Log, Scenario, below, random};
use crate::exec::Context;

/// Steps for which one is at work, or has the pool alone.
const STEPS: u64 = 30;
/// Of so many that come one repairs.
const REPAIRS: u64 = 3;
/// Of so many that come while one repairs, one would be a host first.
const HOSTS: u64 = 2;
/// It tries so often.
const ATTEMPTS: u32 = 30;

struct Shared {
    log: Log,
    geometry: Geometry,
    at_work: Cell<u32>,
    repairing: Cell<u32>,
    /// Repairs that have begun.
    repairs: Cell<u64>,
    /// What is repaired, once it is there.
    word: Cell<Option<SyncWord>>,
}

impl Shared {
    /// Looks at what is repaired. It must find the last repair, which is checked as any order is.
    fn inspect<M: Memory>(&self, mem: &M) {
        if let Some(word) = self.word.get() {
            word.load(mem);
        }
    }
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Rc::new(Shared {
        log: log.clone(),
        geometry: Geometry::new(parameters),
        at_work: Cell::new(0),
        repairing: Cell::new(0),
        repairs: Cell::new(0),
        word: Cell::new(None),
    });
    Scenario {
        prepare: {
            let (log, shared) = (log.clone(), shared.clone());
            Box::new(move |context| {
                log.check("formatting", format(&context, parameters, 4));
                log.check("preparing", prepare(&context, &shared));
            })
        },
        body: {
            let log = log.clone();
            Rc::new(move |context: Context<C>| {
                let mut random = random(load.seed, context.thread());
                for _ in 0..load.operations {
                    let repairs = below(&mut random, REPAIRS) == 0;
                    let steps = below(&mut random, STEPS);
                    if shared.repairing.get() > 0 && below(&mut random, HOSTS) == 0 {
                        log.check("going up", go_up(&context, &shared));
                    }
                    match come(&context, &shared, repairs, steps) {
                        // Others are there, or have it alone.
                        Ok(()) | Err(Error::Repairing { .. } | Error::RepairRefused(_)) => {}
                        Err(error) => log.fault(format!("coming: {error}")),
                    }
                }
            })
        },
        audit: {
            let log = log.clone();
            Box::new(move |context| {
                log.check("auditing", audit(&context, &log));
            })
        },
        log,
    }
}

/// Makes what is repaired: the note of a lock that nobody takes.
fn prepare<const C: bool>(context: &Context<C>, shared: &Shared) -> Result<()> {
    let member = Member::join(context, !C)?;
    {
        let worker = Worker::attach(&member.pod, true)?;
        let (lock, _) = Object::open_or_create(&worker, "lock", LockKind::Mutex)?;
        shared.word.set(Some(lock.note()));
    }
    member.leave(context);
    Ok(())
}

/// Tries to be a host while somebody repairs, and some time longer.
fn go_up<const C: bool>(context: &Context<C>, shared: &Shared) -> Result<()> {
    let (mem, geometry, log) = (context.memory(), &shared.geometry, &shared.log);
    let identity = context.identity_on(1 + context.host());
    for _ in 0..ATTEMPTS {
        let (repairs, is_watched) = (shared.repairs.get(), context.killed() == 0);
        let was_repairing = shared.repairing.get() > 0;
        match bring_up(&mem, geometry, &identity, &*context.liveness()) {
            Err(Error::Repairing { is_elsewhere, .. }) => {
                if is_elsewhere {
                    log.fault("a repairer of this machine is said to be on another");
                }
                context.wait();
            }
            Err(error) => return Err(error),
            Ok(generation) => {
                shared.inspect(&mem);
                let lasts = shared.repairs.get() == repairs && was_repairing && shared.repairing.get() > 0;
                if lasts && is_watched && context.killed() == 0 {
                    log.fault("a host has gone up while the pool was repaired");
                }
                // It has no agent, and keeps others from repairing.
                let record = HostRecord::new(geometry, identity.host);
                let state = record.read(&mem)?;
                if state.generation == generation {
                    record.exchange(&mem, state, state.over());
                }
                return Ok(());
            }
        }
    }
    Ok(())
}

fn come<const C: bool>(context: &Context<C>, shared: &Shared, repairs: bool, steps: u64) -> Result<()> {
    let member = join(context)?;
    let worked = Worker::attach(&member.pod, true).and_then(|worker| {
        let alone = repairs.then(|| repair::begin(&worker)).transpose()?;
        shared.inspect(worker.mem());
        let (mine, others) = match &alone {
            Some(_) => (&shared.repairing, &shared.at_work),
            None => (&shared.at_work, &shared.repairing),
        };
        mine.set(mine.get() + 1);
        if alone.is_some() {
            shared.repairs.set(shared.repairs.get() + 1);
        }
        for _ in 0..=steps {
            let is_alone = others.get() == 0 && (mine.get() == 1 || alone.is_none());
            if !is_alone && context.killed() == 0 {
                shared.log.fault("somebody is at work while the pool is repaired");
            }
            context.wait();
        }
        if let (Some(_), Some(word)) = (&alone, shared.word.get()) {
            word.store(worker.mem(), shared.repairs.get());
        }
        mine.set(mine.get() - 1);
        Ok(())
    });
    member.leave(context);
    worked
}

fn audit<const C: bool>(context: &Context<C>, log: &Log) -> Result<()> {
    let member = Member::join(context, !C)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
