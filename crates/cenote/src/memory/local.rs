//! A word of this process alone, shared by its threads. Nothing in a pool; it lives here because raw atomics do.

use std::sync::atomic::{AtomicU64, Ordering};

/// A process-local atomic word.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct LocalWord(AtomicU64);

/// So many words that are 0. The pages of those that nobody touches take no memory.
pub fn zeroed_words(count: usize) -> Box<[LocalWord]> {
    let words = Box::<[LocalWord]>::new_zeroed_slice(count);
    // SAFETY: a word of zero bytes is an atomic that is 0.
    unsafe { words.assume_init() }
}

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

    /// Compare-exchange; whether it happened.
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
