//! Reads of bytes that another process may change meanwhile: a word read exactly once, and copies by atomic loads.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A word within bytes of the pool, read once: what was checked is what is used.
///
/// A compiler may read a plain word of a slice several times, as nobody should change it. But a foreign writer may, and
/// a length that changes after it was checked would lead out of the pool.
#[inline(always)]
pub fn read_once(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[at..at + 8].as_ptr();
    if word.cast::<u64>().is_aligned() {
        // SAFETY: eight bytes that can be read, as was just checked, and aligned. One load, as it is volatile.
        return unsafe { word.cast::<u64>().read_volatile() };
    }
    // Happens only if an offset is damaged.
    // SAFETY: the same for each of the eight bytes.
    let byte = |n| unsafe { word.add(n).read_volatile() };
    u64::from_le_bytes(std::array::from_fn(byte))
}

/// Copies bytes that others may change meanwhile: whole words where they are whole, else byte by byte, each by an
/// atomic load. No reference to them is made.
///
/// # Safety
///
/// As many bytes can be read from there on.
pub(super) unsafe fn copy_atomically(from: *mut u8, to: &mut [u8]) {
    let copy_bytes = |from: *mut u8, to: &mut [u8]| {
        for (n, byte) in to.iter_mut().enumerate() {
            // SAFETY: one of the bytes that the caller promises; only loaded.
            *byte = unsafe { AtomicU8::from_ptr(from.add(n)) }.load(Ordering::Relaxed);
        }
    };
    let ahead = from.align_offset(8).min(to.len());
    let (head, rest) = to.split_at_mut(ahead);
    copy_bytes(from, head);
    let mut from = from.wrapping_add(ahead);
    let mut words = rest.chunks_exact_mut(8);
    for word in &mut words {
        // SAFETY: eight of the bytes that the caller promises, aligned by `ahead`; only loaded.
        let value = unsafe { AtomicU64::from_ptr(from.cast()) }.load(Ordering::Relaxed);
        word.copy_from_slice(&value.to_ne_bytes());
        from = from.wrapping_add(8);
    }
    copy_bytes(from, words.into_remainder());
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
