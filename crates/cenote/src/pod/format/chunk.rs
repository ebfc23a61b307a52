//! Chunks: what the lists of retired objects are made of.
//!
//! ```text
//! chunk:  next  count  (object, epoch) × 63        head = chunk | index     tail = chunk | count
//! ```

use crate::memory::OwnedWord;
use crate::memory::checked::owned_word;

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 1024;

/// Entries of a chunk.
pub const CHUNK_ENTRIES: u64 = 63;

/// Entries that one operation may append.
pub(crate) const ROOM: u64 = 4;

/// The low bits of a head or tail word; chunks are aligned to more.
pub(crate) const INDEX_MASK: u64 = 63;

/// In an entry's first word: the object is not retired any more.
pub(crate) const GONE: u64 = 1;

/// A place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The chunk, or 0.
    pub chunk: u64,
    /// The entry in it.
    pub index: u64,
}

impl Position {
    pub(crate) fn decode(word: u64) -> Self {
        Self {
            chunk: word & !INDEX_MASK,
            index: word & INDEX_MASK,
        }
    }

    pub(crate) fn encode(self) -> u64 {
        self.chunk | self.index
    }
}

pub(crate) fn next_of(chunk: u64) -> OwnedWord {
    owned_word(chunk)
}

pub(crate) fn count_of(chunk: u64) -> OwnedWord {
    owned_word(chunk + 8)
}

/// The object and the epoch of an entry.
pub fn entry(chunk: u64, index: u64) -> (OwnedWord, OwnedWord) {
    let at = chunk + 16 + 16 * index;
    (owned_word(at), owned_word(at + 8))
}
