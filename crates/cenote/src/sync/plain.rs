//! Locks that do not know their owners, to compare with (Lupin, table 2): test-and-test-and-set, and MCS
//! (Mellor-Crummey and Scott, 1991). Their waiters wait as in the other locks. A death of an owner stops everybody for
//! ever.
//!
//! The caller says where their words are; each needs a line of its own.

use super::wait::{Timeout, Waiting};
use crate::memory::checked::sync_word;
use crate::memory::{Memory, SyncWord};

/// The test-and-test-and-set lock: a word that is 0 or 1.
#[derive(Clone, Copy, Debug)]
pub struct PlainSpin(pub SyncWord);

impl PlainSpin {
    /// Waits for the lock.
    #[inline]
    pub fn lock<M: Memory>(self, mem: &M) {
        // PAIRS WITH: sync::plain::unlock
        if self.0.compare_exchange(mem, 0, 1).is_err() {
            self.lock_slowly(mem);
        }
    }

    #[cold]
    fn lock_slowly<M: Memory>(self, mem: &M) {
        let mut waiting = Waiting::new(Timeout::Forever);
        // PAIRS WITH: sync::plain::unlock
        while self.0.load(mem) != 0 || self.0.compare_exchange(mem, 0, 1).is_err() {
            waiting.lose_unwoken(mem);
        }
    }

    /// Gives the lock up.
    #[inline]
    pub fn unlock<M: Memory>(self, mem: &M) {
        // PAIRS WITH: sync::plain::lock, sync::plain::lock_slowly
        self.0.store(mem, 0);
    }
}

/// The MCS lock: a word that is 0 or the offset of the last thread's node.
#[derive(Clone, Copy, Debug)]
pub struct PlainQueue(pub SyncWord);

/// A thread's node: the next one, and whether it must wait.
#[derive(Clone, Copy, Debug)]
pub struct Node(pub u64);

impl Node {
    fn next(self) -> SyncWord {
        sync_word(self.0)
    }

    fn waits(self) -> SyncWord {
        sync_word(self.0 + 8)
    }
}

impl PlainQueue {
    /// Waits for the lock with a node of the caller's own.
    #[inline]
    pub fn lock<M: Memory>(self, mem: &M, node: Node) {
        // NO PAIR: unshared
        node.next().store(mem, 0);
        // NO PAIR: unshared
        node.waits().store(mem, 1);
        // PAIRS WITH: sync::plain::unlock
        let end = self.0.swap(mem, node.0);
        if end != 0 {
            self.wait(mem, node, Node(end));
        }
    }

    #[cold]
    fn wait<M: Memory>(self, mem: &M, node: Node, before: Node) {
        // PAIRS WITH: sync::plain::unlock
        before.next().store(mem, node.0);
        let mut waiting = Waiting::new(Timeout::Forever);
        // PAIRS WITH: sync::plain::unlock
        while node.waits().load(mem) != 0 {
            waiting.lose_unwoken(mem);
        }
    }

    /// Gives the lock up.
    #[inline]
    pub fn unlock<M: Memory>(self, mem: &M, node: Node) {
        // PAIRS WITH: sync::plain::wait
        let mut next = node.next().load(mem);
        if next == 0 {
            // PAIRS WITH: sync::plain::lock
            if self.0.compare_exchange(mem, node.0, 0).is_ok() {
                return;
            }
            let mut waiting = Waiting::new(Timeout::Forever);
            while next == 0 {
                waiting.lose_unwoken(mem);
                next = node.next().load(mem);
            }
        }
        // PAIRS WITH: sync::plain::wait
        Node(next).waits().store(mem, 0);
    }
}
