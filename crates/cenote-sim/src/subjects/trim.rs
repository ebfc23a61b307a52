//! The allocator, whose pool is trimmed meanwhile: free frames become holes, their bytes go, and come back before they
//! are used. The machine reports every access to bytes that have gone, and its file system refuses now and then to
//! reserve some. On incoherent memory nothing is trimmed.

use std::sync::Arc;

use cenote::pod::alloc::orphans::reclaim_empty_blocks;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::{Pod, Worker, alloc::holes, reclaim::collect};

use super::allocator::{self, SIZES, Shared, WORDS, exchange, word};
use super::assemble::{Parts, assemble};
use super::pool::is_full;
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, SimMemory};

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared::new(load, &log);
    let parts = Parts {
        prepare: allocator::prepare,
        work,
        audit,
    };
    assemble(load, parameters, 4, log, shared, parts)
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let Shared {
        load,
        log,
        words,
        gathering,
    } = shared;
    let words = words.get();
    let mut random = random(load.seed, context.thread());
    let worker = Worker::attach(pod, load.guidelines.replicate)?;
    gathering.arrive(context);
    context.make_space_scarce(true);
    for n in 0..load.operations {
        let slot = word(words, below(&mut random, WORDS));
        let len = SIZES[below(&mut random, SIZES.len() as u64) as usize];
        let value = u64::from(context.thread()) << 32 | u64::from(n);
        match exchange(&worker, slot, Some((len, value)), log) {
            Err(error) if !is_full(&error) => return Err(error),
            _ => {}
        }
        match below(&mut random, 6) {
            0 => collect::collect_all(&worker)?,
            1 => collect::collect_now(&worker)?,
            2 if C => {
                reclaim_empty_blocks(&worker, worker.actor())?;
                holes::mark_all(&worker, below(&mut random, 2) as u32)?;
                holes::punch_reclaimable(&worker, 4)?;
            }
            3 | 4 if C => drop(holes::punch_reclaimable(&worker, 4)?),
            _ => {}
        }
    }
    Ok(())
}

fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    context.make_space_scarce(false);
    allocator::audit(context, shared)
}
