//! The first word of a directory entry: the offset of what it names, its kind, and whether that was dropped.

/// The bits of the kind.
pub const KIND_MASK: u64 = 15;
/// Set when what the entry names has been dropped: it names nothing any more, and what it named is being taken apart.
pub const DROPPED: u64 = 16;
/// An entry whose structure is gone. A creator does not take it yet.
pub const GONE: u64 = DROPPED;

/// The offset in the word.
pub fn offset_of(word: u64) -> u64 {
    word & !(KIND_MASK | DROPPED)
}
