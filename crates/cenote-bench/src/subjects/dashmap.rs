//! dashmap: shards of a hash table, each behind a reader-writer lock; for one process, nothing survives it.

use super::hasher::Hasher;
use super::heap::Growth;
use super::{Failure, Session, Subject};
use dashmap::DashMap;

/// dashmap with a hasher.
pub struct Dash<H: Hasher> {
    map: DashMap<u64, u64, H>,
    growth: Growth,
}

impl<H: Hasher> Subject for Dash<H> {
    const NAME: &'static str = "dashmap";
    const FORM: &'static str = H::NAME;

    type Session<'s>
        = &'s DashMap<u64, u64, H>
    where
        Self: 's;

    fn create() -> Result<Self, Failure> {
        let growth = Growth::start();
        Ok(Self {
            map: DashMap::with_hasher(H::default()),
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

impl<H: Hasher> Session for &DashMap<u64, u64, H> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        DashMap::insert(self, key, value);
        Ok(())
    }

    #[inline]
    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        DashMap::insert(self, key, value);
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        Ok(DashMap::get(self, &key).map(|entry| *entry.value()))
    }
}
