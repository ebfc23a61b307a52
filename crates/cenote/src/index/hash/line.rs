//! A line of slots as it was read, searched without a branch for each slot.
//!
//! A branch predictor cannot guess whether and where something is on a line, and a processor that guesses wrong throws
//! away the work that it had begun on the next operations, cache misses included. So all eight slots are checked, and
//! one branch decides. For fingerprints the memory layer does the same (`Memory::tagged`).

use super::slot::Slot;

/// The slots of one line, in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct Line(pub [u64; 8]);

impl Line {
    /// The empty slots, as a mask.
    #[inline(always)]
    pub fn empty(&self) -> u32 {
        (0..8).fold(0, |mask, n| mask | u32::from(Slot(self.0[n]).is_empty()) << n)
    }

    /// Whether a slot says to look in the next level.
    #[inline(always)]
    pub fn has_moved(&self) -> bool {
        self.0.iter().fold(0, |moved, word| moved | word & word >> 1) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_name_the_slots() {
        let object = Slot::object(0x1230, true, 0xbeef);
        let line = Line([
            object.0,
            Slot::tombstone(3, 1).0,
            object.frozen().0,
            0,
            0,
            Slot::link(0x40).0,
            0,
            0,
        ]);
        assert_eq!(line.empty(), 0b1101_1000);
        assert!(!line.has_moved());
        assert!(Line([0, 0, Slot::EMPTY.moved().0, 0, 0, 0, 0, 0]).has_moved());
    }
}
