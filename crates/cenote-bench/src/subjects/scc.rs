//! scc: `HashIndex`, whose readers take no lock, and `HashMap`, whose readers lock a bucket; both for one process.
//!
//! An update of the index goes through its entry, which locks the bucket, and stores into an atomic value in place:
//! safe, and cheaper than replacing the entry. A batch of reads shares one guard.

use super::hasher::Hasher;
use super::heap::Growth;
use super::{Failure, Session, Subject};
use scc::hash_index::Entry;
use scc::{Guard, HashIndex, HashMap};
#[allow(
    clippy::disallowed_types,
    reason = "a peer's value, in this process's heap and in no pool"
)]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The index's values: readers may see them while a writer stores.
#[allow(
    clippy::disallowed_types,
    reason = "a peer's value, in this process's heap and in no pool"
)]
pub type Value = AtomicU64;

/// scc's `HashIndex` with a hasher.
pub struct Index<H: Hasher> {
    map: HashIndex<u64, Value, H>,
    growth: Growth,
}

impl<H: Hasher> Subject for Index<H> {
    const NAME: &'static str = "scc::HashIndex";
    const FORM: &'static str = H::NAME;
    const BATCHES: bool = true;

    type Session<'s>
        = &'s HashIndex<u64, Value, H>
    where
        Self: 's;

    fn create() -> Result<Self, Failure> {
        let growth = Growth::start();
        Ok(Self {
            map: HashIndex::with_hasher(H::default()),
            growth,
        })
    }

    fn session(&mut self) -> Result<Self::Session<'_>, Failure> {
        Ok(&self.map)
    }

    fn bytes(&mut self) -> Result<Option<u64>, Failure> {
        Ok(self.growth.bytes())
    }
}

impl<H: Hasher> Session for &HashIndex<u64, Value, H> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        match self.insert_sync(key, Value::new(value)) {
            Ok(()) => Ok(()),
            Err(_) => Err(Failure::Broken(format!(
                "scc::HashIndex already has key {key:#x}"
            ))),
        }
    }

    #[inline]
    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        match self.entry_sync(key) {
            Entry::Occupied(entry) => entry.get().store(value, Relaxed),
            Entry::Vacant(entry) => drop(entry.insert_entry(Value::new(value))),
        }
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        Ok(self.peek_with(&key, |_, value| value.load(Relaxed)))
    }

    #[inline]
    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), Failure> {
        let guard = Guard::new();
        for (key, value) in keys.iter().zip(values) {
            *value = self.peek(key, &guard).map(|value| value.load(Relaxed));
        }
        Ok(())
    }
}

/// scc's `HashMap` with a hasher.
pub struct Map<H: Hasher> {
    map: HashMap<u64, u64, H>,
    growth: Growth,
}

impl<H: Hasher> Subject for Map<H> {
    const NAME: &'static str = "scc::HashMap";
    const FORM: &'static str = H::NAME;

    type Session<'s>
        = &'s HashMap<u64, u64, H>
    where
        Self: 's;

    fn create() -> Result<Self, Failure> {
        let growth = Growth::start();
        Ok(Self {
            map: HashMap::with_hasher(H::default()),
            growth,
        })
    }

    fn session(&mut self) -> Result<Self::Session<'_>, Failure> {
        Ok(&self.map)
    }

    fn bytes(&mut self) -> Result<Option<u64>, Failure> {
        Ok(self.growth.bytes())
    }
}

impl<H: Hasher> Session for &HashMap<u64, u64, H> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        match self.insert_sync(key, value) {
            Ok(()) => Ok(()),
            Err(_) => Err(Failure::Broken(format!("scc::HashMap already has key {key:#x}"))),
        }
    }

    #[inline]
    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        self.upsert_sync(key, value);
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        Ok(self.read_sync(&key, |_, value| *value))
    }
}
