//! HOT: a height optimised trie (pcc-indexes, table 1).
//!
//! A binary trie that tests one bit of a key at a time, and only those bits in which keys differ, is cut into nodes of
//! up to `ENTRIES` entries ([`node`]); a reference is to a node or to a leaf. A node's height is one more than that of
//! its highest child. The cuts are made so that the root's height grows only when there is no other way (`write`).
//!
//! Nodes do not change, except the references in them. A change copies what it changes and replaces the old by *one*
//! store of the reference to it. The lock of a node, its [word](super::version), guards the references in it. Above the
//! root is the *anchor*, a line with a word and one reference, which stays where it was made.
//!
//! **Lookup.** A sync load of a reference for each level, and a fetch of the leaf. What never changes is read through
//! the cache. Readers check no lock and never start again: the references in a node that was replaced stay as they were
//! then, so what is found below it was there at some time since the lookup began. For the same reason a leaf that was
//! removed does not come back.
//!
//! **Writing.** A writer goes down to the leaf as a reader does; then it locks the words of the nodes to be changed,
//! from above, and the references on the path must be as they were read. Nobody waits while holding a lock.
//!
//! **Marks.** A node is marked *before* it is replaced. So an unmarked node is in the trie, and the holder of its lock
//! may change it. A writer that finds a mark locks the node above too: if that still refers to the marked node, the
//! writer that left the mark has died, and the mark is removed.
//!
//! **Crash.** Each change takes effect by one store, and what it refers to is in memory before. Waiters release the
//! locks of a dead writer. What it had allocated and not linked is lost to the arena, as are replaced nodes.
//!
//! **Removal.** The leaf is marked as removed. The next key that comes to its place gets a new leaf there. Nodes do
//! not shrink.

mod bits;
mod draft;
pub mod node;
mod scan;
mod write;

use std::rc::Rc;

use node::{ENTRIES_MAX, Leaf, Node, Reference};

use super::arena::Arena;
use super::{Before, WordMap, version};
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::index::common::outcome::Put;
use crate::memory::checked::sync_word;
use crate::memory::{LINE, Memory, SyncWord};
use crate::pod::Worker;

/// "HOT".
pub const MAGIC: u64 = u64::from_le_bytes(*b"HOT\0\0\0\0\0");

/// The trie, as one thread has it open. See the [module documentation](self).
pub struct Hot<M: Memory, const ENTRIES: usize = ENTRIES_MAX> {
    arena: Arena<M>,
    anchor: u64,
}

/// A place on the path to a key: a reference in a node, or the anchor's.
#[derive(Clone, Copy)]
struct Step {
    /// The node; `None` for the anchor.
    node: Option<Node>,
    /// The entry.
    place: usize,
    /// The word that guards the reference.
    guard: SyncWord,
    /// Where the reference is.
    slot: SyncWord,
    /// The reference, as it was read.
    below: u64,
}

/// What a reference refers to.
enum Below {
    Nothing,
    /// Where it is.
    Leaf(u64),
    Node(Node),
}

/// The shape of a trie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The root's height: the nodes on the longest path.
    pub height: u32,
    /// How many nodes there are.
    pub nodes: u64,
    /// How many leaves, including those of removed keys.
    pub leaves: u64,
}

impl<M: Memory, const ENTRIES: usize> Hot<M, ENTRIES> {
    /// What a record takes: a leaf, a copy of a node that is full, and its part of what is made when one is parted.
    const RECORD_BYTES: u64 = {
        assert!(ENTRIES >= 3 && ENTRIES <= ENTRIES_MAX);
        let entries = ENTRIES as u64;
        let fixed = (16 + 2 * entries).next_multiple_of(LINE);
        let full = Arena::<M>::share(fixed + (8 + 8 * entries).next_multiple_of(LINE));
        Arena::<M>::share(LINE) + full * (entries + 6) / entries
    };

    fn worker(&self) -> &Worker<M> {
        self.arena.worker()
    }

    fn mem(&self) -> &M {
        self.arena.worker().mem()
    }

    /// Makes an anchor, if there is none.
    fn anchor(arena: &Arena<M>) -> Result<u64> {
        let (mem, root) = (arena.worker().mem(), arena.root(0));
        if root.load(mem) == 0 {
            let at = arena.take(LINE)?;
            sync_word(at).store(mem, version::fresh(0));
            sync_word(at + 8).store(mem, 0);
            // Another worker's anchor is as good.
            let _ = root.compare_exchange(mem, 0, at);
        }
        let at = root.load(mem);
        match at.is_multiple_of(LINE) && arena.has(at, LINE) {
            true => Ok(at),
            false => Err(Error::corrupt("a trie's anchor", root.offset())),
        }
    }

    /// What a word refers to that was read in a place of this height, or the anchor's.
    fn refers(&self, word: u64, slot: SyncWord, height: Option<u32>) -> Result<Below> {
        let damage = || Err(Error::corrupt("what a trie's node refers to, at", slot.offset()));
        let Some(is) = Reference::decode(word) else {
            return match height {
                None if word == 0 => Ok(Below::Nothing),
                _ => damage(),
            };
        };
        // Heights fall, so every path ends.
        if !self.arena.has(is.at, LINE) || height.is_some_and(|height| is.height >= height) {
            return damage();
        }
        if is.height == 0 {
            return Ok(Below::Leaf(is.at));
        }
        match Node::read(self.mem(), is, ENTRIES) {
            Some(node) if self.arena.has(is.at, node.bytes()) => Ok(Below::Node(node)),
            _ => Err(Error::corrupt("a trie's node", is.at)),
        }
    }

    /// Goes down to the leaf where a key is, or would be, and calls `each` for the places on the path. `None` if there
    /// is no leaf.
    fn descend(&self, key: u64, mut each: impl FnMut(Step)) -> Result<Option<u64>> {
        let mem = self.mem();
        let mut step = Step {
            node: None,
            place: 0,
            guard: sync_word(self.anchor),
            slot: sync_word(self.anchor + 8),
            below: 0,
        };
        loop {
            // PAIRS WITH: index::baseline::hot::write::publish
            step.below = step.slot.load(mem);
            each(step);
            let height = step.node.map(|node| node.is.height);
            let node = match self.refers(step.below, step.slot, height)? {
                Below::Nothing => return Ok(None),
                Below::Leaf(at) => return Ok(Some(at)),
                Below::Node(node) => node,
            };
            let Some(place) = node.find(mem, key) else {
                return Err(Error::corrupt("partial keys of a trie's node", node.is.at));
            };
            step = Step {
                node: Some(node),
                place,
                guard: node.guard(),
                slot: node.slot(place),
                below: 0,
            };
        }
    }

    /// Repeats an attempt until others do not disturb it.
    fn set(&self, key: u64, value: u64, replaces: bool) -> Result<Before> {
        self.check_fork()?;
        loop {
            if let Some(had) = self.try_set(key, value, replaces)? {
                // It has taken effect by a store, which no later load of this thread may overtake.
                self.mem().fence();
                return Ok(had);
            }
            self.mem().pause();
        }
    }

    fn check_fork(&self) -> Result<()> {
        match self.worker().is_forked() {
            true => Err(Error::Forked),
            false => Ok(()),
        }
    }
}

impl<M: Memory, const ENTRIES: usize> WordMap<M> for Hot<M, ENTRIES> {
    const NAME: &'static str = "HOT";
    const IS_ORDERED: bool = true;

    fn open_or_create(worker: Rc<Worker<M>>, name: &str, _: Guidelines, records: u64) -> Result<Self> {
        let bytes = records.saturating_mul(Self::RECORD_BYTES);
        let arena = Arena::open_or_create(worker, name, MAGIC ^ ENTRIES as u64, bytes)?;
        let anchor = Self::anchor(&arena)?;
        Ok(Self { arena, anchor })
    }

    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        self.check_fork()?;
        let Some(at) = self.descend(key, |_| {})? else {
            return Ok(None);
        };
        let leaf = Leaf::read(self.mem(), at);
        Ok((leaf.key == key && leaf.lives).then_some(leaf.value))
    }

    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        let had = self.set(key, value, true)?;
        Ok(had.put())
    }

    fn insert_u64(&self, key: u64, value: u64) -> Result<bool> {
        self.set(key, value, false).map(|had| had == Before::Absent)
    }

    fn remove_u64(&self, key: u64) -> Result<bool> {
        self.check_fork()?;
        self.remove(key)
    }

    /// Keys that are inserted during the scan may be found or not. Each key costs a fetch, and each eighth a further
    /// one.
    fn scan_u64(&self, from: u64, each: impl FnMut(u64, u64) -> bool) -> Result<()> {
        self.check_fork()?;
        self.scan(from, each)
    }
}
