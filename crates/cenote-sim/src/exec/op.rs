//! What a simulated thread is about to do: one memory operation, or a step that is none.

use crate::machine::LINE;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The thread has not begun.
    Start,
    /// Sync load.
    Load,
    /// Sync store.
    Store,
    /// Sync store that later loads cannot overtake.
    StoreSeqCst,
    /// Compare-exchange.
    CompareExchange,
    /// Another read-modify-write.
    FetchModify,
    /// A load through the cache that may be stale.
    Speculate,
    /// A line, afresh.
    FetchLine,
    /// A hint.
    Prefetch,
    /// Single-writer word: its owner's store.
    OwnedStore,
    /// Single-writer word: its owner's load.
    OwnedLoad,
    /// Protected data is read.
    Read,
    /// Unpublished data is written.
    Write,
    /// Write-backs are begun.
    WriteBack,
    /// Flushes are begun.
    Invalidate,
    /// What was begun is completed.
    Fence,
    /// The thread waits for another.
    Wait,
    /// A system call.
    Kernel,
}

impl Kind {
    /// Its name in timelines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Load => "load",
            Self::Store => "store",
            Self::StoreSeqCst => "store-seq-cst",
            Self::CompareExchange => "exchange",
            Self::FetchModify => "modify",
            Self::Speculate => "speculate",
            Self::FetchLine => "fetch line",
            Self::Prefetch => "prefetch",
            Self::OwnedStore => "owned store",
            Self::OwnedLoad => "owned load",
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteBack => "write back",
            Self::Invalidate => "invalidate",
            Self::Fence => "fence",
            Self::Wait => "wait",
            Self::Kernel => "kernel",
        }
    }

    /// Whether memory itself may change by it. What it only begins does not count.
    pub fn changes_memory(self, coherent: bool) -> bool {
        match self {
            Self::Store | Self::StoreSeqCst | Self::CompareExchange | Self::FetchModify => true,
            Self::FetchLine => !coherent,
            Self::OwnedStore | Self::Write => coherent,
            _ => false,
        }
    }

    /// Whether it goes through the cache of its host.
    pub fn is_cached(self) -> bool {
        self.changes_cache() || matches!(self, Self::Speculate | Self::OwnedLoad | Self::Read)
    }

    /// Whether threads of the same host may find other values in their cache after it, although memory is as it was.
    pub fn changes_cache(self) -> bool {
        matches!(self, Self::FetchLine | Self::OwnedStore | Self::Write)
    }
}

/// An operation that is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// What.
    pub kind: Kind,
    /// Where; system calls have the number of their lock.
    pub at: u64,
    /// How many bytes.
    pub len: u64,
    /// What is stored, if anything is.
    pub value: u64,
}

impl Op {
    /// An operation on one word.
    pub fn word(kind: Kind, at: u64, value: u64) -> Self {
        Self {
            kind,
            at,
            len: 8,
            value,
        }
    }

    /// An operation on a range.
    pub fn range(kind: Kind, at: u64, len: u64) -> Self {
        Self {
            kind,
            at,
            len,
            value: 0,
        }
    }

    /// Something else.
    pub fn other(kind: Kind) -> Self {
        Self {
            kind,
            at: 0,
            len: 0,
            value: 0,
        }
    }

    /// The first and the last line that it touches; `None` if it touches none.
    pub fn lines(&self) -> Option<(u64, u64)> {
        match self.kind {
            Kind::Start | Kind::Wait | Kind::Fence | Kind::Kernel => None,
            _ => Some((self.at / LINE, (self.at + self.len.max(1) - 1) / LINE)),
        }
    }
}
