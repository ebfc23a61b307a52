//! What all subjects have in common: a pool is made, processes join it and have threads work, and everything is checked
//! in the end.

use std::rc::Rc;
use std::sync::Arc;

use cenote::Error;
use cenote::causes::Table;
use cenote::pod::Pod;
use cenote::pod::format::geometry::Parameters;

use super::pool::{Member, format, space_is_out};
use super::{Load, Log, Scenario};
use crate::exec::{Context, SimMemory};

/// What a subject does; `S` is what its parts share.
pub struct Parts<const C: bool, S> {
    /// Makes what threads work on.
    pub prepare: fn(&Context<C>, &S) -> cenote::Result<()>,
    /// One thread's work.
    pub work: fn(&Context<C>, &Arc<Pod<SimMemory<C>>>, &S) -> cenote::Result<()>,
    /// Checks everything.
    pub audit: fn(&Context<C>, &S) -> cenote::Result<()>,
}

/// A scenario on a pool of so many frames.
pub fn assemble<const C: bool, S: 'static>(
    load: Load,
    parameters: Parameters,
    frames: u64,
    log: Log,
    shared: S,
    parts: Parts<C, S>,
) -> Scenario<C> {
    let shared = Rc::new(shared);
    let Parts { prepare, work, audit } = parts;
    Scenario {
        prepare: {
            let (log, shared) = (log.clone(), shared.clone());
            Box::new(move |context| {
                log.may_be_full_if(space_is_out(&context, parameters));
                log.check("formatting", format(&context, parameters, frames));
                log.check("preparing", prepare(&context, &shared));
            })
        },
        body: {
            let (log, shared) = (log.clone(), shared.clone());
            Rc::new(move |context: Context<C>| {
                let Some(member) = log.check("joining", join(&context)) else {
                    return;
                };
                for _ in 0..load.threads {
                    let (log, shared) = (log.clone(), shared.clone());
                    member.spawn(&context, move |context, pod| {
                        log.check("working", work(&context, &pod, &shared));
                        log.check_recovered(&pod);
                    });
                }
                member.leave(&context);
            })
        },
        audit: {
            let log = log.clone();
            Box::new(move |context| {
                log.check("auditing", audit(&context, &shared));
            })
        },
        log,
    }
}

/// Joins the pool. The place of a process that was killed, before or meanwhile, is not free before the kernel drops its
/// locks. Its workers' places are not needed: there are enough for as many processes as there are places for.
pub(super) fn join<const C: bool>(context: &Context<C>) -> cenote::Result<Member<C>> {
    loop {
        let (is_dying, killed) = (context.is_anybody_dying(), context.killed());
        match Member::join(context, !C) {
            Err(Error::TooMany {
                what: Table::Processes,
                ..
            }) if is_dying || context.killed() > killed => context.wait(),
            other => return other,
        }
    }
}
