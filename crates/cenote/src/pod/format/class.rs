//! Size classes, and where the objects of a slab block are.
//!
//! A slab block begins with a table of 16-bit cells, one an object, four in a sync word; the objects follow. On
//! incoherent memory only classes of whole lines are used, so that no two objects share one.

use super::geometry::{FRAME, FRAME_SHIFT};
use crate::error::{Error, Result};

/// The layout of one class's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Bytes of an object.
    pub size: u32,
    /// Logarithm of the frames in a block.
    pub order: u32,
    /// Objects in a block.
    pub objects: u32,
    /// Where they begin, from the start of the block.
    pub start: u32,
    /// `ceil(2^36 / size)`: divides offsets within a block by multiplication.
    magic: u64,
}

/// The sizes: steps of 16 bytes, then four to each doubling.
const SIZES: [u32; 40] = [
    16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280,
    1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480,
    24576, 28672, 32768,
];

/// Number of classes.
pub const CLASSES: usize = SIZES.len();
/// The largest object that a slab holds; larger ones are extents.
pub const SLAB_MAX: u64 = 32768;

const _: () = assert!(
    CLASSES <= super::record::RESERVES,
    "each class needs a reserve in the worker record"
);

const fn layout(size: u32) -> Class {
    let order = if size > 4096 { 2 } else { 0 };
    let bytes = (FRAME as u32) << order;
    let mut objects = bytes / (size + 2);
    loop {
        let cells = (objects.div_ceil(4) * 8).next_multiple_of(64);
        if cells + objects * size <= bytes {
            return Class {
                size,
                order,
                objects,
                start: cells,
                magic: (1u64 << 36).div_ceil(size as u64),
            };
        }
        objects -= 1;
    }
}

/// All classes, by ascending size.
pub static TABLE: [Class; CLASSES] = {
    let mut table = [layout(16); CLASSES];
    let mut i = 0;
    while i < CLASSES {
        table[i] = layout(SIZES[i]);
        i += 1;
    }
    table
};

const fn by_size(line: bool) -> [u8; (SLAB_MAX / 16) as usize + 1] {
    let mut map = [0; (SLAB_MAX / 16) as usize + 1];
    let mut n = 0;
    while n < map.len() {
        let bytes = if line {
            (n as u32 * 16).next_multiple_of(64)
        } else {
            n as u32 * 16
        };
        let mut class = 0;
        while SIZES[class] < bytes || (line && !SIZES[class].is_multiple_of(64)) {
            class += 1;
        }
        map[n] = class as u8;
        n += 1;
    }
    map
}

static PACKED: [u8; (SLAB_MAX / 16) as usize + 1] = by_size(false);
static LINES: [u8; (SLAB_MAX / 16) as usize + 1] = by_size(true);

/// The smallest class that holds `len` bytes; `None` for what needs frames of its own.
#[inline]
pub fn class_for(len: u64, whole_lines: bool) -> Option<usize> {
    let index = len.div_ceil(16) as usize;
    let table = if whole_lines { &LINES } else { &PACKED };
    table.get(index).map(|&class| class as usize)
}

/// Calls `allocate` with a length; while it finds the pool full, again with the size of the next larger class of whole
/// lines.
pub fn at_any_size<R>(len: u64, mut allocate: impl FnMut(u64) -> Result<R>) -> Result<R> {
    let mut size = len;
    loop {
        match (allocate(size), larger_size(size)) {
            (Err(Error::Full { .. }), Some(larger)) => size = larger,
            (done, _) => return done,
        }
    }
}

/// The size of the next class of whole lines for what fills the class of `len` bytes; `None` if there is none.
pub fn larger_size(len: u64) -> Option<u64> {
    let size = |len| class_for(len, true).map(|class| u64::from(TABLE[class].size));
    size(size(len)? + 1)
}

impl Class {
    /// Words in the cell table.
    #[inline]
    pub fn words(&self) -> u32 {
        self.objects.div_ceil(4)
    }

    /// Frames in a block.
    pub fn frames(&self) -> u64 {
        1 << self.order
    }

    /// The object's number from its offset within the block, if one begins there.
    #[inline]
    pub fn index_of(&self, within: u64) -> Option<u32> {
        let from_start = within.checked_sub(u64::from(self.start))?;
        let index = (from_start * self.magic) >> 36;
        (index < u64::from(self.objects) && index * u64::from(self.size) == from_start)
            .then_some(index as u32)
    }

    /// Where object `index` is within the block.
    #[inline]
    pub fn offset_of(&self, index: u32) -> u64 {
        u64::from(self.start) + u64::from(index) * u64::from(self.size)
    }
}

/// The first frame of the block that holds `frame`, for a class whose blocks are aligned to their size.
#[inline]
pub fn block_start(frame: u64, order: u32) -> u64 {
    frame & !((1 << order) - 1)
}

const _: () = assert!(FRAME_SHIFT == 16, "class layouts assume frames of 64 KiB");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_is_found_again_and_nothing_else() {
        for class in &TABLE {
            assert!(class.start as u64 >= u64::from(class.objects.div_ceil(4)) * 8);
            let mut next = 0;
            for within in 0..FRAME << class.order {
                if class.objects > next && within == class.offset_of(next) {
                    assert_eq!(class.index_of(within), Some(next), "size {}", class.size);
                    next += 1;
                } else {
                    assert_eq!(class.index_of(within), None, "size {} at {within}", class.size);
                }
            }
            assert_eq!(next, class.objects);
        }
    }

    #[test]
    fn the_class_for_a_length_is_the_smallest_that_holds_it() {
        for len in 0..=SLAB_MAX {
            let packed = class_for(len, false).unwrap();
            assert!(u64::from(TABLE[packed].size) >= len);
            assert!(packed == 0 || u64::from(TABLE[packed - 1].size) < len);
            let lines = class_for(len, true).unwrap();
            assert!(u64::from(TABLE[lines].size) >= len && TABLE[lines].size.is_multiple_of(64));
        }
        assert_eq!(class_for(SLAB_MAX + 1, false), None);
    }
}
