//! The oracle for `Full`: a pool may refuse a write only if what is live, plus what is stated here, exceeds it.
//!
//! | what may be in the way of `needed` bytes | bound |
//! |---|---|
//! | live pairs, with those being written, rounded to size classes or frames, and the index's share | by the journals |
//! | garbage that a reader, a worker in an operation, or a stopped or just killed worker keeps from being freed | what was unlinked since the oldest of them began; for readers, the stopped and the killed, until 500 ms after the end |
//! | small objects' blocks, held by a few of the objects that they were full of | the most that small objects ever took, less what they take |
//! | reserves of the workers: blocks begun, magazines, lists that are not reclaimable | 12 MiB each |
//! | extents between which there is no room | a sixteenth of the pool |
//!
//! What is live does not move. So a refusal for which there is room by bytes is still right if live extents and blocks
//! of small objects leave no run of twice its size: [`longest_room`] scans all frames, a moment later. What is retired
//! counts as free there.
//!
//! While a process is stopped, or was just now, all that is retired may have to wait for it, on either memory: the
//! process may be reading, may be working on its own list, or may have lines of the garbage in its cache. Then what is
//! retired counts as used, both in bytes and in place. It also counts as used in place if readers hold at least half of
//! it, because that half may lie anywhere.

use cenote::memory::Memory;
use cenote::pod::Worker;
use cenote::pod::alloc::slab::table_word;
use cenote::pod::format::block::{Block, ExtentState};
use cenote::pod::format::class::{TABLE, class_for};
use cenote::pod::format::geometry::FRAME;
use serde::{Deserialize, Serialize};

use super::board::Sum;
use super::family::Family;
use super::lists::List;
use super::plan::{Phase, Plan};

/// Bytes of the index for a pair: slots of a hash map that has just grown, entries of half-filled nodes.
const INDEX_SHARE: u64 = 64;
/// Bytes of pages that a change of an ordered map replaces.
const PAGES: u64 = 2048;
/// Bytes of a pair's own header.
const HEADER: u64 = 16;
/// Blocks begun and magazines, 2 MiB; and what is not reclaimable although no reader holds it: of two epochs, each of
/// which ends when a worker has retired 1 MiB, the last object of which may have 4 MiB.
const WORKER_RESERVE: u64 = 12 << 20;
const RANGES_PART: u64 = 16;

/// Bytes that a pair takes, and whether it shares its block with others.
pub fn footprint(coherent: bool, key: usize, value: usize) -> (u64, bool) {
    let size = HEADER + key as u64 + value as u64;
    match class_for(size, !coherent) {
        Some(class) => (u64::from(TABLE[class].size) + INDEX_SHARE, true),
        None => (size.next_multiple_of(FRAME) + INDEX_SHARE, false),
    }
}

/// Bytes that a change unlinks besides the pair that it replaces.
pub fn index_garbage(family: Family) -> u64 {
    if family.is_ordered() { PAGES } else { INDEX_SHARE }
}

/// A write that was refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// The worker that was refused.
    pub worker: u32,
    /// What that worker was at.
    pub phase: Phase,
    /// What it was: `put` or `remove`.
    pub operation: String,
    /// What the library said.
    pub error: String,
    /// Bytes that it would have taken.
    pub needed: u64,
    /// Live bytes.
    pub live: u64,
    /// Garbage that may be held.
    pub garbage: u64,
    /// Blocks held by few.
    pub fragments: u64,
    /// Reserves, and room between extents.
    pub allowance: u64,
    /// Bytes of the pool.
    pub max: u64,
    /// Bytes that the pool's lists have.
    pub retired: u64,
    /// Bytes of the longest run of frames in which nothing has to stay.
    pub longest: u64,
    /// Whether there was room by all these.
    pub is_false: bool,
    /// What waits in whose list, if there was.
    pub lists: Vec<List>,
}

/// What the pool itself says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// Bytes that are retired.
    pub retired: u64,
    /// See [`longest_room`]; without what is retired, and with it.
    pub longest: [u64; 2],
}

/// Bytes of the longest run of frames of which none is in use.
pub fn longest_room<M: Memory>(worker: &Worker<M>, with_retired: bool) -> cenote::Result<u64> {
    let frames = worker.committed_frames()?;
    let (mut frame, mut run, mut longest) = (0, 0, 0);
    while frame < frames {
        let (len, is_free) = match Block::decode(table_word(worker, frame).load(worker.mem())) {
            Block::Free => (1, true),
            Block::Hole { order, .. } => (1 << order, true),
            Block::Extent { frames, state, .. } => {
                let is_retired = state == ExtentState::Retired;
                (u64::from(frames).max(1), with_retired && is_retired)
            }
            _ => (1, false),
        };
        frame = (frame + len).min(frames);
        run = if is_free { run + len } else { 0 };
        longest = longest.max(run);
    }
    Ok(longest * FRAME)
}

/// Judges a refusal by the worse of the two states of all workers, before and after it, and by the pool's own state.
pub fn judge(plan: &Plan, sums: [Sum; 2], room: Room, needed: u64) -> Refusal {
    let is_silent = sums.iter().any(|sum| sum.is_silent);
    let silent = if is_silent { room.retired } else { 0 };
    let held = sums.iter().map(|sum| sum.garbage).max().unwrap_or(0);
    let is_held = is_silent || held >= room.retired / 2;
    let longest = room.longest[usize::from(!is_held)];
    let taken = |sum: &Sum| sum.live + sum.garbage.max(silent) + sum.fragments;
    let [before, after] = sums;
    let worse = if taken(&before) > taken(&after) {
        before
    } else {
        after
    };
    // Small objects share blocks of one frame or four.
    let block = needed.div_ceil(FRAME).max(4) * FRAME;
    let allowance = WORKER_RESERVE * u64::from(plan.workers) + plan.max / RANGES_PART;
    Refusal {
        at_ms: 0,
        worker: 0,
        phase: Phase::Full,
        operation: String::new(),
        error: String::new(),
        needed,
        live: worse.live,
        garbage: worse.garbage.max(silent),
        fragments: worse.fragments,
        allowance,
        max: plan.max,
        retired: room.retired,
        longest,
        lists: Vec::new(),
        is_false: taken(&worse) + needed + allowance <= plan.max && longest >= 2 * block,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_false_if_there_was_room_before_and_after() {
        let plan = Plan {
            pool: "pool".into(),
            folder: "folder".into(),
            seed: 1,
            workers: 2,
            memory: cenote::MemoryKind::Coherent,
            max: 192 << 20,
            began: 0,
            phase_ms: 1,
            plant: None,
        };
        // 192 MiB less 24 for the workers and 12 for what lies between ranges.
        let sum = |live: u64, garbage: u64| Sum {
            live: live << 20,
            garbage: garbage << 20,
            ..Sum::default()
        };
        let room = Room {
            retired: 0,
            longest: [4 << 20; 2],
        };
        assert!(judge(&plan, [sum(100, 55), sum(100, 20)], room, 1 << 20).is_false);
        assert!(!judge(&plan, [sum(100, 55), sum(100, 20)], room, 2 << 20).is_false);
        assert!(!judge(&plan, [sum(0, 0), sum(160, 0)], room, 1).is_false);
        // Between what is live.
        assert!(judge(&plan, [sum(20, 0), sum(20, 0)], room, 2 << 20).is_false);
        assert!(!judge(&plan, [sum(20, 0), sum(20, 0)], room, (2 << 20) + 1).is_false);
    }

    #[test]
    fn who_does_not_answer_keeps_all_that_is_retired() {
        let plan = Plan {
            pool: "pool".into(),
            folder: "folder".into(),
            seed: 1,
            workers: 1,
            memory: cenote::MemoryKind::Noncoherent,
            max: 76 << 20,
            began: 0,
            phase_ms: 1,
            plant: None,
        };
        let room = Room {
            retired: 58 << 20,
            longest: [0, 4 << 20],
        };
        let sums = |is_silent| {
            [Sum {
                is_silent,
                ..Sum::default()
            }; 2]
        };
        assert!(judge(&plan, sums(false), room, 1 << 20).is_false);
        assert!(!judge(&plan, sums(true), room, 1 << 20).is_false);
    }

    #[test]
    fn a_footprint_holds_its_pair() {
        for len in [0, 8, 100, 5000, 32_000, 33_000, 70_000, 4 << 20] {
            for coherent in [false, true] {
                let (bytes, is_small) = footprint(coherent, 8, len);
                assert!(bytes >= len as u64 + 24);
                assert_eq!(is_small, len + 24 <= 32_768, "{len}");
            }
        }
    }
}
