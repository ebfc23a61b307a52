//! BTreeOLC: a B+-tree under optimistic lock coupling (pcc-indexes, table 1 and appendix A).
//!
//! Words and bytes of a node are in [`node`]; the lock, and what happens to it when its owner dies, in
//! [`version`](super::version). The root stays where it was made and is never a leaf; it rises in place.
//!
//! **Lookup.** A node's word is loaded, its image is dropped from the cache and searched, the child's word is loaded,
//! and the node's word once more: if it has changed, the lookup starts again. So a reader has always read a node that
//! its parent still had. It costs two sync loads a level, one fence, and the lines that a binary search reads.
//!
//! **Writing.** A writer that may need room splits full nodes on its way down, then locks the leaf by an exchange of
//! the word as it was seen. At most a parent and its child are locked at a time, and nobody waits while holding a lock.
//!
//! **Crash.** A node changes by one store of its word ([`node`]). A split changes two nodes; between the two stores the
//! new node is linked, and its parent does not know it. Readers go on to it by the link, as in a B-link tree; the next
//! writer that needs room and passes it tells the parent. Nodes that a dead writer had allocated and not linked are
//! lost to the arena.
//!
//! Nodes are neither merged nor freed. `LINES` is the number of lines of an image.

pub mod node;
mod split;

use std::rc::Rc;

use node::{Head, Node};

use super::arena::Arena;
use super::{Attempt, Before, WordMap, version};
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::index::common::outcome::Put;
use crate::memory::{LINE, Memory};
use crate::pod::Worker;

/// "BTREEOLC".
pub const MAGIC: u64 = u64::from_le_bytes(*b"BTREEOLC");
/// Lines of an image: nodes of 2 KiB. Larger ones cost more each, smaller ones make the tree higher
/// (docs/protocols/baselines.md).
pub const IMAGE_LINES: u64 = 15;

/// More nodes than a search visits: levels, and a link for each split that nobody finished.
const VISITS_MAX: u64 = 64;
/// Higher than any tree.
const LEVELS_MAX: u64 = 32;

/// The tree, as one thread has it open. See the [module documentation](self).
pub struct BTree<M: Memory, const LINES: u64 = IMAGE_LINES> {
    arena: Arena<M>,
    root: u64,
}

/// A node and its head, read under one word.
#[derive(Clone, Copy)]
struct Seen<const LINES: u64> {
    node: Node<LINES>,
    head: Head,
}

impl<M: Memory, const LINES: u64> BTree<M, LINES> {
    const CAPACITY: u64 = node::capacity(LINES);
    const NODE_BYTES: u64 = node::bytes(LINES);

    fn worker(&self) -> &Worker<M> {
        self.arena.worker()
    }

    fn mem(&self) -> &M {
        self.arena.worker().mem()
    }

    /// Makes a root with one empty leaf, if there is no root.
    fn root(arena: &Arena<M>) -> Result<u64> {
        let mem = arena.worker().mem();
        let root = arena.root(0);
        if root.load(mem) == 0 {
            let (leaf, top) = (arena.take(Self::NODE_BYTES)?, arena.take(Self::NODE_BYTES)?);
            let head = |level, first| Head {
                level,
                count: 0,
                next: 0,
                high: 0,
                first,
            };
            Node::<LINES>::initialise(leaf, mem, |image| image.finish(mem, head(0, 0)));
            Node::<LINES>::initialise(top, mem, |image| image.finish(mem, head(1, leaf)));
            // Another worker's root is as good.
            let _ = root.compare_exchange(mem, 0, top);
        }
        let at = root.load(mem);
        match at.is_multiple_of(LINE) && arena.has(at, Self::NODE_BYTES) {
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

    /// Called when what was read is not valid: it is damaged, or has changed meanwhile.
    #[cold]
    fn doubt<T>(&self, node: Node<LINES>, what: &'static str) -> Result<Option<T>> {
        match version::is_still(self.worker(), node.guard(), node.word) {
            true => Err(Error::corrupt(what, node.at)),
            false => Ok(None),
        }
    }

    /// The node at an offset that was read in another node, if that node is still as it was read.
    fn enter(&self, from: Node<LINES>, at: u64) -> Result<Option<Node<LINES>>> {
        if !at.is_multiple_of(LINE) || !self.arena.has(at, Self::NODE_BYTES) {
            return self.doubt(from, "the offset of a tree's node, in the node");
        }
        let mut node = Node { at, word: 0 };
        node.word = version::read(self.worker(), node.guard())?;
        let is_still = version::is_still(self.worker(), from.guard(), from.word);
        Ok(is_still.then_some(node))
    }

    /// Reads a node's head. An invalid one is damaged, or has changed meanwhile.
    fn read(&self, node: Node<LINES>, level: Option<u64>) -> Result<Option<Seen<LINES>>> {
        let image = node.image();
        image.refresh(self.mem());
        let head = image.head(self.mem());
        let is_level = level.map_or((1..LEVELS_MAX).contains(&head.level), |level| level == head.level);
        if !is_level || head.count > Self::CAPACITY {
            return self.doubt(node, "the head of a tree's node");
        }
        Ok(Some(Seen { node, head }))
    }

    /// The leaf that a key belongs to. With `makes_room` it has room for one more pair. `None` if others disturbed the
    /// search.
    fn leaf(&self, key: u64, makes_room: bool) -> Result<Option<Seen<LINES>>> {
        let root = Node {
            at: self.root,
            word: version::read(
                self.worker(),
                Node::<LINES> {
                    at: self.root,
                    word: 0,
                }
                .guard(),
            )?,
        };
        self.leaf_from(root, None, key, makes_room)
    }

    fn leaf_from(
        &self,
        mut node: Node<LINES>,
        mut level: Option<u64>,
        key: u64,
        makes_room: bool,
    ) -> Result<Option<Seen<LINES>>> {
        let mut above: Option<Seen<LINES>> = None;
        for _ in 0..VISITS_MAX {
            let Some(seen) = self.read(node, level)? else {
                return Ok(None);
            };
            let head = seen.head;
            let next = if head.ends_before(key) {
                if makes_room {
                    self.finish_split(above, seen)?;
                    return Ok(None);
                }
                level = Some(head.level);
                head.next
            } else if makes_room && head.count == Self::CAPACITY {
                self.split(above, seen)?;
                return Ok(None);
            } else if head.level == 0 {
                return Ok(Some(seen));
            } else {
                let image = node.image();
                let child = image.child(self.mem(), head, image.up_to(self.mem(), head.count, key));
                level = Some(head.level - 1);
                above = Some(seen);
                child
            };
            match self.enter(node, next)? {
                Some(entered) => node = entered,
                None => return Ok(None),
            }
        }
        self.doubt(node, "a tree without end, at a node")
    }

    /// The position of a key in a leaf, and its value if it is there.
    fn find(&self, leaf: Seen<LINES>, key: u64) -> (u64, Option<u64>) {
        let (image, count) = (leaf.node.image(), leaf.head.count);
        let place = image.below(self.mem(), count, key);
        let is_there = place < count && image.key(self.mem(), place) == key;
        (place, is_there.then(|| image.value(self.mem(), place)))
    }

    /// Locks a leaf as it was seen; what was read of it then still holds.
    fn lock(&self, leaf: Seen<LINES>) -> Option<version::Held<'_, M>> {
        version::lock(self.worker(), leaf.node.guard(), leaf.node.word)
    }

    fn try_get(&self, key: u64) -> Result<Attempt<Option<u64>>> {
        let Some(leaf) = self.leaf(key, false)? else {
            return Ok(None);
        };
        let (_, found) = self.find(leaf, key);
        let is_still = version::is_still(self.worker(), leaf.node.guard(), leaf.node.word);
        Ok(is_still.then_some(found))
    }

    /// Sets a key's value; without `replaces`, only if it has none. Returns whether it had one.
    fn try_set(&self, key: u64, value: u64, replaces: bool) -> Result<Attempt<Before>> {
        let Some(leaf) = self.leaf(key, true)? else {
            return Ok(None);
        };
        let (place, found) = self.find(leaf, key);
        if found.is_some() && !replaces {
            let is_still = version::is_still(self.worker(), leaf.node.guard(), leaf.node.word);
            return Ok(is_still.then_some(Before::Present));
        }
        let Some(held) = self.lock(leaf) else {
            return Ok(None);
        };
        let (mem, head, image) = (self.mem(), leaf.head, leaf.node.image());
        if found.is_some() {
            image.replace(mem, place, value);
            return Ok(Some(Before::Present));
        }
        let (other, mark) = leaf.node.other();
        image.copy(mem, 0..place, other, 0);
        other.set(mem, place, key, value);
        image.copy(mem, place..head.count, other, place + 1);
        let count = head.count + 1;
        other.finish(mem, Head { count, ..head });
        held.release(mark);
        Ok(Some(Before::Absent))
    }

    fn try_remove(&self, key: u64) -> Result<Attempt<Before>> {
        let Some(leaf) = self.leaf(key, false)? else {
            return Ok(None);
        };
        let (place, found) = self.find(leaf, key);
        if found.is_none() {
            let is_still = version::is_still(self.worker(), leaf.node.guard(), leaf.node.word);
            return Ok(is_still.then_some(Before::Absent));
        }
        let Some(held) = self.lock(leaf) else {
            return Ok(None);
        };
        let (mem, head, image) = (self.mem(), leaf.head, leaf.node.image());
        let (other, mark) = leaf.node.other();
        image.copy(mem, 0..place, other, 0);
        image.copy(mem, place + 1..head.count, other, place);
        let count = head.count - 1;
        other.finish(mem, Head { count, ..head });
        held.release(mark);
        Ok(Some(Before::Present))
    }

    /// The leaf of a key and its pairs from the key on. Reached from the leaf before it, if that is still as it was.
    fn pairs_from(
        &self,
        before: Option<Seen<LINES>>,
        key: u64,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<Option<Seen<LINES>>> {
        let linked = match before {
            Some(before) => self.enter(before.node, before.head.next)?,
            None => None,
        };
        let leaf = match linked {
            Some(node) => self.leaf_from(node, Some(0), key, false)?,
            None => self.leaf(key, false)?,
        };
        let Some(leaf) = leaf else { return Ok(None) };
        let image = leaf.node.image();
        let (from, _) = self.find(leaf, key);
        pairs.clear();
        pairs.extend((from..leaf.head.count).map(|n| (image.key(self.mem(), n), image.value(self.mem(), n))));
        let is_still = version::is_still(self.worker(), leaf.node.guard(), leaf.node.word);
        Ok(is_still.then_some(leaf))
    }
}

impl<M: Memory, const LINES: u64> WordMap<M> for BTree<M, LINES> {
    const NAME: &'static str = "BTreeOLC";
    const IS_ORDERED: bool = true;

    fn open_or_create(worker: Rc<Worker<M>>, name: &str, _: Guidelines, records: u64) -> Result<Self> {
        // Half full, as they are if keys come in order; the levels above are a fraction of the leaves.
        let half = Self::CAPACITY / 2;
        let leaves = records / half + 16;
        let nodes = leaves.saturating_add(2 * leaves / half);
        let bytes = nodes.saturating_mul(Arena::<M>::share(Self::NODE_BYTES));
        let arena = Arena::open_or_create(worker, name, MAGIC ^ LINES, bytes)?;
        let root = Self::root(&arena)?;
        Ok(Self { arena, root })
    }

    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        self.until_done(|| self.try_get(key))
    }

    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        let had = self.until_done(|| self.try_set(key, value, true))?;
        Ok(had.put())
    }

    fn insert_u64(&self, key: u64, value: u64) -> Result<bool> {
        self.until_done(|| self.try_set(key, value, false))
            .map(|had| had == Before::Absent)
    }

    fn remove_u64(&self, key: u64) -> Result<bool> {
        Ok(self.until_done(|| self.try_remove(key))? == Before::Present)
    }

    fn scan_u64(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) -> Result<()> {
        let (mut from, mut before, mut pairs) = (from, None, Vec::new());
        loop {
            let leaf = self.until_done(|| self.pairs_from(before.take(), from, &mut pairs))?;
            if !pairs.iter().all(|&(key, value)| each(key, value)) || leaf.head.next == 0 {
                return Ok(());
            }
            // Above `from`, which belongs to this leaf: so a scan ends.
            from = leaf.head.high;
            before = Some(leaf);
        }
    }
}
