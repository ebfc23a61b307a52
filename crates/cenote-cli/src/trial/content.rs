//! Values that identify themselves: a reader can tell a value's key, its writer, which of the writer's writes it was,
//! and whether every byte is right.
//!
//! A value begins with a stamp of 8 bytes: the writer (8 bits), the version (32 bits), and a check (24 bits) over the
//! run's seed, the key, the writer and the version. Its length and all further bytes follow from these too. A value of
//! fewer than 8 bytes is cut to its length.

/// The kinds of keys that a run has: each has a map, and keys by number.
pub trait Keyspace: Copy + Eq + std::fmt::Debug + 'static {
    /// All of them, in the order of their numbers.
    const ALL: &'static [Self];
    /// Its number.
    fn number(self) -> u8;
    /// How many keys there are; for each worker, where each key has one writer.
    fn keys(self) -> u32;
    /// Bytes of a value, from what its key and its stamp come to.
    fn len(self, base: u64) -> usize;

    /// The one of a number.
    fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Scrambles a word (the end of splitmix64).
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A value's writer, and which of the writer's writes it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The writer.
    pub writer: u32,
    /// The number of the writer's operation.
    pub version: u32,
}

/// Makes and checks the values of a run.
#[derive(Clone, Copy)]
pub struct Content {
    /// The run's seed, scrambled.
    pub seed: u64,
}

impl Content {
    /// For the run of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed: mix(seed ^ 0x6365_6e6f_7465),
        }
    }

    fn base<F: Keyspace>(&self, family: F, key: &[u8], stamp: Stamp) -> u64 {
        let mut base = self.seed ^ u64::from(family.number());
        // The ends of long keys are enough to tell them apart.
        let ends = if key.len() > 128 {
            [&key[..64], &key[key.len() - 64..]]
        } else {
            [key, &[]]
        };
        for chunk in ends.iter().flat_map(|end| end.chunks(8)) {
            let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            base = mix(base ^ word).wrapping_add(chunk.len() as u64);
        }
        mix(base ^ u64::from(stamp.writer) << 32 ^ u64::from(stamp.version))
    }

    /// Bytes of the value that a writer gives a key.
    pub fn len<F: Keyspace>(&self, family: F, key: &[u8], stamp: Stamp) -> usize {
        family.len(self.base(family, key, stamp))
    }

    /// Writes the value that a writer gives a key into `into`.
    pub fn value<F: Keyspace>(&self, family: F, key: &[u8], stamp: Stamp, into: &mut Vec<u8>) {
        let base = self.base(family, key, stamp);
        let len = family.len(base);
        into.clear();
        into.reserve(len + 8);
        let word = base >> 40 << 40 | u64::from(stamp.writer & 0xff) << 32 | u64::from(stamp.version);
        into.extend_from_slice(&word.to_le_bytes());
        let mut fill = base;
        while into.len() < len {
            fill = next(fill);
            into.extend_from_slice(&fill.to_le_bytes());
        }
        into.truncate(len);
    }

    /// Checks every byte of a value of a key; returns its stamp, or what is wrong with it.
    pub fn check<F: Keyspace>(&self, family: F, key: &[u8], value: &[u8]) -> Result<Stamp, String> {
        let Some((head, rest)) = value.split_first_chunk::<8>() else {
            return Err(format!("has {} bytes, no value has less than 8", value.len()));
        };
        let word = u64::from_le_bytes(*head);
        let stamp = Stamp {
            writer: (word >> 32) as u32 & 0xff,
            version: word as u32,
        };
        let base = self.base(family, key, stamp);
        if word >> 40 != base >> 40 {
            return Err(format!(
                "begins with {word:#018x}, which nobody has written to this key"
            ));
        }
        let len = family.len(base);
        if value.len() != len {
            return Err(format!("has {} bytes; {stamp:?} wrote {len}", value.len()));
        }
        let mut fill = base;
        for (n, chunk) in rest.chunks(8).enumerate() {
            fill = next(fill);
            if chunk != &fill.to_le_bytes()[..chunk.len()] {
                return Err(format!(
                    "is not what {stamp:?} wrote, from byte {} of {len} on",
                    8 + 8 * n
                ));
            }
        }
        Ok(stamp)
    }
}

fn next(fill: u64) -> u64 {
    let word = fill
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x1405_7b7e_f767_814f);
    word ^ (word >> 29)
}
