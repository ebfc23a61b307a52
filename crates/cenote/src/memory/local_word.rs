//! A word of this process alone, shared by its threads. It is no part of a pool; it lives here because raw atomics do.

use std::sync::atomic::{AtomicU64, Ordering};

/// A process-local atomic word.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct LocalWord(AtomicU64);

/// This many words of 0. Pages that nobody touches take no memory.
pub fn zeroed_words(count: usize) -> Box<[LocalWord]> {
    // The allocator hands out zeroed pages; writing the words one by one would touch them.
    let words = Box::into_raw(vec![0_u64; count].into_boxed_slice());
    // SAFETY: nobody else has the words, and a local word is laid out as one of them.
    unsafe { Box::from_raw(words as *mut [LocalWord]) }
}

const _: () =
    assert!(size_of::<LocalWord>() == size_of::<u64>() && align_of::<LocalWord>() == align_of::<u64>());

impl LocalWord {
    /// A word with a value.
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Acquire load.
    #[inline]
    pub fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Release store.
    #[inline]
    pub fn store(&self, value: u64) {
        self.0.store(value, Ordering::Release)
    }

    /// Compare-exchange; returns whether it happened.
    #[inline]
    pub fn exchange(&self, current: u64, new: u64) -> bool {
        self.0
            .compare_exchange(current, new, Ordering::SeqCst, Ordering::Acquire)
            .is_ok()
    }

    /// Wrapping add; returns the word as it was.
    pub fn add(&self, value: u64) -> u64 {
        self.0.fetch_add(value, Ordering::SeqCst)
    }
}
