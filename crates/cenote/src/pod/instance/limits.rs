//! Thresholds: how much of something makes the code of a process do something else. None is in the pool, so processes
//! may differ; a simulated process draws them small, so that what lies beyond them happens in short runs too.

use crate::memory::Memory;
use crate::pod::format::chunk::{CHUNK_ENTRIES, ROOM};

/// The least entries of a chunk: those of some operations, and of the chunks that the head leaves meanwhile.
pub const CHUNK_ENTRIES_MIN: u64 = 2 * ROOM;

/// The thresholds of one process. Any value in its range is correct; they decide speed and how much memory waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects that a worker retires before it scans for reclaimable ones. At least 1.
    pub collect_every: u32,
    /// The same in bytes, about: large objects are few.
    pub collect_bytes: u64,
    /// Chunks of a retired list that one scan covers, at most, so that no operation pays for all that a guard held
    /// back; a flush request spans no more. At least 1.
    pub collect_chunks: u64,
    /// Entries of a chunk of a retired list before there is another chunk: from [`CHUNK_ENTRIES_MIN`] to
    /// [`CHUNK_ENTRIES`].
    pub chunk_entries: u64,
    /// Scans of the own list for each scan of the lists of others. At least 1.
    pub maintain_every: u32,
    /// Ticks of a background thread, one a millisecond, after which it takes over an unchanged list of a worker
    /// (incoherent memory).
    pub quiet_ticks: u32,
    /// Bytes of objects in a magazine of one size class, at most.
    pub magazine_bytes: u64,
    /// The logarithm of how many frames are given back to the file system at a time.
    pub trim_order: u32,
    /// Removals from a hash map, for each frame of its level, after which a worker checks whether the level is too
    /// large; 0: each time.
    pub removals: u32,
    /// Nodes of an ordered map that a handle remembers because their parents may not know them.
    pub unposted: usize,
    /// Links of a retired hash map's level that a worker follows at a time, to free the chain lines behind them, so
    /// that no operation pays for all of them. At least 1.
    pub drain_links: u64,
    /// Words of ordered maps' nodes whose pages the threads of a process cache (incoherent memory).
    pub cached_words: usize,
    /// Polls of a lock close together, before its waiter sleeps. At least 1.
    pub spins: u32,
    /// Nanoseconds of a hold from which on a worker that has waited for a lock hands it to the next waiter, and lets no
    /// newcomer take it; and of a sleep from which on the polls before it were in vain.
    pub long_hold_ns: u64,
}

impl Limits {
    /// The thresholds of users' processes.
    pub const fn usual<M: Memory>() -> Self {
        Self {
            // On incoherent memory a scan moves announcements on, and what was read under them is not cached any
            // longer.
            collect_every: if M::COHERENT { 256 } else { 1024 },
            collect_bytes: 1 << 20,
            // Several times what is retired between two scans, as a list must get shorter. A flush round takes two
            // scans.
            collect_chunks: if M::COHERENT { 32 } else { 128 },
            chunk_entries: CHUNK_ENTRIES,
            maintain_every: 16,
            quiet_ticks: 1000,
            // On incoherent memory more becomes reclaimable at a time.
            magazine_bytes: if M::COHERENT { 512 << 10 } else { 2 << 20 },
            // A huge page: a smaller hole would split one.
            trim_order: 5,
            removals: 32,
            unposted: 4,
            // Where they are not cached, a load takes several times as long.
            drain_links: if M::COHERENT { 64 } else { 16 },
            cached_words: if M::COHERENT { 0 } else { 1 << 14 },
            // Some microseconds at most: about what it costs to fall asleep.
            spins: 64,
            // About what it takes to wake a thread.
            long_hold_ns: 50_000,
        }
    }
}
