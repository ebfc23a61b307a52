//! Words of protected data that decide where else is read: each is read once.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The word of some bytes of the pool, read once: what was checked of it is what is used.
///
/// A compiler may read a plain word of a slice as often as it likes, as nobody changes it. But somebody may write where no writer of this library
/// would, and a length that is another one after it was checked would lead out of the pool.
#[inline(always)]
pub fn read_once(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[at..at + 8].as_ptr().cast_mut();
    if word.cast::<u64>().is_aligned() {
        // SAFETY: eight bytes that can be read, as was just checked, aligned, and only loaded.
        return unsafe { AtomicU64::from_ptr(word.cast()) }.load(Ordering::Relaxed);
    }
    // Only where an offset is damaged.
    // SAFETY: the same for each of the eight bytes.
    let byte = |n| unsafe { AtomicU8::from_ptr(word.add(n)) }.load(Ordering::Relaxed);
    u64::from_le_bytes(std::array::from_fn(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_wherever_it_is() {
        let bytes: Vec<u8> = (0..32).collect();
        for at in 0..=24 {
            let expected = u64::from_le_bytes(std::array::from_fn(|n| (at + n) as u8));
            assert_eq!(read_once(&bytes, at), expected);
        }
    }
}
