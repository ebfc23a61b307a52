//! Cutting by content: a rolling hash over the last bytes says where a chunk ends, so that what is the same is cut the
//! same, whatever is before it.
//!
//! The hash is a gear hash: shifted by one for each byte, with a random number of the byte added, so that a byte's part
//! has left it after 64 more. A chunk ends where its highest bits are zero.

/// The shortest chunk, but for the last of a block.
const LEAST: usize = 2 << 10;
/// The longest.
const MOST: usize = 64 << 10;
/// One in so many places is an end: chunks have about this much more than the least.
const BITS: u32 = 13;

const GEAR: [u64; 256] = gear();

/// Fixed numbers: SplitMix64 from 0. They are part of the archive's making, not of its format.
const fn gear() -> [u64; 256] {
    let mut table = [0; 256];
    let (mut n, mut state) = (0, 0u64);
    while n < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[n] = word ^ word >> 31;
        n += 1;
    }
    table
}

/// The chunks of a block.
pub fn chunks(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = block;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (chunk, after) = rest.split_at(end_of(rest));
        rest = after;
        Some(chunk)
    })
}

fn end_of(bytes: &[u8]) -> usize {
    let most = bytes.len().min(MOST);
    let mut hash = 0u64;
    for (n, byte) in bytes[..most].iter().enumerate().skip(LEAST.saturating_sub(64)) {
        hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
        if n >= LEAST && hash >> (64 - BITS) == 0 {
            return n + 1;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Numbers;

    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut numbers = Numbers::new(seed);
        (0..len).map(|_| numbers.next() as u8).collect()
    }

    #[test]
    fn chunks_are_the_block_and_of_fitting_lengths() {
        for block in [noise(1 << 20, 1), vec![7; 1 << 20], noise(100, 2), Vec::new()] {
            let all: Vec<&[u8]> = chunks(&block).collect();
            assert_eq!(all.concat(), block);
            let inner = &all[..all.len().saturating_sub(1)];
            assert!(inner.iter().all(|chunk| (LEAST..=MOST).contains(&chunk.len())));
        }
    }

    #[test]
    fn what_is_moved_is_cut_the_same() {
        let content = noise(500_000, 3);
        let moved = [noise(1_234, 4), content.clone()].concat();
        let (before, after): (Vec<_>, Vec<_>) = (chunks(&content).collect(), chunks(&moved).collect());
        let same = before.iter().filter(|chunk| after.contains(chunk)).count();
        assert!(same * 10 > before.len() * 9, "{same} of {}", before.len());
    }
}
