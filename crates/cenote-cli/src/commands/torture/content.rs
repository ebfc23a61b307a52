//! The keys of a run, and what their values are like; counters and ledgers.

use crate::trial::content::{Content, Keyspace, mix};

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
    /// Keys of all sizes that all workers write.
    Shared,
    /// 8-byte counters that all workers increment.
    Counters,
    /// Vectors of one count a worker; each worker increments its own.
    Ledgers,
}

impl Family {
    /// Those in which each key has one writer.
    pub const OWNED: [Self; 3] = [Self::Words, Self::Values, Self::Texts];

    /// The name of its map.
    pub fn name(self) -> &'static str {
        ["words", "values", "texts", "shared", "counters", "ledgers"][self as usize]
    }
}

impl Keyspace for Family {
    const ALL: &'static [Self] = &[
        Self::Words,
        Self::Values,
        Self::Texts,
        Self::Shared,
        Self::Counters,
        Self::Ledgers,
    ];

    fn number(self) -> u8 {
        self as u8
    }

    fn keys(self) -> u32 {
        [2048, 2048, 2048, 256, 16, 16][self as usize]
    }

    fn len(self, base: u64) -> usize {
        let (kind, draw) = (base % 1000, mix(base) as usize);
        match self {
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
}

/// Whether a key, once there, is never removed: a reader that misses it has found a fault.
pub fn is_permanent(index: u32) -> bool {
    index.is_multiple_of(8)
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

impl Content {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::content::Stamp;

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
