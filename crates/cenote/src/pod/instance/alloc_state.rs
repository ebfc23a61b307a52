//! What a worker's thread remembers of allocation, in its process's memory. Its use is in `pod/alloc`.

use std::cell::Cell;

use super::class_cache::Classes;
use super::pending::{Pending, PendingAllocations};
use crate::memory::Memory;

/// See the [module documentation](self).
pub struct AllocState {
    /// An operation that found the pool full is tried again: allocation scans every block.
    pub(in crate::pod) is_thorough: Cell<bool>,
    /// The word of hints with which the next search for orphaned blocks begins.
    pub(in crate::pod) hint_cursor: Cell<u64>,
    /// The last object that was allocated.
    pub(in crate::pod) last_allocated: Cell<Pending>,
    /// Incoherent memory: what was allocated for the present operation.
    pub(in crate::pod) pending: Cell<PendingAllocations>,
    /// Incoherent memory: size classes of blocks, as they were when they were looked up.
    pub(in crate::pod) classes: Classes,
}

impl AllocState {
    /// Of a worker that has allocated nothing.
    pub(super) fn new<M: Memory>() -> Self {
        Self {
            is_thorough: Cell::new(false),
            hint_cursor: Cell::new(0),
            last_allocated: Cell::new(Pending::default()),
            pending: Cell::default(),
            classes: Classes::new::<M>(),
        }
    }
}
