//! How a read-modify-write reaches memory whose caches are not coherent.
//!
//! Platforms differ: some execute a compare-exchange in the memory device, some have none across hosts. The
//! [`Noncoherent`](super::Noncoherent) backend is generic over this trait. [`CpuExchange`] uses the CPU's own
//! atomic between two flushes. That is atomic among the cores of one host, and across hosts only where the
//! platform makes it so; it serves measurements, and machines that are coherent after all.

use std::sync::atomic::{AtomicU64, Ordering};

use super::flush::Flusher;

/// A way to execute read-modify-writes on sync words in memory.
pub trait Exchange: Clone + Default + Send + Sync + 'static {
    /// Whether an exchange completes the write-backs that this thread has begun before it changes the word.
    const BEGINS_WITH_FENCE: bool = false;

    /// Replaces `current` by `new`; `Err` holds what was found instead. Complete in memory on return.
    fn compare_exchange(
        &self,
        flusher: Flusher,
        word: &AtomicU64,
        current: u64,
        new: u64,
    ) -> Result<u64, u64>;

    /// Changes a word in one of three ways; returns what was there before. Complete in memory on return.
    fn modify(&self, flusher: Flusher, word: &AtomicU64, change: Modify) -> u64 {
        loop {
            let line = word.as_ptr() as *const u8;
            // SAFETY: the line of a word that is borrowed.
            unsafe { flusher.flush(line) };
            flusher.fence();
            let current = word.load(Ordering::Acquire);
            if let Ok(before) = self.compare_exchange(flusher, word, current, change.of(current)) {
                return before;
            }
        }
    }
}

/// A read-modify-write that needs no comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modify {
    /// Wrapping add.
    Add(u64),
    /// Bitwise or.
    Or(u64),
    /// Bitwise and.
    And(u64),
}

impl Modify {
    /// What it makes of a word.
    pub fn of(self, word: u64) -> u64 {
        match self {
            Self::Add(value) => word.wrapping_add(value),
            Self::Or(value) => word | value,
            Self::And(value) => word & value,
        }
    }
}

/// The CPU's atomic, with the line flushed before and after.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuExchange;

impl Exchange for CpuExchange {
    // Dropping the line takes one.
    const BEGINS_WITH_FENCE: bool = true;

    #[inline]
    fn compare_exchange(
        &self,
        flusher: Flusher,
        word: &AtomicU64,
        current: u64,
        new: u64,
    ) -> Result<u64, u64> {
        let line = word.as_ptr() as *const u8;
        // SAFETY: the line of a word that is borrowed.
        unsafe { flusher.flush(line) };
        flusher.fence();
        let result = word.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst);
        // SAFETY: the line of a word that is borrowed.
        unsafe { flusher.flush(line) };
        flusher.fence();
        result
    }

    #[inline]
    fn modify(&self, flusher: Flusher, word: &AtomicU64, change: Modify) -> u64 {
        let line = word.as_ptr() as *const u8;
        // SAFETY: the line of a word that is borrowed.
        unsafe { flusher.flush(line) };
        flusher.fence();
        let before = match change {
            Modify::Add(value) => word.fetch_add(value, Ordering::SeqCst),
            Modify::Or(value) => word.fetch_or(value, Ordering::SeqCst),
            Modify::And(value) => word.fetch_and(value, Ordering::SeqCst),
        };
        // SAFETY: the line of a word that is borrowed.
        unsafe { flusher.flush(line) };
        flusher.fence();
        before
    }
}
