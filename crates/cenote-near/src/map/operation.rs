//! What a batch consists of, and what it answers.

use std::ops::Bound;

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
    /// Binds a key to another value, if it is bound to the one that is expected.
    Update {
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

    /// The key of an operation that has one.
    pub(super) fn key(&self) -> Option<u64> {
        match *self {
            Self::Get(key)
            | Self::Predecessor(key)
            | Self::Insert(key, _)
            | Self::Delete(key)
            | Self::Update { key, .. } => Some(key),
            Self::Scan(..) => None,
        }
    }
}

/// An operation's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Of a get, an insert, a delete and an update: the value that the key had before. So an insert took effect if
    /// there was none, a delete if there was one, and an update if it was the one expected.
    Value(Option<u64>),
    /// Of a predecessor.
    Pair(Option<(u64, u64)>),
    /// Of a scan: ascending.
    Pairs(Vec<(u64, u64)>),
    /// Of an insert for which its module has no room: nothing has changed.
    Full,
}
