//! Reads that a batch has had before: the same key or the same ends, and no change since that might have changed their
//! answers. These are those of the earlier ones, so modules are asked once. The paper does not do this.
//!
//! A hot place is often asked for by the very same scan, whose pairs would come through the host again each time: then
//! the way from modules is what a batch waits for, not pointers. And a key that everybody asks for keeps one module
//! busy, however small its subrange is. Gets and predecessors are looked for only if a sample of the batch has some
//! twice: else each would cost the host a probe for nothing. Who chooses keys cannot choose those that fall together in
//! the tables here, as their hashes depend on a number that is drawn.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::directory::{Mix, mix};
use super::load::NONE;
use super::mutant::{Mutant, planted};
use super::operation::Operation;

/// Changes of keys that a repeated scan covers, of which so many are looked at; where there are more, it is not taken
/// for a repetition.
const LOOKED_AT: usize = 32;
/// Gets and predecessors in a sample. One in [`ENOUGH`] of them must be there twice.
const SAMPLED: usize = 1024;
const ENOUGH: usize = 16;

/// For each operation of a batch the earlier one that has its answer, or [`NONE`]. Empty if there is none at all.
#[derive(Default)]
pub(super) struct Repeats {
    earlier: Vec<u32>,
    /// Steps of the host: a probe for each operation that is looked up, and a step for each change that is sorted or
    /// looked at.
    pub steps: u64,
}

impl Repeats {
    pub fn find(operations: &[Operation]) -> Self {
        let mut repeats = Self::default();
        let drawn = Drawn(RandomState::new().hash_one(0));
        if repeats.has_points_twice(operations, &drawn) {
            repeats.find_points(operations, &drawn);
        }
        repeats.find_scans(operations, &drawn);
        repeats
    }

    /// Whether a sample has enough gets and predecessors twice: some place in each of as many parts of the batch. Which
    /// places is the same in every run, as virtual time depends on it.
    fn has_points_twice(&mut self, operations: &[Operation], drawn: &Drawn) -> bool {
        let mut seen: HashSet<(bool, u64), _> = HashSet::with_hasher(drawn.clone());
        let (mut points, mut twice) = (0, 0);
        let part = (operations.len() / SAMPLED).max(1);
        for (number, part) in (0..).zip(operations.chunks(part)) {
            let place = mix(number) % part.len() as u64;
            let (is_get, key) = match part[place as usize] {
                Operation::Get(key) => (true, key),
                Operation::Predecessor(key) => (false, key),
                _ => continue,
            };
            points += 1;
            twice += usize::from(!seen.insert((is_get, key)));
        }
        self.steps += points as u64;
        twice > 0 && twice * ENOUGH >= points
    }

    fn find_points(&mut self, operations: &[Operation], drawn: &Drawn) {
        let mut seen: HashMap<u64, Seen, _> = HashMap::with_hasher(drawn.clone());
        let mut last_change = None;
        for (number, operation) in (0..).zip(operations) {
            let repeated = match *operation {
                Operation::Get(key) => {
                    let seen = seen.entry(key).or_insert(Seen::NEVER);
                    seen.get.earlier(number)
                }
                Operation::Predecessor(key) => {
                    let seen = seen.entry(key).or_insert(Seen::NEVER);
                    // It may be any key below.
                    if last_change.is_some_and(|change| seen.predecessor.is_before(change)) {
                        seen.predecessor = Read::NEVER;
                    }
                    seen.predecessor.earlier(number)
                }
                Operation::Insert(key, _) | Operation::Delete(key) | Operation::CompareSwap { key, .. } => {
                    if !planted(Mutant::RepeatsBelieved) {
                        last_change = Some(number);
                        if let Some(seen) = seen.get_mut(&key) {
                            seen.get = Read::NEVER;
                        }
                    }
                    None
                }
                Operation::Scan(..) => continue,
            };
            self.steps += 1;
            if let Some(earlier) = repeated {
                self.repeat(operations, number, earlier);
            }
        }
    }

    fn find_scans(&mut self, operations: &[Operation], drawn: &Drawn) {
        let scans = (0..).zip(operations).filter_map(|(number, one)| match *one {
            Operation::Scan(from, to) => Operation::ends(from, to).map(|ends| (number, ends)),
            _ => None,
        });
        let mut seen: HashMap<(u64, u64), Read, _> = HashMap::with_hasher(drawn.clone());
        let mut changes = None;
        for (number, ends) in scans {
            self.steps += 1;
            let read = seen.entry(ends).or_insert(Read::NEVER);
            let Some(earlier) = read.earlier(number) else {
                continue;
            };
            // No sooner than there is a scan that was there before.
            let changes = changes.get_or_insert_with(|| Changes::of(operations, &mut self.steps));
            if changes.may_be_within(ends, earlier, number, &mut self.steps) {
                *read = Read(number);
            } else {
                self.repeat(operations, number, earlier);
            }
        }
    }

    fn repeat(&mut self, operations: &[Operation], number: u32, earlier: u32) {
        self.earlier.resize(operations.len(), NONE);
        self.earlier[number as usize] = earlier;
    }

    /// The operation that has this one's answer.
    pub fn of(&self, number: usize) -> Option<u32> {
        self.earlier
            .get(number)
            .copied()
            .filter(|earlier| *earlier != NONE)
    }
}

/// The first operation that read something as it is now, if there was one.
#[derive(Clone, Copy)]
struct Read(u32);

impl Read {
    const NEVER: Self = Self(NONE);

    /// The first one, if it is not this operation: then it is the first from now on.
    fn earlier(&mut self, number: u32) -> Option<u32> {
        if self.0 == NONE {
            self.0 = number;
            return None;
        }
        Some(self.0)
    }

    fn is_before(self, change: u32) -> bool {
        self.0 != NONE && self.0 < change
    }
}

/// What was read at a key.
struct Seen {
    get: Read,
    predecessor: Read,
}

impl Seen {
    const NEVER: Self = Self {
        get: Read::NEVER,
        predecessor: Read::NEVER,
    };
}

/// The operations of a batch that change keys.
struct Changes {
    in_order: Vec<u32>,
    by_key: Vec<(u64, u32)>,
}

impl Changes {
    fn of(operations: &[Operation], steps: &mut u64) -> Self {
        let changes = (0..).zip(operations).filter_map(|(number, one)| match *one {
            Operation::Insert(key, _) | Operation::Delete(key) | Operation::CompareSwap { key, .. } => {
                Some((key, number))
            }
            _ => None,
        });
        let mut by_key: Vec<(u64, u32)> = changes.collect();
        let in_order: Vec<u32> = by_key.iter().map(|(_, number)| *number).collect();
        by_key.sort_unstable();
        *steps += by_key.len() as u64 * u64::from(by_key.len().checked_ilog2().unwrap_or(0) + 1);
        Self { in_order, by_key }
    }

    /// Whether an operation between two others has changed a key of a range, or there are too many to be looked at.
    fn may_be_within(&self, (first, last): (u64, u64), after: u32, before: u32, steps: &mut u64) -> bool {
        let is_between = |number: u32| after < number && number < before;
        let next = self.in_order.partition_point(|number| *number <= after);
        if !self.in_order.get(next).copied().is_some_and(is_between) || planted(Mutant::RepeatsBelieved) {
            return false;
        }
        let begin = self.by_key.partition_point(|(key, _)| *key < first);
        let mut within = self.by_key[begin..].iter().take_while(|(key, _)| *key <= last);
        let is_changed = within.by_ref().take(LOOKED_AT).any(|(_, number)| {
            *steps += 1;
            is_between(*number)
        });
        is_changed || within.next().is_some()
    }
}

/// Hashes by a number that was drawn.
#[derive(Clone)]
struct Drawn(u64);

impl BuildHasher for Drawn {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix::after(self.0)
    }
}

#[cfg(test)]
#[path = "repeats_tests.rs"]
mod tests;
