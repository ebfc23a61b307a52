//! The keys and values of a replay: made of what a trace records, so that a read can tell whether it read a value that
//! was written for its key, and all of it.
//!
//! | bytes of a value | what |
//! |---|---|
//! | 0–3 | version: the number of the request that wrote it, modulo 2^32 |
//! | 4–7 | check: a hash of key, version and size |
//! | from 8 | a stream of bytes drawn from key, version and size |
//!
//! A value of fewer than 8 bytes is the beginning of a hash of key and size. It tells foreign values by chance only.

use cenote_ycsb::key_of_record;

/// Bytes of a value before the stream.
const HEAD: usize = 8;

/// A hash of bytes, the same in every version.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
        key_of_record(hash.rotate_left(29) ^ word(chunk))
    })
}

fn word(chunk: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..chunk.len()].copy_from_slice(chunk);
    u64::from_le_bytes(word)
}

/// Appends a key of the recorded size: the recorded bytes, filled up by a hash of them, or cut and ended by one. Fewer
/// than 16 bytes of a longer text are all hash, so very short keys may coincide where the recorded ones did not. A size
/// of 0 is none that was recorded.
pub fn push_key(text: &[u8], size: usize, to: &mut Vec<u8>) {
    let kept = match size {
        0 => text.len(),
        _ if text.len() <= size => text.len(),
        16.. => size - 8,
        _ => 0,
    };
    to.extend_from_slice(&text[..kept]);
    let fill = size.saturating_sub(kept);
    push_stream(hash(text), fill, to);
}

/// Appends bytes drawn from a seed.
fn push_stream(seed: u64, size: usize, to: &mut Vec<u8>) {
    let end = to.len() + size;
    let mut n = seed;
    while to.len() < end {
        n = n.wrapping_add(1);
        let bytes = key_of_record(n).to_le_bytes();
        to.extend_from_slice(&bytes[..(end - to.len()).min(8)]);
    }
}

/// What all bytes of a value hang on.
fn seed(key: u64, version: u32, size: usize) -> u64 {
    key_of_record(key ^ key_of_record(u64::from(version) << 32 ^ size as u64))
}

/// Makes the value of a key (its [`hash`]), for a version.
pub fn fill(value: &mut Vec<u8>, key: u64, version: u32, size: usize) {
    value.clear();
    if size < HEAD {
        value.extend_from_slice(&seed(key, 0, size).to_le_bytes()[..size]);
        return;
    }
    let seed = seed(key, version, size);
    value.extend_from_slice(&version.to_le_bytes());
    value.extend_from_slice(&((seed >> 32) as u32).to_le_bytes());
    push_stream(seed, size - HEAD, value);
}

/// What is wrong with a value that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// No replay wrote it for this key.
    Foreign,
    /// It begins as a value of this key and goes on as another.
    Torn,
}

/// Reads every byte of a value and says whether it is one that [`fill`] makes for the key.
pub fn check(value: &[u8], key: u64) -> Result<(), Wrong> {
    let Some((head, rest)) = value.split_first_chunk::<HEAD>() else {
        let wanted = seed(key, 0, value.len()).to_le_bytes();
        return if wanted.starts_with(value) {
            Ok(())
        } else {
            Err(Wrong::Foreign)
        };
    };
    let head = u64::from_le_bytes(*head);
    let seed = seed(key, head as u32, value.len());
    if head >> 32 != seed >> 32 {
        return Err(Wrong::Foreign);
    }
    let mut n = seed;
    for chunk in rest.chunks(8) {
        n = n.wrapping_add(1);
        let wanted = key_of_record(n) & (u64::MAX >> (64 - 8 * chunk.len()));
        if word(chunk) != wanted {
            return Err(Wrong::Torn);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &[u8], size: usize) -> Vec<u8> {
        let mut key = Vec::new();
        push_key(text, size, &mut key);
        key
    }

    #[test]
    fn keys_have_the_recorded_size() {
        assert_eq!(key(b"abc", 3), b"abc");
        assert_eq!(key(b"abc", 0), b"abc");
        for size in 1..100 {
            let made = key(b"nz:u:eeW511W3dcH3de3d15ec", size);
            assert_eq!(made.len(), size);
            assert_eq!(made, key(b"nz:u:eeW511W3dcH3de3d15ec", size));
            if size > 3 {
                assert_ne!(made, key(b"nz:u:eeW511W3dcH3de3d15ed", size), "{size}");
            }
        }
        assert!(key(b"abc", 9).starts_with(b"abc"));
        assert!(key(b"nz:u:eeW511W3dcH3de3d15ec", 20).starts_with(b"nz:u:eeW511W"));
    }

    #[test]
    fn values_are_told_from_others() {
        let mut value = Vec::new();
        for size in [0, 1, 7, 8, 9, 15, 16, 17, 1_000] {
            fill(&mut value, hash(b"k"), 77, size);
            assert_eq!((value.len(), check(&value, hash(b"k"))), (size, Ok(())));
            if size > 0 {
                assert_eq!(check(&value, hash(b"l")), Err(Wrong::Foreign), "{size}");
            }
            // Each changed byte is seen, and so is a value that is cut or half of an older one.
            for at in 0..size {
                let mut damaged = value.clone();
                damaged[at] ^= 1;
                let wrong = if at < HEAD { Wrong::Foreign } else { Wrong::Torn };
                assert_eq!(check(&damaged, hash(b"k")), Err(wrong), "{at} of {size}");
            }
            if size > HEAD {
                assert!(check(&value[..size - 1], hash(b"k")).is_err());
                let mut other = Vec::new();
                fill(&mut other, hash(b"k"), 78, size);
                let half = HEAD + (size - HEAD) / 2;
                other[..half].copy_from_slice(&value[..half]);
                assert_eq!(check(&other, hash(b"k")), Err(Wrong::Torn), "{size}");
            }
        }
    }
}
