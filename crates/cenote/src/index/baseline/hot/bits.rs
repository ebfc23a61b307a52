//! Extracting and depositing bits of keys.

/// The bits of a word that a mask has, moved together, in order.
pub fn extract(word: u64, mask: u64) -> u64 {
    each(mask)
        .zip(0..)
        .fold(0, |all, (bit, n)| all | u64::from(word & bit != 0) << n)
}

/// The lowest bits of a word, moved to where a mask has bits, in order.
pub fn deposit(word: u64, mask: u64) -> u64 {
    each(mask)
        .zip(0..)
        .fold(0, |all, (bit, n)| all | if word >> n & 1 != 0 { bit } else { 0 })
}

/// The highest bit of a word, alone; 0 if it has none.
pub fn highest(word: u64) -> u64 {
    match word {
        0 => 0,
        word => 1 << word.ilog2(),
    }
}

/// The bits of a mask above one of them.
pub fn above(bit: u64) -> u64 {
    !(bit | bit.wrapping_sub(1))
}

/// Each bit of a mask, the lowest first.
fn each(mut mask: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = mask & mask.wrapping_neg();
        mask ^= bit;
        (bit != 0).then_some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_and_apart() {
        let mask = 1 << 63 | 1 << 40 | 0b110;
        let word = 1 << 63 | 0b100 | 1 << 20;
        assert_eq!(extract(word, mask), 0b1010);
        assert_eq!(deposit(0b1010, mask), 1 << 63 | 0b100);
        assert_eq!(deposit(0b0101, mask), 1 << 40 | 0b010);
        assert_eq!(extract(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!((highest(0), highest(0b101), highest(u64::MAX)), (0, 4, 1 << 63));
        assert_eq!((above(1 << 63), above(4)), (0, !7));
    }
}
