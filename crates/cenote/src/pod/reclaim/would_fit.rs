//! Whether there would be room if all that waits were free, so that a write which found the pool full should wait for
//! others.
//!
//! For an object of a slab it is enough that as many bytes wait: a cell or a block may come of them; and if a list's
//! next chunk is what is missing, it is not needed once the list's entries are freed. Everything else needs adjacent
//! frames. These may come from free frames, holes, retired extents, blocks whose objects all are free or wait, and
//! frames that the pool may grow by. All of it changes during the scan, so the answer is a guess, and good for a
//! moment.

use std::collections::BTreeMap;

use super::retire::pending_while;
use crate::error::Result;
use crate::memory::Memory;
use crate::memory::checked::owned_word;
use crate::pod::alloc::slab::{Location, count_of, free_lanes, locate, table_word};
use crate::pod::format::block::{Block, ExtentState};
use crate::pod::format::chunk::{CHUNK_BYTES, CHUNK_ENTRIES, GONE, INDEX_MASK, entry};
use crate::pod::format::class::{CLASSES, Class, SLAB_MAX, TABLE, class_for};
use crate::pod::format::geometry::FRAME;
use crate::pod::format::record::WorkerRecord;
use crate::pod::instance::worker::Worker;

/// Objects of lists that are scanned, at most. More than that are assumed to make room.
const OBJECTS_MAX: u32 = 1 << 16;

/// Wanted adjacent frames; the first is a multiple of `align`.
struct Wanted {
    frames: u64,
    align: u64,
}

/// What waits in lists.
enum Waiting {
    /// Nothing.
    Nothing,
    /// Enough.
    Enough,
    /// Extents, and this many objects of each of these blocks.
    Blocks(BTreeMap<u64, u32>),
}

/// Whether there would be room for `bytes`, if all that waits in lists were free; `may_grow` says whether the file
/// system lets the pool grow, and fill holes. Where nothing waits, free frames are not scanned, unless this
/// `is_last_scan`: others may have freed some since the caller has tried.
///
/// Cost: a sync load for each waiting object, up to [`OBJECTS_MAX`], and for each block and extent of the pool, and the
/// cells of blocks in which something waits.
pub fn would_fit<M: Memory>(
    worker: &Worker<M>,
    bytes: u64,
    may_grow: bool,
    is_last_scan: bool,
) -> Result<bool> {
    let _pin = worker.pin()?;
    let blocks = match waiting(worker, bytes) {
        Waiting::Nothing if !is_last_scan => return Ok(false),
        Waiting::Nothing => BTreeMap::new(),
        Waiting::Enough => return Ok(true),
        Waiting::Blocks(blocks) => blocks,
    };
    let max = worker.geometry().parameters.max_frames;
    let committed = worker.committed_frames()?.min(max);
    let wanted = wanted::<M>(bytes);
    let mut begin = 0;
    let mut frame = 0;
    while frame < committed {
        let block = Block::decode(table_word(worker, frame).load(worker.mem()));
        let (frames, would_be_free) = match block {
            Block::Free => (1, true),
            Block::Hole { order, .. } => (1 << order.min(63), may_grow),
            Block::Extent { frames, state, .. } => (u64::from(frames), state == ExtentState::Retired),
            Block::Slab { class, ready, .. } => match TABLE.get(usize::from(class)) {
                Some(layout) => (
                    layout.frames(),
                    ready
                        && blocks.get(&frame).is_some_and(|&waiting| {
                            waiting + free_in(worker, frame, layout) >= layout.objects
                        }),
                ),
                None => (1, false),
            },
            Block::Tail | Block::Damaged => (1, false),
        };
        frame = frame.saturating_add(frames.max(1)).min(committed);
        if !would_be_free {
            begin = frame;
        } else if wanted.is_in(begin, frame) {
            return Ok(true);
        }
    }
    Ok(may_grow && wanted.is_in(begin, max))
}

impl Wanted {
    fn is_in(&self, begin: u64, end: u64) -> bool {
        begin.next_multiple_of(self.align) + self.frames <= end
    }
}

/// The frames for `bytes`.
fn wanted<M: Memory>(bytes: u64) -> Wanted {
    match class_of::<M>(bytes) {
        Some(class) => {
            let frames = TABLE[class % CLASSES].frames();
            Wanted {
                frames,
                align: frames,
            }
        }
        None => Wanted {
            frames: bytes.div_ceil(FRAME),
            align: 1,
        },
    }
}

fn class_of<M: Memory>(bytes: u64) -> Option<usize> {
    (bytes <= SLAB_MAX)
        .then(|| class_for(bytes, !M::COHERENT))
        .flatten()
}

fn waiting<M: Memory>(worker: &Worker<M>, bytes: u64) -> Waiting {
    let wanted = class_of::<M>(bytes);
    let (mut looked_at, mut found) = (0, 0);
    let mut is_enough = false;
    let mut blocks = BTreeMap::new();
    for index in 0..worker.pod().workers_high() {
        let record = WorkerRecord::new(worker.geometry(), index);
        let mut count = |object| {
            looked_at += 1;
            let place = locate(worker, object);
            found += place.as_ref().map_or(0, Location::capacity);
            is_enough |= wanted.is_some() && found >= bytes;
            if let Ok(Location::Slab(cell)) = place {
                *blocks.entry(cell.frame).or_default() += 1;
            }
            is_enough |= looked_at >= OBJECTS_MAX;
            !is_enough
        };
        being_freed(worker, record).for_each(|object| {
            count(object);
        });
        // A list that changes meanwhile may look odd.
        let _ = pending_while(worker, record, |object, _| count(object));
        if is_enough {
            return Waiting::Enough;
        }
    }
    match looked_at {
        0 => Waiting::Nothing,
        _ => Waiting::Blocks(blocks),
    }
}

/// The objects that a worker is freeing just now: they are in no list any more, and not free yet. Where the worker has
/// lost its processor, that lasts. The result may be out of date: that costs a wait more or less.
fn being_freed<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> impl Iterator<Item = u64> {
    let mem = worker.mem();
    let chunk = record.freeing().peek_speculative(mem) & !INDEX_MASK;
    let is_chunk = chunk != 0 && worker.check("a retired list", chunk, CHUNK_BYTES).is_ok();
    let which = match is_chunk {
        true => record.freeing_which().peek_speculative(mem),
        false => 0,
    };
    (0..CHUNK_ENTRIES)
        .filter(move |index| which >> index & 1 != 0)
        .map(move |index| entry(chunk, index).0.peek_speculative(mem) & !GONE)
}

/// How many objects of a block are free.
fn free_in<M: Memory>(worker: &Worker<M>, frame: u64, layout: &Class) -> u32 {
    let base = worker.geometry().frame_offset(frame);
    let cells = |word: u32| owned_word(base + 8 * u64::from(word)).peek(worker.mem());
    // Cells that belong to no object are never free.
    (0..layout.words())
        .map(|word| count_of(free_lanes(cells(word))))
        .sum()
}
