//! Names: made, found, and left half made, as by creators that died before they had published. The object that a name
//! leads to says what its name is, so a misread name shows as a wrong object, or a second one.

use std::rc::Rc;
use std::sync::Arc;

use cenote::pod::format::geometry::Parameters;
use cenote::pod::names::directory::{self, KIND_LOCK};
use cenote::pod::{Pod, Worker};
use cenote::sync::object::{LockKind, Object};

use super::assemble::{Parts, assemble};
use super::hash::account;
use super::pool::{Member, is_full};
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, SimMemory};

/// Names that are made; the directory has a place more.
const NAMES: u64 = 3;

struct Shared {
    load: Load,
    log: Log,
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
    };
    let prepare = |_: &Context<C>, _: &Shared| Ok(());
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 4, log, shared, parts)
}

/// A name of one line or of two; all have the same length, so that a wrong one shows by nothing else.
fn name(n: u64, is_half_made: bool) -> String {
    let kind = if is_half_made { "half" } else { "full" };
    format!("{kind}-{n}-{}", "x".repeat(60))
}

/// The form that a name's lock has.
fn form(n: u64) -> LockKind {
    match n % 3 {
        0 => LockKind::Spin,
        1 => LockKind::Queue,
        _ => LockKind::Rw,
    }
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let Shared { load, log } = shared;
    let mut random = random(load.seed, context.thread());
    let worker = Worker::attach(pod, load.guidelines.replicate)?;
    for _ in 0..load.operations {
        let n = below(&mut random, NAMES);
        if below(&mut random, 2) == 0 {
            match directory::leave_half_made(&worker, &name(n, true)) {
                Err(error) if !matches!(error, cenote::Error::TooMany { .. }) => return Err(error),
                _ => {}
            }
            if directory::find(&worker, &name(n, true))?.is_some() {
                log.fault("a name that nobody published is found");
            }
            continue;
        }
        match Object::open_or_create(&worker, &name(n, false), form(n)) {
            Ok(_) => {}
            Err(error) if is_full(&error) => {}
            Err(error) => log.fault(format!("the name {n}: {error}")),
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
            let is_known = (0..NAMES).any(|n| one.name == name(n, false));
            if twin || !is_known || one.kind != KIND_LOCK {
                log.fault(format!("{one:?} is in the directory, among {named:?}"));
            }
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
