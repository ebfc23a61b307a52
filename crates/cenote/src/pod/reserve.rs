//! The word of a reserve: what a worker has taken out of a block and not used yet (see `heap`).

/// A reserve word: block, cell word, mask of taken cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve(pub u64);

impl Reserve {
    const VALID: u64 = 1 << 63;

    /// No block.
    pub const NONE: Self = Self(0);

    /// A reserve of the block at `unit`: cell word `word`, cells `mask`.
    pub fn new(unit: u64, word: u32, mask: u64) -> Self {
        Self(Self::VALID | unit << 20 | u64::from(word) << 4 | mask)
    }

    /// The block's first unit, if there is a block.
    pub fn unit(self) -> Option<u64> {
        (self.0 & Self::VALID != 0).then_some((self.0 & !Self::VALID) >> 20)
    }

    /// The cell word.
    pub fn word(self) -> u32 {
        (self.0 >> 4) as u32 & 0xffff
    }

    /// The cells taken and not used.
    pub fn mask(self) -> u64 {
        self.0 & 0xf
    }

    /// The same without the cell of an object, if it is one of the word's.
    pub fn without(self, index: u32) -> Self {
        match self.word() == index / 4 {
            true => Self(self.0 & !(1 << (index % 4))),
            false => self,
        }
    }
}
