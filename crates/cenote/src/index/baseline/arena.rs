//! Memory of a baseline: one extent of the pool, in which nodes are allocated and never freed.
//!
//! | line | words |
//! |---|---|
//! | 0 | protected: what lives here (`magic`), the extent's length |
//! | 1 | sync: the offset of the first byte that is not allocated |
//! | 2 to 9 | sync, the first word of each: [roots](Arena::root), 0 at first |
//!
//! A worker takes chunks, by one fetch-add each, and allocates nodes in its chunk. A crash loses the rest of the chunk
//! to the extent only, which as a whole belongs to its name in the directory.

use std::cell::Cell;
use std::rc::Rc;

use crate::causes::Shortage;
use crate::error::{Error, Result};
use crate::index::common::kind::of_kind;
use crate::memory::checked::{published, sync_word, unpublished};
use crate::memory::{LINE, Memory, SyncWord};

use crate::pod::Worker;
use crate::pod::alloc::heap;
use crate::pod::names::directory::{self, KIND_BASELINE};

/// Roots that an arena has.
pub const ROOTS: u64 = 8;

const HEADER_BYTES: u64 = (2 + ROOTS) * LINE;
/// Bytes that a worker takes at a time, unless one node needs more.
const CHUNK_BYTES: u64 = 4096;

/// A worker's handle on an arena.
pub struct Arena<M: Memory> {
    worker: Rc<Worker<M>>,
    base: u64,
    end: u64,
    /// The rest of the worker's chunk.
    chunk: Cell<(u64, u64)>,
}

impl<M: Memory> Arena<M> {
    /// Opens the arena of a name, or creates it with room for so many bytes of nodes.
    pub fn open_or_create(worker: Rc<Worker<M>>, name: &str, magic: u64, bytes: u64) -> Result<Self> {
        let named =
            directory::find_or_create(&worker, name, KIND_BASELINE, || create(&worker, magic, bytes))?;
        let base = of_kind(named, KIND_BASELINE)?;
        worker.check("a baseline's header", base, HEADER_BYTES)?;
        let mem = worker.mem();
        let (found, len) = (
            published(base, 8).read_word(mem),
            published(base + 8, 8).read_word(mem),
        );
        if found != magic {
            return Err(Error::corrupt("a baseline's header", base));
        }
        worker.check("a baseline's range", base, len)?;
        Ok(Self {
            base,
            end: base + len,
            chunk: Cell::new((0, 0)),
            worker,
        })
    }

    /// Bytes of the arena that a node of so many bytes takes, with its part of the gaps in which no node fits.
    pub const fn share(len: u64) -> u64 {
        let len = len.next_multiple_of(LINE);
        match CHUNK_BYTES / len {
            0 => len,
            nodes => CHUNK_BYTES.div_ceil(nodes),
        }
    }

    /// The handle's worker.
    pub fn worker(&self) -> &Rc<Worker<M>> {
        &self.worker
    }

    /// A root: one of the words from which everything in the arena is found.
    pub fn root(&self, n: u64) -> SyncWord {
        sync_word(self.base + (2 + n % ROOTS) * LINE)
    }

    /// Whether so many bytes at an offset are within the arena, after its header.
    pub fn has(&self, at: u64, len: u64) -> bool {
        at >= self.base + HEADER_BYTES && at.checked_add(len).is_some_and(|end| end <= self.end)
    }

    /// Where the bytes after the header begin.
    pub fn start(&self) -> u64 {
        self.base + HEADER_BYTES
    }

    /// The number of bytes after the header.
    pub fn bytes(&self) -> u64 {
        self.end - self.base - HEADER_BYTES
    }

    /// Allocates the first bytes after the header. All callers must ask for the same number, before anything else is
    /// allocated: a creator gets the bytes that an earlier one that died had.
    pub fn first(&self, len: u64) -> Result<u64> {
        let at = self.base + HEADER_BYTES;
        if !self.has(at, len) {
            return Err(Error::corrupt("the length of a baseline", self.base));
        }
        // If it fails, another worker has done so.
        let _ = sync_word(self.base + LINE).compare_exchange(self.worker.mem(), at, at + len);
        Ok(at)
    }

    /// Allocates whole lines. Their content is undefined.
    ///
    /// Cost: one fetch-add for each 4 KiB.
    pub fn take(&self, len: u64) -> Result<u64> {
        let len = len.next_multiple_of(LINE);
        let (at, end) = self.chunk.get();
        if end - at >= len {
            self.chunk.set((at + len, end));
            return Ok(at);
        }
        let wanted = len.max(CHUNK_BYTES);
        let at = sync_word(self.base + LINE).fetch_add(self.worker.mem(), wanted);
        if !self.has(at, wanted) {
            return Err(Error::Full {
                needed: wanted,
                why: Shortage::Records,
                largest: None,
            });
        }
        self.chunk.set((at + len, at + wanted));
        Ok(at)
    }
}

/// Allocates an extent and writes its header, as the worker's auxiliary object.
fn create<M: Memory>(worker: &Worker<M>, magic: u64, bytes: u64) -> Result<u64> {
    let len = HEADER_BYTES + bytes.next_multiple_of(CHUNK_BYTES) + 64 * CHUNK_BYTES;
    let base = heap::allocate_for(worker, worker.actor(), len, worker.record().aux_object(), 0)?;
    let mem = worker.mem();
    unpublished(base, HEADER_BYTES).zero(mem);
    unpublished(base, 8).write_word(mem, magic);
    unpublished(base + 8, 8).write_word(mem, len);
    unpublished(base + LINE, 8).write_word(mem, base + HEADER_BYTES);
    mem.persist(base, HEADER_BYTES);
    // From here on others access these words past the cache; no line of this host may cover them.
    mem.invalidate(base + LINE, HEADER_BYTES - LINE);
    mem.fence();
    Ok(base)
}
