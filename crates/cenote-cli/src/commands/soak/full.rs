//! The oracle for `Full`: a pool may refuse a write only if what is live, plus what is stated here, exceeds it.
//!
//! | what may be in the way of `needed` bytes | bound |
//! |---|---|
//! | live pairs, with those being written, rounded to size classes or units, and the index's share | by the journals |
//! | garbage that a reader, a worker in an operation, or a stopped or just killed one keeps from being freed | what was unlinked since the oldest of them began; of readers, the stopped and the killed also 500 ms after it ended |
//! | small objects' blocks, held by a few of the objects that they were full of | the most that small objects ever took, less what they take |
//! | reserves of the workers: blocks begun, shelves, lists that are not ripe | 4 MiB each |
//! | ranges between which there is no room | a sixteenth of the pool |

use cenote::pod::class::{TABLE, class_for};
use cenote::pod::geometry::UNIT;
use serde::{Deserialize, Serialize};

use super::board::Sum;
use super::family::Family;
use super::plan::{Phase, Plan};

/// Bytes of the index for a pair: slots of a hash map that has just grown, entries of half-filled nodes.
const INDEX_SHARE: u64 = 64;
/// Bytes of pages that a change of an ordered map replaces.
const PAGES: u64 = 2048;
/// Bytes of a pair's own header.
const HEADER: u64 = 16;
const WORKER_RESERVE: u64 = 4 << 20;
const RANGES_PART: u64 = 16;

/// Bytes that a pair takes, and whether it shares its block with others.
pub fn footprint(coherent: bool, key: usize, value: usize) -> (u64, bool) {
    let size = HEADER + key as u64 + value as u64;
    match class_for(size, !coherent) {
        Some(class) => (u64::from(TABLE[class].size) + INDEX_SHARE, true),
        None => (size.next_multiple_of(UNIT) + INDEX_SHARE, false),
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
    /// Whose it was.
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
    /// Reserves, and room between ranges.
    pub allowance: u64,
    /// Bytes of the pool.
    pub max: u64,
    /// Whether there was room by all these.
    pub is_false: bool,
}

/// Judges a refusal by the state of all workers before and after it: the worse of the two counts.
pub fn judge(plan: &Plan, sums: [Sum; 2], needed: u64) -> Refusal {
    let taken = |sum: &Sum| sum.live + sum.garbage + sum.fragments;
    let [before, after] = sums;
    let worse = if taken(&before) > taken(&after) {
        before
    } else {
        after
    };
    let allowance = WORKER_RESERVE * u64::from(plan.workers) + plan.max / RANGES_PART;
    Refusal {
        at_ms: 0,
        worker: 0,
        phase: Phase::Full,
        operation: String::new(),
        error: String::new(),
        needed,
        live: worse.live,
        garbage: worse.garbage,
        fragments: worse.fragments,
        allowance,
        max: plan.max,
        is_false: taken(&worse) + needed + allowance <= plan.max,
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
            memory: cenote::Kind::Coherent,
            max: 160 << 20,
            began: 0,
            phase_ms: 1,
            plant: None,
        };
        // 160 MiB less 8 for the workers and 10 for what lies between ranges.
        let sum = |live: u64, garbage: u64| Sum {
            live: live << 20,
            garbage: garbage << 20,
            ..Sum::default()
        };
        assert!(judge(&plan, [sum(100, 41), sum(100, 20)], 1 << 20).is_false);
        assert!(!judge(&plan, [sum(100, 41), sum(100, 20)], 2 << 20).is_false);
        assert!(!judge(&plan, [sum(0, 0), sum(150, 0)], 1).is_false);
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
