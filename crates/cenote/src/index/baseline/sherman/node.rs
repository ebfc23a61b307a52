//! Nodes: a header line, and lines of entries in no order.
//!
//! | header word | what | changes |
//! |---|---|---|
//! | 0, 7 | version | with the header |
//! | 1 | low fence: the least key that belongs here | never |
//! | 2 | high fence: the sibling's low fence | gets smaller, in splits |
//! | 3 | sibling: the next node of the level; 0 if there is none, and then no high fence | in splits |
//! | 4 | level; leaves have 0 | never |
//!
//! Entries of a leaf are keys and values; entries of an inner node are children and their low fences. An entry outside
//! the fences was split off: it does not count, and its place is free. So a split changes only the header of the node.
//! The place of such an entry may be given to another key, even though a dead writer may leave any mixture of the two:
//! the value is written before the key, and the old key belongs elsewhere.
//!
//! **Crash.** A header whose writer died may have its new sibling and its old high fence. The sibling is a whole node
//! then, and the node's lock has been held since it was made: the high fence becomes its low fence.

use super::line::{ENTRIES, Line};
use crate::error::{Error, Result};
use crate::index::baseline::arena::Arena;
use crate::memory::{LINE, Memory};

/// Lines of a leaf, and of an inner node.
const LEAF_LINES: u64 = 16;
const INNER_LINES: u64 = 16;
/// No tree is higher: a level has at most a tenth of the nodes of the level below it.
pub const LEVEL_MAX: u64 = 30;

/// Lines of a node, its header among them.
pub fn lines(level: u64) -> u64 {
    match level {
        0 => LEAF_LINES,
        _ => INNER_LINES,
    }
}

/// A node's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header(pub Line);

impl Header {
    pub fn low(&self) -> u64 {
        self.0.0[1]
    }

    /// The high fence and the sibling.
    pub fn next(&self) -> Option<(u64, u64)> {
        let [_, _, high, sibling, ..] = self.0.0;
        (sibling != 0).then_some((high, sibling))
    }

    pub fn level(&self) -> u64 {
        self.0.0[4]
    }

    /// Whether a key belongs here. It must not be below the low fence.
    pub fn covers(&self, key: u64) -> bool {
        self.next().is_none_or(|(high, _)| key < high)
    }

    /// The header after a split.
    pub fn split_off(&self, high: u64, sibling: u64) -> Line {
        let mut line = self.0;
        line.0[2] = high;
        line.0[3] = sibling;
        line
    }
}

/// Fails if an offset cannot be a node's.
pub fn check<M: Memory>(arena: &Arena<M>, at: u64, level: u64) -> Result<()> {
    let is_possible = at.is_multiple_of(LINE) && level <= LEVEL_MAX;
    match is_possible && arena.has(at, lines(level) * LINE) {
        true => Ok(()),
        false => Err(Error::corrupt("the offset of a tree's node", at)),
    }
}

/// Makes a node of entries and writes it back; nobody knows of it yet.
///
/// Cost: on incoherent memory a miss for each line, and one round trip for all of them.
pub fn create<M: Memory>(
    arena: &Arena<M>,
    level: u64,
    low: u64,
    next: Option<(u64, u64)>,
    entries: &[(u64, u64)],
) -> Result<u64> {
    let mem = arena.worker().mem();
    let len = lines(level) * LINE;
    let at = arena.take(len)?;
    let (high, sibling) = next.unwrap_or((0, 0));
    Line([0, low, high, sibling, level, 0, 0, 0]).write_first(mem, at);
    let mut chunks = entries.chunks(ENTRIES);
    for n in 1..lines(level) {
        let entries = chunks.next().unwrap_or(&[]);
        let line = entries
            .iter()
            .enumerate()
            .fold(Line::default(), |line, (place, &entry)| line.with(place, entry));
        line.write_first(mem, at + n * LINE);
    }
    mem.persist(at, len);
    Ok(at)
}
