//! Size classes of slab blocks, as a worker remembers them; what of that holds is said in [`classes`](crate::pod::alloc::classes).

use std::cell::Cell;

use crate::memory::Memory;

/// Frames that a worker remembers.
const REMEMBERED: u64 = 4096;

/// Size classes of blocks by frame.
#[derive(Debug)]
pub struct Classes {
    pub(crate) classes: Box<[Cell<u64>]>,
    /// The count of blocks given back, from before all of it.
    pub(crate) as_of: Cell<u64>,
}

impl Classes {
    /// None yet. On coherent memory none ever: the table is in the cache.
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
