//! A node: its word, and two images of its content. A mark of the word says which one is the node's.
//!
//! | line | |
//! |---|---|
//! | 0 | the node's [word](crate::index::baseline::version), alone |
//! | 1 to `LINES` | image 0 |
//! | as many more | image 1 |
//!
//! An image is a head of four words (level and count; the next node of the level, or 0; the least key that is not the
//! node's, if there is a next one; the first child) and pairs in ascending order: of key and value in a leaf, of a
//! separator and the child whose keys begin there in an inner node.
//!
//! The holder of the lock writes the other image, writes it back, and releases with the other mark: that store changes
//! the node at once. A crash leaves an image that nobody reads. Only a value that replaces another
//! is stored in the node's own image: it is one word.
//!
//! A place for a child never holds anything else, and new nodes are zeroes: a reader of an image that is being
//! overwritten may find an old child or none.

use crate::index::baseline::{content, version};
use crate::memory::checked::{owned_word, sync_word, unpublished};
use crate::memory::{LINE, Memory, SyncWord};

const HEAD_WORDS: u64 = 4;

/// How many pairs an image of so many lines has room for.
pub const fn capacity(lines: u64) -> u64 {
    (lines * LINE / 8 - HEAD_WORDS) / 2
}

/// Bytes of a node with images of so many lines.
pub const fn bytes(lines: u64) -> u64 {
    LINE + 2 * lines * LINE
}

/// An image's first words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// 0 for leaves.
    pub level: u64,
    /// Pairs.
    pub count: u64,
    /// The next node of the level, or 0.
    pub next: u64,
    /// With a next node: the least key that belongs to it.
    pub high: u64,
    /// In inner nodes: the child of the keys below the first separator.
    pub first: u64,
}

impl Head {
    /// Whether a key belongs to the next node, or to one behind that.
    pub fn ends_before(&self, key: u64) -> bool {
        self.next != 0 && key >= self.high
    }
}

/// A node as it was when it had this word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<const LINES: u64> {
    /// Where it is.
    pub at: u64,
    /// Its word.
    pub word: u64,
}

impl<const LINES: u64> Node<LINES> {
    const IMAGE_BYTES: u64 = LINES * LINE;

    /// Where its word is.
    pub fn guard(self) -> SyncWord {
        sync_word(self.at)
    }

    /// The node's image.
    pub fn image(self) -> Image<LINES> {
        Image(self.at + LINE + version::marks(self.word) % 2 * Self::IMAGE_BYTES)
    }

    /// The image that is not the node's, and the mark that makes it so.
    pub fn other(self) -> (Image<LINES>, u64) {
        let mark = 1 - version::marks(self.word) % 2;
        (Image(self.at + LINE + mark * Self::IMAGE_BYTES), mark)
    }

    /// Formats a node with its first image, and writes it back. Nobody else knows it yet.
    pub fn initialise<M: Memory>(at: u64, mem: &M, write: impl FnOnce(Image<LINES>)) {
        unpublished(at + LINE, 2 * Self::IMAGE_BYTES).zero(mem);
        let node = Self {
            at,
            word: version::fresh(0),
        };
        write(node.image());
        mem.persist(at + LINE, 2 * Self::IMAGE_BYTES);
        node.guard().store(mem, node.word);
    }
}

/// One of a node's two images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image<const LINES: u64>(u64);

impl<const LINES: u64> Image<LINES> {
    /// Makes the next reads come from memory.
    pub fn refresh<M: Memory>(self, mem: &M) {
        content::refresh(mem, self.0, LINES * LINE);
    }

    /// Its head.
    pub fn head<M: Memory>(self, mem: &M) -> Head {
        let word = |n: u64| content::get(mem, self.0 + 8 * n);
        let first = word(0);
        Head {
            level: first >> 32,
            count: first & 0xffff_ffff,
            next: word(1),
            high: word(2),
            first: word(3),
        }
    }

    /// Writes the head, and writes back all that is in use.
    pub fn finish<M: Memory>(self, mem: &M, head: Head) {
        let words = [head.level << 32 | head.count, head.next, head.high, head.first];
        for (n, word) in words.into_iter().enumerate() {
            owned_word(self.0 + 8 * n as u64).set(mem, word);
        }
        mem.persist(self.0, (HEAD_WORDS + 2 * head.count) * 8);
    }

    fn pair(self, n: u64) -> u64 {
        self.0 + (HEAD_WORDS + 2 * n) * 8
    }

    /// The key of a pair.
    #[inline]
    pub fn key<M: Memory>(self, mem: &M, n: u64) -> u64 {
        content::get(mem, self.pair(n))
    }

    /// The value or child of a pair.
    #[inline]
    pub fn value<M: Memory>(self, mem: &M, n: u64) -> u64 {
        content::get(mem, self.pair(n) + 8)
    }

    /// Writes a pair.
    pub fn set<M: Memory>(self, mem: &M, n: u64, key: u64, value: u64) {
        owned_word(self.pair(n)).set(mem, key);
        owned_word(self.pair(n) + 8).set(mem, value);
    }

    /// Changes a value in the node's own image, and writes it back.
    pub fn replace<M: Memory>(self, mem: &M, n: u64, value: u64) {
        owned_word(self.pair(n) + 8).set(mem, value);
        mem.persist(self.pair(n) + 8, 8);
    }

    /// Copies pairs to another image, from its `to`th pair on.
    pub fn copy<M: Memory>(self, mem: &M, pairs: std::ops::Range<u64>, into: Self, to: u64) {
        for (n, target) in pairs.zip(to..) {
            into.set(mem, target, self.key(mem, n), self.value(mem, n));
        }
    }

    /// How many of the first `count` pairs have keys below this one.
    pub fn below<M: Memory>(self, mem: &M, count: u64, key: u64) -> u64 {
        self.partition(mem, count, |found| found < key)
    }

    /// How many of the first `count` pairs have keys that are not above this one.
    pub fn up_to<M: Memory>(self, mem: &M, count: u64, key: u64) -> u64 {
        self.partition(mem, count, |found| found <= key)
    }

    #[inline]
    fn partition<M: Memory>(self, mem: &M, count: u64, is_left: impl Fn(u64) -> bool) -> u64 {
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

    /// The `n`th child, the first one before all pairs.
    pub fn child<M: Memory>(self, mem: &M, head: Head, n: u64) -> u64 {
        match n {
            0 => head.first,
            n => self.value(mem, n - 1),
        }
    }
}
