//! Maps read without a place in the pool: they copy what they find, and return it once it may be believed.

use std::rc::Rc;

use super::Reader;
use crate::causes::Structure;
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::index::common::kind::of_kind;
use crate::index::hash::HashMap;
use crate::index::hash::iter::Cursor;
use crate::index::ordered::OrderedMap;
use crate::index::ordered::range::{Pair, Range};
use crate::memory::{Memory, Snapshot};
use crate::pod::Worker;
use crate::pod::names::directory::{self, KIND_HASH, KIND_ORDERED};
use crate::pod::names::dropping::Identity;

/// Groups of a hash map that one attempt reads; half as many after each that failed.
const GROUPS_AT_ONCE: u32 = 32;
/// Bytes of pairs at which an attempt reads no further group.
const BYTES_AT_ONCE: usize = 1 << 20;
/// Pairs of an ordered map in descending order that one attempt copies; half as many after each that failed.
const PAIRS_AT_ONCE: u32 = 64;

/// How many the next attempt reads, after so many failed attempts.
fn share(of: u32, failed: u32) -> u32 {
    (of.checked_shr(failed).unwrap_or(0)).max(1)
}

/// Opens what a name stands for, if it is of this kind. If that is dropped meanwhile, begins anew.
fn opened<M: Memory, T>(
    reader: &Reader<M>,
    name: &str,
    kind: u64,
    open: impl Fn(Identity) -> Result<T>,
) -> Result<T> {
    let absent = || Error::NoSuch {
        kind: Structure::Map,
        name: name.to_owned(),
    };
    loop {
        // In one attempt, as another structure may be in its place since it was found.
        let identity = reader.read(|worker, _| {
            let named = directory::find(worker, name)?.ok_or_else(absent)?;
            of_kind(named.clone(), kind)?;
            Identity::of(worker, &named).ok_or(Error::Dropped)
        });
        match identity.and_then(&open) {
            Err(Error::Dropped) => {}
            opened => return opened,
        }
    }
}

/// A hash map that is only read. See [`Reader`].
pub struct MapReader<'r, M: Memory> {
    reader: &'r Reader<M>,
    identity: Identity,
}

impl<'r, M: Memory> MapReader<'r, M> {
    pub(super) fn open(reader: &'r Reader<M>, name: &str) -> Result<Self> {
        opened(reader, name, KIND_HASH, |identity| {
            let map = Self { reader, identity };
            // Damage shows now.
            map.read(|_, _| Ok(()))?;
            Ok(map)
        })
    }

    fn read<R>(&self, mut work: impl FnMut(&HashMap<Snapshot<M>>, u32) -> Result<R>) -> Result<R> {
        self.reader.read(|worker: &Rc<Worker<Snapshot<M>>>, failed| {
            work(
                &HashMap::again(worker.clone(), self.identity, Guidelines::SP)?,
                failed,
            )
        })
    }

    /// A copy of a key's value.
    ///
    /// Cost: what [`HashMap::get`] costs without replication and speculation, two sync loads, and a few microseconds.
    ///
    /// Errors: [`Error::Busy`](crate::Error::Busy), [`Error::Dropped`](crate::Error::Dropped).
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read(|map, _| Ok(map.get(key)?.map(|value| value.to_vec())))
    }

    /// The number of keys; see [`HashMap::len`].
    ///
    /// Errors: [`Error::Busy`](crate::Error::Busy), [`Error::Dropped`](crate::Error::Dropped).
    pub fn len(&self) -> Result<u64> {
        self.read(|map, _| Ok(map.len()))
    }

    /// Whether it has no keys; see [`HashMap::len`].
    ///
    /// Errors: [`Error::Busy`](crate::Error::Busy), [`Error::Dropped`](crate::Error::Dropped).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The pairs of the next groups, and where to go on; `None` at the end. Each group is seen as [`HashMap::step`]
    /// sees it.
    ///
    /// Errors: [`Error::Busy`](crate::Error::Busy), [`Error::Dropped`](crate::Error::Dropped).
    pub fn step(&self, from: Cursor) -> Result<(Vec<Pair>, Option<Cursor>)> {
        self.read(|map, failed| {
            let (mut pairs, mut bytes, mut cursor) = (Vec::new(), 0, Some(from));
            for _ in 0..share(GROUPS_AT_ONCE, failed) {
                let Some(from) = cursor.filter(|_| bytes < BYTES_AT_ONCE) else {
                    break;
                };
                cursor = map.step(from, |key, value| {
                    bytes += key.len() + value.len();
                    pairs.push((key.to_vec(), value.to_vec()));
                })?;
            }
            Ok((pairs, cursor))
        })
    }

    /// Iterates over copies of all pairs; with the guarantee of [`HashMap::iter`].
    pub fn iter(&self) -> impl Iterator<Item = Result<Pair>> {
        let mut cursor = Some(Cursor::default());
        let steps = std::iter::from_fn(move || match self.step(cursor?) {
            Ok((pairs, next)) => {
                cursor = next;
                Some(Ok(pairs))
            }
            Err(error) => {
                cursor = None;
                Some(Err(error))
            }
        });
        steps.flat_map(|step| {
            let (pairs, error) = match step {
                Ok(pairs) => (pairs, None),
                Err(error) => (Vec::new(), Some(Err(error))),
            };
            pairs.into_iter().map(Ok).chain(error)
        })
    }
}

/// An ordered map that is only read. See [`Reader`].
pub struct OrderedReader<'r, M: Memory> {
    reader: &'r Reader<M>,
    identity: Identity,
}

impl<'r, M: Memory> OrderedReader<'r, M> {
    pub(super) fn open(reader: &'r Reader<M>, name: &str) -> Result<Self> {
        opened(reader, name, KIND_ORDERED, |identity| {
            let map = Self { reader, identity };
            // Damage shows now.
            map.read(|_, _| Ok(()))?;
            Ok(map)
        })
    }

    fn read<R>(&self, mut work: impl FnMut(&OrderedMap<Snapshot<M>>, u32) -> Result<R>) -> Result<R> {
        self.reader.read(|worker: &Rc<Worker<Snapshot<M>>>, failed| {
            work(
                &OrderedMap::again(worker.clone(), self.identity, Guidelines::SP)?,
                failed,
            )
        })
    }

    /// A copy of a key's value.
    ///
    /// Cost: what [`OrderedMap::get`] costs without replication and speculation, two sync loads, and a few
    /// microseconds.
    ///
    /// Errors: [`Error::Busy`](crate::Error::Busy), [`Error::Dropped`](crate::Error::Dropped).
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read(|map, _| Ok(map.get(key)?.map(|value| value.to_vec())))
    }

    /// The number of keys; see [`OrderedMap::len`].
    ///
    /// Errors: [`Error::Busy`](crate::Error::Busy), [`Error::Dropped`](crate::Error::Dropped).
    pub fn len(&self) -> Result<u64> {
        self.read(|map, _| Ok(map.len()))
    }

    /// Whether it has no keys; see [`OrderedMap::len`].
    ///
    /// Errors: [`Error::Busy`](crate::Error::Busy), [`Error::Dropped`](crate::Error::Dropped).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The pairs of the first leaf of a range, all of one moment, and where the next leaf begins; see
    /// [`OrderedMap::step`].
    ///
    /// Errors: [`Error::Busy`](crate::Error::Busy), [`Error::Dropped`](crate::Error::Dropped).
    pub fn step(&self, range: Range<'_>) -> Result<(Vec<Pair>, Option<Vec<u8>>)> {
        self.read(|map, _| {
            let mut pairs = Vec::new();
            let next = map.step(range, |key, value| pairs.push((key.to_vec(), value.to_vec())))?;
            Ok((pairs, next))
        })
    }

    /// Calls `each` for the pairs of a range in ascending order, until it returns `false`; with the guarantee of
    /// [`OrderedMap::scan`].
    ///
    /// Errors: [`Error::Busy`](crate::Error::Busy), [`Error::Dropped`](crate::Error::Dropped).
    pub fn scan(&self, range: Range<'_>, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut position = Some(range.from.to_vec());
        while let Some(from) = position {
            let (pairs, next) = self.step(Range { from: &from, ..range })?;
            if next.as_ref().is_some_and(|next| *next <= from) {
                return Err(Error::corrupt(
                    "a leaf's high fence, in the map",
                    self.identity.header(),
                ));
            }
            if !pairs.iter().all(|(key, value)| each(key, value)) {
                return Ok(());
            }
            position = next;
        }
        Ok(())
    }

    /// [`OrderedReader::scan`] in descending order.
    ///
    /// Errors: [`Error::Busy`](crate::Error::Busy), [`Error::Dropped`](crate::Error::Dropped).
    pub fn scan_reverse(&self, range: Range<'_>, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut end = range.to.map(<[u8]>::to_vec);
        loop {
            let (pairs, wanted) = self.read(|map, failed| {
                let (mut pairs, wanted) = (Vec::new(), share(PAIRS_AT_ONCE, failed) as usize);
                let rest = Range {
                    to: end.as_deref(),
                    ..range
                };
                map.scan_reverse(rest, |key, value| {
                    pairs.push((key.to_vec(), value.to_vec()));
                    pairs.len() < wanted
                })?;
                Ok((pairs, wanted))
            })?;
            if !pairs.iter().all(|(key, value)| each(key, value)) || pairs.len() < wanted {
                return Ok(());
            }
            let last = pairs.into_iter().next_back().map(|(key, _)| key);
            if end.is_some() && last >= end {
                return Err(Error::corrupt(
                    "the order of keys, in the map",
                    self.identity.header(),
                ));
            }
            end = last;
        }
    }
}
