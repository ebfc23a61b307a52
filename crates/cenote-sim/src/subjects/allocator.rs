//! The allocator without a map: objects and extents are allocated for a worker's auxiliary word, published in sync
//! words of a shared table (unused slots of a map), replaced there by others, and retired. What was written to an
//! object must be there when it is taken. In some runs a thread takes another worker's place for each operation, so
//! that places go from host to host, and with them what hosts have in their caches of them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use cenote::index::hash::HashMap;
use cenote::index::hash::slot::Slot;
use cenote::memory::{Memory, SyncWord};
use cenote::pod::commit::publish::{Change, publish};
use cenote::pod::format::geometry::{FRAME, Parameters};
use cenote::pod::format::record::operation;
use cenote::pod::{Pod, Worker, alloc::heap, reclaim::collect};

use super::assemble::{Parts, assemble};
use super::gathering::Gathering;
use super::hash::account;
use super::pool::Member;
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, SimMemory};
use cenote::memory::{Published, Unpublished};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Unpublished::at(at, len) }
}

/// Sync words that objects are published in.
pub(super) const WORDS: u64 = 3;
/// What is allocated: objects of two classes, and extents.
pub(super) const SIZES: [u64; 4] = [64, 200, FRAME / 2 + 1, FRAME + 1];
/// In one of so many runs threads take other places all the time.
const VISITS: u64 = 8;

/// What the subject's threads share.
pub(super) struct Shared {
    pub load: Load,
    pub log: Log,
    /// Where the sync words are.
    pub words: Cell<u64>,
    pub gathering: Gathering,
}

impl Shared {
    /// For a load; the words are found when the pool is prepared.
    pub fn new(load: Load, log: &Log) -> Self {
        Self {
            load,
            log: log.clone(),
            words: Cell::new(0),
            gathering: Gathering::new(load.gathers),
        }
    }
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared::new(load, &log);
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 4, log, shared, parts)
}

/// Makes a map, and sets aside the first lines of its level: no key will ever belong there.
pub(super) fn prepare<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let Shared { load, words, .. } = shared;
    let member = Member::join(context, !C)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        let map = HashMap::open_or_create(worker, "map", load.guidelines)?;
        map.reserve(1)?;
        words.set(map.oldest_level()?.map_or(0, |level| level.group(0)));
    }
    member.leave(context);
    Ok(())
}

/// Which word, with a line of its own.
pub(super) fn word(words: u64, n: u64) -> SyncWord {
    sync_word(words + 64 * n)
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
    let mut worker = Worker::attach(pod, load.guidelines.replicate)?;
    gathering.arrive(context);
    for n in 0..load.operations {
        if load.seed % VISITS == 3 {
            drop(worker);
            worker = Worker::attach(pod, load.guidelines.replicate)?;
        }
        let slot = word(words, below(&mut random, WORDS));
        let len = SIZES[below(&mut random, SIZES.len() as u64) as usize];
        let value = u64::from(context.thread()) << 32 | u64::from(n);
        match exchange(&worker, slot, Some((len, value)), log) {
            Err(error) if !log.is_full(&error) => return Err(error),
            _ => {}
        }
        match below(&mut random, 4) {
            0 => collect::collect_all(&worker)?,
            1 | 2 => collect::collect_now(&worker)?,
            _ => {}
        }
    }
    Ok(())
}

/// Replaces what a word refers to by a new object; in the end, when no process dies any more, by nothing.
pub(super) fn exchange<const C: bool>(
    worker: &Worker<SimMemory<C>>,
    slot: SyncWord,
    new: Option<(u64, u64)>,
    log: &Log,
) -> cenote::Result<()> {
    let mem = worker.mem();
    let _hold = collect::begin_write(worker)?;
    let _pin = worker.pin()?;
    let mut next = 0;
    if let Some((len, value)) = new {
        next = heap::allocate(worker, len)?;
        for at in [next, next + (len - 8) / 8 * 8] {
            unpublished(at, 8).write_word(mem, value ^ len);
            mem.persist(at, 8);
        }
        unpublished(next + 8, 8).write_word(mem, value);
        unpublished(next + 16, 8).write_word(mem, len);
        mem.persist(next, 24);
    }
    loop {
        let current = Slot(slot.load(mem));
        let old = if current.is_binding() { current.offset() } else { 0 };
        if old != 0 {
            check(worker, old, log)?;
        } else if next == 0 {
            return Ok(());
        }
        let (operation, next) = match next {
            0 => (
                operation::REMOVE,
                Slot::tombstone(worker.me(), worker.next_removal()).0,
            ),
            object => (operation::PUT, object),
        };
        let change = Change {
            slot,
            current: current.0,
            next,
            operation,
            old,
            count: None,
        };
        if publish(worker, &change)?.is_made() {
            return Ok(());
        }
    }
}

/// What was written to an object must be there as long as it is reachable.
fn check<const C: bool>(worker: &Worker<SimMemory<C>>, object: u64, log: &Log) -> cenote::Result<()> {
    worker.check("an object", object, 24)?;
    let word = |at| {
        let mut word = [0; 8];
        word.copy_from_slice(published(at, 8).bytes(worker.mem()));
        u64::from_le_bytes(word)
    };
    let (first, value, len) = (word(object), word(object + 8), word(object + 16));
    let fits =
        (24..=2 * FRAME).contains(&len) && first == value ^ len && word(object + (len - 8) / 8 * 8) == first;
    if !fits {
        log.fault(format!(
            "the object at {object:#x} holds {first:#x}, {value:#x}, {len}, which nobody wrote"
        ));
    }
    Ok(())
}

pub(super) fn audit<const C: bool>(context: &Context<C>, shared: &Shared) -> cenote::Result<()> {
    let (words, log) = (shared.words.get(), &shared.log);
    let member = Member::join(context, !C)?;
    {
        let worker = Rc::new(Worker::attach(&member.pod, true)?);
        for n in 0..WORDS {
            exchange(&worker, word(words, n), None, log)?;
        }
        account(&worker, log)?;
    }
    member.leave(context);
    Ok(())
}
