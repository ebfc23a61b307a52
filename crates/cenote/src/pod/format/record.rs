//! Records of the instance table: what each process and each worker keeps in the pool, word by word.
//!
//! A worker is a thread's place in the pool: its identity, its announcement for epochs, what it is about to do, the
//! objects it has reserved, and the list of those it has retired. Everything that recovery needs after the worker died
//! is here, in single-writer words; `state`, `announced` and `epoch` are sync words, each on a line of its own; two
//! more, `busy` and `list_version`, lie beside `announced`. A worker record outlives its worker: its retired list stays
//! until another worker has emptied it.

use super::geometry::Geometry;
use crate::memory::checked::{owned_word, sync_word};
use crate::memory::{LINE, Memory, OwnedWord, SyncWord};

/// In the name of a secondary object: its operation has happened.
pub(crate) const PUBLISHED: u64 = 1;

/// Marks an `aux_word` that is a single-writer word.
pub const OWNED_LINK: u64 = 1;

/// Marks `aux_object` as a chain line that is being taken out of an extent about to be freed.
pub const DRAINING: u64 = 1;

/// `announced` of a worker that reads nothing, and of a record that was never used. Epochs begin later.
pub const IDLE: u64 = 0;

/// The phase of a place in the instance table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Free.
    Free,
    /// Its instance lives, or has died unnoticed.
    Alive,
    /// Another instance is finishing what its dead one had begun.
    Recovering,
    /// Processes of a pod only: claimed by a process that has not said yet who it is.
    Joining,
    /// Not a value that this library writes.
    Damaged,
}

/// The `state` word of a process or worker.
///
/// For a worker, index and tag name the process that it belongs to, or that is recovering it. For a process they name
/// its host; both are 0 on a single machine. The generation grows with each instance that takes the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The phase.
    pub phase: Phase,
    /// See the type.
    pub process: u32,
    /// The low byte of the generation that the index is meant in; 0 where the index means nothing.
    pub tag: u8,
    /// The generation.
    pub generation: u32,
}

impl State {
    /// Reads a state word.
    pub fn decode(word: u64) -> Self {
        let phase = match word & 0xff {
            0 => Phase::Free,
            1 => Phase::Alive,
            2 => Phase::Recovering,
            3 => Phase::Joining,
            _ => Phase::Damaged,
        };
        Self {
            phase,
            process: (word >> 8) as u32 & 0xffff,
            tag: (word >> 24) as u8,
            generation: (word >> 32) as u32,
        }
    }

    /// A place that nobody has, after a generation.
    pub fn free(generation: u32) -> Self {
        Self {
            phase: Phase::Free,
            process: 0,
            tag: 0,
            generation,
        }
    }

    /// The word for a state.
    pub fn encode(self) -> u64 {
        let phase = match self.phase {
            Phase::Free => 0,
            Phase::Alive => 1,
            Phase::Recovering => 2,
            Phase::Joining => 3,
            Phase::Damaged => 4,
        };
        phase
            | u64::from(self.process & 0xffff) << 8
            | u64::from(self.tag) << 24
            | u64::from(self.generation) << 32
    }
}

/// A process's entry: state, then what its owner says of itself, then its share of flush rounds.
#[derive(Clone, Copy, Debug)]
pub struct ProcessRecord(u64);

impl ProcessRecord {
    /// The entry of process `index`.
    pub fn new(geometry: &Geometry, index: u32) -> Self {
        Self(geometry.process(index))
    }

    /// Phase, recoverer, generation.
    pub fn state(self) -> SyncWord {
        sync_word(self.0)
    }

    /// The operating system's process id, as its namespace has it. For people, and for the fence of its host.
    pub fn pid(self) -> OwnedWord {
        owned_word(self.0 + 64)
    }

    /// Seconds since 1970 when it opened the pool.
    pub fn since(self) -> OwnedWord {
        owned_word(self.0 + 72)
    }

    /// The host's id, given by the administrator; 0 on a single machine.
    pub fn host(self) -> OwnedWord {
        owned_word(self.0 + 80)
    }

    /// 1 if its workers announce without a barrier and rely on `barrier_everywhere`; written before it is alive.
    pub fn relies_on_barrier(self) -> OwnedWord {
        owned_word(self.0 + 88)
    }

    /// When the operating system began the process, and the PID namespace that its id is meant in; in pods only, for
    /// fences.
    pub fn name(self) -> [OwnedWord; 2] {
        [96, 104].map(|at| owned_word(self.0 + at))
    }

    /// The generation of its host that it joined under; in pods only. The state has its low byte.
    pub fn host_generation(self) -> OwnedWord {
        owned_word(self.0 + 112)
    }

    /// How much longer than usual a monitor must wait for a heartbeat of this process, if it is its host's agent and
    /// may be kept from its processor. Written before it is the agent.
    pub fn timeout(self) -> OwnedWord {
        owned_word(self.0 + 120)
    }

    /// The last flush round that this process has completed (incoherent memory).
    pub fn flushed(self) -> SyncWord {
        sync_word(self.0 + 128)
    }

    /// The last generation of this place that its host's agent has declared dead (see `pod::format::host_entry`), or 0.
    pub fn declared(self) -> SyncWord {
        sync_word(self.0 + 192)
    }

    /// What the process's downconvert thread sleeps on.
    pub fn lock_events(self) -> SyncWord {
        sync_word(self.0 + 200)
    }

    /// Bits of the directory locks that other processes ask this one for.
    pub fn asked_locks(self) -> [SyncWord; 4] {
        [208, 216, 224, 232].map(|at| sync_word(self.0 + at))
    }
}

/// The kind of an operation.
pub mod operation {
    /// Nothing.
    pub const NONE: u64 = 0;
    /// A compare-exchange that publishes `new` in `slot`.
    pub const PUT: u64 = 1;
    /// A compare-exchange that unlinks `old` from `slot`.
    pub const REMOVE: u64 = 2;
    /// The compare-exchange happened: count, and retire `old`.
    pub const COMMITTED: u64 = 3;
    /// It did not: retire `new`.
    pub const ABORTED: u64 = 4;
}

/// A worker's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkerRecord(u64);

/// Size classes there is room for in a record.
pub const RESERVES: usize = 48;
/// Entries of the redo log.
pub const REDO_ENTRIES: u64 = 160;

impl WorkerRecord {
    /// The record of worker `index`.
    #[inline]
    pub fn new(geometry: &Geometry, index: u32) -> Self {
        Self(geometry.worker(index))
    }

    /// A record for a reader without a place: beyond the end of every pool. What a
    /// [`Snapshot`](crate::memory::Snapshot) reads there is 0.
    pub(in crate::pod) fn nowhere() -> Self {
        Self(1 << 62)
    }

    /// Phase, owning process, generation.
    pub fn state(self) -> SyncWord {
        sync_word(self.0)
    }

    /// The epoch it reads in, or [`IDLE`].
    #[inline]
    pub fn announced(self) -> SyncWord {
        sync_word(self.0 + 64)
    }

    /// Coherent memory: whether its worker may be changing its retired list. Written by the worker alone.
    #[inline]
    pub fn busy(self) -> SyncWord {
        sync_word(self.0 + 72)
    }

    /// Coherent memory: changes whenever another worker may have taken the list over; odd while one is about to.
    /// Written under the allocator's lock.
    #[inline]
    pub fn list_version(self) -> SyncWord {
        sync_word(self.0 + 80)
    }

    /// Its replica of the global epoch, written by workers that advance the epoch.
    #[inline]
    pub fn epoch(self) -> SyncWord {
        sync_word(self.0 + 128)
    }

    /// The operation: what kind, see [`operation`].
    #[inline]
    pub fn operation(self) -> OwnedWord {
        owned_word(self.0 + 192)
    }

    /// The operation: the slot that decides.
    #[inline]
    pub fn slot(self) -> OwnedWord {
        owned_word(self.0 + 200)
    }

    /// The operation: the word that the slot holds if it succeeded.
    #[inline]
    pub fn expected(self) -> OwnedWord {
        owned_word(self.0 + 208)
    }

    /// The operation: the object allocated for it, or 0.
    #[inline]
    pub fn new_object(self) -> OwnedWord {
        owned_word(self.0 + 216)
    }

    /// The operation: the object it unlinks, or 0.
    #[inline]
    pub fn old_object(self) -> OwnedWord {
        owned_word(self.0 + 224)
    }

    /// The operation: the owned word that counts it, or 0.
    #[inline]
    pub fn counter(self) -> OwnedWord {
        owned_word(self.0 + 232)
    }

    /// The operation: what the counter holds after it.
    #[inline]
    pub fn count(self) -> OwnedWord {
        owned_word(self.0 + 240)
    }

    /// The chunk that the list's head leaves, with its last bit set, or 0.
    #[inline]
    pub fn retiring(self) -> OwnedWord {
        owned_word(self.0 + 248)
    }

    /// The auxiliary allocation (a level, a chain line, a list chunk, a map): the object, or 0.
    pub fn aux_object(self) -> OwnedWord {
        owned_word(self.0 + 256)
    }

    /// The auxiliary allocation: the word that publishes it.
    pub fn aux_word(self) -> OwnedWord {
        owned_word(self.0 + 264)
    }

    /// The auxiliary allocation: what that word holds once it is published.
    pub fn aux_expected(self) -> OwnedWord {
        owned_word(self.0 + 272)
    }

    /// The root word whose old level this worker is retiring, or 0.
    pub fn root(self) -> OwnedWord {
        owned_word(self.0 + 280)
    }

    /// The level that it is retiring.
    pub fn root_level(self) -> OwnedWord {
        owned_word(self.0 + 288)
    }

    /// The operation: further objects that are published together with the new one, or 0.
    #[inline]
    pub fn secondaries(self) -> [OwnedWord; 2] {
        [296, 304].map(|at| owned_word(self.0 + at))
    }

    /// The operation: further objects that it unlinks, or 0.
    #[inline]
    pub fn old_secondaries(self) -> [OwnedWord; 2] {
        [312, 352].map(|at| owned_word(self.0 + at))
    }

    /// The retired list: where it begins, as [`Position`](super::chunk::Position).
    #[inline]
    pub fn head(self) -> OwnedWord {
        owned_word(self.0 + 320)
    }

    /// The retired list: the chunk whose entries are being freed, with a last bit that says that this is decided; or 0.
    pub fn freeing(self) -> OwnedWord {
        owned_word(self.0 + 328)
    }

    /// The retired list: where it ends.
    #[inline]
    pub fn tail(self) -> OwnedWord {
        owned_word(self.0 + 336)
    }

    /// The retired list: which entries of that chunk, a bit each.
    pub fn freeing_which(self) -> OwnedWord {
        owned_word(self.0 + 344)
    }

    /// A chunk that the list gets when there is no memory for another, or 0.
    pub fn spare(self) -> OwnedWord {
        owned_word(self.0 + 360)
    }

    /// A flush request for its list: its begin, its end, a serial number that makes it a new one, and the round in
    /// which it is served with the process that began it, or 0.
    pub fn flush_request(self) -> [OwnedWord; 4] {
        [0, 8, 16, 24].map(|n| owned_word(self.0 + 384 + n))
    }

    /// Cells reserved in the current block of a size class.
    #[inline]
    pub fn reserve(self, class: usize) -> OwnedWord {
        owned_word(self.0 + 448 + 8 * class as u64)
    }

    /// The redo log: how many entries are committed, with their checksum; 0 when there is nothing to redo.
    pub fn redo_commit(self) -> OwnedWord {
        owned_word(self.0 + 896)
    }

    /// The redo log: entry `index`, an offset and a value.
    pub fn redo_entry(self, index: u64) -> (OwnedWord, OwnedWord) {
        let at = self.0 + 960 + 16 * index;
        (owned_word(at), owned_word(at + 8))
    }

    /// Forgets the operation and the reserves; the retired list stays.
    pub fn forget<M: Memory>(self, mem: &M) {
        for word in (192..320).chain([328, 352]).chain(448..960).step_by(8) {
            owned_word(self.0 + word).set(mem, 0);
        }
        self.write_back(mem);
    }

    /// Writes back the lines of the operation and auxiliary records.
    #[inline]
    #[cfg_attr(feature = "mutants", track_caller)]
    pub fn write_back_operation<M: Memory>(self, mem: &M) {
        mem.write_back(self.0 + 192, 192);
    }

    /// The caller relies on the end of the last operation, and of a level's retirement, being in memory.
    #[inline(always)]
    pub fn expect_end_in_memory<M: Memory>(self, mem: &M) {
        mem.must_be_in_memory(self.operation().offset(), LINE - 8);
        mem.must_be_in_memory(self.root().offset(), 8);
    }

    /// The caller relies on the whole record being in memory.
    #[inline(always)]
    pub fn expect_in_memory<M: Memory>(self, mem: &M) {
        mem.must_be_in_memory(self.0, super::geometry::RECORD_BYTES);
    }

    /// Drops the whole record from this host's cache, so that a dead worker's words are read as they are in memory:
    /// once its list is [refreshed](crate::pod::reclaim::retire::refresh).
    #[cfg_attr(feature = "mutants", track_caller)]
    pub fn invalidate<M: Memory>(self, mem: &M) {
        mem.invalidate(self.0, super::geometry::RECORD_BYTES);
    }

    /// Writes the whole record back.
    #[cfg_attr(feature = "mutants", track_caller)]
    pub fn write_back<M: Memory>(self, mem: &M) {
        mem.write_back(self.0, super::geometry::RECORD_BYTES);
        mem.fence();
    }
}

const _: () = assert!(
    448 + 8 * RESERVES as u64 <= 896,
    "reserves must end before the redo log"
);
const _: () = assert!(
    960 + 16 * REDO_ENTRIES <= super::geometry::RECORD_BYTES,
    "the redo log must fit its record"
);
