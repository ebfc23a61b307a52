//! What a store buffer holds ([`super::buffer`]).

use std::collections::VecDeque;

use super::order::Number;

/// How a store takes effect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Past the caches.
    Memory,
    /// In the cache of the thread's host.
    Cache,
}

/// What is stored.
pub(super) enum Data {
    Word(u64),
    Bytes(Box<[u8]>),
}

impl Data {
    pub fn len(&self) -> u64 {
        match self {
            Self::Word(_) => 8,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

/// A store that others do not see yet.
pub(super) struct Entry {
    pub at: u64,
    pub data: Data,
    pub way: Way,
    pub number: Number,
    /// The step at which it was made.
    pub since: u64,
}

impl Entry {
    pub fn touches(&self, at: u64, len: u64) -> bool {
        self.at < at.saturating_add(len) && at < self.at + self.data.len()
    }
}

/// The stores of one thread that others do not see yet, the oldest first.
#[derive(Default)]
pub(super) struct StoreBuffer(pub(super) VecDeque<Entry>);
