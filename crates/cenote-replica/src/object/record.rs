//! An object without its outcome.

use super::outcome::{OUTCOME_AT, OUTCOME_BYTES};
use crate::index::layout::Hash;
use crate::verbs::GRANULE;

/// Bytes before the key.
const HEADER: usize = 64;
const LENGTHS_AT: usize = 8;
const CHECKSUM_AT: usize = 16;
/// Where the key's hash is.
const HASH_AT: [usize; 2] = [24, 56];
/// In the word of the lengths: the value is in extents.
const LONG: u64 = 1 << 40;
/// Bytes of a key at most.
pub const KEY_MAX: usize = (1 << 16) - 1;
/// Bytes of a value at most.
pub const VALUE_MAX: usize = (1 << 24) - 1;

/// Which change: a client's session in the upper 24 bits of 58, a count below. Never twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity(pub u64);

/// Bits of an identity that count a session's changes.
const COUNT_BITS: u32 = 34;

impl Identity {
    /// The change of this count in a session; `None` if the session has had too many.
    pub fn new(session: u32, count: u64) -> Option<Self> {
        let fits = session < 1 << 24 && count < 1 << COUNT_BITS;
        fits.then_some(Self(u64::from(session) << COUNT_BITS | count))
    }

    /// The session.
    pub fn session(self) -> u32 {
        (self.0 >> COUNT_BITS) as u32
    }
}

/// What a change is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Binds the key, whether it was bound or not.
    Put,
    /// Binds the key if it is bound to nothing.
    Insert,
    /// Binds the key if it is bound.
    Update,
    /// Unbinds the key.
    Remove,
    /// Binds the key if it is bound to the object of a certain change.
    Replace,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Kind::Put => 1,
            Kind::Insert => 2,
            Kind::Update => 3,
            Kind::Remove => 4,
            Kind::Replace => 5,
        }
    }

    fn of(code: u8) -> Option<Self> {
        [Kind::Put, Kind::Insert, Kind::Update, Kind::Remove, Kind::Replace]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// An object, read whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The change that wrote it.
    pub identity: Identity,
    /// What that change is.
    pub kind: Kind,
    /// The key.
    pub key: &'a [u8],
    /// The value, or a table of its extents; empty if the change unbinds the key.
    pub value: &'a [u8],
    /// Whether the value is in extents.
    pub is_long: bool,
}

/// Bytes of an object; `None` if key or value are too long.
pub fn bytes_of(key: usize, value: usize) -> Option<u32> {
    let fits = key <= KEY_MAX && value <= VALUE_MAX;
    fits.then(|| ((HEADER + key + value) as u32).next_multiple_of(GRANULE))
}

impl<'a> Record<'a> {
    /// Its bytes, with no outcome. `None` if key or value are too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; bytes_of(self.key.len(), self.value.len())? as usize];
        let is_long = if self.is_long { LONG } else { 0 };
        let lengths = u64::from(self.kind.code()) << 56
            | is_long
            | (self.value.len() as u64) << 16
            | self.key.len() as u64;
        bytes[..LENGTHS_AT].copy_from_slice(&self.identity.0.to_le_bytes());
        bytes[LENGTHS_AT..CHECKSUM_AT].copy_from_slice(&lengths.to_le_bytes());
        for (at, word) in HASH_AT.into_iter().zip(Hash::of(self.key).words()) {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let value_at = HEADER + self.key.len();
        bytes[HEADER..value_at].copy_from_slice(self.key);
        bytes[value_at..value_at + self.value.len()].copy_from_slice(self.value);
        let checksum = checksum(&bytes, value_at + self.value.len());
        bytes[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
        Some(bytes)
    }

    /// How many bytes the object has whose first bytes these are; `None` if they cannot be an object's.
    pub fn bytes(header: &[u8]) -> Option<u32> {
        let lengths = word(header, LENGTHS_AT)?;
        bytes_of((lengths & 0xffff) as usize, (lengths >> 16 & 0xff_ffff) as usize)
    }

    /// The hash of the key of the object whose first bytes these are.
    pub fn hash(header: &[u8]) -> Option<Hash> {
        let [first, second] = HASH_AT;
        Some(Hash::of_words([word(header, first)?, word(header, second)?]))
    }

    /// Reads an object; `None` if the bytes are no whole one.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let lengths = word(bytes, LENGTHS_AT)?;
        let key_end = HEADER + (lengths & 0xffff) as usize;
        let value_end = key_end + (lengths >> 16 & 0xff_ffff) as usize;
        let record = Self {
            identity: Identity(word(bytes, 0)?),
            kind: Kind::of((lengths >> 56) as u8)?,
            key: bytes.get(HEADER..key_end)?,
            value: bytes.get(key_end..value_end)?,
            is_long: lengths & LONG != 0,
        };
        let stored = bytes.get(CHECKSUM_AT..CHECKSUM_AT + 4)?;
        (stored == checksum(bytes, value_end).to_le_bytes()).then_some(record)
    }
}

/// The checksum of an object of so many bytes, which are there: of all but itself and the outcome.
fn checksum(bytes: &[u8], end: usize) -> u32 {
    let head = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
    let middle = crc32c::crc32c_append(head, &bytes[CHECKSUM_AT + 4..OUTCOME_AT as usize]);
    crc32c::crc32c_append(middle, &bytes[OUTCOME_AT as usize + OUTCOME_BYTES..end])
}

/// A word of some bytes.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::{Identity, KEY_MAX, Kind, Record, VALUE_MAX, bytes_of};

    fn sample<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record {
            identity: Identity::new(3, 77).unwrap(),
            kind: Kind::Put,
            key,
            value,
            is_long: false,
        }
    }

    #[test]
    fn records_come_back() {
        for (key, value) in [(&b""[..], &b""[..]), (b"k", b"v"), (&[7; 100], &[9; 5_000])] {
            let bytes = sample(key, value).encode().unwrap();
            assert_eq!(Record::bytes(&bytes), Some(bytes.len() as u32));
            assert_eq!(Record::decode(&bytes), Some(sample(key, value)));
            assert_eq!(Record::hash(&bytes), Some(crate::index::layout::Hash::of(key)));
            let head = Record {
                is_long: true,
                ..sample(key, value)
            };
            let bytes = head.encode().unwrap();
            assert_eq!(Record::decode(&bytes), Some(head));
            assert_eq!(Record::bytes(&bytes), Some(bytes.len() as u32));
        }
        assert!(bytes_of(KEY_MAX + 1, 0).is_none() && bytes_of(0, VALUE_MAX + 1).is_none());
        assert_eq!(Identity::new(1 << 24, 0), None);
        assert_eq!(Identity::new(3, 77).unwrap().session(), 3);
    }

    /// An object that lacks any line, or has another byte anywhere but in its outcome, is none.
    #[test]
    fn torn_objects_are_none() {
        let whole = sample(b"a key", &[0x55; 200]).encode().unwrap();
        let end = 64 + 5 + 200;
        for at in (0..end).filter(|at| !(32..56).contains(at)) {
            let mut torn = whole.clone();
            torn[at] ^= 1;
            assert_eq!(Record::decode(&torn), None, "byte {at}");
        }
        for line in 0..end.div_ceil(64) {
            let mut torn = whole.clone();
            let line = line * 64..(line * 64 + 64).min(torn.len());
            torn[line].fill(0);
            assert_eq!(Record::decode(&torn), None);
        }
        for short in 0..end {
            assert_eq!(Record::decode(&whole[..short]), None);
        }
    }
}
