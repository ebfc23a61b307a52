//! What a batch consists of, and what it answers.

use std::ops::Bound;
use std::sync::Arc;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The value of a key.
    Get(u64),
    /// The greatest bound key that is no greater than this one, with its value.
    Predecessor(u64),
    /// Binds a key to a value, unless it is bound.
    Insert(u64, u64),
    /// Unbinds a key.
    Delete(u64),
    /// Compare and swap: binds a key to another value, if it is bound to the one that is expected.
    CompareSwap {
        /// The key.
        key: u64,
        /// The value that it must have.
        expected: u64,
        /// The value that it gets.
        value: u64,
    },
    /// All keys from one end to the other, with their values. Either end may be open.
    Scan(Bound<u64>, Bound<u64>),
}

impl Operation {
    /// A scan's first and last key; none if there can be no key between.
    pub(crate) fn ends(from: Bound<u64>, to: Bound<u64>) -> Option<(u64, u64)> {
        let first = match from {
            Bound::Included(key) => key,
            Bound::Excluded(key) => key.checked_add(1)?,
            Bound::Unbounded => 0,
        };
        let last = match to {
            Bound::Included(key) => key,
            Bound::Excluded(key) => key.checked_sub(1)?,
            Bound::Unbounded => u64::MAX,
        };
        (first <= last).then_some((first, last))
    }

    /// Whether it may change what is bound.
    pub(super) fn is_change(&self) -> bool {
        matches!(
            self,
            Self::Insert(..) | Self::Delete(_) | Self::CompareSwap { .. }
        )
    }

    /// Whether it binds a key that is not bound.
    pub(super) fn binds(&self) -> bool {
        matches!(self, Self::Insert(..))
    }

    /// Whether it unbinds a key that is bound.
    pub(super) fn unbinds(&self) -> bool {
        matches!(self, Self::Delete(_))
    }

    /// The key of an operation that has one.
    pub(super) fn key(&self) -> Option<u64> {
        match *self {
            Self::Get(key)
            | Self::Predecessor(key)
            | Self::Insert(key, _)
            | Self::Delete(key)
            | Self::CompareSwap { key, .. } => Some(key),
            Self::Scan(..) => None,
        }
    }
}

/// An operation's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Of a get: the key's value.
    Value(Option<u64>),
    /// Of an insert. It took effect if the key had no value.
    Insert {
        /// The value that the key had, and has still.
        existing: Option<u64>,
    },
    /// Of a delete. It took effect if the key had a value.
    Delete {
        /// The value that the key had.
        removed: Option<u64>,
    },
    /// Of an update, which compares and swaps. It took effect if the key had the value that was expected.
    CompareSwap {
        /// The value that the key had before.
        before: Option<u64>,
    },
    /// Of a predecessor.
    Pair(Option<(u64, u64)>),
    /// Of a scan: ascending. Scans of a batch that find the same share it.
    Pairs(Arc<Vec<(u64, u64)>>),
    /// Of an insert for which its module has no room: nothing has changed.
    Full,
}

/// A key's value while the operations of a batch on it are executed, one after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub value: Option<u64>,
    /// Its module has no room to bind it.
    pub is_full: bool,
}

impl State {
    /// Of a key that has this value.
    pub fn of(value: Option<u64>) -> Self {
        Self {
            value,
            is_full: false,
        }
    }

    /// Executes a point operation.
    pub fn execute(&mut self, operation: &Operation) -> Answer {
        let before = self.value;
        match *operation {
            Operation::Insert(_, value) => {
                if before.is_none() && self.is_full {
                    return Answer::Full;
                }
                self.value.get_or_insert(value);
            }
            Operation::Delete(_) => self.value = None,
            Operation::CompareSwap { expected, value, .. } => {
                if before == Some(expected) {
                    self.value = Some(value);
                }
            }
            Operation::Get(_) | Operation::Predecessor(_) | Operation::Scan(..) => {}
        }
        Answer::of_point(operation, before)
    }
}

impl Answer {
    /// That of a point operation on a key that had this value before.
    pub(crate) fn of_point(operation: &Operation, before: Option<u64>) -> Self {
        match operation {
            Operation::Insert(..) => Self::Insert { existing: before },
            Operation::Delete(_) => Self::Delete { removed: before },
            Operation::CompareSwap { .. } => Self::CompareSwap { before },
            _ => Self::Value(before),
        }
    }
}
