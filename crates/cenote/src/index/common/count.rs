//! How many keys a map has: each worker counts what it has inserted and removed, in a word of its own.

use crate::memory::{Memory, OwnedWord};
use crate::pod::Worker;

/// The sum of the workers' counts, which lie where `count_of` says: exact when nobody writes. Cost: one peek for each
/// worker.
pub fn total<M: Memory>(worker: &Worker<M>, count_of: impl Fn(u64) -> OwnedWord) -> u64 {
    let workers = u64::from(worker.pod().workers_high());
    let sum = (0..workers)
        .map(|other| count_of(other).peek_speculative(worker.mem()))
        .fold(0u64, u64::wrapping_add);
    // Writes in flight may be seen in any order, or not be written back.
    if sum > i64::MAX as u64 { 0 } else { sum }
}
