//! How a block is cut into objects of one size, and where it says which of them are free.
//!
//! | bytes of a block | |
//! |---|---|
//! | 0 to 7 | size of its objects, 0 while it is not cut |
//! | from 64 | a word for each object, its *mark*: the identity that it had when it was freed last |
//! | from there, at a multiple of 64 | the objects |
//!
//! An object is free if its mark is its first word, which no other object ever has: what is written there again has
//! another identity. So marks are never cleared, and one that comes late, or twice, says nothing.

use crate::verbs::{Address, GRANULE};

/// Bytes before the marks.
pub const HEADER: u32 = 64;
/// Bytes of a mark.
pub const MARK: u32 = 8;

/// A block that is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Its first byte.
    pub at: Address,
    /// Bytes of each object, a multiple of 64.
    pub size: u32,
    /// How many objects it has.
    pub count: u32,
}

impl Cut {
    /// A block of so many bytes, cut into objects of a size. `None` if it would have none.
    pub fn new(at: Address, block: u32, size: u32) -> Option<Self> {
        let room = block.checked_sub(HEADER + GRANULE)?;
        // A size that a node says may be any number.
        let count = room / size.checked_add(MARK)?;
        (count > 0 && size > 0 && size.is_multiple_of(GRANULE)).then_some(Self { at, size, count })
    }

    fn objects_at(&self) -> u32 {
        (HEADER + self.marks_len()).next_multiple_of(GRANULE)
    }

    /// Where the marks are.
    pub fn marks(&self) -> Address {
        self.at.plus(HEADER)
    }

    /// Bytes of all marks.
    pub fn marks_len(&self) -> u32 {
        self.count * MARK
    }

    /// Where an object is.
    pub fn object(&self, n: u32) -> Address {
        self.at.plus(self.objects_at() + n * self.size)
    }

    /// Where the mark of an object is.
    pub fn mark(&self, n: u32) -> Address {
        self.marks().plus(n * MARK)
    }

    /// Which object this is; `None` if none of its objects begins there.
    pub fn number(&self, object: Address) -> Option<u32> {
        let inside = object.bits().checked_sub(self.object(0).bits())?;
        let n = inside / u64::from(self.size);
        (inside.is_multiple_of(u64::from(self.size)) && n < u64::from(self.count)).then_some(n as u32)
    }
}

/// The size that an object of so many bytes gets: a multiple of 64, with at most a quarter of it left over.
pub fn size_of(bytes: u32) -> u32 {
    let granules = bytes.div_ceil(GRANULE).max(1);
    // Four sizes from each power of two to the next.
    let step = (granules.next_power_of_two() / 8).max(1);
    granules.next_multiple_of(step) * GRANULE
}

/// Bytes of the largest object that a block of so many bytes has room for; 0 if it has room for none.
pub fn largest(block: u32) -> u32 {
    // The header, and a granule of marks.
    block.saturating_sub(HEADER + GRANULE + MARK) / GRANULE * GRANULE
}

/// The size that an object of so many bytes gets in a block of so many; `None` if the block has no room for it.
pub fn class_of(bytes: u32, block: u32) -> Option<u32> {
    let largest = largest(block);
    (bytes <= largest && largest > 0).then(|| size_of(bytes).min(largest))
}

#[cfg(test)]
mod tests {
    use super::{Cut, class_of, largest, size_of};
    use crate::verbs::{Address, GRANULE};

    #[test]
    fn sizes_grow_by_a_quarter_at_most() {
        let mut sizes = std::collections::BTreeSet::new();
        for bytes in 1..100_000 {
            let size = size_of(bytes);
            assert!(size >= bytes && size.is_multiple_of(64));
            assert!(size - bytes < 64 || (size - bytes) * 4 <= size, "{bytes}: {size}");
            assert_eq!(size_of(size), size);
            sizes.insert(size);
        }
        assert!(sizes.len() < 48, "{}", sizes.len());
    }

    #[test]
    fn the_largest_object_has_a_block_to_itself() {
        let at = Address::new(3, 1 << 20);
        for block in [256, 2_048, 65_536, 1 << 18] {
            let largest = largest(block);
            let cut = Cut::new(at, block, largest).unwrap();
            assert_eq!(
                (cut.count, cut.object(0).plus(largest)),
                (1, at.plus(block - GRANULE))
            );
            assert_eq!(Cut::new(at, block, largest + 64), None);
            assert_eq!(class_of(largest + 1, block), None);
            for bytes in 1..=largest {
                let class = class_of(bytes, block).unwrap();
                assert!(class >= bytes && Cut::new(at, block, class).is_some());
            }
        }
        assert_eq!((largest(192), class_of(1, 192)), (0, None));
    }

    #[test]
    fn objects_are_apart_and_inside() {
        let at = Address::new(3, 1 << 20);
        for size in [64, 128, 1_024, 16_384] {
            let cut = Cut::new(at, 65_536, size).unwrap();
            assert!(cut.mark(cut.count - 1) < cut.object(0));
            assert!(cut.object(cut.count - 1).plus(size) <= at.plus(65_536));
            assert!(cut.object(0).bits().is_multiple_of(64));
            for n in 0..cut.count {
                assert_eq!(cut.number(cut.object(n)), Some(n));
            }
            assert_eq!(cut.number(cut.object(0).plus(1)), None);
            assert_eq!(cut.number(at), None);
            assert_eq!(cut.number(cut.object(cut.count)), None);
        }
        assert_eq!(Cut::new(at, 64, 64), None);
        // A node may say anything.
        for size in [
            0,
            1,
            65,
            u32::MAX - 63,
            u32::MAX - 8,
            u32::MAX - 7,
            u32::MAX - 6,
            u32::MAX,
        ] {
            assert_eq!(Cut::new(at, 65_536, size), None);
        }
        assert_eq!(Cut::new(at, 65_536, 65_536), None);
    }
}
