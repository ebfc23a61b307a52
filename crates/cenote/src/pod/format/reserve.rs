//! The word of a reserve: what a worker has taken out of a block and not used yet (see `heap`).

use crate::mutant::{self, Mutant};

/// A reserve word: block, cell word, mask of taken cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve(pub u64);

impl Reserve {
    const VALID: u64 = 1 << 63;

    /// No block.
    pub const NONE: Self = Self(0);

    /// A reserve of the block at `frame`: cell word `word`, cells `mask`.
    pub fn new(frame: u64, word: u32, mask: u64) -> Self {
        Self(Self::VALID | frame << 20 | u64::from(word) << 4 | mask)
    }

    /// The block's first frame, if there is a block.
    pub fn frame(self) -> Option<u64> {
        (self.0 & Self::VALID != 0).then_some((self.0 & !Self::VALID) >> 20)
    }

    /// The cell word.
    pub fn word(self) -> u32 {
        (self.0 >> 4) as u32 & 0xffff
    }

    /// The cells taken and not used; none where there is no block.
    #[inline(always)]
    pub fn mask(self) -> u64 {
        // The highest bit says that the word is valid: spread over all, it costs no branch.
        let is_judged = !mutant::is(Mutant::ReserveUnjudged);
        ((self.0 as i64 >> 63) as u64 | u64::from(!is_judged).wrapping_neg()) & self.0 & 0xf
    }

    /// Whether the library writes such words: nothing, or a block.
    pub fn is_sound(self) -> bool {
        self.0 == 0 || self.0 & Self::VALID != 0
    }

    /// The same without the cell of an object, if it is one of the word's.
    pub fn without(self, index: u32) -> Self {
        match self.word() == index / 4 {
            true => Self(self.0 & !(1 << (index % 4))),
            false => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_valid_has_neither_block_nor_cells() {
        let reserve = Reserve::new(3, 5, 0b1010);
        assert_eq!(
            (reserve.frame(), reserve.word(), reserve.mask()),
            (Some(3), 5, 0b1010)
        );
        assert!(reserve.is_sound() && Reserve::NONE.is_sound());
        let damaged = Reserve(reserve.0 & !Reserve::VALID);
        assert_eq!((damaged.frame(), damaged.mask()), (None, 0));
        assert!(!damaged.is_sound());
    }
}
