//! Thresholds: after how much of something the code of a process does something else. None is in the pool, so processes may
//! differ; a simulated process draws them small, so that what happens beyond them happens in short runs too.

use crate::memory::Memory;
use crate::pod::format::chunk::{CHUNK_ENTRIES, ROOM};

/// So many entries a chunk must have room for at least: those of some operations, and of the chunks that the head leaves meanwhile.
pub const CHUNK_ENTRIES_MIN: u64 = 2 * ROOM;

/// The thresholds of one process. Any value in its range is right; they decide speed and how much memory waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects that a worker retires before it looks what is reclaimable. At least 1.
    pub collect_every: u32,
    /// The same in bytes, about: large objects are few.
    pub collect_bytes: u64,
    /// Chunks of a retired list that one look goes through, at most, so that no operation pays for all that a guard held back;
    /// a flush request spans no more. At least 1.
    pub collect_chunks: u64,
    /// Entries of a chunk of a retired list before there is another chunk: from [`CHUNK_ENTRIES_MIN`] to [`CHUNK_ENTRIES`].
    pub chunk_entries: u64,
    /// Looks at the own list for each at the lists of others. At least 1.
    pub maintain_every: u32,
    /// Looks of a background thread, one a millisecond, after which it takes over the list of a worker that has not changed it (incoherent memory).
    pub quiet_ticks: u32,
    /// Bytes of objects that wait on a magazine of one size class, at most.
    pub magazine_bytes: u64,
    /// The logarithm of how many frames are given back to the file system at a time.
    pub trim_order: u32,
    /// Removals from a hash map, for each frame of its level, after which a worker looks whether the level is too large; 0: each
    /// time.
    pub removals: u32,
    /// Nodes of an ordered map that a handle keeps in mind because their parents may not know them.
    pub unposted: usize,
    /// Links of a retired hash map's level that a worker follows at a time, to free the chain lines behind them, so that no operation pays for
    /// all of them. At least 1.
    pub drain_links: u64,
    /// Words of ordered maps' nodes whose pages the threads of a process keep in mind (incoherent memory).
    pub cached_words: usize,
    /// Looks at a lock close together, before its waiter sleeps. At least 1.
    pub spins: u32,
    /// Nanoseconds of a hold from which on whoever has waited for a lock gives it to the next one who waits, and not to who comes by; and of a sleep from which
    /// on looks before it were in vain.
    pub long_hold_ns: u64,
}

impl Limits {
    /// What processes of users have.
    pub const fn usual<M: Memory>() -> Self {
        Self {
            // On incoherent memory a look moves announcements on, and what was read under them is not cached any longer.
            collect_every: if M::COHERENT { 256 } else { 1024 },
            collect_bytes: 1 << 20,
            // Several times what is retired between two looks, as a list must get shorter. A flush round takes two looks.
            collect_chunks: if M::COHERENT { 32 } else { 128 },
            chunk_entries: CHUNK_ENTRIES,
            maintain_every: 16,
            quiet_ticks: 1000,
            // There more becomes reclaimable at a time.
            magazine_bytes: if M::COHERENT { 512 << 10 } else { 2 << 20 },
            // A huge page: a smaller hole would split one.
            trim_order: 5,
            removals: 32,
            unposted: 4,
            // Where they are not cached a load takes several times as long.
            drain_links: if M::COHERENT { 64 } else { 16 },
            cached_words: if M::COHERENT { 0 } else { 1 << 14 },
            // Some microseconds at most: about what it costs to fall asleep.
            spins: 64,
            // About what it takes to wake somebody.
            long_hold_ns: 50_000,
        }
    }
}
