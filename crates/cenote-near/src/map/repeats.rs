//! Reads that a batch has had before: the same key or the same ends, and no change since that might have changed their
//! answers. These are those of the earlier ones, so modules are asked once. The paper does not do this.
//!
//! A hot place is often asked for by the very same scan, whose pairs would come through the host again each time: then
//! the way from modules is what a batch waits for, not pointers. And a key that everybody asks for keeps one module
//! busy, however small its subrange is. Gets and predecessors are looked for only if a sample of the batch has some
//! twice: else each would cost the host a probe for nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasherDefault;

use super::directory::Mix;
use super::load::NONE;
use super::mutant::{Mutant, planted};
use super::operation::Operation;

/// Keys that a batch changes and a repeated scan covers, of which so many are looked at; where there are more, it is
/// not taken for a repetition.
const LOOKED_AT: usize = 32;
/// Gets and predecessors in a sample. One in [`ENOUGH`] of them must be there twice.
const SAMPLED: usize = 1024;
const ENOUGH: usize = 16;

/// For each operation of a batch the earlier one that has its answer, or [`NONE`]. Empty if there is none at all.
#[derive(Default)]
pub(super) struct Repeats {
    earlier: Vec<u32>,
    /// Steps of the host: a probe for each read and each change that is looked at.
    pub steps: u64,
}

/// What a batch has changed so far.
#[derive(Default)]
struct Changed {
    /// The last change of each key.
    keys: BTreeMap<u64, u32>,
    last: Option<u32>,
}

impl Changed {
    /// Whether a key has changed since an operation.
    fn has(&self, key: u64, since: u32) -> bool {
        self.keys.get(&key).is_some_and(|change| *change > since)
    }

    /// Whether any key has.
    fn has_any(&self, since: u32) -> bool {
        self.last.is_some_and(|change| change > since)
    }

    /// Whether a key of a range has, or there are too many to be looked at.
    fn has_within(&self, first: u64, last: u64, since: u32) -> bool {
        let mut changes = self.keys.range(first..=last);
        let is_later = |(_, change): (&u64, &u32)| *change > since;
        changes.by_ref().take(LOOKED_AT).any(is_later) || changes.next().is_some()
    }
}

impl Repeats {
    pub fn find(operations: &[Operation]) -> Self {
        let mut repeats = Self::default();
        let scans = operations.iter().filter(|one| matches!(one, Operation::Scan(..)));
        let has_scans = scans.take(2).count() == 2;
        let has_points = repeats.has_points_twice(operations);
        if !has_scans && !has_points {
            return repeats;
        }
        let mut changed = Changed::default();
        let mut first_of: HashMap<(Read, u64, u64), u32, BuildHasherDefault<Mix>> = HashMap::default();
        let mut earlier = vec![NONE; operations.len()];
        for (number, operation) in (0..).zip(operations) {
            let (read, first, last) = match *operation {
                Operation::Scan(from, to) => match Operation::ends(from, to) {
                    Some((first, last)) => (Read::Scan, first, last),
                    None => continue,
                },
                Operation::Get(key) if has_points => (Read::Get, key, key),
                Operation::Predecessor(key) if has_points => (Read::Predecessor, key, key),
                Operation::Get(_) | Operation::Predecessor(_) => continue,
                Operation::Insert(key, _) | Operation::Delete(key) | Operation::CompareSwap { key, .. } => {
                    repeats.steps += 1;
                    changed.keys.insert(key, number);
                    changed.last = Some(number);
                    continue;
                }
            };
            repeats.steps += 1;
            let before = first_of.entry((read, first, last)).or_insert(number);
            if *before == number {
                continue;
            }
            let has_changed = match read {
                Read::Scan => changed.has_within(first, last, *before),
                Read::Get => changed.has(first, *before),
                // It may be any key below.
                Read::Predecessor => changed.has_any(*before),
            };
            if has_changed && !planted(Mutant::RepeatsBelieved) {
                *before = number;
            } else {
                earlier[number as usize] = *before;
            }
        }
        repeats.earlier = earlier;
        repeats
    }

    /// Whether a sample has enough gets and predecessors twice.
    fn has_points_twice(&mut self, operations: &[Operation]) -> bool {
        let apart = (operations.len() / SAMPLED).max(1);
        let mut seen: HashSet<u64, BuildHasherDefault<Mix>> = HashSet::default();
        let (mut points, mut twice) = (0, 0);
        for operation in operations.iter().step_by(apart) {
            if let Operation::Get(key) | Operation::Predecessor(key) = operation {
                points += 1;
                twice += usize::from(!seen.insert(*key));
            }
        }
        self.steps += points as u64;
        twice > 0 && twice * ENOUGH >= points
    }

    /// The operation that has this one's answer.
    pub fn of(&self, number: usize) -> Option<u32> {
        self.earlier
            .get(number)
            .copied()
            .filter(|earlier| *earlier != NONE)
    }
}

/// A kind of read.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Read {
    Get,
    Predecessor,
    Scan,
}
