//! Levels: the arrays of groups that a map is made of, oldest first.
//!
//! ```text
//! line 0   reference of this level, and how many groups        written before publication
//! line 1   next        the level that this one moves to, or 0  sync
//! line 2   cursor      the next chunk of groups to move         sync
//! line 3   links       chain lines appended                     sync
//! line 4   grower      the worker preparing the next level, or 0  sync
//! line 5   retirer     the worker retiring this level, or 0     sync
//! line 6   spares      spare lines taken                        sync
//! line 7   drained     groups whose chains are freed            sync
//! line 8   done        one bit a chunk of 16 groups             sync
//!          groups      two lines each
//!          spare lines
//! ```
//!
//! The *spare lines* are for chains, when a move to this level needs a line and the pool is full. So a move that has
//! begun can always be finished, and keys can be deleted.
//!
//! A *group* is two adjacent lines of eight slots. A key belongs to one group, and within it to one line, its
//! home, which is searched first. The last slot of the second line links further lines (a *chain*) when both are
//! full, so that an insertion never has to wait for a larger level.
//!
//! A reference to a level is a word: offset, logarithm of its frames, and a last bit that only root words use.

use crate::error::{Error, Result};
use crate::memory::checked::{published, sync_word, unpublished};
use crate::memory::{LINE, Memory, SyncWord};

use crate::pod::Worker;
use crate::pod::format::geometry::{FRAME, FRAME_SHIFT};

/// Slots of a line.
pub const LINE_SLOTS: u64 = 8;
/// Bytes of a group.
pub const GROUP_BYTES: u64 = 128;
/// Slots of a group that hold bindings.
pub const GROUP_SLOTS: u64 = 15;
/// Groups that one helper moves at a time.
pub const CHUNK_GROUPS: u64 = 16;
/// The last bit of a root word: its replicas are being updated.
pub const UPDATING: u64 = 1;

/// The last bit of a replica: its worker has not checked yet that the root has stayed.
pub const TENTATIVE: u64 = 1;

const HEADER_BYTES: u64 = 512;
/// A level has one spare line for so many groups, but never fewer than [`SPARES_MIN`]. Of groups whose slots are filled
/// to 45 percent, as after a move, one in 300 or 400 has more keys than slots.
const GROUPS_PER_SPARE: u64 = 64;
const SPARES_MIN: u64 = 16;
const ORDER_SHIFT: u32 = 1;
const ORDER_MASK: u64 = 0x3f;

/// A level of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Where it is.
    pub offset: u64,
    /// Logarithm of its frames.
    pub order: u32,
    /// Its groups.
    pub groups: u64,
    first_group: u64,
}

impl Level {
    /// The level of `1 << order` frames at `offset`.
    #[inline]
    pub fn new(offset: u64, order: u32) -> Self {
        let bytes = FRAME << order;
        // Bits for as many groups as there could be, in whole lines.
        let done = ((bytes / GROUP_BYTES).div_ceil(CHUNK_GROUPS * 64) * 8).next_multiple_of(64);
        let first_group = HEADER_BYTES + done;
        let spares = (bytes / GROUP_BYTES / GROUPS_PER_SPARE).max(SPARES_MIN);
        Self {
            offset,
            order,
            groups: (bytes - first_group - spares * LINE) / GROUP_BYTES,
            first_group: offset + first_group,
        }
    }

    /// Reads a reference, checking it; `None` for 0.
    #[inline]
    pub fn decode<M: Memory>(worker: &Worker<M>, reference: u64) -> Result<Option<Self>> {
        let reference = reference & !UPDATING;
        if reference == 0 {
            return Ok(None);
        }
        let order = (reference >> ORDER_SHIFT & ORDER_MASK) as u32;
        let offset = reference & !(FRAME - 1);
        if order > 31 || reference & (FRAME - 1) & !(ORDER_MASK << ORDER_SHIFT) != 0 {
            return Err(Error::corrupt("a reference to a level", offset));
        }
        worker.check("a reference to a level", offset, FRAME << order)?;
        Ok(Some(Self::new(offset, order)))
    }

    /// The word that refers to it.
    pub fn reference(&self) -> u64 {
        self.offset | u64::from(self.order) << ORDER_SHIFT
    }

    /// Bytes of a level of that order.
    pub fn bytes(order: u32) -> u64 {
        1 << (FRAME_SHIFT + order)
    }

    /// The level that this one moves to.
    #[inline]
    pub fn next(&self) -> SyncWord {
        sync_word(self.offset + 64)
    }

    /// The next chunk of groups to move.
    pub fn cursor(&self) -> SyncWord {
        sync_word(self.offset + 128)
    }

    /// Chain lines appended.
    pub fn links(&self) -> SyncWord {
        sync_word(self.offset + 192)
    }

    /// The worker that prepares the next level.
    pub fn grower(&self) -> SyncWord {
        sync_word(self.offset + 256)
    }

    /// The worker that retires this level.
    pub fn retirer(&self) -> SyncWord {
        sync_word(self.offset + 320)
    }

    /// Spare lines taken.
    pub fn spares_taken(&self) -> SyncWord {
        sync_word(self.offset + 384)
    }

    /// Groups whose chains are freed, once the level is retired; written by the worker that holds the level's list.
    pub fn drained(&self) -> SyncWord {
        sync_word(self.offset + 448)
    }

    /// The spare line of a number, if there are so many.
    pub fn spare(&self, n: u64) -> Option<u64> {
        let first = self.group(self.groups);
        let count = (self.offset + Self::bytes(self.order) - first) / LINE;
        (n < count).then(|| first + n * LINE)
    }

    /// Whether a chain line is one of the spare lines: part of the level, and not an allocation.
    pub fn is_spare(&self, line: u64) -> bool {
        (self.group(self.groups)..self.offset + Self::bytes(self.order)).contains(&line)
    }

    /// The word of the done bitmap for a chunk, and its bit.
    pub fn done(&self, chunk: u64) -> (u64, u64) {
        (self.offset + HEADER_BYTES + chunk / 64 * 8, 1 << (chunk % 64))
    }

    /// Chunks of groups.
    pub fn chunks(&self) -> u64 {
        self.groups.div_ceil(CHUNK_GROUPS)
    }

    /// The group of a hash: its high bits, scaled.
    #[inline]
    pub fn group_of(&self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.groups)) >> 64) as u64
    }

    /// The first hash that belongs to a group; for the group after the last one, one more than the largest hash.
    pub fn first_hash(&self, group: u64) -> u128 {
        ((u128::from(group)) << 64).div_ceil(u128::from(self.groups))
    }

    /// The offset of a group's first line.
    #[inline]
    pub fn group(&self, group: u64) -> u64 {
        self.first_group + group * GROUP_BYTES
    }

    /// The slot that links a group's chain.
    pub fn link(&self, group: u64) -> SyncWord {
        sync_word(self.group(group) + 8 * GROUP_SLOTS)
    }

    /// Formats an empty level in unpublished memory. It is written back with the next fence, before it is published.
    pub fn format<M: Memory>(&self, mem: &M) {
        unpublished(self.offset, Self::bytes(self.order)).zero(mem);
        unpublished(self.offset, 8).write_word(mem, self.reference());
        unpublished(self.offset + 8, 8).write_word(mem, self.groups);
        mem.write_back(self.offset, Self::bytes(self.order));
    }
}

/// The level at an offset. Reads the reference that the level begins with.
pub fn at<M: Memory>(worker: &Worker<M>, offset: u64) -> Result<Level> {
    worker.check("a level", offset, FRAME)?;
    let mut word = [0; 8];
    published(offset, 8).copy_to(worker.mem(), &mut word);
    read_at(worker, offset, u64::from_le_bytes(word))
}

/// The level at an offset, by the first word there.
pub fn read_at<M: Memory>(worker: &Worker<M>, offset: u64, first: u64) -> Result<Level> {
    Level::decode(worker, first)?
        .filter(|level| level.offset == offset)
        .ok_or_else(|| Error::corrupt("a level", offset))
}

/// The home line of a hash within its group.
#[inline]
pub fn home_line(hash: u64) -> u64 {
    hash >> 16 & 1
}

/// Where the home line of a hash is in a level.
#[inline]
pub fn home_of(level: &Level, hash: u64) -> u64 {
    level.group(level.group_of(hash)) + home_line(hash) * LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_fit_and_hashes_map_to_them_in_order() {
        for order in 0..20 {
            let level = Level::new(1 << 40, order);
            assert!(level.group(level.groups) <= level.offset + Level::bytes(order));
            assert_eq!(level.group(0) % 64, 0);
            let (word, _) = level.done(level.chunks() - 1);
            assert!(word + 8 <= level.group(0));
            assert_eq!(level.group_of(u64::MAX), level.groups - 1);
            let spares = (0..).map_while(|n| level.spare(n)).count() as u64;
            assert!(spares >= SPARES_MIN && spares >= level.groups / GROUPS_PER_SPARE);
            assert!(level.spare(spares - 1).is_some_and(|line| level.is_spare(line)
                && level.is_spare(line + LINE - 1)
                && line + LINE <= level.offset + Level::bytes(order)));
            assert!(!level.is_spare(level.link(level.groups - 1).offset()));
            for group in [0, 1, level.groups / 2, level.groups - 1] {
                let first = level.first_hash(group);
                assert_eq!(level.group_of(first as u64), group);
                if group > 0 {
                    assert_eq!(level.group_of(first as u64 - 1), group - 1);
                }
            }
        }
    }
}
