//! What several operations on one key do to it, as one.
//!
//! Whatever the operations are, a key that has a value before has one, or none, after them, and which one depends on
//! that value alone. So they are a function from values to values, which a module computes by one search; what each of
//! them answers, the host computes from the value before. Functions that tell many values apart are not kept: then some
//! of the operations are a command of their own.

use smallvec::SmallVec;

use crate::device::command::Command;

use super::load::POINT;
use super::operation::Operation;

/// Values that a function has at most; one that is there twice counts twice.
pub(super) const VALUES: usize = 64;
/// Values that alternate are as many as these or fewer, if they are to be noticed.
const AGAIN: usize = 4;
/// Values that a module reads and compares in a sixteenth of the time that a point operation takes.
const VALUES_OF_A_UNIT: u64 = 4;

/// What operations on a key do to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Net {
    /// The key has this afterwards, whatever it had.
    Fixed(Option<u64>),
    /// If it was not bound, it has `unbound`; if it was bound to one of `from`, it has `to`; else what it had.
    Depends {
        unbound: Option<u64>,
        from: SmallVec<[u64; 4]>,
        to: u64,
    },
}

impl Net {
    /// That of no operation.
    pub const NOTHING: Self = Self::Depends {
        unbound: None,
        from: SmallVec::new_const(),
        to: 0,
    };

    /// Adds an operation behind the others. False if it does not fit, and then nothing changes.
    pub fn then(&mut self, operation: &Operation) -> bool {
        match (*operation, self) {
            (Operation::Insert(_, value), Self::Fixed(now)) => {
                now.get_or_insert(value);
            }
            (Operation::Insert(_, value), Self::Depends { unbound, .. }) => {
                unbound.get_or_insert(value);
            }
            (Operation::Delete(_), net) => *net = Self::Fixed(None),
            (Operation::CompareSwap { expected, value, .. }, Self::Fixed(now)) => {
                if *now == Some(expected) {
                    *now = Some(value);
                }
            }
            (Operation::CompareSwap { expected, value, .. }, Self::Depends { unbound, from, to }) => {
                let is_last = !from.is_empty() && expected == *to;
                // Of a chain that goes on the last ones: to have a value twice does no harm, to look for it takes long.
                let looked_at = if is_last {
                    &from[from.len().saturating_sub(AGAIN)..]
                } else {
                    &from[..]
                };
                let is_known = looked_at.contains(&expected);
                // Unless it is the last value, what had the value that is expected has another one by now, or never had
                // any other.
                if value != expected && (is_last || !is_known) {
                    let joins = is_last || from.is_empty() || value == *to;
                    if !joins || (!is_known && from.len() == VALUES) {
                        return false;
                    }
                    if !is_known {
                        from.push(expected);
                    }
                    *to = value;
                }
                if *unbound == Some(expected) {
                    *unbound = Some(value);
                }
            }
            (Operation::Get(_) | Operation::Predecessor(_) | Operation::Scan(..), _) => {}
        }
        true
    }

    /// What the key has afterwards.
    pub fn after(&self, before: Option<u64>) -> Option<u64> {
        match (self, before) {
            (Self::Fixed(after), _) => *after,
            (Self::Depends { unbound, .. }, None) => *unbound,
            (Self::Depends { from, to, .. }, Some(value)) => {
                Some(if from.contains(&value) { *to } else { value })
            }
        }
    }

    /// Whether it binds a key that is not bound.
    pub fn binds(&self) -> bool {
        self.after(None).is_some()
    }

    /// Whether it unbinds a key that is bound.
    pub fn unbinds(&self) -> bool {
        *self == Self::Fixed(None)
    }

    /// What it counts for in a module.
    pub fn load(&self) -> u64 {
        match self {
            Self::Fixed(_) => POINT,
            Self::Depends { from, .. } => POINT + from.len() as u64 / VALUES_OF_A_UNIT,
        }
    }

    /// Appends the command by which a module does all this to a key.
    pub fn write(&self, key: u64, batch: &mut Vec<u8>) {
        let mut bytes = [0; VALUES * 8];
        let command = match self {
            Self::Fixed(None) => Command::Delete(key),
            Self::Fixed(Some(value)) => Command::Put(key, *value),
            Self::Depends { unbound, from, to } => match (unbound, &from[..]) {
                (None, []) => Command::Get(key),
                (Some(value), []) => Command::Insert(key, *value),
                (None, [expected]) => Command::CompareSwap(key, *expected, *to),
                (_, values) => {
                    for (bytes, value) in bytes.chunks_exact_mut(8).zip(values) {
                        bytes.copy_from_slice(&value.to_le_bytes());
                    }
                    Command::Change {
                        key,
                        unbound: *unbound,
                        to: *to,
                        from: &bytes[..values.len() * 8],
                    }
                }
            },
        };
        command.write(batch);
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::operation::State;
    use super::*;

    /// Few values, so that chains meet themselves; sometimes so many that they do not fit.
    #[test]
    fn it_does_what_its_operations_do_one_after_another() {
        for seed in 0..20_000 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let values = [2, 4, 2 * VALUES as u64][rng.random_range(0..3)];
            let mut net = Net::NOTHING;
            let mut operations = Vec::new();
            for _ in 0..rng.random_range(0..24) {
                let value = rng.random_range(0..values);
                let operation = match rng.random_range(0..20) {
                    0 => Operation::Delete(1),
                    1..4 => Operation::Insert(1, value),
                    4 => Operation::Get(1),
                    _ => Operation::CompareSwap {
                        key: 1,
                        expected: rng.random_range(0..values),
                        value,
                    },
                };
                let before = net.clone();
                if net.then(&operation) {
                    operations.push(operation);
                } else {
                    assert_eq!(net, before, "seed {seed}");
                }
            }
            for before in (0..values + 1).map(Some).chain([None]) {
                let mut state = State::of(before);
                for operation in &operations {
                    state.execute(operation);
                }
                assert_eq!(
                    net.after(before),
                    state.value,
                    "seed {seed}, {before:?}: {operations:?}"
                );
            }
        }
    }

    /// Whatever there is that changes nothing, and however often the same values come again.
    #[test]
    fn few_values_always_fit() {
        let mut net = Net::NOTHING;
        let mut swap = |expected, value| {
            net.then(&Operation::CompareSwap {
                key: 1,
                expected,
                value,
            })
        };
        assert!(
            (0..10 * VALUES as u64).all(|_| swap(1, 2) && swap(2, 1) && swap(1 << 40, 1 << 40) && swap(9, 9))
        );
        assert_eq!(net.load(), POINT);
    }

    /// As clients update that read before.
    #[test]
    fn a_chain_of_updates_fits_until_it_is_long() {
        let mut net = Net::NOTHING;
        let mut fits = |value| {
            net.then(&Operation::CompareSwap {
                key: 1,
                expected: value,
                value: value + 1,
            })
        };
        assert_eq!((0..).map_while(|value| fits(value).then_some(())).count(), VALUES);
    }
}
