//! Changes: of a leaf, of what a reference refers to, and of nodes, so that the trie stays low.
//!
//! A leaf's value is replaced by a store, and a leaf removed by an exchange, without a lock: if a removal comes between
//! the read of the leaf and the store of a value, it counts as after the call whose value nobody sees.
//!
//! A new key differs at some bit from the key that stands in its place. Where that bit is to be tested:
//!
//! | the place | what is done |
//! |---|---|
//! | a leaf that was removed | the new leaf takes its place |
//! | a leaf, in a node higher than 1 | *leaf pushdown*: a node of both takes its place |
//! | anywhere else in a node | the node gets an entry; a place above a node's first bit is in that node |
//!
//! A node that would have too many entries is split at its first bit, into two nodes, or a node and a leaf:
//!
//! | the node above | |
//! |---|---|
//! | is one higher | *parent pull up*: it gets both in the place of one, and may be split in turn |
//! | is higher than that, or there is none | *intermediate node*: a node of both takes the place |
//!
//! A writer knows which nodes it replaces before it locks any, as the numbers of their entries and their heights do not
//! change. Above them is the node, or the anchor, whose reference it changes. It locks all of these, from above.
//!
//! The stores that others see, in order: the new nodes and the leaf; the marks of the nodes that are replaced, which
//! releases them; the reference. After a crash before the last store, the trie is what it was.

use std::ops::{Range, RangeInclusive};

use super::draft::{self, Draft};
use super::node::{HEIGHT_MAX, Leaf, Node, Reference};
use super::{Hot, Step, bits};
use crate::error::{Error, Result};
use crate::index::baseline::Before;
use crate::index::baseline::version::{self, Held};
use crate::memory::{LINE, Memory};

/// The mark of a node that was replaced, or is about to be.
const REPLACED: u64 = 1;

/// How a new key comes into the trie.
#[derive(Clone, Copy)]
enum Change {
    /// The reference at a step gets a leaf alone.
    Leaf(usize),
    /// The reference at a step gets a node of what it refers to and a leaf.
    Pair(usize),
    /// The node of a step gets an entry.
    Entry(usize),
}

/// The locks of a change, from above. All their nodes are in the trie.
struct Locks<'w, M: Memory>(Vec<Held<'w, M>>);

impl<M: Memory> Locks<'_, M> {
    /// Marks the lowest nodes, which are about to be replaced, and releases them. Nobody may use them without the locks
    /// that are still held.
    fn mark(&mut self, count: usize) {
        for held in self.0.drain(self.0.len().saturating_sub(count)..) {
            held.release(REPLACED);
        }
    }

    /// Releases all. Removes marks that dead writers left.
    fn release(self) {
        self.0.into_iter().for_each(|held| held.release(0));
    }
}

impl<M: Memory, const ENTRIES: usize> Hot<M, ENTRIES> {
    /// The places on the path to a key, the anchor's first, and the leaf.
    pub(super) fn path(&self, key: u64) -> Result<(Vec<Step>, Option<Leaf>)> {
        let mut path = Vec::with_capacity(8);
        let at = self.descend(key, |step| path.push(step))?;
        Ok((path, at.map(|at| Leaf::read(self.mem(), at))))
    }

    pub(super) fn remove(&self, key: u64) -> Result<bool> {
        let Some(at) = self.descend(key, |_| {})? else {
            return Ok(false);
        };
        let leaf = Leaf::read(self.mem(), at);
        Ok(leaf.key == key && leaf.lives && leaf.remove(self.mem()))
    }

    /// Sets a key's value; without `replaces`, only if it has none. Returns what it had; `None` if others disturbed it.
    pub(super) fn try_set(&self, key: u64, value: u64, replaces: bool) -> Result<Option<Before>> {
        let (path, found) = self.path(key)?;
        if let Some(leaf) = found
            && leaf.key == key
            && leaf.lives
        {
            if replaces {
                leaf.replace(self.mem(), value);
            }
            return Ok(Some(Before::Present));
        }
        let (change, bit) = self.change(&path, found, key);
        let is_done = self.insert(&path, change, bit, key, value)?;
        Ok(is_done.then_some(Before::Absent))
    }

    /// How to insert a new key, and the bit at which it differs from the key in its place.
    fn change(&self, path: &[Step], leaf: Option<Leaf>, key: u64) -> (Change, u64) {
        let last = path.len() - 1;
        let Some(leaf) = leaf.filter(|leaf| leaf.key != key) else {
            return (Change::Leaf(last), 0);
        };
        let bit = bits::highest(leaf.key ^ key);
        let (n, others) = self.parts_at(path, bit);
        let is_one = others.len() == 1;
        let change = match path[n].node {
            _ if is_one && n == last && !leaf.lives => Change::Leaf(n),
            None if n == last => Change::Pair(n),
            Some(node) if is_one && n == last && node.is.height > 1 => Change::Pair(n),
            // The first bit of the node below.
            _ if is_one && n < last => Change::Entry(n + 1),
            _ => Change::Entry(n),
        };
        (change, bit)
    }

    /// The step where a bit is to be tested on the path to a key, and the entries below that place.
    pub(super) fn parts_at(&self, path: &[Step], bit: u64) -> (usize, Range<usize>) {
        let is_above = |step: &Step| step.node.is_none_or(|node| node.first_bit() > bit);
        let n = path.iter().rposition(is_above).unwrap_or(0);
        match path[n].node {
            None => (n, 0..1),
            Some(node) => (n, draft::below(&node.ways(self.mem()), path[n].place, bit)),
        }
    }

    /// Inserts a new key. Returns whether nobody disturbed it.
    fn insert(&self, path: &[Step], change: Change, bit: u64, key: u64, value: u64) -> Result<bool> {
        // The step whose reference is changed, and the lowest whose node is replaced.
        let (upper, lower) = match change {
            Change::Leaf(n) | Change::Pair(n) => (n, n),
            Change::Entry(n) => (self.unaffected(path, n), n),
        };
        let Some(locks) = self.lock(path, upper..=lower)? else {
            return Ok(false);
        };
        let at = self.arena.take(LINE)?;
        Leaf::write(self.mem(), at, key, value);
        let leaf = Reference { at, height: 0 }.encode();
        let is_right = key & bit != 0;
        let below = match change {
            Change::Leaf(_) => leaf,
            Change::Pair(n) => {
                let other = path[n].below;
                let pair = if is_right { [other, leaf] } else { [leaf, other] };
                self.make(&Draft::pair(bit, pair))?
            }
            Change::Entry(n) => {
                let mut draft = self.draft(path, n)?;
                draft.add(path[n].place, bit, is_right, leaf);
                self.grow(path, upper + 1..=n, draft)?
            }
        };
        let is_low = |node: Node| Reference::decode(below).is_some_and(|is| is.height < node.is.height);
        if !path[upper].node.is_none_or(is_low) {
            return Err(Error::corrupt(
                "heights below a trie's node, at",
                path[upper].guard.offset(),
            ));
        }
        self.publish(locks, lower - upper, &path[upper], below);
        Ok(true)
    }

    /// The lowest step whose node stays if the node of step `n` gets one more entry.
    fn unaffected(&self, path: &[Step], mut n: usize) -> usize {
        while let [
            Step {
                node: Some(above), ..
            },
            Step { node: Some(node), .. },
        ] = path[n - 1..=n]
            && node.count >= ENTRIES
            && above.is.height == node.is.height + 1
        {
            n -= 1;
        }
        n - 1
    }

    /// The entries of a step's node, which is locked.
    fn draft(&self, path: &[Step], n: usize) -> Result<Draft> {
        match path[n].node {
            Some(node) => Ok(Draft::of(self.mem(), node)),
            None => Err(Error::corrupt("a trie's anchor", self.anchor)),
        }
    }

    /// Makes the replacement of the nodes of some steps, if the lowest node gets the entries of a draft.
    fn grow(&self, path: &[Step], replaced: RangeInclusive<usize>, mut draft: Draft) -> Result<u64> {
        let mut n = *replaced.end();
        loop {
            if draft.count() <= ENTRIES {
                return self.make(&draft);
            }
            let (bit, [left, right]) = draft.split();
            let pair = [self.make(&left)?, self.make(&right)?];
            if n <= *replaced.start() {
                return self.make(&Draft::pair(bit, pair));
            }
            n -= 1;
            draft = self.draft(path, n)?;
            draft.part(path[n].place, bit, pair);
        }
    }

    /// Makes a node of some entries, and begins to write it back. A single entry needs no node.
    fn make(&self, draft: &Draft) -> Result<u64> {
        if let Some(child) = draft.single() {
            return Ok(child);
        }
        let mut node = Node {
            is: Reference {
                at: 0,
                height: draft.height(),
            },
            count: draft.count(),
            mask: draft.mask(),
        };
        if !node.is_one(ENTRIES) || node.is.height > HEIGHT_MAX {
            return Err(Error::corrupt("entries of a trie's node below", self.anchor));
        }
        node.is.at = self.arena.take(node.bytes())?;
        node.write(self.mem(), version::fresh(0), &draft.parts(), draft.children());
        Ok(node.is.encode())
    }

    /// Changes the reference of a step, and marks the nodes that this replaces.
    fn publish(&self, mut locks: Locks<'_, M>, replaced: usize, step: &Step, below: u64) {
        // What is new is in memory before anybody can find it.
        if !M::COHERENT {
            self.mem().fence();
        }
        locks.mark(replaced);
        // PAIRS WITH: index::baseline::hot::descend
        step.slot.store(self.mem(), below);
        locks.release();
    }

    /// Locks some steps, and as many above as needed to know that the first one is in the trie. `None` if others
    /// disturbed it.
    fn lock(&self, path: &[Step], wanted: RangeInclusive<usize>) -> Result<Option<Locks<'_, M>>> {
        let (mut first, last) = wanted.into_inner();
        let mut words = Vec::with_capacity(last + 1 - first);
        for step in &path[first..=last] {
            words.push(version::read(self.worker(), step.guard)?);
        }
        while first > 0 && version::marks(words[0]) & REPLACED != 0 {
            first -= 1;
            words.insert(0, version::read(self.worker(), path[first].guard)?);
        }
        let steps = &path[first..=last];
        let mut held = Vec::with_capacity(words.len());
        for (step, &word) in steps.iter().zip(&words) {
            match version::lock(self.worker(), step.guard, word) {
                Some(lock) => held.push(lock),
                None => return disturbed(steps),
            }
        }
        let mem = self.mem();
        match steps.iter().all(|step| step.slot.load(mem) == step.below) {
            true => Ok(Some(Locks(held))),
            false => disturbed(steps),
        }
    }
}

/// Called when others have disturbed a change; an error if damage has made two words one, which would disturb it for
/// ever.
#[cold]
fn disturbed<T>(steps: &[Step]) -> Result<Option<T>> {
    for (n, step) in steps.iter().enumerate() {
        let is_one = |(other, upper): (usize, &Step)| {
            upper.guard == step.slot || (other != n && upper.guard == step.guard)
        };
        if steps.iter().enumerate().any(is_one) {
            return Err(Error::corrupt("the word of a trie's node", step.guard.offset()));
        }
    }
    Ok(None)
}
