//! What a line or a lock's region holds: words by their offsets, of which most are 0.

/// Bytes that move as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    bytes: u64,
    /// The words that are not 0.
    words: Vec<(u64, u64)>,
}

impl Data {
    /// So many bytes, all 0.
    pub fn zeroed(bytes: u64) -> Self {
        Self {
            bytes,
            words: Vec::new(),
        }
    }

    /// How many bytes they are.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The word at an offset.
    pub fn get(&self, at: u64) -> u64 {
        let found = self.words.iter().find(|(offset, _)| *offset == at);
        found.map_or(0, |(_, value)| *value)
    }

    /// Sets the word at an offset.
    pub fn set(&mut self, at: u64, value: u64) {
        match self.words.iter_mut().find(|(offset, _)| *offset == at) {
            Some((_, word)) => *word = value,
            None => self.words.push((at, value)),
        }
    }
}
