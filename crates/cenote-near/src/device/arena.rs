//! An arena of 32-bit words. A block is an index, and index 0 is none.
//!
//! Blocks come in all sizes up to [`LARGEST`]; a free one is in the list of its size, by its first word. Blocks are
//! never joined: sizes are those of nodes, of which few are common. Taking and giving back cost one
//! or two accesses each.

/// Words of the largest block.
pub const LARGEST: u32 = 72;

/// Words, and which of them are free.
pub struct Arena {
    words: Vec<u32>,
    limit: usize,
    free: [u32; LARGEST as usize + 1],
    used: u64,
}

impl Arena {
    /// An empty one that may grow to so many bytes.
    pub fn new(bytes: u64) -> Self {
        let limit = (bytes / 4).clamp(1 << 10, 1 << 31) as usize;
        Self {
            words: vec![0],
            limit,
            free: [0; LARGEST as usize + 1],
            used: 0,
        }
    }

    /// A block of so many words, all 0; none if there is no room.
    pub fn take(&mut self, words: u32) -> Option<u32> {
        let list = self.free.get_mut(words as usize)?;
        let block = *list;
        if block != 0 {
            *list = self.words[block as usize];
            self.words[block as usize..][..words as usize].fill(0);
            self.used += u64::from(words);
            return Some(block);
        }
        let end = self.words.len() + words as usize;
        if end > self.limit {
            return None;
        }
        let block = self.words.len() as u32;
        self.words.resize(end, 0);
        self.used += u64::from(words);
        Some(block)
    }

    /// Gives a block back.
    pub fn give(&mut self, block: u32, words: u32) {
        if let Some(list) = self.free.get_mut(words as usize) {
            self.words[block as usize] = *list;
            *list = block;
            self.used -= u64::from(words);
        }
    }

    /// Words of blocks that are taken.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Words that were never taken: room for blocks of any size.
    pub fn untouched(&self) -> u64 {
        (self.limit - self.words.len()) as u64
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
