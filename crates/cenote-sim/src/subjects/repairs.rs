//! Processes that come and go, and some of them have the pool alone for a while, as who repairs it: nobody else may be at work then, in whatever process.
//!
//! Who is at work, and who repairs, is written down outside the pool. What the killed have left there is not told from what the living say, so once somebody was
//! killed only that everybody goes on is looked at: a dead repairer keeps nobody out.

use std::cell::Cell;
use std::rc::Rc;

use cenote::Error;
use cenote::pod::Worker;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::instance::repair;

use super::assemble::join;
use super::hash::account;
use super::pool::{Member, format};
use super::{Load, Log, Scenario, below, random};
use crate::exec::Context;

/// Steps for which one is at work, or has the pool alone.
const STEPS: u64 = 30;
/// Of so many that come one repairs.
const REPAIRS: u64 = 3;

#[derive(Default)]
struct Shared {
    at_work: Cell<u32>,
    repairing: Cell<u32>,
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Rc::new(Shared::default());
    Scenario {
        prepare: {
            let log = log.clone();
            Box::new(move |context| {
                log.check("formatting", format(&context, parameters, 4));
            })
        },
        body: {
            let log = log.clone();
            Rc::new(move |context: Context<C>| {
                let mut random = random(load.seed, context.thread());
                for _ in 0..load.operations {
                    let repairs = below(&mut random, REPAIRS) == 0;
                    let steps = below(&mut random, STEPS);
                    match come(&context, &shared, &log, repairs, steps) {
                        // Others are there, or have it alone.
                        Ok(()) | Err(Error::Repairing { .. } | Error::Option { .. }) => {}
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

fn come<const C: bool>(
    context: &Context<C>,
    shared: &Shared,
    log: &Log,
    repairs: bool,
    steps: u64,
) -> cenote::Result<()> {
    let member = join(context)?;
    let worked = Worker::attach(&member.pod, true).and_then(|worker| {
        let alone = repairs.then(|| repair::begin(&worker)).transpose()?;
        let (mine, others) = match &alone {
            Some(_) => (&shared.repairing, &shared.at_work),
            None => (&shared.at_work, &shared.repairing),
        };
        mine.set(mine.get() + 1);
        for _ in 0..=steps {
            let is_alone = others.get() == 0 && (mine.get() == 1 || alone.is_none());
            if !is_alone && context.killed() == 0 {
                log.fault("somebody is at work while the pool is repaired");
            }
            context.wait();
        }
        mine.set(mine.get() - 1);
        Ok(())
    });
    member.leave(context);
    worked
}

fn audit<const C: bool>(context: &Context<C>, log: &Log) -> cenote::Result<()> {
    let member = Member::join(context, !C)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
