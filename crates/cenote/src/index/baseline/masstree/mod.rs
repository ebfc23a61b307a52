//! Masstree: a trie of B+-trees, each for eight bytes of a key, under optimistic locks (pcc-indexes, table 1).
//!
//! Keys of 8 bytes are one slice: they fill one layer of the trie, which therefore is one tree, and there are no
//! further layers. Its nodes have 15 keys. A key and its value are stored in a free place; then one word, the
//! [`permutation`], says that they are there, and where among the others. Words of a node are in [`node`], searches in
//! `find`, splits in `split`; the lock, and what happens to it when its owner dies, in [`version`](super::version).
//!
//! **Lookup.** A lookup waits for nobody: what was read of a node counts if its word is still the same, locked or not.
//! A key that a node no longer has is found by its link, as in a B-link tree.
//!
//! **Writing.** The border node is read, then locked by an exchange of its word as it was read. If it is full, the
//! writer goes down once more and splits full nodes on the way. At most a parent and its child are locked at a time,
//! and nobody waits while holding a lock.
//!
//! | change | takes effect by a store of |
//! |---|---|
//! | one key more or less | the permutation |
//! | another value | the value |
//! | a split | the node's word, with the mark of the other link: no pair is seen to change |
//! | a new root | the arena's root |
//!
//! As readers do not wait for the release, a write ends with a fence: no later load of its thread comes before its
//! effect.
//!
//! **Crash.** After each store all nodes are valid. What a dead writer leaves: a lock, which the next writer that comes
//! by releases; a key in a place that is still free; a link that is not the node's; a node that its parent does not
//! know, which readers find by the link, and which the next writer that needs room and passes it posts to the parent.
//! Nodes that it had allocated and not linked are lost to the arena.
//!
//! Nodes are neither merged nor freed. `WIDTH` is how many keys a node has when it is full: 3 to 15.

mod find;
pub mod node;
pub mod permutation;
mod split;

use std::cell::Cell;
use std::rc::Rc;

use node::Content;
use permutation::CAPACITY;

use super::arena::Arena;
use super::{Attempt, Before, WordMap};
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::index::common::outcome::Put;
use crate::memory::{LINE, Memory};
use crate::pod::Worker;

/// "MASSTREE".
pub const MAGIC: u64 = u64::from_le_bytes(*b"MASSTREE");

/// The arena's root that says where the tree's is.
const ROOT: u64 = 0;
/// Higher than any tree.
const LEVELS_MAX: u64 = 32;

/// The tree, as one thread has it open. See the [module documentation](self).
pub struct Masstree<M: Memory, const WIDTH: u64 = CAPACITY> {
    arena: Arena<M>,
    /// Where the root was when it was last loaded.
    root: Cell<u64>,
}

impl<M: Memory, const WIDTH: u64> Masstree<M, WIDTH> {
    fn worker(&self) -> &Worker<M> {
        self.arena.worker()
    }

    fn mem(&self) -> &M {
        self.arena.worker().mem()
    }

    /// Makes an empty border node the root, if there is none.
    fn root(arena: &Arena<M>) -> Result<u64> {
        let (mem, root) = (arena.worker().mem(), arena.root(ROOT));
        if root.load(mem) == 0 {
            let at = arena.take(node::BYTES)?;
            let content = Content {
                level: 0,
                first: 0,
                link: None,
                pairs: &[],
            };
            content.write(mem, at);
            // Another worker's root is as good.
            let _ = root.compare_exchange(mem, 0, at);
        }
        let at = root.load(mem);
        match at.is_multiple_of(LINE) && arena.has(at, node::BYTES) {
            true => Ok(at),
            false => Err(Error::corrupt("a tree's root", root.offset())),
        }
    }

    /// Repeats an attempt until others do not disturb it.
    fn until_done<T>(&self, mut attempt: impl FnMut() -> Result<Attempt<T>>) -> Result<T> {
        if self.worker().is_forked() {
            return Err(Error::Forked);
        }
        loop {
            if let Some(done) = attempt()? {
                return Ok(done);
            }
            self.mem().pause();
        }
    }

    /// Repeats an attempt to write until others do not disturb it. It takes effect by a store, which no later load of
    /// this thread may overtake.
    fn write<T>(&self, attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let done = self.until_done(attempt)?;
        self.mem().fence();
        Ok(done)
    }

    fn try_get(&self, key: u64) -> Result<Attempt<Option<u64>>> {
        let Some(leaf) = self.leaf(key, false)? else {
            return Ok(None);
        };
        let (n, is_there) = leaf.find(self.mem(), key);
        let found = is_there.then(|| leaf.value(self.mem(), n));
        Ok(self.is_still(&leaf).then_some(found))
    }

    /// Sets a key's value; without `replaces`, only if it has none. Returns whether it had one.
    fn try_set(&self, key: u64, value: u64, replaces: bool) -> Result<Attempt<Before>> {
        let mem = self.mem();
        let Some(leaf) = self.leaf(key, false)? else {
            return Ok(None);
        };
        let (n, is_there) = leaf.find(mem, key);
        if is_there && !replaces {
            return Ok(self.is_still(&leaf).then_some(Before::Present));
        }
        if !is_there && leaf.uses(WIDTH) {
            // Whatever the result, the key is searched again.
            self.leaf(key, true)?;
            return Ok(None);
        }
        let Some(_held) = self.lock(&leaf)? else {
            return Ok(None);
        };
        if is_there {
            leaf.replace(mem, n, value);
            return Ok(Some(Before::Present));
        }
        match leaf.insert(mem, n, key, value)? {
            true => Ok(Some(Before::Absent)),
            false => Err(Error::corrupt("the keys of a tree's node", leaf.at)),
        }
    }

    fn try_remove(&self, key: u64) -> Result<Attempt<Before>> {
        let Some(leaf) = self.leaf(key, false)? else {
            return Ok(None);
        };
        let (n, is_there) = leaf.find(self.mem(), key);
        if !is_there {
            return Ok(self.is_still(&leaf).then_some(Before::Absent));
        }
        let Some(_held) = self.lock(&leaf)? else {
            return Ok(None);
        };
        leaf.remove(self.mem(), n)?;
        Ok(Some(Before::Present))
    }
}

impl<M: Memory, const WIDTH: u64> WordMap<M> for Masstree<M, WIDTH> {
    const NAME: &'static str = "Masstree";
    const IS_ORDERED: bool = true;

    fn open_or_create(worker: Rc<Worker<M>>, name: &str, _: Guidelines, records: u64) -> Result<Self> {
        // Half full, as they are if keys come in order; the levels above are a fraction of the border nodes.
        let half = (WIDTH / 2).max(1);
        let leaves = records / half + 16;
        let nodes = leaves.saturating_add(2 * leaves / half);
        let bytes = nodes.saturating_mul(Arena::<M>::share(node::BYTES));
        let arena = Arena::open_or_create(worker, name, MAGIC, bytes)?;
        let root = Cell::new(Self::root(&arena)?);
        Ok(Self { arena, root })
    }

    /// Cost: on incoherent memory, for each level two round trips, one sync load and a fence.
    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        self.until_done(|| self.try_get(key))
    }

    /// Cost: as of a get; then a lock and its release, one sync store for a value that replaces another, and for a new
    /// key two and a write-back; for about one in eight new keys, a split.
    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        let had = self.write(|| self.try_set(key, value, true))?;
        Ok(had.put())
    }

    /// Cost: as of a put.
    fn insert_u64(&self, key: u64, value: u64) -> Result<bool> {
        self.write(|| self.try_set(key, value, false))
            .map(|had| had == Before::Absent)
    }

    /// Cost: as of a put that replaces.
    fn remove_u64(&self, key: u64) -> Result<bool> {
        Ok(self.write(|| self.try_remove(key))? == Before::Present)
    }

    /// Each pair is seen as it was at some moment.
    fn scan_u64(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) -> Result<()> {
        let (mut from, mut before, mut pairs) = (from, None, Vec::new());
        loop {
            let leaf = self.until_done(|| self.pairs_from(before.take(), from, &mut pairs))?;
            if !pairs.iter().all(|&(key, value)| each(key, value)) {
                return Ok(());
            }
            // Above `from`, which belongs to this node: so a scan ends.
            let Some((high, _)) = leaf.link() else {
                return Ok(());
            };
            from = high;
            before = Some(leaf);
        }
    }
}
