//! A worker's pending allocations, as its process remembers them.

/// Objects that one operation may allocate.
pub(crate) const PENDING_MAX: usize = 3;

/// A pending allocation and its source: enough to put it back without a search.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pending {
    pub(crate) object: u64,
    pub(crate) class: u32,
    pub(crate) source: Source,
}

#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A reserve: its block's first frame, and the object's number in the block.
    Reserve { frame: u64, index: u32 },
    /// The worker's retired list: the entry, and the recycler's round.
    List { chunk: u64, index: u64, round: u32 },
}

impl Default for Source {
    fn default() -> Self {
        Self::Reserve { frame: 0, index: 0 }
    }
}

/// The pending allocations of a worker's present operation: still in their sources, or in them when the operation was
/// decided.
#[derive(Clone, Copy, Debug, Default)]
pub struct PendingAllocations {
    pub(crate) allocations: [Pending; PENDING_MAX],
    pub(crate) count: usize,
    /// Whether they have left their sources.
    pub(crate) has_left: bool,
}
