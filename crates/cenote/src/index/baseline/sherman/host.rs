//! What the handles of one process on one tree share, in the process's memory: copies of inner nodes, the root as it
//! was last seen, local locks.
//!
//! Copies may be stale by any amount. The tables are locked for a lookup or a change only, never across an access to
//! the pool.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::memory::{LocalWord, Memory};
use crate::pod::Worker;

/// A copy of an inner node.
#[derive(Debug)]
pub struct Inner {
    pub level: u64,
    /// The high fence and the sibling.
    pub next: Option<(u64, u64)>,
    /// Low fences and children, in ascending order.
    pub children: Vec<(u64, u64)>,
}

impl Inner {
    /// The child that a key belongs to, as far as this copy knows.
    pub fn child_of(&self, key: u64) -> Option<u64> {
        let after = self.children.partition_point(|&(low, _)| low <= key);
        self.children[..after].last().map(|&(_, child)| child)
    }
}

/// A local lock: one for each lock of the pool.
#[derive(Debug, Default)]
pub struct Local {
    /// 1 while a thread of this process has it.
    pub held: LocalWord,
    /// Threads that wait for it.
    pub waiting: LocalWord,
    /// How often the pool's lock was handed on within this process since it was taken. If this lock is free, 0 says
    /// that the pool's lock is not held.
    pub handed_on: LocalWord,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Host {
    /// The root as it was last seen: offset and level.
    pub root: LocalWord,
    copies: RwLock<HashMap<u64, Arc<Inner>>>,
    /// As many as the pool's locks, and at least one.
    locals: Box<[Local]>,
}

impl Host {
    /// What this worker's process shares for the tree with this lock table, which has so many locks.
    pub fn of<M: Memory>(worker: &Worker<M>, locks: u64, count: u64) -> Arc<Self> {
        worker.pod().extension(locks, || Self {
            root: LocalWord::default(),
            copies: RwLock::default(),
            locals: (0..count).map(|_| Local::default()).collect(),
        })
    }

    /// The copy of the node at an offset.
    pub fn copy_of(&self, at: u64) -> Option<Arc<Inner>> {
        let copies = self.copies.read().unwrap_or_else(PoisonError::into_inner);
        copies.get(&at).cloned()
    }

    /// Stores a copy.
    pub fn keep(&self, at: u64, copy: Arc<Inner>) {
        let mut copies = self.copies.write().unwrap_or_else(PoisonError::into_inner);
        copies.insert(at, copy);
    }

    /// Drops the copy of a node that may be out of date.
    pub fn forget(&self, at: u64) {
        let mut copies = self.copies.write().unwrap_or_else(PoisonError::into_inner);
        copies.remove(&at);
    }

    /// The lock of the node at this line number: its number in the table, and the local lock.
    pub fn local_of(&self, line: u64) -> (u64, &Local) {
        // The product's high bits depend on all bits of the number; the number of locks is a power of two.
        let mixed = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let number = mixed % self.locals.len() as u64;
        (number, &self.locals[number as usize])
    }
}
