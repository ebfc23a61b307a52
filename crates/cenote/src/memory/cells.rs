//! Typed cells: an offset together with the one way in which its word or bytes are shared.
//!
//! A cell carries [the caller's promise](Memory#the-callers-promise): the caller that makes it (`at`, which is unsafe)
//! promises that the offset is within the pool and aligned, and that its word or bytes are shared in this way alone for
//! as long as their block is in use. So the methods are safe. Most cells are made by the types of records and headers,
//! whose offsets come from checked places.

use super::{Mapped, Memory};

/// A word that coordinates hosts. Only ever touched past the cache, but for the named speculative load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncWord(u64);

impl SyncWord {
    /// The sync word at an offset.
    ///
    /// # Safety
    ///
    /// The offset is a multiple of 8 in the pool, and its word is shared as a sync word alone while its block is in
    /// use.
    #[inline(always)]
    pub const unsafe fn at(offset: u64) -> Self {
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
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.load(self.0) }
    }

    /// Release store: one round trip.
    #[inline]
    pub fn store<M: Memory>(self, mem: &M, value: u64) {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.store(self.0, value) }
    }

    /// A store that later loads of this thread cannot overtake.
    #[inline]
    pub fn store_seq_cst<M: Memory>(self, mem: &M, value: u64) {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.store_seq_cst(self.0, value) }
    }

    /// Compare-exchange; `Err` holds what was found instead.
    #[inline]
    #[cfg_attr(feature = "mutants", track_caller)]
    pub fn compare_exchange<M: Memory>(self, mem: &M, current: u64, new: u64) -> Result<u64, u64> {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.compare_exchange(self.0, current, new) }
    }

    /// The same, but what this thread has stored before may be seen after it ([`Memory::compare_exchange_acquire`]).
    #[inline]
    pub fn compare_exchange_acquire<M: Memory>(self, mem: &M, current: u64, new: u64) -> Result<u64, u64> {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.compare_exchange_acquire(self.0, current, new) }
    }

    /// Sets the word; returns it as it was.
    #[inline]
    pub fn swap<M: Memory>(self, mem: &M, value: u64) -> u64 {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.swap(self.0, value) }
    }

    /// [`Memory::fence`], then an exchange ([`Memory::fence_and_exchange`]).
    #[inline]
    #[cfg_attr(feature = "mutants", track_caller)]
    pub fn fence_and_exchange<M: Memory>(self, mem: &M, current: u64, new: u64) -> Result<u64, u64> {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.fence_and_exchange(self.0, current, new) }
    }

    /// The exchange server's last exchange ([`Memory::exchange_as_last_server`]).
    pub fn exchange_as_last_server<M: Memory>(self, mem: &M, current: u64, new: u64) {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.exchange_as_last_server(self.0, current, new) }
    }

    /// A load through the cache, which may be stale by any amount ([`Memory::load_speculative`]).
    #[inline]
    pub fn load_speculative<M: Memory>(self, mem: &M) -> u64 {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.load_speculative(self.0) }
    }

    /// A load afresh (acquire) of a word whose memory may serve another purpose by now: the caller is right with any
    /// value then ([`Memory::owned_peek_speculative`]).
    #[inline]
    pub fn peek_speculative<M: Memory>(self, mem: &M) -> u64 {
        // SAFETY: the caller that made the cell promised it; the load is the same for owned words.
        unsafe { mem.owned_peek_speculative(self.0) }
    }

    /// Bitwise or; returns the word as it was.
    #[inline]
    pub fn fetch_or<M: Memory>(self, mem: &M, value: u64) -> u64 {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.fetch_or(self.0, value) }
    }

    /// Bitwise and; returns the word as it was.
    #[inline]
    pub fn fetch_and<M: Memory>(self, mem: &M, value: u64) -> u64 {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.fetch_and(self.0, value) }
    }

    /// Wrapping add; returns the word as it was.
    #[inline]
    pub fn fetch_add<M: Memory>(self, mem: &M, value: u64) -> u64 {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.fetch_add(self.0, value) }
    }
}

/// A word with a single writer, its owner. Others read it afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedWord(u64);

impl OwnedWord {
    /// The owned word at an offset.
    ///
    /// # Safety
    ///
    /// The offset is a multiple of 8 in the pool, and its word is shared as an owned word alone while its block is in
    /// use. Only its owner sets it.
    #[inline(always)]
    pub const unsafe fn at(offset: u64) -> Self {
        Self(offset)
    }

    /// Where it is.
    pub const fn offset(self) -> u64 {
        self.0
    }

    /// The owner's load.
    #[inline]
    pub fn get<M: Memory>(self, mem: &M) -> u64 {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.owned_load(self.0) }
    }

    /// The owner's store. Visible to other hosts once written back.
    #[inline]
    pub fn set<M: Memory>(self, mem: &M, value: u64) {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.owned_store(self.0, value) }
    }

    /// The same, for a store that may be lost with the owner's host although the owner has gone on
    /// ([`Memory::owned_store_lazily`]).
    #[inline]
    pub fn set_lazily<M: Memory>(self, mem: &M, value: u64) {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.owned_store_lazily(self.0, value) }
    }

    /// Anybody else's load: afresh, one round trip.
    #[inline]
    #[cfg_attr(feature = "mutants", track_caller)]
    pub fn peek<M: Memory>(self, mem: &M) -> u64 {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.owned_peek(self.0) }
    }

    /// The same, for what the owner may have changed and not written back ([`Memory::owned_peek_speculative`]).
    #[inline]
    pub fn peek_speculative<M: Memory>(self, mem: &M) -> u64 {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.owned_peek_speculative(self.0) }
    }
}

/// The eight words of a line, sync words or owned words, which are read or written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordLine(u64);

impl WordLine {
    /// The line at an offset.
    ///
    /// # Safety
    ///
    /// The offset is a multiple of 64 in the pool, and while its block is in use its words are sync words or owned
    /// words. Stores to it are for the thread alone that may store to all of them.
    #[inline(always)]
    pub const unsafe fn at(offset: u64) -> Self {
        Self(offset)
    }

    /// Its words, afresh and in ascending order: one round trip.
    #[inline]
    pub fn fetch<M: Memory>(self, mem: &M) -> [u64; 8] {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.fetch_line(self.0) }
    }

    /// Stores all of its words past the cache, in ascending order: one round trip.
    #[inline]
    pub fn store_line<M: Memory>(self, mem: &M, line: [u64; 8]) {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.store_line(self.0, line) }
    }

    /// Which words have this tag ([`Memory::tagged`]).
    #[inline(always)]
    pub fn tagged<M: Memory>(self, mem: &M, tag: u16) -> u32 {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.tagged(self.0, tag) }
    }

    /// Owned words that their owner may have changed and not written back ([`Memory::owned_peek_line_speculative`]).
    #[inline]
    pub fn peek_speculative<M: Memory>(self, mem: &M) -> [u64; 8] {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.owned_peek_line_speculative(self.0) }
    }
}

/// Bytes that nobody but the caller reads or writes before they are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpublished {
    offset: u64,
    len: u64,
}

impl Unpublished {
    /// The bytes of a range.
    ///
    /// # Safety
    ///
    /// The range lies in the pool. It belongs to the caller until it is published, and this is used before then. For
    /// whole words, and for zeroes, it is of multiples of 8.
    #[inline(always)]
    pub const unsafe fn at(offset: u64, len: u64) -> Self {
        Self { offset, len }
    }

    /// Copies data in, which is as long as the range or shorter.
    #[inline]
    pub fn write<M: Memory>(self, mem: &M, data: &[u8]) {
        assert!(data.len() as u64 <= self.len, "more bytes than there is room for");
        // SAFETY: the caller that made the cell promised it of the whole range.
        unsafe { mem.write(self.offset, data) }
    }

    /// Sets the first word.
    #[inline]
    pub fn write_word<M: Memory>(self, mem: &M, value: u64) {
        assert!(self.len >= 8, "no room for a word");
        // SAFETY: the caller that made the cell promised it of the whole range.
        unsafe { mem.write_word(self.offset, value) }
    }

    /// Zeroes all of it.
    #[inline]
    pub fn zero<M: Memory>(self, mem: &M) {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.zero(self.offset, self.len) }
    }
}

/// Bytes that were written once, written back, and then published by a sync word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    offset: u64,
    len: u64,
}

impl Published {
    /// The bytes of a range.
    ///
    /// # Safety
    ///
    /// The range lies in the pool, and is protected data that does not change while it is used: it is published and the
    /// caller is pinned, or holds what keeps it from being reused; or it belongs to the caller. Processes that use the
    /// pool as they should never change it; of others see [`Memory::bytes`].
    #[inline(always)]
    pub const unsafe fn at(offset: u64, len: u64) -> Self {
        Self { offset, len }
    }

    /// Where they start.
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// The bytes, through the cache and without a copy.
    #[inline]
    pub fn bytes<M: Memory>(self, mem: &M) -> &[u8] {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.bytes(self.offset, self.len) }
    }

    /// The same, for a caller that says what it reads of them ([`Memory::bytes_in_part`]).
    #[inline(always)]
    pub fn bytes_in_part<M: Memory>(self, mem: &M) -> &[u8] {
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.bytes_in_part(self.offset, self.len) }
    }

    /// The first word, read once.
    #[inline]
    pub fn read_word<M: Memory>(self, mem: &M) -> u64 {
        debug_assert!(self.len >= 8, "no whole word");
        // SAFETY: the caller that made the cell promised it.
        unsafe { mem.read_word(self.offset) }
    }

    /// A copy of the bytes, of which no reference is made: it may be torn if somebody changes them meanwhile, and that
    /// is all.
    pub fn copied<M: Memory>(self, mem: &M) -> Vec<u8> {
        let mut copy = vec![0; self.len as usize];
        self.copy_to(mem, &mut copy);
        copy
    }

    /// The same, to where there is room for all of them and no more.
    pub fn copy_to<M: Memory>(self, mem: &M, to: &mut [u8]) {
        assert_eq!(to.len() as u64, self.len, "a copy of another length");
        // SAFETY: the caller that made the cell promised it of the whole range.
        unsafe { mem.copy_out(self.offset, to) }
    }
}

/// Bytes under a lock, which cached lines of one host at a time hold changed: the host whose thread has the lock writes
/// them through its cache; before another host has it, they are written back, and that host drops its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarded {
    offset: u64,
    len: u64,
}

impl Guarded {
    /// The bytes of a range.
    ///
    /// # Safety
    ///
    /// The range lies in the pool, begins at a multiple of 8, and a lock covers it while its block is in use. A thread
    /// that reads it has the lock; a thread that writes it has it alone.
    #[inline(always)]
    pub const unsafe fn at(offset: u64, len: u64) -> Self {
        Self { offset, len }
    }

    /// How many bytes there are.
    #[inline]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    fn word(self, at: u64) -> u64 {
        assert!(
            at.is_multiple_of(8) && at < self.len && self.len - at >= 8,
            "no word of the range"
        );
        self.offset + at
    }

    /// The word at a place within the range.
    #[inline]
    pub fn read_word<M: Memory>(self, mem: &M, at: u64) -> u64 {
        let at = self.word(at);
        // SAFETY: the caller that made the cell promised it of the whole range.
        unsafe { mem.read_word(at) }
    }

    /// Sets the word at a place within the range.
    #[inline]
    pub fn write_word<M: Memory>(self, mem: &M, at: u64, value: u64) {
        let at = self.word(at);
        // SAFETY: the caller that made the cell promised it of the whole range.
        unsafe { mem.write_word(at, value) }
    }

    /// Where this process has the range. What is read and written there is by the same promise.
    #[inline]
    pub fn pointer<M: Mapped>(self, mem: &M) -> *mut u8 {
        mem.mapping().view().pointer(self.offset, self.len)
    }
}

#[cfg(test)]
#[path = "cells_tests.rs"]
mod tests;
