//! Extents: a value for which a block has no room lies in objects of their own, each with a part of it.
//!
//! | bytes of an extent | |
//! |---|---|
//! | 0 to 7 | identity: that of the change that wrote the head |
//! | 8 to 15 | length of the part; number of the extent; kind: 5, which no change has |
//! | 16 to 19 | checksum of all but itself |
//! | 20 to 23 | 0 |
//! | 24 to 31 | hash of the key: which slots |
//! | 32 to 39 | where the head is |
//! | 40 to 55 | 0 |
//! | 56 to 63 | hash of the key: which segment |
//! | from 64 | the part |
//!
//! The *head* is the object that the index names. It has a [`Table`] in the place of the value: the value's length, and
//! where the extents are.

use super::record::{Identity, word};
use crate::index::layout::Hash;
use crate::verbs::{Address, GRANULE};

/// Bytes of an extent before its part of the value.
pub const EXTENT_HEADER: u32 = 64;
/// Bytes of a value in extents at most: 1 GiB.
pub const LONG_MAX: u64 = 1 << 30;
const KIND: u64 = 5;
const CHECKSUM_AT: usize = 16;
const HASH_AT: [usize; 2] = [24, 56];
const HEAD_AT: usize = 32;
/// Bytes of a table before its addresses: the value's length.
const TABLE_HEADER: u64 = 8;

/// A part of a value, read whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent<'a> {
    /// The change that wrote it and its head.
    pub identity: Identity,
    /// Which part of the value.
    pub number: u32,
    /// The head.
    pub head: Address,
    /// Of the key.
    pub hash: Hash,
    /// The part.
    pub part: &'a [u8],
}

impl<'a> Extent<'a> {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let end = EXTENT_HEADER as usize + self.part.len();
        let mut bytes = vec![0; end.next_multiple_of(GRANULE as usize)];
        let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        put(0, self.identity.0);
        put(
            8,
            KIND << 56 | u64::from(self.number & 0xff_ffff) << 32 | self.part.len() as u64,
        );
        put(HEAD_AT, self.head.bits());
        for (at, word) in HASH_AT.into_iter().zip(self.hash.words()) {
            put(at, word);
        }
        bytes[EXTENT_HEADER as usize..end].copy_from_slice(self.part);
        let checksum = checksum(&bytes, end);
        bytes[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads an extent; `None` if the bytes are no whole one.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let lengths = word(bytes, 8)?;
        if lengths >> 56 != KIND {
            return None;
        }
        let end = EXTENT_HEADER as usize + lengths as u32 as usize;
        let part = bytes.get(EXTENT_HEADER as usize..end)?;
        let stored = bytes.get(CHECKSUM_AT..CHECKSUM_AT + 4)?;
        if stored != checksum(bytes, end).to_le_bytes() {
            return None;
        }
        let [first, second] = HASH_AT;
        Some(Self {
            identity: Identity(word(bytes, 0)?),
            number: (lengths >> 32) as u32 & 0xff_ffff,
            head: Address::from_bits(word(bytes, HEAD_AT)?)?,
            hash: Hash::of_words([word(bytes, first)?, word(bytes, second)?]),
            part,
        })
    }
}

/// The checksum of an extent of so many bytes, which are there.
fn checksum(bytes: &[u8], end: usize) -> u32 {
    let head = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
    crc32c::crc32c_append(head, &bytes[CHECKSUM_AT + 4..end])
}

/// Where the parts of a value are: what its head has in the place of the value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Bytes of the value.
    pub len: u64,
    /// Its extents. All but the last have parts of the same length.
    pub extents: Vec<Address>,
}

impl Table {
    /// How many extents a value of so many bytes has, of parts of at most so many; `None` if it is longer than
    /// [`LONG_MAX`].
    pub fn count(len: u64, part: u32) -> Option<u32> {
        let is_value = len <= LONG_MAX && part > 0;
        is_value.then(|| len.div_ceil(u64::from(part)) as u32)
    }

    /// Bytes of a table of so many extents.
    pub fn bytes(count: u32) -> u64 {
        TABLE_HEADER + 8 * u64::from(count)
    }

    /// The longest value, in parts of so many bytes, whose table has at most so many bytes.
    pub fn longest(part: u32, bytes: u64) -> u64 {
        let count = bytes.saturating_sub(TABLE_HEADER) / 8;
        (count * u64::from(part)).min(LONG_MAX)
    }

    /// Bytes of a part of a value.
    pub fn part(&self, number: u32, part: u32) -> u32 {
        let begin = u64::from(number) * u64::from(part);
        self.len.saturating_sub(begin).min(u64::from(part)) as u32
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let addresses = self.extents.iter().map(|at| at.bits());
        let words = std::iter::once(self.len).chain(addresses);
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// The table of a head, of parts of so many bytes; `None` if the bytes are none.
    pub fn decode(bytes: &[u8], part: u32) -> Option<Self> {
        let mut words = bytes
            .chunks(8)
            .map(|bytes| bytes.try_into().map(u64::from_le_bytes).ok());
        let len = words.next()??;
        let extents: Vec<Address> = words
            .map(|bits| Address::from_bits(bits?))
            .collect::<Option<_>>()?;
        let is_table = Self::count(len, part)? as usize == extents.len();
        is_table.then_some(Self { len, extents })
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, LONG_MAX, Table};
    use crate::index::layout::Hash;
    use crate::object::{Identity, Kind, Record};
    use crate::verbs::Address;

    fn sample(part: &[u8]) -> Extent<'_> {
        Extent {
            identity: Identity::new(3, 77).unwrap(),
            number: 9,
            head: Address::new(5, 640),
            hash: Hash::of(b"a key"),
            part,
        }
    }

    #[test]
    fn extents_come_back_and_are_no_records() {
        for part in [&[1][..], &[7; 64], &[9; 1_000]] {
            let bytes = sample(part).encode();
            assert!(bytes.len().is_multiple_of(64));
            assert_eq!(Extent::decode(&bytes), Some(sample(part)));
            assert_eq!(Record::decode(&bytes), None);
        }
        let record = Record {
            identity: Identity::new(3, 77).unwrap(),
            kind: Kind::Put,
            key: b"key",
            value: b"value",
            is_long: false,
        };
        assert_eq!(Extent::decode(&record.encode().unwrap()), None);
    }

    #[test]
    fn torn_extents_are_none() {
        let whole = sample(&[0x55; 200]).encode();
        for at in 0..264 {
            let mut torn = whole.clone();
            torn[at] ^= 1;
            assert_eq!(Extent::decode(&torn), None, "byte {at}");
        }
        for short in 0..264 {
            assert_eq!(Extent::decode(&whole[..short]), None);
        }
    }

    #[test]
    fn tables_come_back_and_know_their_parts() {
        let extents: Vec<Address> = (0..4).map(|n| Address::new(n, 64)).collect();
        let table = Table { len: 310, extents };
        assert_eq!(Table::decode(&table.encode(), 100), Some(table.clone()));
        let parts: Vec<u32> = (0..5).map(|n| table.part(n, 100)).collect();
        assert_eq!(parts, [100, 100, 100, 10, 0]);
        // Of another block, cut, or longer than any value.
        assert_eq!(Table::decode(&table.encode(), 90), Some(table.clone()));
        assert_eq!(Table::decode(&table.encode(), 64), None);
        assert_eq!(Table::decode(&table.encode()[..39], 100), None);
        assert_eq!(Table::decode(&[], 100), None);
        assert_eq!(Table::decode(&[0xff; 16], 100), None);
        assert_eq!(Table::count(LONG_MAX + 1, 100), None);
        assert_eq!(Table::longest(100, 40), 400);
        assert_eq!(Table::longest(1 << 20, 1 << 20), LONG_MAX);
        assert_eq!(Table::bytes(4), table.encode().len() as u64);
    }
}
