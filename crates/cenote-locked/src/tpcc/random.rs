//! Random numbers and texts of clause 2.1.6 and 4.3.2, from a seed.

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::words::text_of;

/// The run-time constants of `NURand`. Those of last names, of the load and of runs, differ by 66, which clause 2.1.6.1
/// allows.
const C_LAST_LOAD: u64 = 157;
const C_LAST_RUN: u64 = 223;
const C_CUSTOMER: u64 = 259;
const C_ITEM: u64 = 7911;

/// Syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];
/// What letters are drawn from.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789ab";

/// The last name of a number below 1,000.
pub fn last_name(number: u32) -> String {
    [number / 100, number / 10, number]
        .map(|digit| SYLLABLES[digit as usize % 10])
        .concat()
}

/// A source of choices.
pub struct Random(ChaCha8Rng);

impl Random {
    /// From a seed; streams of one seed are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut draws = ChaCha8Rng::seed_from_u64(seed);
        draws.set_stream(stream);
        Self(draws)
    }

    /// A number in a range, both ends included.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        self.0.random_range(least..=most)
    }

    /// Whether something of so many in a hundred happens.
    pub fn percent(&mut self, share: u64) -> bool {
        self.within(1, 100) <= share
    }

    /// `NURand`: some numbers far more often than others.
    fn skewed(&mut self, a: u64, c: u64, least: u64, most: u64) -> u64 {
        let drawn = self.within(0, a) | self.within(least, most);
        (drawn + c) % (most - least + 1) + least
    }

    /// The number of a customer.
    pub fn customer(&mut self, customers: u32) -> u32 {
        self.skewed(1023, C_CUSTOMER, 1, customers.into()) as u32
    }

    /// The number of an item.
    pub fn item(&mut self, items: u32) -> u64 {
        self.skewed(8191, C_ITEM, 1, items.into())
    }

    /// The number of a last name, for the load.
    pub fn name_to_load(&mut self, names: u32) -> u32 {
        self.skewed(255, C_LAST_LOAD, 0, 999) as u32 % names
    }

    /// The number of a last name, for runs.
    pub fn name(&mut self, names: u32) -> u32 {
        self.skewed(255, C_LAST_RUN, 0, 999) as u32 % names
    }

    /// A text of letters and digits, of a length in this range.
    pub fn text<const WORDS: usize>(&mut self, least: u64, most: u64) -> [u64; WORDS] {
        let len = self.within(least, most) as usize;
        let mut words = [0; WORDS];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        let len = len.min(bytes.len());
        self.0.fill_bytes(&mut bytes[..len]);
        for byte in &mut bytes[..len] {
            *byte = LETTERS[usize::from(*byte % 64)];
        }
        words
    }

    /// A text as data have it: in one of ten, "ORIGINAL" somewhere in it (clause 4.3.3.1).
    pub fn data(&mut self) -> [u64; 7] {
        let mut words = self.text::<7>(26, 50);
        if self.percent(10) {
            let at = self.within(0, 18) as usize;
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
            bytes[at..at + 8].copy_from_slice(b"ORIGINAL");
        }
        words
    }

    /// An address: streets, city, state, zip.
    pub fn address(&mut self) -> [u64; 12] {
        let mut words = [0; 12];
        for place in 0..3 {
            words[3 * place..3 * place + 3].copy_from_slice(&self.text::<3>(10, 20));
        }
        words[9..10].copy_from_slice(&self.text::<1>(2, 2));
        let zip = format!("{:04}11111", self.within(0, 9999));
        words[10..].copy_from_slice(&text_of::<2>(zip.as_bytes()));
        words
    }

    /// All numbers from 1 on, in any order.
    pub fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (1..=count).collect();
        for n in (1..all.len()).rev() {
            all.swap(n, self.within(0, n as u64) as usize);
        }
        all
    }
}
