//! Keys: byte strings in lexicographic order, compared by their first eight bytes first.

use std::cmp::Ordering;

/// The first eight bytes of a key as a number, a shorter key padded with zeroes. Where two heads differ, the keys
/// differ the same way.
#[inline(always)]
pub fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// How two keys compare: nearly always their heads decide.
#[inline(always)]
pub fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let (left_head, right_head) = (head_of(left), head_of(right));
    match left_head.cmp(&right_head) {
        Ordering::Equal => left.cmp(right),
        other => other,
    }
}

/// A place in the order, to be searched.
#[derive(Clone, Copy, Debug)]
pub enum Target<'k> {
    /// The place of a key: the key, and its head.
    At(&'k [u8], u64),
    /// The place just before a key: the key, and its head.
    Before(&'k [u8], u64),
    /// The end.
    Last,
}

impl<'k> Target<'k> {
    /// The place of a key.
    #[inline(always)]
    pub fn at(key: &'k [u8]) -> Self {
        Self::At(key, head_of(key))
    }

    /// The place before a key; the end if there is none.
    pub fn before(key: Option<&'k [u8]>) -> Self {
        key.map_or(Self::Last, |key| Self::Before(key, head_of(key)))
    }
}

/// The shortest key that is larger than `left` and not larger than `right`; `right` itself if that is no longer than a
/// head. `left` is smaller than `right`.
pub fn separator<'r>(left: &[u8], right: &'r [u8]) -> &'r [u8] {
    if right.len() <= 8 {
        return right;
    }
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    &right[..(common + 1).min(right.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_order_as_keys_do() {
        let keys: [&[u8]; 9] = [
            b"",
            b"\0",
            b"\0\0",
            b"a",
            b"a\0",
            b"ab",
            b"abcdefgh",
            b"abcdefghi",
            b"b",
        ];
        for pair in keys.windows(2) {
            assert!(
                pair[0] < pair[1] && head_of(pair[0]) <= head_of(pair[1]),
                "{pair:?}"
            );
        }
        for left in keys {
            for right in keys {
                assert_eq!(compare(left, right), left.cmp(right), "{left:?} {right:?}");
            }
        }
    }

    #[test]
    fn separators_separate() {
        let pairs: [(&[u8], &[u8]); 4] = [
            (b"", b"a"),
            (b"abcdefghij", b"abcdefghik"),
            (b"abcdefgh", b"abcdefgh\0"),
            (b"abc", b"bbbbbbbbbbbb"),
        ];
        for (left, right) in pairs {
            let between = separator(left, right);
            assert!(
                left < between && between <= right,
                "{left:?} {between:?} {right:?}"
            );
        }
        assert_eq!(separator(b"abc", b"bbbbbbbbbbbb"), b"b");
    }
}
