//! Keys and values that say what they are: whoever reads a value can tell which key it belongs to, who wrote it,
//! which of his writes it was, and whether every byte is the one that he meant.
//!
//! A value begins with a stamp of 8 bytes: the writer (8 bits), the version (32 bits), and a check (24 bits) over the
//! run's seed, the key, the writer and the version. Its length and all further bytes follow from these too.

/// A map of the run, and what its pairs are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Family {
    /// 8-byte keys with 8-byte values; each key has one writer.
    Words,
    /// 8-byte keys with values of 8 bytes to 1 MiB; each key has one writer.
    Values,
    /// Keys of several sizes with small values; each key has one writer.
    Texts,
    /// Keys of all sizes that everybody writes.
    Shared,
    /// 8-byte counters that everybody increments.
    Counters,
    /// Vectors of one count a worker; everybody increments his own.
    Ledgers,
}

impl Family {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Words,
        Self::Values,
        Self::Texts,
        Self::Shared,
        Self::Counters,
        Self::Ledgers,
    ];
    /// Those in which each key has one writer.
    pub const OWNED: [Self; 3] = [Self::Words, Self::Values, Self::Texts];

    /// The name of its map.
    pub fn name(self) -> &'static str {
        ["words", "values", "texts", "shared", "counters", "ledgers"][self as usize]
    }

    /// How many keys there are; for each worker, where each key has one writer.
    pub fn keys(self) -> u32 {
        [2048, 2048, 2048, 256, 16, 16][self as usize]
    }

    /// The family of a number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Whether a key, once there, is never removed: a reader that misses it has found a fault.
pub fn is_permanent(index: u32) -> bool {
    index.is_multiple_of(8)
}

/// Scrambles a word (the end of splitmix64).
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Who wrote a value, and which of his writes it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The writer.
    pub writer: u32,
    /// The number of his operation.
    pub version: u32,
}

/// Writes a key into `into`. Owned keys depend on the worker and on the era: how often the key was given up.
pub fn key(family: Family, worker: u32, index: u32, era: u32, into: &mut Vec<u8>) {
    into.clear();
    let text = |into: &mut Vec<u8>, len: usize| {
        into.extend_from_slice(format!("{worker}/{index}/{era}/").as_bytes());
        let len = len.max(into.len());
        into.resize(len, b'.');
    };
    let draw = mix(u64::from(index) << 32 | u64::from(worker)) % 1000;
    match (family, index) {
        (Family::Texts, _) if draw < 20 => text(into, 1000 + draw as usize * 100),
        (Family::Texts, _) => text(into, draw as usize % 200),
        (Family::Shared, 1) => {}
        (Family::Shared, 3) => text(into, 1 << 16),
        (Family::Shared, _) if index % 2 == 1 => text(into, draw as usize % 300),
        (Family::Ledgers, _) => text(into, 20),
        _ => {
            into.extend_from_slice(&[family as u8, worker as u8]);
            into.extend_from_slice(&(index as u16).to_le_bytes());
            into.extend_from_slice(&era.to_le_bytes());
        }
    }
}

/// Whose key of an owned family this is: worker, index and era.
pub fn owner(family: Family, key: &[u8]) -> Option<(u32, u32, u32)> {
    if family == Family::Texts {
        let mut parts = std::str::from_utf8(key).ok()?.split('/').map(str::parse);
        return Some((parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?));
    }
    let [number, worker, low, high, era @ ..] = <[u8; 8]>::try_from(key).ok()?;
    (number == family as u8).then_some((
        u32::from(worker),
        u32::from(u16::from_le_bytes([low, high])),
        u32::from_le_bytes(era),
    ))
}

/// Makes and checks the values of a run.
#[derive(Clone, Copy)]
pub struct Content {
    seed: u64,
}

impl Content {
    /// For the run of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed: mix(seed ^ 0x6365_6e6f_7465),
        }
    }

    fn base(&self, family: Family, key: &[u8], stamp: Stamp) -> u64 {
        let mut base = self.seed ^ family as u64;
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

    fn len(family: Family, base: u64) -> usize {
        let (kind, draw) = (base % 1000, mix(base) as usize);
        match family {
            Family::Words | Family::Counters | Family::Ledgers => 8,
            Family::Texts => 8 + draw % 200,
            Family::Shared => 8 + draw % 2000,
            Family::Values => match kind {
                0..250 => 8,
                250..750 => 9 + draw % 504,
                750..998 => 9 + draw % 6000,
                _ => (100 << 10) + draw % (924 << 10),
            },
        }
    }

    /// Writes the value that a writer gives a key into `into`.
    pub fn value(&self, family: Family, key: &[u8], stamp: Stamp, into: &mut Vec<u8>) {
        let base = self.base(family, key, stamp);
        let len = Self::len(family, base);
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

    /// Checks every byte of a value of a key; says who wrote it, or what is wrong with it.
    pub fn check(&self, family: Family, key: &[u8], value: &[u8]) -> Result<Stamp, String> {
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
        let len = Self::len(family, base);
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

    /// The bytes of a counter that stands at `count`.
    pub fn counter(&self, key: &[u8], count: u64) -> [u8; 8] {
        let check = mix(self.seed ^ u64::from_le_bytes(key.try_into().unwrap_or_default()) ^ mix(count));
        (check >> 40 << 40 | count).to_le_bytes()
    }

    /// Where a counter stands.
    pub fn count_of(&self, key: &[u8], value: &[u8]) -> Result<u64, String> {
        let word = value
            .try_into()
            .map(u64::from_le_bytes)
            .map_err(|_| format!("has {} bytes", value.len()))?;
        let count = word & ((1 << 40) - 1);
        if self.counter(key, count) == word.to_le_bytes() {
            Ok(count)
        } else {
            Err(format!("is {word:#018x}, which no counter can be"))
        }
    }

    /// The bytes of a ledger.
    pub fn ledger(&self, counts: &[u32]) -> Vec<u8> {
        let check = counts
            .iter()
            .fold(self.seed, |check, count| mix(check ^ u64::from(*count)));
        let mut bytes = check.to_le_bytes().to_vec();
        counts
            .iter()
            .for_each(|count| bytes.extend_from_slice(&count.to_le_bytes()));
        bytes
    }

    /// The counts in a ledger.
    pub fn counts_of(&self, value: &[u8], workers: u32) -> Result<Vec<u32>, String> {
        let words = value.get(8..).unwrap_or_default().chunks_exact(4);
        let counts: Vec<u32> = words
            .map(|word| {
                word.iter()
                    .rev()
                    .fold(0, |count, byte| count << 8 | u32::from(*byte))
            })
            .collect();
        if counts.len() == workers as usize && self.ledger(&counts) == value {
            Ok(counts)
        } else {
            Err(format!(
                "is no ledger of {workers} counts: {counts:?}, {} bytes",
                value.len()
            ))
        }
    }
}

fn next(fill: u64) -> u64 {
    let word = fill
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x1405_7b7e_f767_814f);
    word ^ (word >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_is_seen() {
        let content = Content::new(7);
        let (mut name, mut value) = (Vec::new(), Vec::new());
        for family in [Family::Words, Family::Values, Family::Texts, Family::Shared] {
            for version in 1..200 {
                key(family, 3, 40, 2, &mut name);
                let stamp = Stamp { writer: 3, version };
                content.value(family, &name, stamp, &mut value);
                assert_eq!(content.check(family, &name, &value), Ok(stamp));
                let at = mix(u64::from(version)) as usize % value.len();
                value[at] ^= 1 << (version % 8);
                assert!(
                    content.check(family, &name, &value).is_err(),
                    "{family:?} {version} {at}"
                );
            }
        }
    }

    #[test]
    fn keys_name_their_owner() {
        let mut name = Vec::new();
        for family in Family::OWNED {
            for index in 0..family.keys() {
                key(family, 5, index, 9, &mut name);
                assert_eq!(owner(family, &name), Some((5, index, 9)));
            }
        }
    }

    #[test]
    fn counters_and_ledgers_are_read_back() {
        let content = Content::new(1);
        let key = 9u64.to_le_bytes();
        assert_eq!(content.count_of(&key, &content.counter(&key, 77)), Ok(77));
        assert!(content.count_of(&key, &77u64.to_le_bytes()).is_err());
        assert_eq!(
            content.counts_of(&content.ledger(&[1, 2, 3]), 3),
            Ok(vec![1, 2, 3])
        );
        assert!(content.counts_of(&[0; 20], 3).is_err());
    }
}
