//! A B+-tree in the manner of Sherman (Wang and others, SIGMOD 2022), on memory that hosts share, as pcc-indexes
//! compares with it (section 7.1): compare-exchanges of lock words in the pool instead of RDMA atomics, copies of lines
//! instead of RDMA reads and writes.
//!
//! | file | concept |
//! |---|---|
//! | `line` | lines with a version at both ends, and what a dead writer leaves in them |
//! | `node` | nodes: fences, sibling, unsorted entries |
//! | `host` | what the handles of a process share: copies of inner nodes, local locks |
//! | `lock` | locks of two levels |
//! | `find` | the path to a node, by copies that may be stale |
//! | `write` | changes under a node's lock; splits |
//!
//! The protocol is described in `docs/protocols/sherman.md`. In short: each process copies inner nodes and does not
//! read them again until a node's fences show that a copy led past it. Reads take no lock: they fetch all lines of a
//! leaf at once, each of which shows whether it is whole. Writes take a lock of the process, then one of the pool,
//! change one line and write it back. Lines are always fetched afresh before they are read; nothing that changes in
//! place is read by [`Memory::bytes`].
//!
//! **Crash.** A lock word names the process that holds it; others take it from a dead process. The next holder of the
//! lock repairs a line that was being changed: it undoes or completes the change. A node that was split, and that its
//! parent does not know, is found through its sibling; the worker that finds it so tells the parent.
//!
//! **Left out.** Nodes are not merged, and their memory is not reused. Scans see each binding as it was at some moment,
//! not all at one moment.

mod find;
mod host;
mod line;
mod lock;
mod node;
mod write;

use std::rc::Rc;
use std::sync::Arc;

use super::WordMap;
use super::arena::Arena;
use super::once::built_once;
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::index::common::outcome::Put;
use crate::memory::checked::{published, unpublished};
use crate::memory::{LINE, Memory, SyncWord};

use crate::pod::Worker;
use host::Host;
use write::{Change, Changed};

const MAGIC: u64 = u64::from_le_bytes(*b"SHERMAN\x01");
/// The arena's root that refers to the tree's: the root node's offset, its level in the lowest bits.
const ROOT: u64 = 1;
/// Bytes of nodes for each record: leaves that were split and not filled again, and the inner nodes above.
const BYTES_PER_RECORD: u64 = 64;
/// Bytes that workers allocate and do not use: a chunk each.
const BYTES_UNUSED: u64 = 1 << 20;
/// About how many records share a lock: those of a leaf.
const RECORDS_PER_LOCK: u64 = 16;
const LOCKS_MIN: u64 = 64;
const LOCKS_MAX: u64 = 1 << 16;

/// A worker's handle on a tree. Each thread has its own.
pub struct Sherman<M: Memory> {
    arena: Arena<M>,
    /// The lock table: a line that says how many there are, then a line for each.
    locks: u64,
    host: Arc<Host>,
}

impl<M: Memory> Sherman<M> {
    fn mem(&self) -> &M {
        self.arena.worker().mem()
    }

    fn root(&self) -> SyncWord {
        self.arena.root(ROOT)
    }

    /// Begins an operation. Fails in a child that was forked from the process that opened the pool.
    fn begin(&self) -> Result<()> {
        match self.arena.worker().is_forked() {
            true => Err(Error::Forked),
            false => Ok(()),
        }
    }
}

impl<M: Memory> WordMap<M> for Sherman<M> {
    const NAME: &'static str = "Sherman";
    const IS_ORDERED: bool = true;

    /// Cost: some sync loads, and the search of the name.
    fn open_or_create(
        worker: Rc<Worker<M>>,
        name: &str,
        _guidelines: Guidelines,
        records: u64,
    ) -> Result<Self> {
        let count = (records / RECORDS_PER_LOCK)
            .clamp(LOCKS_MIN, LOCKS_MAX)
            .next_power_of_two();
        let len = (1 + count) * LINE;
        let nodes = records
            .saturating_mul(BYTES_PER_RECORD)
            .saturating_add(BYTES_UNUSED);
        let arena = Arena::open_or_create(worker, name, MAGIC, len.saturating_add(nodes))?;
        let locks = built_once(&arena, len, |at| {
            let mem = arena.worker().mem();
            unpublished(at, len).zero(mem);
            unpublished(at, 8).write_word(mem, count);
            mem.persist(at, len);
            if !M::COHERENT {
                // Others access these words past the cache: no line of this host may cover them.
                mem.invalidate(at, len);
                mem.fence();
            }
            let leaf = node::create(&arena, 0, 0, None, &[])?;
            arena.root(ROOT).store(mem, leaf);
            Ok(())
        })?;
        if !arena.has(locks, LINE) {
            return Err(Error::corrupt("the offset of a lock table", locks));
        }
        let count = published(locks, 8).read_word(arena.worker().mem());
        if !count.is_power_of_two() || count > LOCKS_MAX || !arena.has(locks, (1 + count) * LINE) {
            return Err(Error::corrupt("the size of a lock table", locks));
        }
        let host = Host::of(arena.worker(), locks, count);
        Ok(Self { arena, locks, host })
    }

    /// Cost: on incoherent memory, once the path is cached, a round trip for the leaf's header and one for each line of
    /// the leaf up to the key's: at most 9, if it is not there.
    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        self.begin()?;
        self.get(key)
    }

    /// Cost: a lock and its release (a compare-exchange and a sync store on incoherent memory), the round trips of a
    /// get, and one to write a line back; for one in ten new keys or so, a split.
    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        self.begin()?;
        Ok(match self.change(key, Change::Put(value))? {
            Changed::WasThere => Put::Replaced,
            Changed::WasMissing => Put::Inserted,
        })
    }

    /// Cost: as of a put.
    fn insert_u64(&self, key: u64, value: u64) -> Result<bool> {
        self.begin()?;
        Ok(self.change(key, Change::Insert(value))? == Changed::WasMissing)
    }

    /// Cost: as of a put.
    fn remove_u64(&self, key: u64) -> Result<bool> {
        self.begin()?;
        Ok(self.change(key, Change::Remove)? == Changed::WasThere)
    }

    /// Cost: 9 round trips a leaf on incoherent memory.
    fn scan_u64(&self, from: u64, each: impl FnMut(u64, u64) -> bool) -> Result<()> {
        self.begin()?;
        self.scan(from, each)
    }
}
