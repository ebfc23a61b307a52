//! The block table: one sync word a frame says what the frame is and which worker owns it.
//!
//! | kind | word |
//! |---|---|
//! | free | 0 |
//! | slab | kind, ready bit, class, owner |
//! | tail | kind: a further frame of the slab block that begins at the aligned frame before |
//! | extent | kind, state (pending, live, retired), owner or retirer, number of frames |
//! | hole | kind, punched bit, order, epoch; see [`crate::pod::alloc::holes`] |
//!
//! The owner is a worker's index plus one; 0 is nobody. Only its owner takes free cells from a slab block; a pending
//! extent belongs to a worker that has not published it. Only the first frame's word of an extent or of a hole means
//! anything.

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Not allocated.
    Free,
    /// The first frame of a slab block.
    Slab {
        /// Its size class.
        class: u8,
        /// Whether its cells are initialised.
        ready: bool,
        /// The worker that takes cells from it: index plus one, or 0.
        owner: u16,
    },
    /// A further frame of a slab block.
    Tail,
    /// The first frame of an extent.
    Extent {
        /// Its frames.
        frames: u32,
        /// Whether it is published.
        state: ExtentState,
        /// Owner while pending, retirer when retired: worker index plus one.
        owner: u16,
    },
    /// The first frame of a block that is free, and without bytes.
    Hole {
        /// The logarithm of its number of frames.
        order: u8,
        /// Whether its bytes are gone for certain.
        is_punched: bool,
        /// An epoch after it was marked; 0 if it has not been dated.
        epoch: u64,
    },
    /// Not a value that this library writes.
    Damaged,
}

/// The state of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentState {
    /// Allocated, and not published.
    Pending,
    /// Published, or private to the structure that its owner has.
    Live,
    /// Unlinked, waiting until no reader can hold it.
    Retired,
}

impl Block {
    /// Reads a table word.
    #[inline]
    pub fn decode(word: u64) -> Self {
        let owner = (word >> 16) as u16;
        match word & 0xf {
            0 if word == 0 => Self::Free,
            1 => Self::Slab {
                class: (word >> 8) as u8,
                ready: word & 0x10 != 0,
                owner,
            },
            2 => Self::Tail,
            3 => {
                let state = match (word >> 4) & 0xf {
                    0 => ExtentState::Pending,
                    1 => ExtentState::Live,
                    2 => ExtentState::Retired,
                    _ => return Self::Damaged,
                };
                Self::Extent {
                    frames: (word >> 32) as u32,
                    state,
                    owner,
                }
            }
            4 if (word >> 8) as u8 <= 31 => Self::Hole {
                order: (word >> 8) as u8,
                is_punched: word & 0x10 != 0,
                epoch: word >> 16,
            },
            _ => Self::Damaged,
        }
    }

    /// The table word.
    #[inline]
    pub fn encode(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::Slab { class, ready, owner } => {
                1 | u64::from(ready) << 4 | u64::from(class) << 8 | u64::from(owner) << 16
            }
            Self::Tail => 2,
            Self::Extent { frames, state, owner } => {
                3 | (state as u64) << 4 | u64::from(owner) << 16 | u64::from(frames) << 32
            }
            Self::Hole {
                order,
                is_punched,
                epoch,
            } => 4 | u64::from(is_punched) << 4 | u64::from(order) << 8 | epoch << 16,
            Self::Damaged => 0xf,
        }
    }
}

/// The cell of an allocated object.
pub const CELL_LIVE: u16 = 0;
/// The cell of a free object. Every other value is the index plus one of the worker in whose name the object is being
/// freed.
pub const CELL_FREE: u16 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_round_trip() {
        let blocks = [
            Block::Free,
            Block::Tail,
            Block::Slab {
                class: 39,
                ready: false,
                owner: 7,
            },
            Block::Slab {
                class: 0,
                ready: true,
                owner: 0,
            },
            Block::Extent {
                frames: 1 << 30,
                state: ExtentState::Retired,
                owner: 0x8000,
            },
            Block::Extent {
                frames: 1,
                state: ExtentState::Pending,
                owner: 1,
            },
            Block::Hole {
                order: 5,
                is_punched: true,
                epoch: 1 << 40,
            },
        ];
        for block in blocks {
            assert_eq!(Block::decode(block.encode()), block);
        }
        assert_eq!(Block::decode(0x10), Block::Damaged);
        assert_eq!(Block::decode(0x83), Block::Damaged);
    }
}
