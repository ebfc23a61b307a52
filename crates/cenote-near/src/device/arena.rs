//! An arena of 32-bit words. A block is an index, and index 0 is none.
//!
//! Blocks come in all sizes up to [`LARGEST`]. A free block is joined with free neighbours, so what was taken as blocks
//! of one size serves for all others once it is back; what is free at the end counts as never taken.
//!
//! | words of a free block | |
//! |---|---|
//! | 0 | [`FREE`] |
//! | 1, 2 | the next and the previous one of its list |
//! | 3, and the last | how many words it has |
//!
//! Of a taken block the arena has the two highest bits of word 0, which say what it and the block before it are; the
//! rest is its owner's ([`Arena::header`]). So joining costs a taken block no word (boundary tags: Knuth, The Art of
//! Computer Programming, volume 1, section 2.5). There is a list for each size, and one for all that are larger than
//! any that is asked for.

/// Words of the largest block.
pub const LARGEST: u32 = 72;
/// Words of the smallest free block.
const LEAST: u32 = 4;
/// Free blocks from so many words on are in one list: what is left of one is a block, whatever is taken of it.
const LARGE: u32 = LARGEST + LEAST;

/// In word 0: this block is free.
const FREE: u32 = 1 << 31;
/// In word 0: the block before it is free.
const AFTER_FREE: u32 = 1 << 30;
/// In word 0 of a taken block: the owner's.
const HEADER: u32 = AFTER_FREE - 1;

/// Words, and which of them are free.
pub struct Arena {
    words: Vec<u32>,
    limit: usize,
    /// The first of each list: of the sizes below [`LARGE`], and at 0 of all others.
    free: [u32; LARGE as usize],
    /// Which of them are not empty.
    sizes: u128,
    /// Of the large ones, the words that are surely to be had.
    large: u64,
    used: u64,
    /// Words read and written for taking and giving back.
    accesses: u64,
}

/// The list of a size.
fn list_of(words: u32) -> u32 {
    if words < LARGE { words } else { 0 }
}

impl Arena {
    /// An empty one that may grow to so many bytes.
    pub fn new(bytes: u64) -> Self {
        let limit = (bytes / 4).clamp(1 << 10, 1 << 31) as usize;
        Self {
            words: vec![0],
            limit,
            free: [0; LARGE as usize],
            sizes: 0,
            large: 0,
            used: 0,
            accesses: 0,
        }
    }

    /// A block of so many words, [`LEAST`] to [`LARGEST`], all 0; none if there is no room.
    pub fn take(&mut self, words: u32) -> Option<u32> {
        debug_assert!((LEAST..=LARGEST).contains(&words));
        let block = match self.fitting(words) {
            Some(block) => {
                let has = self.unlink(block);
                self.words[block as usize..][..words as usize].fill(0);
                match has - words {
                    0 => self.set_after_free(block + words, false),
                    left => self.link(block + words, left),
                }
                block
            }
            None => {
                let end = self.words.len() + words as usize;
                if end > self.limit {
                    return None;
                }
                let block = self.words.len() as u32;
                self.words.resize(end, 0);
                block
            }
        };
        self.accesses += 1;
        self.used += u64::from(words);
        Some(block)
    }

    /// A free block with so many words, or with enough more for a block of its own: the smallest that is not large.
    fn fitting(&self, words: u32) -> Option<u32> {
        let exact = self.free[words as usize];
        if exact != 0 {
            return Some(exact);
        }
        let larger = self.sizes >> (words + LEAST) << (words + LEAST);
        let list = if larger == 0 { 0 } else { larger.trailing_zeros() };
        let block = self.free[list as usize];
        (block != 0).then_some(block)
    }

    /// Gives a block back.
    pub fn give(&mut self, block: u32, words: u32) {
        let (mut from, mut to) = (block, block + words);
        self.used -= u64::from(words);
        self.accesses += 2;
        if self.get(block) & AFTER_FREE != 0 {
            from -= self.get(block - 1);
            self.unlink(from);
        }
        if to as usize == self.words.len() {
            return self.words.truncate(from as usize);
        }
        if self.get(to) & FREE != 0 {
            to += self.unlink(to);
        }
        self.link(from, to - from);
    }

    /// Puts a block into its list; the blocks around it are taken.
    fn link(&mut self, block: u32, words: u32) {
        let list = list_of(words);
        let next = self.free[list as usize];
        self.set(block, FREE);
        self.set(block + 1, next);
        self.set(block + 2, 0);
        self.set(block + 3, words);
        self.set(block + words - 1, words);
        if next != 0 {
            self.set(next + 2, block);
        }
        self.free[list as usize] = block;
        match list {
            0 => self.large += u64::from(words - (LARGE - 1)),
            size => self.sizes |= 1 << size,
        }
        self.set_after_free(block + words, true);
        self.accesses += 6;
    }

    /// Takes a free block out of its list. Its words.
    fn unlink(&mut self, block: u32) -> u32 {
        let [next, previous, words] = [1, 2, 3].map(|n| self.get(block + n));
        let list = list_of(words);
        if next != 0 {
            self.set(next + 2, previous);
        }
        match previous {
            0 => self.free[list as usize] = next,
            _ => self.set(previous + 1, next),
        }
        match list {
            0 => self.large -= u64::from(words - (LARGE - 1)),
            size if self.free[size as usize] == 0 => self.sizes &= !(1 << size),
            _ => {}
        }
        self.accesses += 4;
        words
    }

    /// Tells a block what the one before it is. There is one behind a free block.
    fn set_after_free(&mut self, block: u32, is_free: bool) {
        let word = self.get(block) & !AFTER_FREE;
        self.set(block, word | if is_free { AFTER_FREE } else { 0 });
        self.accesses += 1;
    }

    /// Words of blocks that are taken.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Words that blocks of any sizes may have in all, one after another. There may be room for more.
    ///
    /// Why: what is taken comes from lists of smaller blocks, which are not counted; else from a large one, of which at
    /// most `LARGE - 1` words are left when it is none any more; and at last from the end, to its last word.
    pub fn room(&self) -> u64 {
        self.large + (self.limit - self.words.len()) as u64
    }

    /// Words read and written for taking and giving back since this was asked last.
    pub fn take_accesses(&mut self) -> u64 {
        std::mem::take(&mut self.accesses)
    }

    /// What the owner of a block has in its word 0: 30 bits.
    pub fn header(&self, block: u32) -> u32 {
        self.get(block) & HEADER
    }

    pub fn set_header(&mut self, block: u32, header: u32) {
        let word = self.get(block) & !HEADER;
        self.set(block, word | header & HEADER);
    }

    pub fn get(&self, index: u32) -> u32 {
        self.words[index as usize]
    }

    pub fn set(&mut self, index: u32, word: u32) {
        self.words[index as usize] = word;
    }

    /// Moves words up or down, over what is there.
    pub fn shift(&mut self, first: u32, end: u32, by: i32) {
        let to = first.wrapping_add_signed(by);
        self.words.copy_within(first as usize..end as usize, to as usize);
    }

    /// Copies words to other ones.
    pub fn copy(&mut self, from: u32, to: u32, words: u32) {
        let from = from as usize;
        self.words.copy_within(from..from + words as usize, to as usize);
    }

    pub fn get_long(&self, index: u32) -> u64 {
        u64::from(self.get(index)) | u64::from(self.get(index + 1)) << 32
    }

    pub fn set_long(&mut self, index: u32, long: u64) {
        self.set(index, long as u32);
        self.set(index + 1, (long >> 32) as u32);
    }
}

#[cfg(test)]
impl Arena {
    /// The invariants of the module's header; the blocks that are free, with their words.
    pub fn check(&self) -> Vec<(u32, u32)> {
        let mut free = Vec::new();
        for list in 0..LARGE {
            let (mut block, mut previous) = (self.free[list as usize], 0);
            assert_eq!(list != 0 && block != 0, self.sizes >> list & 1 == 1);
            while block != 0 {
                let words = self.get(block + 3);
                assert_eq!((list_of(words), self.get(block + 2)), (list, previous));
                assert_eq!(self.get(block + words - 1), words);
                assert_eq!(self.get(block), FREE, "two free blocks are neighbours");
                assert_eq!(self.get(block + words) & !HEADER, AFTER_FREE);
                free.push((block, words));
                (previous, block) = (block, self.get(block + 1));
            }
        }
        let sure = |words: u32| u64::from(words.saturating_sub(LARGE - 1));
        assert_eq!(self.large, free.iter().map(|block| sure(block.1)).sum::<u64>());
        let words: u64 = free.iter().map(|block| u64::from(block.1)).sum();
        assert_eq!(1 + self.used + words, self.words.len() as u64, "words are lost");
        free
    }
}
