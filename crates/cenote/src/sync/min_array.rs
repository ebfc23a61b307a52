//! A recoverable lock from the theory, to compare with (Lupin, table 2): after Jayanti and Joshi, *Recoverable mutual
//! exclusion with abortability*, Computing 104(10), 2022. Threads draw tokens and register them in a min-array
//! (Jayanti, *f-arrays*, PODC 2002): a tree in which each node has the least token below it. A thread that leaves gives
//! the lock to the least.
//!
//! A passage costs some ten exchanges for each doubling of the threads, all of contended words. Its owner and its
//! waiters can be read from memory at any moment, which is what recovery needs. This implementation has no recovery: a
//! death stops everybody for ever.

use super::wait::{Timeout, Waiting};
use crate::memory::checked::sync_word;
use crate::memory::{LINE, Memory, SyncWord};

/// No token.
const NONE: u64 = u64::MAX >> TAG_BITS;
/// Bits of a node below its token and thread: a tag that makes each exchange unique.
const TAG_BITS: u32 = 16;
/// Bits of a thread's number below its token.
const THREAD_BITS: u32 = 8;
/// In the status: a thread owns the lock. Without it, the status counts how often the lock was given up.
const OWNED: u64 = 1 << 63;

/// The lock: [`MinArrayLock::bytes`] from an offset on. Zeroes are not a lock: see [`MinArrayLock::format`].
#[derive(Clone, Copy, Debug)]
pub struct MinArrayLock {
    at: u64,
    /// A power of two.
    threads: u64,
}

impl MinArrayLock {
    /// The lock at an offset, for up to so many threads, 256 at most.
    pub fn at(at: u64, threads: u32) -> Self {
        let threads = u64::from(threads.clamp(2, 1 << THREAD_BITS)).next_power_of_two();
        Self { at, threads }
    }

    /// Bytes of a lock for up to so many threads.
    pub fn bytes(threads: u32) -> u64 {
        (3 * Self::at(0, threads).threads + 3) * LINE
    }

    fn line(self, n: u64) -> SyncWord {
        sync_word(self.at + n * LINE)
    }

    fn token(self) -> SyncWord {
        self.line(0)
    }

    fn status(self) -> SyncWord {
        self.line(1)
    }

    /// How often the lock was given up; written by its owner.
    fn turns(self) -> SyncWord {
        self.line(2)
    }

    /// What a thread waits for to become 0.
    fn go(self, thread: u64) -> SyncWord {
        self.line(3 + thread)
    }

    /// A node of the tree: 1 is its root, `threads` to twice that its leaves.
    fn node(self, n: u64) -> SyncWord {
        self.line(3 + self.threads + n - 1)
    }

    /// Makes an empty lock, before anybody else has it.
    pub fn format<M: Memory>(self, mem: &M) {
        // NO PAIR: unshared
        self.token().store(mem, 1);
        for n in 1..2 * self.threads {
            // NO PAIR: unshared
            self.node(n).store(mem, NONE << TAG_BITS);
        }
    }

    /// Waits for the lock, as the thread of a number that no other thread has.
    pub fn lock<M: Memory>(self, mem: &M, thread: u64) {
        let token = self.token().load(mem);
        // If it fails, another thread has the same token; then the lesser thread number is first.
        // NO PAIR: count
        let _ = self.token().compare_exchange(mem, token, token + 1);
        // PAIRS WITH: sync::min_array::promote
        self.go(thread).store(mem, token);
        self.register(mem, thread, token << THREAD_BITS | thread);
        self.promote(mem);
        let mut waiting = Waiting::new(Timeout::Forever);
        // PAIRS WITH: sync::min_array::promote
        while self.go(thread).load(mem) != 0 {
            waiting.lose_unwoken(mem);
        }
    }

    /// Gives up the lock.
    pub fn unlock<M: Memory>(self, mem: &M, thread: u64) {
        self.register(mem, thread, NONE);
        let turns = self.turns().load(mem) + 1;
        // NO PAIR: locked
        self.turns().store(mem, turns);
        // PAIRS WITH: sync::min_array::promote
        // Visible before the root is read: a thread that registers in between finds the lock free, or is found.
        self.status().store_seq_cst(mem, turns);
        self.promote(mem);
    }

    fn register<M: Memory>(self, mem: &M, thread: u64, value: u64) {
        let leaf = self.threads + thread;
        // PAIRS WITH: sync::min_array::refresh
        self.node(leaf).store_seq_cst(mem, value << TAG_BITS);
        let mut n = leaf / 2;
        while n > 0 {
            // If it fails twice, another thread has read both children since.
            let _ = self.refresh(mem, n) || self.refresh(mem, n);
            n /= 2;
        }
    }

    /// Sets a node to the least of its children. Returns whether nobody was faster.
    fn refresh<M: Memory>(self, mem: &M, n: u64) -> bool {
        let found = self.node(n).load(mem);
        // PAIRS WITH: sync::min_array::register, sync::min_array::refresh
        let [left, right] = [2 * n, 2 * n + 1].map(|child| self.node(child).load(mem) >> TAG_BITS);
        let tag = found.wrapping_add(1) & ((1 << TAG_BITS) - 1);
        let new = left.min(right) << TAG_BITS | tag;
        // PAIRS WITH: sync::min_array::refresh, sync::min_array::promote
        self.node(n).compare_exchange(mem, found, new).is_ok()
    }

    /// Gives a free lock to the least token's thread, and lets the owner go.
    fn promote<M: Memory>(self, mem: &M) {
        // PAIRS WITH: sync::min_array::promote, sync::min_array::unlock
        let mut status = self.status().load(mem);
        if status & OWNED == 0 {
            // PAIRS WITH: sync::min_array::refresh
            let least = self.node(1).load(mem) >> TAG_BITS;
            if least == NONE {
                return;
            }
            let owned = OWNED | least & ((1 << THREAD_BITS) - 1);
            // PAIRS WITH: sync::min_array::promote, sync::min_array::unlock
            status = match self.status().compare_exchange(mem, status, owned) {
                Ok(_) => owned,
                Err(found) => found,
            };
        }
        if status & OWNED == 0 {
            return;
        }
        let go = self.go(status & !OWNED);
        // PAIRS WITH: sync::min_array::lock
        let token = go.load(mem);
        if token != 0 && self.status().load(mem) == status {
            // If it fails, another thread has let it go.
            // PAIRS WITH: sync::min_array::lock
            let _ = go.compare_exchange(mem, token, 0);
        }
    }
}
