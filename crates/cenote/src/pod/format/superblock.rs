//! The superblock: what the pool is, and the few sync words that all instances share.
//!
//! Byte diagrams are in `docs/pool-format.md`. The first two lines never change after creation and carry a
//! checksum; each mutable word has a line of its own, but for the two of the repairer.

use std::path::Path;

use super::geometry::{FRAME, FRAME_SHIFT, Geometry, Parameters};
use super::shortage::lacking_room;
use crate::causes::Foreign;
use crate::error::{Error, Result};
use crate::memory::checked::{sync_word, unpublished};
use crate::memory::{Memory, SyncWord};

/// "CENOTE" and two bytes that no text file begins with.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CENOTE\x1a\xc3");
/// The version of the pool format.
pub const VERSION: u32 = 7;
/// Bytes of the immutable part, checksum included.
pub const HEADER_BYTES: usize = 128;

/// Most committed frames there are now.
pub const COMMITTED: SyncWord = sync_word(128);
/// The global epoch, shifted left by one; the last bit says that replicas are being updated.
pub const EPOCH: SyncWord = sync_word(192);
/// The allocator's recoverable lock.
pub const HEAP_LOCK: SyncWord = sync_word(256);
/// The directory's recoverable lock.
pub const DIRECTORY_LOCK: SyncWord = sync_word(320);
/// One more than the highest worker index ever attached.
pub const WORKERS_HIGH: SyncWord = sync_word(384);
/// A hint: vacant workers may hold retired objects when this is not 0.
pub const ORPHANS: SyncWord = sync_word(448);
/// Flush rounds begun (incoherent memory).
pub const FLUSH_ROUND: SyncWord = sync_word(512);
/// Recoveries completed.
pub const RECOVERIES: SyncWord = sync_word(576);
/// The event count that is notified when a worker attaches or was found dead.
pub const DEATH_EVENTS: SyncWord = sync_word(768);
/// Entries that were ever begun in the recovery log.
pub const LOGGED: SyncWord = sync_word(832);
/// The server lease: which host's processes execute exchanges, where a server does; see [`crate::pod::hosts::lease`].
pub const SERVER_LEASE: SyncWord = sync_word(960);
/// Whether a process without a host id executes exchanges, or did when it died.
pub const HOSTLESS_SERVES: SyncWord = sync_word(1024);
/// Retired lists that were ever taken over from idle workers; changed under the allocator's lock.
pub const LISTS_TAKEN: SyncWord = sync_word(1088);
/// How often background threads were asked for the retired lists of idle workers (incoherent memory).
pub const LISTS_WANTED: SyncWord = sync_word(1152);
/// The event count that is notified when background threads have something to do: a flush round was begun, the epoch
/// has moved on, or lists are wanted (incoherent memory).
pub const ROUND_EVENTS: SyncWord = sync_word(1216);
/// When a watcher last began a thorough scan, in nanoseconds since 1970. Not used in a pod.
pub const LAST_SCAN: SyncWord = sync_word(1280);
/// Slab blocks that were ever given back to the buddy tree (incoherent memory).
pub const BLOCKS_FREED: SyncWord = sync_word(896);

/// When a collector first found that it cannot advance the present epoch; see [`crate::pod::reclaim::backlog`].
pub const HELD_BACK: SyncWord = sync_word(2048);

/// The recoverable lock for giving bytes of holes back and reserving them again; see [`crate::pod::alloc::holes`].
pub const TRIM_LOCK: SyncWord = sync_word(2112);
/// Frames that are in holes.
pub const HOLES: SyncWord = sync_word(2176);
/// No hole begins before this frame.
pub const HOLES_FROM: SyncWord = sync_word(2240);

/// Who repairs the pool, by the identity of a worker, or 0; see [`crate::pod::instance::repair`].
pub const REPAIRER: SyncWord = sync_word(2304);
/// Which machine that one is on: its number is of the machine's start and of the file of the liveness locks.
pub const REPAIRER_MACHINE: SyncWord = sync_word(2312);

/// The event count that is notified when something happens in a group, or a group is dropped. One for all groups, as a
/// group's frame may be another structure's when a thread falls asleep.
pub const GROUP_EVENTS: SyncWord = sync_word(2432);
/// Event counts that are notified when objects are sealed, or an object store is dropped. They are of all stores, for
/// the same reason; so many, that those who wait for different objects are seldom woken for each other.
pub const SEAL_EVENT_COUNTS: u64 = 16;

/// The event count of those who wait for an object of this hash.
pub const fn seal_events(hash: u64) -> SyncWord {
    sync_word(2560 + hash % SEAL_EVENT_COUNTS * 64)
}

/// How many structures were dropped; see [`crate::pod::names::dropping`].
pub const DROPS: SyncWord = sync_word(2368);

/// The recoverable lock of the monitor that leads in a pod.
pub const MONITOR_LOCK: SyncWord = sync_word(640);
/// One more than the highest host id that ever had an agent; 0 in a pool that no pod has used.
pub const HOSTS_HIGH: SyncWord = sync_word(704);

/// The kind of memory that a pool lies in; fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// Hardware keeps the caches of all sharers coherent.
    Coherent,
    /// It does not.
    Noncoherent,
    /// It does not, and one process executes all exchanges.
    Delegated,
}

impl MemoryKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Coherent => "coherent",
            Self::Noncoherent => "noncoherent",
            Self::Delegated => "delegated",
        }
    }

    /// The kind that a backend is for.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn of<M: crate::memory::Memory>() -> Self {
        match (M::COHERENT, M::DELEGATED) {
            (true, _) => Self::Coherent,
            (false, false) => Self::Noncoherent,
            (false, true) => Self::Delegated,
        }
    }
}

/// What the immutable part says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The pool's parameters.
    pub parameters: Parameters,
    /// A random number, the pool's identity.
    pub id: u64,
    /// Seconds since 1970 when it was created.
    pub created: u64,
}

impl Superblock {
    /// The immutable part, ready to be written at offset 0.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let p = &self.parameters;
        bytes[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[16..20].copy_from_slice(&(p.kind as u32).to_le_bytes());
        bytes[20..24].copy_from_slice(&FRAME_SHIFT.to_le_bytes());
        bytes[24..32].copy_from_slice(&p.max_frames.to_le_bytes());
        bytes[32..36].copy_from_slice(&p.processes.to_le_bytes());
        bytes[36..40].copy_from_slice(&p.workers.to_le_bytes());
        bytes[40..44].copy_from_slice(&p.entries.to_le_bytes());
        bytes[44..48].copy_from_slice(&p.hosts.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.id.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.created.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Makes zeroed memory a pool without committed frames. The caller joins it: that writes the header back, as it
    /// drops all of the pool from the cache.
    pub fn format<M: Memory>(&self, mem: &M) -> Result<()> {
        let tables = Geometry::new(self.parameters).block_table;
        mem.reserve(0, tables, Some(0))
            .map_err(|error| match lacking_room(&error) {
                Some((why, _)) => Error::Full {
                    needed: tables,
                    why,
                    largest: None,
                },
                None => error.into(),
            })?;
        // NO PAIR: unshared
        EPOCH.store(mem, EPOCH_FIRST << 1);
        // With the header it is a pool: a creator that is killed before leaves none on a device.
        unpublished(0, self.encode().len() as u64).write(mem, &self.encode());
        Ok(())
    }

    /// Reads the immutable part of the file at `path`.
    pub fn decode(path: &Path, bytes: &[u8; HEADER_BYTES]) -> Result<Self> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if u64_at(0) != MAGIC {
            return Err(Error::NotAPool {
                path: path.to_owned(),
                why: Foreign::OtherMagic,
            });
        }
        let version = u32_at(8);
        if version != VERSION {
            return Err(Error::Version {
                path: path.to_owned(),
                found: version,
                supported: VERSION,
            });
        }
        if u32_at(HEADER_BYTES - 4) != crc32c::crc32c(&bytes[..HEADER_BYTES - 4]) {
            return Err(Error::corrupt(
                "the superblock's checksum",
                HEADER_BYTES as u64 - 4,
            ));
        }
        let kind = match u32_at(16) {
            0 => MemoryKind::Coherent,
            1 => MemoryKind::Noncoherent,
            2 => MemoryKind::Delegated,
            _ => return Err(Error::corrupt("the memory kind", 16)),
        };
        if u32_at(20) != FRAME_SHIFT {
            return Err(Error::corrupt("the frame size", 20));
        }
        let parameters = Parameters {
            kind,
            max_frames: u64_at(24),
            processes: u32_at(32),
            workers: u32_at(36),
            entries: u32_at(40),
            hosts: u32_at(44),
        };
        if parameters.check().is_err() {
            return Err(Error::corrupt("the pool's parameters", 24));
        }
        Ok(Self {
            parameters,
            id: u64_at(48),
            created: u64_at(56),
        })
    }

    /// Checks the number of committed frames against the parameters and the file's length.
    pub fn check_committed(geometry: &Geometry, committed: u64, file_len: u64) -> Result<()> {
        if committed > geometry.parameters.max_frames {
            return Err(Error::corrupt(
                "the number of committed frames",
                COMMITTED.offset(),
            ));
        }
        if geometry.data + committed * FRAME > file_len {
            return Err(Error::corrupt(
                "a file shorter than what is committed (was it truncated?), seen",
                file_len,
            ));
        }
        Ok(())
    }
}

/// The first epoch of a pool: large enough that "minus one" never wraps.
pub const EPOCH_FIRST: u64 = 8;
