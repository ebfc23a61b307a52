//! Worlds as numbers: explorations remember millions of them.

use std::hash::{Hash, Hasher};

/// A number that equal things have in common, and hardly any others.
pub fn hash_of(thing: &impl Hash) -> u64 {
    let mut hasher = Folded(0);
    thing.hash(&mut hasher);
    hasher.finish()
}

/// Multiplies and folds.
struct Folded(u64);

impl Folded {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        self.0 = product as u64 ^ (product >> 64) as u64 ^ word.rotate_left(32);
    }
}

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.fold(u64::from_le_bytes(word));
        }
        self.fold(bytes.len() as u64);
    }

    fn write_u8(&mut self, number: u8) {
        self.fold(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.fold(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
