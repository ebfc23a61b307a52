//! Maps of either kind behind one face, for commands that work on both.

use cenote::memory::Memory;
use cenote::{Error, Map, Ordered, Pool, Put, Range, Replace};
use serde::{Deserialize, Serialize};

/// A kind of map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MapKind {
    /// Hash maps.
    Hash,
    /// Ordered maps.
    Ordered,
}

impl MapKind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Ordered => "ordered",
        }
    }
}

/// A map of either kind.
pub enum AnyMap<M: Memory> {
    /// A hash map.
    Hash(Map<M>),
    /// An ordered map.
    Ordered(Ordered<M>),
}

impl<M: Memory> AnyMap<M> {
    /// The map of a name, if there is one.
    pub fn existing(pool: &Pool<M>, name: &str) -> cenote::Result<Self> {
        match pool.existing_map(name) {
            Err(Error::OtherKind { .. }) => pool.existing_ordered(name).map(Self::Ordered),
            other => other.map(Self::Hash),
        }
    }

    /// The map of a name; if there is none, it is made, of the kind that is wanted.
    pub fn open(pool: &Pool<M>, name: &str, ordered: bool) -> cenote::Result<Self> {
        if ordered {
            return pool.ordered(name).map(Self::Ordered);
        }
        match pool.map(name) {
            Err(Error::OtherKind { .. }) => pool.existing_ordered(name).map(Self::Ordered),
            other => other.map(Self::Hash),
        }
    }

    /// A copy of a key's value.
    pub fn get(&self, key: &[u8]) -> cenote::Result<Option<Vec<u8>>> {
        let value = match self {
            Self::Hash(map) => map.get(key)?,
            Self::Ordered(map) => map.get(key)?,
        };
        Ok(value.map(|value| value.to_vec()))
    }

    /// Sets a key's value.
    pub fn put(&self, key: &[u8], value: &[u8]) -> cenote::Result<Put> {
        match self {
            Self::Hash(map) => map.put(key, value),
            Self::Ordered(map) => map.put(key, value),
        }
    }

    /// Sets a key's value if it has none.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> cenote::Result<bool> {
        match self {
            Self::Hash(map) => map.insert(key, value),
            Self::Ordered(map) => map.insert(key, value),
        }
    }

    /// Replaces a key's value if it is `expected`.
    pub fn replace(&self, key: &[u8], expected: &[u8], value: &[u8]) -> cenote::Result<Replace> {
        match self {
            Self::Hash(map) => map.replace(key, expected, value),
            Self::Ordered(map) => map.replace(key, expected, value),
        }
    }

    /// Calls `each` with a number and the value of the key that has this number.
    pub fn get_many(
        &self,
        keys: &[impl AsRef<[u8]>],
        mut each: impl FnMut(usize, Option<&[u8]>),
    ) -> cenote::Result<()> {
        match self {
            Self::Hash(map) => map.get_many(keys, each),
            Self::Ordered(map) => {
                for (n, key) in keys.iter().enumerate() {
                    each(n, map.get(key.as_ref())?.as_deref());
                }
                Ok(())
            }
        }
    }

    /// Calls `each` for every pair.
    pub fn for_each(&self, each: impl FnMut(&[u8], &[u8])) -> cenote::Result<()> {
        match self {
            Self::Hash(map) => map.for_each(each),
            Self::Ordered(map) => map.for_each(each),
        }
    }

    /// Copies of all pairs, got another way than by [`AnyMap::for_each`]: one at a time, or from the last on.
    pub fn pairs(&self) -> cenote::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut pairs = Vec::new();
        match self {
            Self::Hash(map) => return map.iter().collect(),
            Self::Ordered(map) => map.scan_reverse(Range::ALL, |key, value| {
                pairs.push((key.to_vec(), value.to_vec()));
                true
            })?,
        }
        Ok(pairs)
    }

    /// How many keys it counts.
    pub fn len(&self) -> u64 {
        match self {
            Self::Hash(map) => map.len(),
            Self::Ordered(map) => map.len(),
        }
    }

    /// Removes a key.
    pub fn remove(&self, key: &[u8]) -> cenote::Result<bool> {
        match self {
            Self::Hash(map) => map.remove(key),
            Self::Ordered(map) => map.remove(key),
        }
    }
}
