//! Slab blocks that nobody owns. A worker that finds nothing free in a block orphans it; one that frees an object in it
//! sets a hint; one that needs its size class adopts it; when it is empty, it is returned. Hints may be lost or wrong;
//! nothing depends on them but speed.
//!
//! A worker that reads the cells of a block that it does not own reads the block table first, both under a pin: the
//! block may be free by then, but its memory is there ([`super::holes`]).

use super::frames::free_slab;
use super::heap::{return_reserves, take_cells};
use super::hints::{clear_hint, set_hint};
use super::slab::{CellAt, count_of, free_lanes, full_word, table_word};
use crate::error::Result;
use crate::memory::Memory;
use crate::memory::checked::{owned_word, sync_word};

use crate::mutant::{self, Mutant};
use crate::pod::format::actor::Actor;
use crate::pod::format::block::Block;
use crate::pod::format::class::{Class, TABLE};
use crate::pod::format::geometry::FRAME_SHIFT;
use crate::pod::format::reserve::Reserve;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::worker::{Pin, Worker};

/// Hinted blocks that one refill tries before it takes a fresh block. Blocks that were filled one after the other lie
/// together and become free at about the same time, so there are long runs of them of which little is free: a refill
/// that gave up within one would take a fresh block, and the pool would grow for ever. What a try costs, the free that
/// set the hint pays for: a block that was tried has no hint any more.
const ADOPTIONS_MAX: u32 = 64;
/// Words of the hint bitmap that one refill scans.
const HINT_WORDS_MAX: u64 = 256;

/// Gives up a block of which nothing is reserved any more. The reserve is not written back: recovery ignores a reserve
/// whose block is not its worker's, and a worker that takes its next block writes the reserve first.
pub(in crate::pod) fn orphan<M: Memory>(worker: &Worker<M>, actor: Actor, class: usize, frame: u64) {
    let mem = worker.mem();
    let owned = Block::Slab {
        class: class as u8,
        ready: true,
        owner: actor.me,
    }
    .encode();
    let nobodys = Block::Slab {
        class: class as u8,
        ready: true,
        owner: 0,
    }
    .encode();
    let _shield = shield(worker);
    // Its cells were changed by exchanges, which all workers see; the next owner needs nothing else of it.
    // PAIRS WITH: pod::alloc::orphans::after_free
    if table_word(worker, frame)
        .compare_exchange_acquire(mem, owned, nobodys)
        .is_ok()
    {
        crash_point(Point::SlabRelease);
        // Frees that came while the block was owned set no hint. Since then the block may have been freed and made
        // anew: then the hint may be wrong.
        let base = worker.geometry().frame_offset(frame);
        let cells = |word: u32| sync_word(base + 8 * u64::from(word));
        // PAIRS WITH: pod::alloc::slab::CellAt::change
        if (0..TABLE[class].words()).any(|word| free_lanes(cells(word).peek_speculative(mem)) != 0) {
            set_hint(worker, frame);
        }
    }
    actor.record.reserve(class).set_lazily(mem, Reserve::NONE.0);
}

/// While this pin stands, a block that was not free when it began keeps its bytes, whatever happens to the block.
fn shield<M: Memory>(worker: &Worker<M>) -> Option<Pin<'_, M>> {
    match mutant::is(Mutant::HoleReadUnpinned) {
        true => None,
        false => worker.pin().ok(),
    }
}

/// Called after a cell was freed: `before` is its word as it was.
#[inline]
pub(in crate::pod) fn after_free<M: Memory>(worker: &Worker<M>, cell: CellAt, before: u64) {
    if free_lanes(before) == 0 {
        let frame = cell.frame(worker);
        // PAIRS WITH: pod::alloc::orphans::orphan
        if let Block::Slab { owner: 0, .. } = Block::decode(table_word(worker, frame).load(worker.mem())) {
            set_hint(worker, frame);
        }
    }
}

/// Adopts a hinted block of the class, if one is worth it: at least an eighth of it is free.
pub(in crate::pod) fn adopt_hinted<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    class: usize,
) -> Result<bool> {
    let frames = worker.committed_frames()?;
    let words = frames.div_ceil(64);
    let mut tried = 0;
    let _shield = shield(worker);
    for step in 0..words.min(HINT_WORDS_MAX) {
        let word = (worker.alloc.hint_cursor.get() + step) % words;
        let mut bits = sync_word(worker.geometry().hints + 8 * word).load(worker.mem());
        while bits != 0 {
            let frame = word * 64 + u64::from(bits.trailing_zeros());
            bits &= bits - 1;
            if frame < frames && is_orphaned(worker, frame, class) {
                clear_hint(worker, frame);
                tried += 1;
                if adopt(worker, actor, class, frame, TABLE[class].objects / 8 + 1) {
                    worker.alloc.hint_cursor.set(word);
                    return Ok(true);
                }
                if tried == ADOPTIONS_MAX {
                    worker.alloc.hint_cursor.set(word + 1);
                    return Ok(false);
                }
            }
        }
    }
    worker
        .alloc
        .hint_cursor
        .set(worker.alloc.hint_cursor.get() + HINT_WORDS_MAX);
    Ok(false)
}

fn is_orphaned<M: Memory>(worker: &Worker<M>, frame: u64, class: usize) -> bool {
    let block = Block::decode(table_word(worker, frame).load(worker.mem()));
    block
        == Block::Slab {
            class: class as u8,
            ready: true,
            owner: 0,
        }
        && is_whole(worker, frame, &TABLE[class])
}

/// Whether a block of this layout can begin at `frame`.
pub(in crate::pod) fn is_whole<M: Memory>(worker: &Worker<M>, frame: u64, layout: &Class) -> bool {
    let bytes = layout.frames() << FRAME_SHIFT;
    frame.is_multiple_of(layout.frames())
        && worker
            .check("", worker.geometry().frame_offset(frame), bytes)
            .is_ok()
}

/// Adopts any orphaned block of the class with a free cell.
pub(in crate::pod) fn adopt_any<M: Memory>(worker: &Worker<M>, actor: Actor, class: usize) -> Result<bool> {
    let _shield = shield(worker);
    for frame in 0..worker.committed_frames()? {
        if is_orphaned(worker, frame, class) && adopt(worker, actor, class, frame, 1) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes over an orphaned block if `wanted` of its cells are free, and fills the reserve from it.
fn adopt<M: Memory>(worker: &Worker<M>, actor: Actor, class: usize, frame: u64, wanted: u32) -> bool {
    let mem = worker.mem();
    let base = worker.geometry().frame_offset(frame);
    // An unprotected scan: meanwhile the block may be freed and made anew. The exchange of its table word
    // decides.
    let mut free = 0;
    // Word by word: the line of another worker's block must not stay in this host's cache, not even for a moment.
    let is_enough = (0..TABLE[class].words()).any(|word| {
        free += count_of(free_lanes(owned_word(base + 8 * u64::from(word)).peek(mem)));
        free >= wanted
    });
    if !is_enough {
        return false;
    }
    if !take_ownership(worker, actor, class, frame) {
        return false;
    }
    if take_cells(worker, actor, class, frame, 0) {
        return true;
    }
    orphan(worker, actor, class, frame);
    false
}

pub(in crate::pod) fn take_ownership<M: Memory>(
    worker: &Worker<M>,
    actor: Actor,
    class: usize,
    frame: u64,
) -> bool {
    debug_assert!(
        actor != worker.actor() || worker.holds_list(),
        "a worker that does not hold its reserves takes a block"
    );
    let mem = worker.mem();
    let reserve = actor.record.reserve(class);
    reserve.set(mem, Reserve::new(frame, 0, 0).0);
    mem.persist(reserve.offset(), 8);
    crash_point(Point::AdoptIntent);
    let nobodys = Block::Slab {
        class: class as u8,
        ready: true,
        owner: 0,
    }
    .encode();
    let mine = Block::Slab {
        class: class as u8,
        ready: true,
        owner: actor.me,
    }
    .encode();
    // NO PAIR: claim
    if table_word(worker, frame)
        .compare_exchange_acquire(mem, nobodys, mine)
        .is_err()
    {
        reserve.set_lazily(mem, Reserve::NONE.0);
        return false;
    }
    crash_point(Point::AdoptDone);
    true
}

/// Returns blocks in which nothing is allocated to the buddy tree: orphaned ones, and the actor's own, which it
/// orphans first. Its reserves are empty afterwards.
pub fn reclaim_empty_blocks<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<u64> {
    let _hold = worker.hold_list()?;
    return_reserves(worker, actor)?;
    let mem = worker.mem();
    let mut returned = 0;
    let mut frame = 0;
    let frames = worker.committed_frames()?;
    while frame < frames {
        let _shield = shield(worker);
        let block = Block::decode(table_word(worker, frame).load(mem));
        let here = frame;
        frame += 1;
        let Block::Slab {
            class,
            ready: true,
            owner: 0,
        } = block
        else {
            if let Block::Extent { frames, .. } = block {
                frame = here + u64::from(frames).max(1);
            }
            continue;
        };
        let class = usize::from(class);
        let Some(layout) = TABLE.get(class).filter(|layout| is_whole(worker, here, layout)) else {
            continue;
        };
        let base = worker.geometry().frame_offset(here);
        let cells = |word: u32| base + 8 * u64::from(word);
        // An unprotected scan first, as in `adopt`.
        if !(0..layout.words()).all(|word| owned_word(cells(word)).peek(mem) == full_word(layout, word)) {
            continue;
        }
        if take_ownership(worker, actor, class, here) {
            if (0..layout.words()).all(|word| sync_word(cells(word)).load(mem) == full_word(layout, word)) {
                free_slab(worker, here, layout.order, &[(actor.record.reserve(class), 0)])?;
                returned += layout.frames();
            } else {
                orphan(worker, actor, class, here);
            }
        }
    }
    Ok(returned)
}
