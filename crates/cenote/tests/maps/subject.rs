//! The interface that the suite needs of a map of byte strings, and its implementation for the store's maps.

use std::ops::Bound;

use cenote::memory::Mapped;
use cenote::{Map, Ordered, Pool, Put, Range, Replace, Result};

use crate::common::Model;

/// Copies of a key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A map of byte strings, as one thread has it open.
pub trait TestMap<M: Mapped>: Sized {
    /// Whether without the first guideline values of 8 bytes are overwritten in place.
    const HAS_IN_PLACE: bool;
    /// The longest key.
    const KEY_MAX: usize;
    /// How many keys make it grow several times, on coherent memory and on incoherent.
    const MANY: [u64; 2];

    /// Opens the map of a name, or creates it.
    fn open(pool: &Pool<M>, name: &str) -> Result<Self>;
    /// Opens the map of a name, if there is one.
    fn existing(pool: &Pool<M>, name: &str) -> Result<Self>;

    /// The key that `get_u64` and `put_u64` mean by a number.
    fn word(key: u64) -> [u8; 8];
    /// The number that they mean by a key.
    fn number(key: &[u8]) -> u64;

    /// As the map's.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// As the map's.
    fn get_u64(&self, key: u64) -> Result<Option<u64>>;
    /// As the map's.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<Put>;
    /// As the map's.
    fn put_u64(&self, key: u64, value: u64) -> Result<Put>;
    /// As the map's, or one after the other.
    fn put_all(&self, pairs: &[Pair]) -> Result<u64>;
    /// As the map's.
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool>;
    /// As the map's.
    fn replace(&self, key: &[u8], expected: &[u8], value: &[u8]) -> Result<Replace>;
    /// As the map's.
    fn remove(&self, key: &[u8]) -> Result<bool>;
    /// As the map's.
    fn len(&self) -> u64;
    /// As the map's; in ascending order if there is one.
    fn for_each(&self, each: impl FnMut(&[u8], &[u8])) -> Result<()>;
    /// The pairs from a key on, in ascending order; `None` if the map has no order.
    fn ascending(&self, from: &[u8], each: impl FnMut(&[u8], &[u8]) -> bool) -> Option<Result<()>>;
    /// Compares all calls that read several keys with the model: of all keys, and of those around a key.
    fn assert_same(&self, model: &Model, from: &[u8], to: Option<&[u8]>);
}

impl<M: Mapped> TestMap<M> for Map<M> {
    const HAS_IN_PLACE: bool = true;
    const KEY_MAX: usize = cenote::index::hash::KEY_MAX;
    const MANY: [u64; 2] = [150_000, 30_000];

    fn open(pool: &Pool<M>, name: &str) -> Result<Self> {
        pool.map(name)
    }

    fn existing(pool: &Pool<M>, name: &str) -> Result<Self> {
        pool.existing_map(name)
    }

    fn word(key: u64) -> [u8; 8] {
        key.to_le_bytes()
    }

    fn number(key: &[u8]) -> u64 {
        u64::from_le_bytes(key.try_into().unwrap())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok((**self).get(key)?.map(|value| value.to_vec()))
    }

    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        (**self).get_u64(key)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<Put> {
        (**self).put(key, value)
    }

    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        (**self).put_u64(key, value)
    }

    fn put_all(&self, pairs: &[Pair]) -> Result<u64> {
        pairs.iter().try_fold(0, |new, (key, value)| {
            Ok(new + u64::from((**self).put(key, value)? == Put::Inserted))
        })
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        (**self).insert(key, value)
    }

    fn replace(&self, key: &[u8], expected: &[u8], value: &[u8]) -> Result<Replace> {
        (**self).replace(key, expected, value)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        (**self).remove(key)
    }

    fn len(&self) -> u64 {
        (**self).len()
    }

    fn for_each(&self, each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        (**self).for_each(each)
    }

    fn ascending(&self, _from: &[u8], _each: impl FnMut(&[u8], &[u8]) -> bool) -> Option<Result<()>> {
        None
    }

    fn assert_same(&self, model: &Model, from: &[u8], to: Option<&[u8]>) {
        let mut pairs: Vec<Pair> = self.iter().map(|pair| pair.unwrap()).collect();
        pairs.sort();
        assert!(pairs.iter().map(|(k, v)| (k, v)).eq(model.iter()));
        pairs.clear();
        let copy = |key: &[u8], value: &[u8]| pairs.push((key.to_vec(), value.to_vec()));
        (**self).for_each(copy).unwrap();
        pairs.sort();
        assert!(pairs.iter().map(|(k, v)| (k, v)).eq(model.iter()));
        let besides = [from.to_vec(), to.unwrap_or_default().to_vec()];
        let keys: Vec<_> = model.keys().cloned().chain(besides).collect();
        let mut found = 0;
        self.get_many(&keys, |n, value| {
            assert_eq!(value, model.get(&keys[n]).map(Vec::as_slice));
            found += 1;
        })
        .unwrap();
        assert_eq!(found, keys.len());
        let numbers: Vec<u64> = (0..20).collect();
        self.get_many_u64(&numbers, |n, value| {
            let expected = model.get(&numbers[n].to_le_bytes()[..]);
            let expected = expected.and_then(|value| value[..].try_into().ok());
            assert_eq!(value, expected.map(u64::from_le_bytes));
        })
        .unwrap();
    }
}

impl<M: Mapped> TestMap<M> for Ordered<M> {
    const HAS_IN_PLACE: bool = false;
    const KEY_MAX: usize = cenote::index::ordered::KEY_MAX;
    const MANY: [u64; 2] = [80_000, 12_000];

    fn open(pool: &Pool<M>, name: &str) -> Result<Self> {
        pool.ordered(name)
    }

    fn existing(pool: &Pool<M>, name: &str) -> Result<Self> {
        pool.existing_ordered(name)
    }

    fn word(key: u64) -> [u8; 8] {
        key.to_be_bytes()
    }

    fn number(key: &[u8]) -> u64 {
        u64::from_be_bytes(key.try_into().unwrap())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok((**self).get(key)?.map(|value| value.to_vec()))
    }

    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        (**self).get_u64(key)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<Put> {
        (**self).put(key, value)
    }

    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        (**self).put_u64(key, value)
    }

    fn put_all(&self, pairs: &[Pair]) -> Result<u64> {
        (**self).put_all(pairs.iter().map(|(key, value)| (key, value)))
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        (**self).insert(key, value)
    }

    fn replace(&self, key: &[u8], expected: &[u8], value: &[u8]) -> Result<Replace> {
        (**self).replace(key, expected, value)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        (**self).remove(key)
    }

    fn len(&self) -> u64 {
        (**self).len()
    }

    fn for_each(&self, each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        (**self).for_each(each)
    }

    fn ascending(&self, from: &[u8], each: impl FnMut(&[u8], &[u8]) -> bool) -> Option<Result<()>> {
        Some(self.scan(Range { from, to: None }, each))
    }

    fn assert_same(&self, model: &Model, from: &[u8], to: Option<&[u8]>) {
        let all: Vec<Pair> = model.clone().into_iter().collect();
        assert_eq!(scanned(self, Range::ALL, usize::MAX), all);
        let owned = |pair: Option<(&Vec<u8>, &Vec<u8>)>| pair.map(|(k, v)| (k.clone(), v.clone()));
        let above = (Bound::Excluded(from.to_vec()), Bound::Unbounded);
        assert_eq!(self.successor(from).unwrap(), owned(model.range(above).next()));
        let below = (Bound::Unbounded, Bound::Excluded(from.to_vec()));
        let before = owned(model.range(below).next_back());
        assert_eq!(self.predecessor(from).unwrap(), before);
        assert_eq!(self.first().unwrap(), owned(model.first_key_value()));
        assert_eq!(self.last().unwrap(), owned(model.last_key_value()));
        let range = Range { from, to };
        let is_within = |key: &[u8]| key >= from && to.is_none_or(|to| key < to);
        let expected: Vec<Pair> = all.into_iter().filter(|(key, _)| is_within(key)).collect();
        assert_eq!(scanned(self, range, usize::MAX), expected);
        assert_eq!(scanned(self, range, 3), expected[..expected.len().min(3)]);
        let back: Vec<_> = expected.iter().rev().cloned().collect();
        assert_eq!(scanned_back(self, range, usize::MAX), back);
        assert_eq!(scanned_back(self, range, 2), back[..back.len().min(2)]);
        assert_eq!(self.count(range).unwrap(), expected.len() as u64);
    }
}

/// The first pairs of a range of an ordered map.
pub fn scanned<M: Mapped>(
    map: &cenote::index::ordered::OrderedMap<M>,
    range: Range<'_>,
    limit: usize,
) -> Vec<Pair> {
    let mut found = Vec::new();
    map.scan(range, |key, value| {
        if found.len() < limit {
            found.push((key.to_vec(), value.to_vec()));
        }
        found.len() < limit
    })
    .unwrap();
    found
}

/// The last pairs of a range of an ordered map, last first.
pub fn scanned_back<M: Mapped>(
    map: &cenote::index::ordered::OrderedMap<M>,
    range: Range<'_>,
    limit: usize,
) -> Vec<Pair> {
    let mut found = Vec::new();
    map.scan_reverse(range, |key, value| {
        if found.len() < limit {
            found.push((key.to_vec(), value.to_vec()));
        }
        found.len() < limit
    })
    .unwrap();
    found
}
