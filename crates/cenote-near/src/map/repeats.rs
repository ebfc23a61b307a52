//! Scans that a batch has had before: the same ends, and nothing between has changed a key between them. Their answers
//! are those of the earlier ones, so modules are asked once. The paper does not do this.
//!
//! A hot place is often asked for by the very same scan, whose pairs would come through the host again each time: then
//! the way from modules is what a batch waits for, not pointers.

use std::collections::{BTreeMap, HashMap};

use super::load::NONE;
use super::mutant::{Mutant, planted};
use super::operation::Operation;

/// Keys that a batch changes and a repeated scan covers, of which so many are looked at; where there are more, it is
/// not taken for a repetition.
const LOOKED_AT: usize = 32;

/// For each operation of a batch the earlier one that has its answer, or [`NONE`]. Empty if there is none at all.
#[derive(Default)]
pub(super) struct Repeats {
    earlier: Vec<u32>,
    /// Steps of the host: a probe for each scan and each change of a batch with scans.
    pub steps: u64,
}

impl Repeats {
    pub fn find(operations: &[Operation]) -> Self {
        let mut repeats = Self::default();
        let scans = operations.iter().filter(|one| matches!(one, Operation::Scan(..)));
        if scans.take(2).count() < 2 {
            return repeats;
        }
        let mut changed: BTreeMap<u64, u32> = BTreeMap::new();
        let mut first_of: HashMap<(u64, u64), u32> = HashMap::new();
        let mut earlier = vec![NONE; operations.len()];
        for (number, operation) in (0..).zip(operations) {
            match *operation {
                Operation::Scan(from, to) => {
                    let Some((first, last)) = Operation::ends(from, to) else {
                        continue;
                    };
                    repeats.steps += 1;
                    let before = first_of.entry((first, last)).or_insert(number);
                    if *before < number {
                        let mut changes = changed.range(first..=last);
                        let since = |(_, change): (&u64, &u32)| change > before;
                        let unchanged =
                            !changes.by_ref().take(LOOKED_AT).any(since) && changes.next().is_none();
                        if unchanged || planted(Mutant::RepeatsBelieved) {
                            earlier[number as usize] = *before;
                        } else {
                            *before = number;
                        }
                    }
                }
                Operation::Insert(key, _) | Operation::Delete(key) | Operation::CompareSwap { key, .. } => {
                    repeats.steps += 1;
                    changed.insert(key, number);
                }
                Operation::Get(_) | Operation::Predecessor(_) => {}
            }
        }
        repeats.earlier = earlier;
        repeats
    }

    /// The operation that has this one's answer.
    pub fn of(&self, number: usize) -> Option<u32> {
        self.earlier
            .get(number)
            .copied()
            .filter(|earlier| *earlier != NONE)
    }
}
