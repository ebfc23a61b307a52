//! Epochs: readers read again and again an object that others replace, free and allocate anew. There are so few
//! objects in a block that memory is reused at once.

use std::rc::Rc;
use std::sync::Arc;

use cenote::index::hash::slot::Slot;
use cenote::pod::alloc::slab::locate;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::instance::advance::advance;
use cenote::pod::{Pod, Worker, reclaim::collect, reclaim::retire};

use super::allocator::{Shared, exchange, prepare, word};
use super::assemble::{Parts, assemble};
use super::hash::account;
use super::pool::Member;
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, SimMemory};
use cenote::memory::Published;

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

/// Sync words that objects are published in.
const WORDS: u64 = 2;
/// Bytes of an object: fifteen of them fill a block.
const SIZE: u64 = 4096;
/// After so many rounds of reclamation nothing is left to free.
const ROUNDS: u32 = 8;
/// Most reads of an object that a reader holds.
const READS: u64 = 64;

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared::new(load, &log);
    let parts = Parts { prepare, work, audit };
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
    let words_used = 1 + load.seed % WORDS;
    let mut random = random(load.seed, context.thread());
    // Some read the epoch itself, which is ahead of replicas.
    let worker = Worker::attach(pod, below(&mut random, 2) == 0)?;
    gathering.arrive(context);
    // Most threads have a part that they play nearly always.
    let part = below(&mut random, PARTS + 1);
    for n in 0..load.operations {
        let slot = word(words, below(&mut random, words_used));
        let drawn = below(&mut random, PARTS);
        let is_usual = part < PARTS && below(&mut random, 8) != 0;
        match if is_usual { part } else { drawn } {
            READ => read(&worker, slot, below(&mut random, READS), log)?,
            REPLACE => {
                let value = u64::from(context.thread()) << 32 | u64::from(n);
                match exchange(&worker, slot, Some((SIZE, value)), log) {
                    Err(error) if !log.is_full(&error) => return Err(error),
                    _ => {}
                }
                match below(&mut random, 2) {
                    0 => {
                        let least = advance(&worker);
                        collect::collect(&worker, worker.actor(), least).map(drop)?;
                    }
                    _ => collect::collect_now(&worker)?,
                }
            }
            ADVANCE => {
                advance(&worker);
            }
            _ => collect::collect_all(&worker)?,
        }
    }
    Ok(())
}

/// The parts that are named below; any other part is to collect all.
const PARTS: u64 = 4;
/// Scans of the audit until nothing is retired.
const SCANS_MAX: u32 = 200;
const READ: u64 = 0;
const REPLACE: u64 = 1;
const ADVANCE: u64 = 2;

/// Holds the object that a word refers to, and reads it now and then: it must not become free, nor another.
fn read<const C: bool>(
    worker: &Worker<SimMemory<C>>,
    slot: cenote::memory::SyncWord,
    polls: u64,
    log: &Log,
) -> cenote::Result<()> {
    let mem = worker.mem();
    let _pin = worker.pin()?;
    let held = Slot(slot.load(mem));
    if !held.is_binding() {
        return Ok(());
    }
    let object = held.offset();
    worker.check("an object", object, SIZE)?;
    let value = || u64::from_le_bytes(published(object + 8, 8).bytes(mem).try_into().unwrap_or_default());
    let first = value();
    for _ in 0..=polls {
        let is_free = locate(worker, object)?.retirer(mem).is_none();
        let now = value();
        if is_free || now != first {
            log.fault(format!(
                "the object at {object:#x} holds {now:#x} and held {first:#x} when a reader found it; free: {is_free}"
            ));
            return Ok(());
        }
    }
    Ok(())
}

/// Empties the words. When no thread reads any more, nothing stays retired.
fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let (words, log) = (shared.words.get(), &shared.log);
    let member = Member::join(context, !C)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        for n in 0..WORDS {
            exchange(&worker, word(words, n), None, log)?;
        }
        // The background thread withdraws what this one has announced.
        for _ in 0..ROUNDS {
            collect::collect_all(&worker)?;
            context.wait();
        }
        // The background thread may have taken the list over, and frees it at its own pace.
        for _ in 0..SCANS_MAX {
            collect::collect_all(&worker)?;
            if retire::waiting(&worker) == 0 {
                break;
            }
            context.wait();
        }
        let retired = account(&worker, log)?;
        if retired != 0 {
            log.fault(format!("{retired} bytes stay retired although nobody reads"));
        }
    }
    member.leave(context);
    Ok(())
}
