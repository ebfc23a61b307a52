//! The contract of locks in words, and the library's backends as an implementation.

use cenote::memory::{Memory, SyncWord};

/// Words that threads share, by their offsets. Loads acquire, stores release, the others are sequentially consistent.
pub trait Words {
    /// Reads a word.
    fn load(&self, at: u64) -> u64;

    /// Sets a word.
    fn store(&self, at: u64, value: u64);

    /// Sets a word; returns it as it was.
    fn swap(&self, at: u64, value: u64) -> u64;

    /// Sets a word if it is `current`. Returns whether it was.
    fn compare_exchange(&self, at: u64, current: u64, new: u64) -> bool;

    /// Wrapping add; returns the word as it was.
    fn fetch_add(&self, at: u64, value: u64) -> u64;

    /// Polls a word until it is as wanted; returns it.
    fn wait_until(&self, at: u64, is: impl Fn(u64) -> bool) -> u64;
}

/// Sync words of a backend.
#[derive(Clone)]
pub struct OnMemory<M> {
    mem: M,
    len: u64,
}

impl<M: Memory> OnMemory<M> {
    /// The first so many bytes of a memory.
    ///
    /// # Safety
    ///
    /// They are committed, and each of their words is a sync word alone for as long as a clone of this lives.
    pub unsafe fn new(mem: M, len: u64) -> Self {
        Self { mem, len }
    }

    fn word(&self, at: u64) -> SyncWord {
        assert!(at.is_multiple_of(8) && at < self.len, "no word at {at}");
        // SAFETY: who made this promised it for all of its words, of which this is one.
        unsafe { SyncWord::at(at) }
    }
}

impl<M: Memory> Words for OnMemory<M> {
    fn load(&self, at: u64) -> u64 {
        self.word(at).load(&self.mem)
    }

    fn store(&self, at: u64, value: u64) {
        self.word(at).store(&self.mem, value);
    }

    fn swap(&self, at: u64, value: u64) -> u64 {
        self.word(at).swap(&self.mem, value)
    }

    fn compare_exchange(&self, at: u64, current: u64, new: u64) -> bool {
        self.word(at).compare_exchange(&self.mem, current, new).is_ok()
    }

    fn fetch_add(&self, at: u64, value: u64) -> u64 {
        self.word(at).fetch_add(&self.mem, value)
    }

    fn wait_until(&self, at: u64, is: impl Fn(u64) -> bool) -> u64 {
        let mut polls = 0_u32;
        loop {
            let found = self.load(at);
            if is(found) {
                return found;
            }
            polls += 1;
            match polls.is_multiple_of(64) {
                true => self.mem.relax(),
                false => self.mem.pause(),
            }
        }
    }
}
