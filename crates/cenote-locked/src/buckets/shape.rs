//! Sizes of a table, and where things are in a bucket.

use crate::error::{Error, Result};

/// Bytes of a bucket that travel with its lock: its first region.
pub const PAGE: u64 = 4096;
/// The most keys of a bucket: with the free slot, slots have 6 bits.
pub const SLOTS_MAX: u32 = 63;
/// The most bytes of a value: less than a slot in a page beside the index.
pub const VALUE_MAX: u32 = 2048;

/// Words of the first region.
const FIRST: u64 = PAGE / 8;
/// Words of a slot beside its value: key and length.
pub(super) const SLOT_HEAD: u64 = 2;

/// Sizes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many buckets it has, each with a lock.
    pub buckets: u32,
    /// How many keys a bucket has room for, 1 to [`SLOTS_MAX`].
    pub slots: u32,
    /// The most bytes of a value, 0 to [`VALUE_MAX`].
    pub value_max: u32,
}

impl Shape {
    /// Fails if a size is out of range.
    ///
    /// Errors: [`Error::Setting`].
    pub fn check(&self) -> Result<()> {
        let refuse = |what, value: u32, why| {
            let value = value.into();
            Err(Error::Setting { what, value, why })
        };
        if self.buckets == 0 {
            return refuse("the number of buckets", self.buckets, "a table has 1 or more");
        }
        if !(1..=SLOTS_MAX).contains(&self.slots) {
            return refuse("the number of slots", self.slots, "a bucket has 1 to 63");
        }
        if self.value_max > VALUE_MAX {
            return refuse(
                "the length of values",
                self.value_max,
                "values have 2,048 bytes at most",
            );
        }
        Ok(())
    }

    /// What a bucket's first word says of its sizes. Never 0.
    pub(super) fn word(&self) -> u64 {
        u64::from(self.slots) << 32 | u64::from(self.value_max)
    }

    fn slot_words(&self) -> u64 {
        SLOT_HEAD + u64::from(self.value_max).div_ceil(8)
    }

    /// The word of the index with a number.
    pub(super) fn index(&self, n: u32) -> u64 {
        1 + u64::from(n)
    }

    /// How many slots lie in the first region.
    pub(super) fn slots_in_page(&self) -> u64 {
        (FIRST - self.index(self.slots)) / self.slot_words()
    }

    /// The first word of a slot. None lies in both regions.
    pub(super) fn slot(&self, slot: u32) -> u64 {
        let (slot, in_page) = (u64::from(slot), self.slots_in_page());
        match slot.checked_sub(in_page) {
            None => self.index(self.slots) + slot * self.slot_words(),
            Some(beyond) => FIRST + beyond * self.slot_words(),
        }
    }

    /// Bytes of a bucket's second region, which may be none.
    pub fn overflow_bytes(&self) -> u64 {
        let all = u64::from(self.slots) + 1;
        all.saturating_sub(self.slots_in_page()) * self.slot_words() * 8
    }

    /// The bucket of a hash.
    pub(super) fn bucket(&self, hash: u64) -> u32 {
        (hash % u64::from(self.buckets)) as u32
    }
}
