//! A directory lock's bytes in a pool. They stay as long as the pool does.
//!
//! | line | words |
//! |---|---|
//! | 0 | protected: what this is; how many nodes and regions there are |
//! | 1 and on | on coherent memory: a [reader-writer lock](crate::sync::object); on incoherent memory: |
//! | 1 | sync: the lock of the entry, which its changes are made under |
//! | 2 | sync: the number of changes; its lowest bit says which copy of the entry is valid |
//! | 3, 4 | sync: the two copies of the [entry](super::state) |
//! | 5 | sync: the note of the thread that writes; the fencing token drawn last |
//! | 6 and on | sync, a line a node: identity of its process; the worker that asked last; the event count |
//! | then | protected: offset and length of each region |
//! | then | guarded: the regions, each from a line of its own on |
//!
//! *Guarded* data is written through the cache by the node that has the lock exclusively, and written back before it
//! gives the lock up; a node drops its lines when it gets the lock.

use super::node::{NODES_MAX, Node};
use crate::error::{Error, Result};
use crate::memory::checked::{published, sync_word, unpublished, word_line};
use crate::memory::{LINE, Memory, SyncWord, WordLine};
use crate::pod::Worker;
use crate::pod::alloc::heap;
use crate::pod::alloc::slab::check_fits;
use crate::sync::object::{LockKind, bytes, write_header};

/// "CNTDIRL" and a version.
const MAGIC: u64 = u64::from_le_bytes(*b"CNTDIRL\x01");
/// Where the nodes' lines begin.
const NODES_AT: u64 = 6 * LINE;
/// Bytes of a region's description.
const REGION_BYTES: u64 = 16;
/// The most regions of a lock.
pub const REGIONS_MAX: usize = 1024;

/// Bytes of the pool that a lock covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where they begin.
    pub offset: u64,
    /// How many there are.
    pub len: u64,
}

/// Where a lock's words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    base: u64,
    nodes: u8,
    regions: u64,
    /// Bytes before the descriptions of the regions.
    head: u64,
}

impl Layout {
    /// The lock at an offset, which is checked.
    pub fn at<M: Memory>(worker: &Worker<M>, base: u64) -> Result<Self> {
        if !base.is_multiple_of(LINE) {
            return Err(Error::corrupt("the offset of a directory lock", base));
        }
        worker.check("a directory lock", base, NODES_AT)?;
        let word = |n: u64| published(base + 8 * n, 8).read_word(worker.mem());
        let (magic, nodes, regions) = (word(0), word(1), word(2));
        let is_whole = (1..=u64::from(NODES_MAX)).contains(&nodes) && regions <= REGIONS_MAX as u64;
        if magic != MAGIC || !is_whole {
            return Err(Error::corrupt("a directory lock's header", base));
        }
        let layout = Self::new(worker, base, nodes as u8, regions);
        worker.check("a directory lock", base, layout.data_at() - base)?;
        Ok(layout)
    }

    fn new<M: Memory>(worker: &Worker<M>, base: u64, nodes: u8, regions: u64) -> Self {
        let head = match M::COHERENT {
            true => LINE + bytes(worker, LockKind::Rw),
            false => NODES_AT + LINE * u64::from(nodes),
        };
        Self {
            base,
            nodes,
            regions,
            head,
        }
    }

    /// Allocates and initialises a lock for so many nodes, whose regions have these lengths, as the worker's auxiliary
    /// object.
    pub fn create<M: Memory>(worker: &Worker<M>, nodes: u8, lens: &[u64]) -> Result<u64> {
        let regions = lens.len() as u64;
        let layout = |base| Self::new(worker, base, nodes, regions);
        let data_at = layout(0).data_at();
        let len = lens
            .iter()
            .fold(data_at, |len, region| len + region.next_multiple_of(LINE));
        let base = heap::allocate_for(worker, worker.actor(), len, worker.record().aux_object(), 0)?;
        let mem = worker.mem();
        unpublished(base, len).zero(mem);
        for (n, word) in (0..).zip([MAGIC, u64::from(nodes), regions]) {
            unpublished(base + 8 * n, 8).write_word(mem, word);
        }
        if M::COHERENT {
            write_header(mem, layout(base).inner(), LockKind::Rw);
        }
        let mut offset = base + data_at;
        for (n, len) in (0..).zip(lens) {
            let at = layout(base).region_at(n);
            unpublished(at, 8).write_word(mem, offset);
            unpublished(at + 8, 8).write_word(mem, *len);
            offset += len.next_multiple_of(LINE);
        }
        // From here on others access most of these words past the cache; no line of this host may cover them. Complete
        // before the object is published with its name.
        mem.invalidate(base, len);
        Ok(base)
    }

    fn region_at(self, n: u64) -> u64 {
        self.base + self.head + REGION_BYTES * n
    }

    fn data_at(self) -> u64 {
        self.region_at(self.regions).next_multiple_of(LINE)
    }

    /// Fails if its allocation has no room for its regions.
    pub fn check_fits<M: Memory>(self, worker: &Worker<M>) -> Result<()> {
        let regions = self.regions(worker)?;
        let end = regions
            .last()
            .map_or(self.data_at(), |last| last.offset + last.len);
        check_fits(
            worker,
            "the regions of a directory lock",
            self.base,
            end - self.base,
        )
    }

    /// Where it begins.
    pub fn offset(self) -> u64 {
        self.base
    }

    /// Where the reader-writer lock is, on coherent memory.
    pub fn inner(self) -> u64 {
        self.base + LINE
    }

    /// How many nodes it has room for.
    pub fn nodes(self) -> u8 {
        self.nodes
    }

    /// Its regions, which are checked.
    pub fn regions<M: Memory>(self, worker: &Worker<M>) -> Result<Vec<Region>> {
        let word = |at| published(at, 8).read_word(worker.mem());
        let mut least = self.data_at();
        let region = |n| {
            let at = self.region_at(n);
            let (offset, len) = (word(at), word(at + 8));
            worker.check("a directory lock's region", offset, len)?;
            if offset != least {
                return Err(Error::corrupt("a directory lock's region", at));
            }
            least = offset.saturating_add(len).next_multiple_of(LINE);
            Ok(Region { offset, len })
        };
        (0..self.regions).map(region).collect()
    }

    /// The lock of the entry.
    pub fn lock(self) -> SyncWord {
        sync_word(self.base + LINE)
    }

    /// The number of changes.
    pub fn number(self) -> SyncWord {
        sync_word(self.base + 2 * LINE)
    }

    /// The copy of the entry that is valid after so many changes.
    pub fn copy(self, number: u64) -> WordLine {
        word_line(self.copy_at(number))
    }

    /// Where it is.
    pub fn copy_at(self, number: u64) -> u64 {
        self.base + LINE * (3 + number % 2)
    }

    /// What the thread that writes says it is doing.
    pub fn note(self) -> SyncWord {
        sync_word(self.base + 5 * LINE)
    }

    /// The fencing token that was drawn last.
    pub fn token(self) -> SyncWord {
        sync_word(self.base + 5 * LINE + 8)
    }

    fn node(self, node: Node) -> u64 {
        self.base + NODES_AT + LINE * u64::from(node.number() % self.nodes)
    }

    /// The identity of a node's process; 0 if the number is nobody's.
    pub fn process(self, node: Node) -> SyncWord {
        sync_word(self.node(node))
    }

    /// The worker that asked for the node last.
    pub fn asker(self, node: Node) -> SyncWord {
        sync_word(self.node(node) + 8)
    }

    /// What the node's threads sleep on.
    pub fn event_count(self, node: Node) -> SyncWord {
        sync_word(self.node(node) + 16)
    }
}
