//! ARTOLC: an adaptive radix tree under optimistic lock coupling (pcc-indexes, table 1).
//!
//! Keys are eight bytes, the highest first. Nodes of four sizes are in [`node`]; a node that would have one child is
//! left out, and a leaf stands as high as its key is the only one. The lock, and what happens to it when its owner
//! dies, is in [`version`](super::version). The root is a node of 256 children and stays where it was made. A leaf is
//! guarded by the node that refers to it.
//!
//! **Lookup.** As in the [tree](super::btree): a node's word, what is needed of its lines, the child's word, the node's
//! word again.
//!
//! **Writing.** A node is locked by an exchange of its word as it was read, and gets a leaf; or it gets a node of four
//! in a child's place, with that child and a leaf below it. A full node is copied into a larger one, which takes its
//! place in the parent; both are locked then. Nobody waits while holding a lock.
//!
//! A node that was replaced is not marked: a reader that loads its word later loads the parent's word again before it
//! uses the node, and the parent has changed.
//!
//! **Crash.** Each change takes effect by the store of one word that readers find, and what that refers to is in memory
//! before. Nodes that a dead writer had allocated and not linked are lost to the arena, as are replaced ones.
//!
//! **Removal.** The leaf stays, marked as removed. The next key that comes to its place takes it. Nodes do not
//! shrink.

pub mod node;

use std::rc::Rc;

use node::{Kind, Leaf, Node, Reference, byte, first_difference, path, set_child};

use super::arena::Arena;
use super::{Attempt, Before, WordMap, version};
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::index::common::outcome::Put;
use crate::memory::{LINE, Memory};
use crate::pod::Worker;

/// "ARTOLC".
pub const MAGIC: u64 = u64::from_le_bytes(*b"ARTOLC\0\0");

/// The most bytes that one more key takes: a leaf and a node of four. Growth takes less for each key.
const RECORD_BYTES: u64 = Kind::Leaf.bytes() + Kind::Four.bytes();

/// The tree, as one thread has it open. See the [module documentation](self).
pub struct Art<M: Memory> {
    arena: Arena<M>,
    root: Reference,
}

/// Where a search ended.
struct Spot {
    /// The last node on the path.
    node: Node,
    /// The node above it, and where the reference is in that.
    above: Option<(Node, u64)>,
    /// What was found there.
    what: Below,
}

/// What a node has for a key.
#[derive(Clone, Copy)]
enum Below {
    /// Nothing.
    Nothing,
    /// A leaf: where it is stored, where it is, and what it says.
    Leaf(u64, Reference, Leaf),
    /// A node whose path differs from the key's: where it is stored, the node, its path.
    Other(u64, Reference, u64),
}

impl<M: Memory> Art<M> {
    fn worker(&self) -> &Worker<M> {
        self.arena.worker()
    }

    fn mem(&self) -> &M {
        self.arena.worker().mem()
    }

    /// Makes a root, if there is none.
    fn root(arena: &Arena<M>) -> Result<Reference> {
        let (mem, root) = (arena.worker().mem(), arena.root(0));
        let (kind, depth) = (Kind::Full, 0);
        if root.load(mem) == 0 {
            let at = arena.take(kind.bytes())?;
            Node::initialise(Reference { at, kind, depth }, mem, 0).finish(mem);
            // Another worker's root is as good.
            let _ = root.compare_exchange(mem, 0, at);
        }
        let at = root.load(mem);
        match at.is_multiple_of(LINE) && arena.has(at, kind.bytes()) {
            true => Ok(Reference { at, kind, depth }),
            false => Err(Error::corrupt("a radix tree's root", root.offset())),
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

    fn is_still(&self, node: Node) -> bool {
        version::is_still(self.worker(), node.guard(), node.word)
    }

    /// Called when what was read is not valid: it is damaged, or has changed meanwhile.
    #[cold]
    fn doubt<T>(&self, node: Node, what: &'static str) -> Result<Option<T>> {
        match self.is_still(node) {
            true => Err(Error::corrupt(what, node.is.at)),
            false => Ok(None),
        }
    }

    fn lock(&self, node: Node) -> Option<version::Held<'_, M>> {
        version::lock(self.worker(), node.guard(), node.word)
    }

    fn top(&self) -> Result<Node> {
        let node = Node {
            is: self.root,
            word: 0,
        };
        let word = version::read(self.worker(), node.guard())?;
        Ok(Node { word, ..node })
    }

    /// What a word in a node refers to; `None` if it is not valid.
    fn refers(&self, from: Node, child: u64) -> Option<Reference> {
        let is = Reference::decode(child)?;
        let is_deeper = is.kind == Kind::Leaf || is.depth > from.is.depth;
        (is_deeper && self.arena.has(is.at, is.kind.bytes())).then_some(is)
    }

    /// A child, if the node that refers to it is still as it was read.
    fn enter(&self, from: Node, is: Reference) -> Result<Option<Node>> {
        let mut node = Node { is, word: 0 };
        node.word = version::read(self.worker(), node.guard())?;
        Ok(self.is_still(from).then_some(node))
    }

    /// Goes down for a key; `None` if others disturbed it. What is below the last node was read under its word.
    fn seek(&self, key: u64) -> Result<Option<Spot>> {
        let mem = self.mem();
        let (mut node, mut above) = (self.top()?, None);
        node.refresh_for(mem, byte(key, 0));
        // Depths grow, so this ends.
        loop {
            let Some((at, child)) = node.find(mem, byte(key, node.is.depth), false) else {
                let what = Below::Nothing;
                return Ok(Some(Spot { node, above, what }));
            };
            let Some(is) = self.refers(node, child) else {
                return self.doubt(node, "what a radix tree's node refers to, in the node");
            };
            if is.kind == Kind::Leaf {
                let what = Below::Leaf(at, is, Leaf::read(mem, is.at));
                return Ok(Some(Spot { node, above, what }));
            }
            let Some(next) = self.enter(node, is)? else {
                return Ok(None);
            };
            next.refresh_for(mem, byte(key, is.depth));
            let found = next.path(mem);
            if next.depth(mem) != u64::from(is.depth) || path(found, is.depth) != found {
                return self.doubt(next, "the path of a radix tree's node");
            }
            if found != path(key, is.depth) {
                let what = Below::Other(at, is, found);
                return Ok(Some(Spot { node, above, what }));
            }
            above = Some((node, at));
            node = next;
        }
    }

    fn try_get(&self, key: u64) -> Result<Attempt<Option<u64>>> {
        let Some(spot) = self.seek(key)? else {
            return Ok(None);
        };
        let found = match spot.what {
            Below::Leaf(_, _, leaf) if leaf.lives && leaf.key == key => Some(leaf.value),
            _ => None,
        };
        Ok(self.is_still(spot.node).then_some(found))
    }

    fn try_remove(&self, key: u64) -> Result<Attempt<Before>> {
        let Some(spot) = self.seek(key)? else {
            return Ok(None);
        };
        match spot.what {
            Below::Leaf(_, is, leaf) if leaf.lives && leaf.key == key => {
                let Some(_held) = self.lock(spot.node) else {
                    return Ok(None);
                };
                Leaf::set_lives(self.mem(), is.at, false);
                Ok(Some(Before::Present))
            }
            _ => Ok(self.is_still(spot.node).then_some(Before::Absent)),
        }
    }

    /// Sets a key's value; without `replaces`, only if it has none. Returns whether it had one.
    fn try_set(&self, key: u64, value: u64, replaces: bool) -> Result<Attempt<Before>> {
        let Some(spot) = self.seek(key)? else {
            return Ok(None);
        };
        if let Below::Leaf(_, _, leaf) = spot.what
            && leaf.lives
            && leaf.key == key
            && !replaces
        {
            return Ok(self.is_still(spot.node).then_some(Before::Present));
        }
        let Some(_held) = self.lock(spot.node) else {
            return Ok(None);
        };
        let mem = self.mem();
        match spot.what {
            Below::Leaf(_, is, leaf) if leaf.lives && leaf.key == key => {
                Leaf::replace(mem, is.at, value);
                return Ok(Some(Before::Present));
            }
            Below::Leaf(_, is, leaf) if !leaf.lives => Leaf::write(mem, is.at, key, value),
            Below::Leaf(at, is, leaf) => self.part(spot.node, at, is, leaf.key, key, value)?,
            Below::Other(at, is, path) => self.part(spot.node, at, is, path, key, value)?,
            Below::Nothing => {
                let leaf = self.new_leaf(key, value)?;
                spot.node.refresh(mem);
                if !spot.node.add(mem, byte(key, spot.node.is.depth), leaf) {
                    return self.grow(&spot, key, leaf);
                }
            }
        }
        Ok(Some(Before::Absent))
    }

    fn new_leaf(&self, key: u64, value: u64) -> Result<u64> {
        let (kind, depth) = (Kind::Leaf, 0);
        let at = self.arena.take(kind.bytes())?;
        Leaf::write(self.mem(), at, key, value);
        Ok(Reference { at, kind, depth }.encode())
    }

    /// Puts a node of four in the place `at` of a child, whose keys begin like `other`. The child's node is
    /// locked.
    fn part(&self, held: Node, at: u64, child: Reference, other: u64, key: u64, value: u64) -> Result<()> {
        let mem = self.mem();
        let (kind, depth) = (Kind::Four, first_difference(other, key));
        if depth <= held.is.depth || depth > 7 {
            return Err(Error::corrupt(
                "a key where it does not belong, below",
                held.is.at,
            ));
        }
        let leaf = self.new_leaf(key, value)?;
        let is = Reference {
            at: self.arena.take(kind.bytes())?,
            kind,
            depth,
        };
        let node = Node::initialise(is, mem, path(key, depth));
        node.add_unseen(mem, 0, byte(other, depth), child.encode());
        node.add_unseen(mem, 1, byte(key, depth), leaf);
        node.finish(mem);
        set_child(mem, at, is.encode());
        Ok(())
    }

    /// Replaces a full, locked node by a larger one with one more leaf.
    fn grow(&self, spot: &Spot, key: u64, leaf: u64) -> Result<Attempt<Before>> {
        let (mem, full) = (self.mem(), spot.node.is);
        let Some((above, at)) = spot.above else {
            return Err(Error::corrupt("a radix tree's root", full.at));
        };
        let Some(_held) = self.lock(above) else {
            return Ok(None);
        };
        let kind = full.kind.larger();
        let is = Reference {
            at: self.arena.take(kind.bytes())?,
            kind,
            depth: full.depth,
        };
        let node = Node::initialise(is, mem, path(key, full.depth));
        let count = node.copy(mem, spot.node);
        if count >= kind.places() {
            return Err(Error::corrupt("the children of a radix tree's node", full.at));
        }
        node.add_unseen(mem, count, byte(key, full.depth), leaf);
        node.finish(mem);
        set_child(mem, at, is.encode());
        Ok(Some(Before::Absent))
    }

    /// The least key below a node that is not below `least`. `from` is the same, unless all keys below the node are
    /// above it. `visits` are those that are left.
    fn least(
        &self,
        node: Node,
        least: u64,
        from: Option<u64>,
        visits: &mut u64,
    ) -> Result<Option<Option<(u64, u64)>>> {
        let mem = self.mem();
        let bound = from.map_or(0, |from| byte(from, node.is.depth));
        let mut next = Some(bound);
        while let Some((at, child)) = next.and_then(|next| node.following(mem, next)) {
            *visits = visits.saturating_sub(1);
            let Some(is) = self.refers(node, child).filter(|_| *visits > 0) else {
                return self.doubt(node, "what a radix tree's node refers to, in the node");
            };
            let from = from.filter(|_| at == bound);
            let found = match is.kind {
                Kind::Leaf => {
                    let leaf = Leaf::read(mem, is.at);
                    if !self.is_still(node) {
                        return Ok(None);
                    }
                    // Checked even where the path implies it, as damage may have made the path wrong.
                    let is_wanted = leaf.lives && leaf.key >= least;
                    is_wanted.then_some((leaf.key, leaf.value))
                }
                _ => {
                    let Some(below) = self.enter(node, is)? else {
                        return Ok(None);
                    };
                    below.refresh(mem);
                    let found = below.path(mem);
                    let order = from.map(|from| path(from, is.depth).cmp(&found));
                    match order {
                        Some(std::cmp::Ordering::Greater) => None,
                        order => {
                            let from = from.filter(|_| order == Some(std::cmp::Ordering::Equal));
                            let Some(found) = self.least(below, least, from, visits)? else {
                                return Ok(None);
                            };
                            found
                        }
                    }
                }
            };
            if found.is_some() {
                return Ok(Some(found));
            }
            next = at.checked_add(1);
        }
        Ok(self.is_still(node).then_some(None))
    }
}

impl<M: Memory> WordMap<M> for Art<M> {
    const NAME: &'static str = "ARTOLC";
    const IS_ORDERED: bool = true;

    fn open_or_create(worker: Rc<Worker<M>>, name: &str, _: Guidelines, records: u64) -> Result<Self> {
        let arena = Arena::open_or_create(worker, name, MAGIC, records.saturating_mul(RECORD_BYTES))?;
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

    /// Each key costs a search of its own.
    fn scan_u64(&self, mut from: u64, mut each: impl FnMut(u64, u64) -> bool) -> Result<()> {
        loop {
            let found = self.until_done(|| {
                let top = self.top()?;
                top.refresh(self.mem());
                self.least(top, from, Some(from), &mut (self.arena.bytes() / LINE))
            })?;
            let Some((key, value)) = found else {
                return Ok(());
            };
            match key.checked_add(1) {
                Some(next) if each(key, value) => from = next,
                Some(_) => return Ok(()),
                None => {
                    each(key, value);
                    return Ok(());
                }
            }
        }
    }
}
