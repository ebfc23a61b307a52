//! A node: a line of sync words, 15 keys, and 15 words for their values or children.
//!
//! | line | |
//! |---|---|
//! | 0 | the node's [word](crate::index::baseline::version); its [permutation](super::permutation); its level, 0 for border nodes; the child of the keys below all separators, or 0; two links |
//! | 1, 2 | keys, or separators: what the node's word protects, through the cache |
//! | 3, 4 | of each key its value, of each separator the child whose keys begin there: sync words |
//!
//! A link is the least key that is not the node's and the node that it belongs to; or two words of which the second is
//! 0, at the end of a level. A mark of the node's word says which link is the node's.
//!
//! | word | writer |
//! |---|---|
//! | word | a worker that takes the lock, by an exchange; the holder, by a store; a waiter in place of a dead holder, by an exchange |
//! | permutation, values | the holder of the lock |
//! | keys | the holder of the lock, in free places; back in memory before the permutation has the place |
//! | children | the holder of the lock, in free places, before the permutation has the place |
//! | the link that is not the node's | the holder of the lock |
//! | level, first child | nobody, once the node is known |
//!
//! **Reading.** The first line is fetched, then the lines of keys are dropped and searched; what was found counts if
//! the word is the same afterwards, *locked or not*. Between two changes of the word there is only one holder, which
//! makes only one change, by one store; and no place that the permutation had before or has after that gets another key
//! meanwhile.
//!
//! Pairs that a split has copied to the next node are not below the link's key, so nobody searches this node for them.
//! Their places become free by a store of the permutation, and are not written before the word has changed after it.

use super::permutation::{CAPACITY, Permutation};
use crate::error::{Error, Result};
use crate::index::baseline::{content, version};
use crate::memory::checked::{owned_word, sync_word, word_line};
use crate::memory::{LINE, Memory, SyncWord};

/// Bytes of a node.
pub const BYTES: u64 = 5 * LINE;

const PERMUTATION: u64 = 8;
const KEYS: u64 = LINE;
const KEYS_BYTES: u64 = 2 * LINE;
const VALUES: u64 = 3 * LINE;
/// Where the two links are, in words.
const LINKS: [usize; 2] = [4, 6];

/// A node as it was when it had this first line.
#[derive(Clone, Copy)]
pub struct Node {
    /// Where it is.
    pub at: u64,
    line: [u64; 8],
}

/// The content of a new node.
pub struct Content<'p> {
    /// 0 for border nodes.
    pub level: u64,
    /// In inner nodes: the child of the keys below the first separator.
    pub first: u64,
    /// The next node of the level.
    pub link: Option<(u64, u64)>,
    /// At most 15, in ascending order.
    pub pairs: &'p [(u64, u64)],
}

impl Content<'_> {
    /// Writes a node; all of it is in memory then. Nobody else knows it yet.
    ///
    /// Cost: four round trips.
    pub fn write<M: Memory>(&self, mem: &M, at: u64) {
        let mut words = [[0; 16]; 2];
        let [keys, values] = &mut words;
        for ((&pair, key), value) in self.pairs.iter().zip(keys).zip(values) {
            (*key, *value) = pair;
        }
        let [keys, values] = words;
        for (key, at) in keys.into_iter().zip((at + KEYS..).step_by(8)) {
            owned_word(at).set(mem, key);
        }
        mem.persist(at + KEYS, KEYS_BYTES);
        for (&line, at) in values
            .as_chunks::<8>()
            .0
            .iter()
            .zip((at + VALUES..).step_by(LINE as usize))
        {
            word_line(at).store_line(mem, line);
        }
        let order = Permutation::first((self.pairs.len() as u64).min(CAPACITY)).encode();
        let (high, next) = self.link.unwrap_or_default();
        let line = [version::fresh(0), order, self.level, self.first, high, next, 0, 0];
        word_line(at).store_line(mem, line);
    }
}

impl Node {
    /// Fetches a node's first line. Cost: one round trip.
    pub fn fetch<M: Memory>(mem: &M, at: u64) -> Self {
        let line = word_line(at).fetch(mem);
        Self { at, line }
    }

    /// Its word.
    pub fn word(&self) -> u64 {
        self.line[0]
    }

    /// Where its word is.
    pub fn guard(&self) -> SyncWord {
        sync_word(self.at)
    }

    /// 0 for border nodes.
    pub fn level(&self) -> u64 {
        self.line[2]
    }

    fn permutation(&self) -> Permutation {
        Permutation::decode(self.line[1])
    }

    /// The least key that is not the node's, and the node that it belongs to.
    pub fn link(&self) -> Option<(u64, u64)> {
        let at = LINKS[(version::marks(self.word()) % 2) as usize];
        let (high, next) = (self.line[at], self.line[at + 1]);
        (next != 0).then_some((high, next))
    }

    /// Stores the link that is not the node's. Returns the mark that makes it the node's. The node is locked.
    pub fn store_link<M: Memory>(&self, mem: &M, high: u64, next: u64) -> u64 {
        let mark = 1 - version::marks(self.word()) % 2;
        let at = self.at + 8 * LINKS[mark as usize] as u64;
        sync_word(at).store(mem, high);
        sync_word(at + 8).store(mem, next);
        mark
    }

    /// Makes the next reads of keys come from memory. Cost: one fence, on incoherent memory.
    pub fn refresh<M: Memory>(&self, mem: &M) {
        content::refresh(mem, self.at + KEYS, KEYS_BYTES);
    }

    fn key_at(&self, place: u64) -> u64 {
        self.at + KEYS + 8 * place
    }

    fn value_at(&self, place: u64) -> u64 {
        self.at + VALUES + 8 * place
    }

    /// The `n`th key.
    pub fn key<M: Memory>(&self, mem: &M, n: u64) -> u64 {
        content::get(mem, self.key_at(self.permutation().place(n)))
    }

    /// The value or child of the `n`th key. Cost: one sync load.
    pub fn value<M: Memory>(&self, mem: &M, n: u64) -> u64 {
        sync_word(self.value_at(self.permutation().place(n))).load(mem)
    }

    /// How many of the first `count` keys are on the left.
    fn partition<M: Memory>(&self, mem: &M, count: u64, is_left: impl Fn(u64) -> bool) -> u64 {
        let (mut from, mut to) = (0, count);
        while from < to {
            let middle = (from + to) / 2;
            if is_left(self.key(mem, middle)) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// How many keys are below `key`, which belongs to this node, and whether the next one is `key`.
    pub fn find<M: Memory>(&self, mem: &M, key: u64) -> (u64, bool) {
        let count = self.permutation().count();
        let n = self.partition(mem, count, |found| found < key);
        (n, n < count && self.key(mem, n) == key)
    }

    /// How many separators are not above `key`, which belongs to this node.
    pub fn up_to<M: Memory>(&self, mem: &M, key: u64) -> u64 {
        self.partition(mem, self.permutation().count(), |found| found <= key)
    }

    /// The `n`th child, the first one before all separators. Cost: one sync load, but for the first.
    pub fn child<M: Memory>(&self, mem: &M, n: u64) -> u64 {
        match n.checked_sub(1) {
            None => self.line[3],
            Some(n) => self.value(mem, n),
        }
    }

    /// Whether so many places are in use.
    pub fn uses(&self, places: u64) -> bool {
        self.permutation().count() >= places
    }

    /// How many pairs the node has, without those that belong to the next node.
    pub fn count<M: Memory>(&self, mem: &M) -> u64 {
        let count = self.permutation().count();
        match self.link() {
            None => count,
            Some((high, _)) => self.partition(mem, count, |found| found < high),
        }
    }

    /// The permutation, for a change.
    fn order(&self) -> Result<Permutation> {
        match self.permutation().is_whole() {
            true => Ok(self.permutation()),
            false => Err(Error::corrupt("the permutation of a tree's node", self.at)),
        }
    }

    /// All pairs, in ascending order. Cost: one round trip for each of two lines.
    pub fn pairs<M: Memory>(&self, mem: &M) -> impl Iterator<Item = (u64, u64)> {
        let lines = [0, LINE].map(|n| word_line(self.at + VALUES + n).fetch(mem));
        (0..self.count(mem)).map(move |n| {
            let place = self.permutation().place(n) as usize;
            (self.key(mem, n), lines[place / 8 % 2][place % 8])
        })
    }

    /// Puts a pair before the `n`th; `false` if there is no room. The node is held.
    ///
    /// Cost: one write-back and two sync stores.
    pub fn insert<M: Memory>(&self, mem: &M, n: u64, key: u64, value: u64) -> Result<bool> {
        let Some((place, order)) = self.order()?.insert(n) else {
            return Ok(false);
        };
        owned_word(self.key_at(place)).set(mem, key);
        mem.persist(self.key_at(place), 8);
        sync_word(self.value_at(place)).store(mem, value);
        sync_word(self.at + PERMUTATION).store(mem, order.encode());
        Ok(true)
    }

    /// Removes the `n`th pair. The node is locked. Cost: one sync store.
    pub fn remove<M: Memory>(&self, mem: &M, n: u64) -> Result<()> {
        if let Some(order) = self.order()?.remove(n) {
            sync_word(self.at + PERMUTATION).store(mem, order.encode());
        }
        Ok(())
    }

    /// Frees the places after the first `count` pairs, which belong to the next node. The node is locked. Cost: one
    /// sync store.
    pub fn shorten<M: Memory>(&self, mem: &M, count: u64) -> Result<()> {
        let order = self.order()?.shortened(count);
        sync_word(self.at + PERMUTATION).store(mem, order.encode());
        Ok(())
    }

    /// Replaces the value of the `n`th key. The node is held. Cost: one sync store.
    pub fn replace<M: Memory>(&self, mem: &M, n: u64, value: u64) {
        sync_word(self.value_at(self.permutation().place(n))).store(mem, value);
    }
}
