//! The tree in the manner of Sherman: calls on neighbouring keys of leaves that are full, so that leaves are split,
//! inner nodes and the root too in some runs, while others look for the same keys by copies that are out of date.

use std::rc::Rc;
use std::sync::Arc;

use cenote::Guidelines;
use cenote::index::baseline::WordMap;
use cenote::index::baseline::sherman::Sherman;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::{Pod, Worker};

use super::assemble::{Parts, assemble};
use super::hash::account;
use super::pool::Member;
use super::{Load, Log, Scenario, below, random, words};
use crate::check::spec::ordered;
use crate::exec::{Context, SimMemory};

const NAME: &str = "map";
/// Keys are this far apart at first; calls are about some of them and of those between.
const STRIDE: u64 = 8;
/// How many different keys calls are about.
const WANTED: u64 = 12;
/// Frames that a pool begins with.
const FRAMES: u64 = 24;

/// What the subject's threads share.
struct Shared {
    load: Load,
    log: Log,
}

impl Shared {
    /// Keys that are put before the run. One leaf that is full; some leaves under a root; so many that the root is
    /// about to have no room.
    fn fillers(&self) -> u64 {
        match self.load.seed % 3 {
            0 => 21,
            1 => 60,
            _ => 504,
        }
    }
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
    };
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, FRAMES, log, shared, parts)
}

fn open<const C: bool>(
    worker: Rc<Worker<SimMemory<C>>>,
    guidelines: Guidelines,
) -> cenote::Result<Sherman<SimMemory<C>>> {
    Sherman::open_or_create(worker, NAME, guidelines, 1)
}

fn prepare<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let member = Member::join(context, !C)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, shared.load.guidelines.replicate)?);
        let tree = open(worker, shared.load.guidelines)?;
        for n in 0..shared.fillers() {
            words::put(context, &tree, &shared.log, n * STRIDE, 1);
        }
    }
    member.leave(context);
    Ok(())
}

/// One thread's calls.
fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let Shared { load, log } = shared;
    let mut random = random(load.seed, context.thread());
    let worker = Rc::new(Worker::attach(pod, load.guidelines.replicate)?);
    let tree = open(worker, load.guidelines)?;
    let first = shared.fillers().saturating_sub(WANTED / 2) * STRIDE;
    for n in 1..=load.operations {
        let key = first + below(&mut random, WANTED) * STRIDE / 2;
        let value = u64::from(context.thread()) << 32 | u64::from(n);
        words::one_call(context, &tree, log, key, value, &mut random);
        if shared.fillers() > 100 {
            // Neighbours that are new: leaves are split now and then, and then the root.
            let new = first + (u64::from(context.thread() % 8) << 5 | u64::from(n)) % 256 * 2 + 1;
            words::put(context, &tree, log, new, value);
        }
    }
    Ok(())
}

/// Reads everything, and accounts for every byte.
fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let log = &shared.log;
    // Alone: a background thread would free what is being accounted for.
    let member = Member::join(context, false)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let tree = open(worker.clone(), Guidelines::SP)?;
        let mut pairs = Vec::new();
        log.read_several(context, || {
            let scanned = tree.scan_u64(0, |key, value| {
                pairs.push((key, value));
                true
            });
            log.check("scanning", scanned)?;
            let op = ordered::Op::Scan {
                from: 0,
                limit: u64::MAX,
            };
            Some((op, ordered::Ret::Scan(pairs.clone())))
        });
        for &(key, value) in &pairs {
            if tree.get_u64(key)? != Some(value) {
                log.fault(format!("key {key} is scanned and not found"));
            }
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
