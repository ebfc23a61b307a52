//! What a module executes for the map: a skiplist of subranges, and in each a tree of keys.
//!
//! It is written so that it can be moved to hardware: it reads commands from bytes and writes answers to bytes, has no
//! memory beside an arena of 32-bit words with links that are indices, does not recurse, and uses integers alone. What
//! a host needs to know of it is in [`command`].
//!
//! | file | |
//! |---|---|
//! | [`command`] | commands and answers as bytes |
//! | `arena` | words, and which blocks of them are free |
//! | `node` | where the parts of a subrange's node are |
//! | `subranges` | L2: the skiplist of subranges, and their heights |
//! | `tree` | nodes of the trees of keys |
//! | `walk` | ways down such a tree, and along its leaves |
//! | `keys` | L1: the tree of a subrange's keys |
//! | `bulk` | whole subranges: import, export, split |
//! | `run` | the loop over commands |
//!
//! **Invariants.** Subranges are disjoint, and each is in the list of level 0 of L2 by its start, by which a scan goes
//! on from one to the next. All keys of a subrange are in the leaves of its tree, ascending; all leaves are at one
//! depth, and no node is empty.

mod arena;
mod bulk;
pub mod command;
mod keys;
mod node;
mod run;
mod subranges;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

use arena::Arena;
use node::{MAX_HEIGHT, SUBRANGE_HEADER};

/// The skiplist of one module.
pub struct Skiplist {
    arena: Arena,
    /// Beginning of L2: a tower of full height that belongs to no subrange.
    head: u32,
    /// State of the generator of heights.
    random: u64,
    /// Pointers followed in a command.
    chases: u64,
    /// Words read and written one by one.
    accesses: u64,
    /// Bytes read and written in sequence.
    streamed: u64,
    answers_max: usize,
}

impl Skiplist {
    /// An empty one, whose arena may grow to so many bytes (at least 4 KiB, at most 8 GiB). The seed decides heights,
    /// and nothing else.
    pub fn new(arena_bytes: u64, seed: u64) -> Self {
        let mut arena = Arena::new(arena_bytes);
        let words = SUBRANGE_HEADER + u32::from(MAX_HEIGHT);
        // An arena has room for this.
        let head = arena.take(words).unwrap_or(0);
        Self {
            arena,
            head,
            random: seed | 1,
            chases: 0,
            accesses: 0,
            streamed: 0,
            answers_max: usize::MAX,
        }
    }

    /// The same, whose answers to a batch are no more than so many bytes, and those of the command that exceeds them.
    pub fn with_answers_max(mut self, bytes: usize) -> Self {
        self.answers_max = bytes;
        self
    }

    /// A height with half the probability of the one below it, up to a limit.
    fn height(&mut self, limit: u8) -> u8 {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let zeros = (self.random >> 24).trailing_zeros() as u8;
        (zeros + 1).min(limit.max(1))
    }
}
