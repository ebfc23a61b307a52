//! Typed cells: an offset together with the one way in which its word or bytes are shared.

use super::Memory;

/// A word that coordinates hosts. Only ever touched past the cache, but for the named speculative load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncWord(u64);

impl SyncWord {
    /// The sync word at an offset (a multiple of 8).
    pub const fn at(offset: u64) -> Self {
        Self(offset)
    }

    /// Where it is.
    pub const fn offset(self) -> u64 {
        self.0
    }

    /// Acquire load: one round trip.
    #[inline]
    #[cfg_attr(feature = "mutants", track_caller)]
    pub fn load<M: Memory>(self, mem: &M) -> u64 {
        mem.load(self.0)
    }

    /// Release store: one round trip.
    #[inline]
    pub fn store<M: Memory>(self, mem: &M, value: u64) {
        mem.store(self.0, value)
    }

    /// A store that later loads of this thread cannot overtake.
    #[inline]
    pub fn announce<M: Memory>(self, mem: &M, value: u64) {
        mem.announce(self.0, value)
    }

    /// Compare-exchange; `Err` holds what was found instead.
    #[inline]
    #[cfg_attr(feature = "mutants", track_caller)]
    pub fn compare_exchange<M: Memory>(self, mem: &M, current: u64, new: u64) -> Result<u64, u64> {
        mem.compare_exchange(self.0, current, new)
    }

    /// The same, but what this thread has stored before may be seen after it ([`Memory::compare_exchange_acquire`]).
    #[inline]
    pub fn compare_exchange_acquire<M: Memory>(self, mem: &M, current: u64, new: u64) -> Result<u64, u64> {
        mem.compare_exchange_acquire(self.0, current, new)
    }

    /// Sets the word; returns it as it was.
    #[inline]
    pub fn swap<M: Memory>(self, mem: &M, value: u64) -> u64 {
        mem.swap(self.0, value)
    }

    /// Wrapping add; returns the word as it was.
    #[inline]
    pub fn fetch_add<M: Memory>(self, mem: &M, value: u64) -> u64 {
        mem.fetch_add(self.0, value)
    }
}

/// A word with a single writer, its owner. Others read it afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedWord(u64);

impl OwnedWord {
    /// The owned word at an offset (a multiple of 8).
    pub const fn at(offset: u64) -> Self {
        Self(offset)
    }

    /// Where it is.
    pub const fn offset(self) -> u64 {
        self.0
    }

    /// The owner's load.
    #[inline]
    pub fn get<M: Memory>(self, mem: &M) -> u64 {
        mem.owned_load(self.0)
    }

    /// The owner's store. Visible to other hosts once written back.
    #[inline]
    pub fn set<M: Memory>(self, mem: &M, value: u64) {
        mem.owned_store(self.0, value)
    }

    /// The same, for a store that may be lost with the owner's host although the owner has gone on
    /// ([`Memory::owned_store_lazily`]).
    #[inline]
    pub fn set_lazily<M: Memory>(self, mem: &M, value: u64) {
        mem.owned_store_lazily(self.0, value)
    }

    /// Anybody else's load: afresh, one round trip.
    #[inline]
    #[cfg_attr(feature = "mutants", track_caller)]
    pub fn peek<M: Memory>(self, mem: &M) -> u64 {
        mem.owned_peek(self.0)
    }

    /// The same, for what the owner may have changed and not written back ([`Memory::owned_peek_speculative`]).
    #[inline]
    pub fn peek_speculative<M: Memory>(self, mem: &M) -> u64 {
        mem.owned_peek_speculative(self.0)
    }
}

/// Bytes that were written once, written back, and then published by a sync word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Where they start.
    pub offset: u64,
    /// How many there are.
    pub len: u64,
}

impl Published {
    /// The bytes, through the cache and without a copy.
    #[inline]
    pub fn bytes<M: Memory>(self, mem: &M) -> &[u8] {
        mem.bytes(self.offset, self.len)
    }
}
