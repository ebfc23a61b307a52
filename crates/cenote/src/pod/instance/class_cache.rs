//! A worker's cache of slab blocks' size classes; [`classes`](crate::pod::alloc::classes) says what of it holds.

use std::cell::Cell;

use crate::memory::Memory;

/// Frames in the cache.
const REMEMBERED: u64 = 4096;

/// Size classes of blocks by frame.
#[derive(Debug)]
pub struct Classes {
    pub(crate) classes: Box<[Cell<u64>]>,
    /// The count of blocks given back, read before all entries.
    pub(crate) as_of: Cell<u64>,
}

impl Classes {
    /// An empty cache. On coherent memory it stays empty: the table is in the CPU's cache.
    pub fn new<M: Memory>() -> Self {
        let count = if M::COHERENT { 0 } else { REMEMBERED };
        Self {
            classes: (0..count).map(|_| Cell::new(0)).collect(),
            as_of: Cell::new(0),
        }
    }

    /// A block of a class has this frame.
    pub(crate) fn remember(&self, frame: u64, class: usize) {
        if let Some(entry) = self.classes.get((frame % REMEMBERED) as usize) {
            entry.set(frame << 8 | (class as u64 + 1));
        }
    }

    pub(crate) fn get(&self, frame: u64) -> Option<usize> {
        let entry = self.classes.get((frame % REMEMBERED) as usize)?.get();
        (entry >> 8 == frame && entry & 0xff != 0).then(|| (entry & 0xff) as usize - 1)
    }
}
