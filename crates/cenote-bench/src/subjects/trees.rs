//! Ordered maps of one process: scc's `TreeIndex`, crossbeam's `SkipMap`, and `ConcurrentMap` of the crate
//! concurrent-map.
//!
//! An update stores into an atomic value in place where readers would else need a lock or a copy: safe, and the
//! cheapest way.

use super::heap::Growth;
use super::scc::Value;
use super::{Failure, Session, Subject};
use concurrent_map::ConcurrentMap;
use crossbeam_skiplist::SkipMap;
use scc::{Guard, TreeIndex};
use std::sync::atomic::Ordering::Relaxed;

/// A map, and how the heap has grown since it was empty.
pub struct Tree<T> {
    map: T,
    growth: Growth,
}

impl<T: Default> Tree<T> {
    fn new() -> Self {
        let growth = Growth::start();
        Self {
            map: T::default(),
            growth,
        }
    }
}

macro_rules! subject {
    ($map:ty, $name:literal, $form:literal) => {
        impl Subject for Tree<$map> {
            const NAME: &'static str = $name;
            const FORM: &'static str = $form;
            const SCANS: bool = true;

            type Session<'s>
                = &'s $map
            where
                Self: 's;

            fn create() -> Result<Self, Failure> {
                Ok(Self::new())
            }

            fn session(&mut self) -> Result<Self::Session<'_>, Failure> {
                Ok(&self.map)
            }

            fn bytes(&mut self) -> Result<Option<u64>, Failure> {
                Ok(self.growth.bytes())
            }
        }
    };
}

/// scc's tree.
pub type Scc = TreeIndex<u64, Value>;
/// crossbeam's skip list.
pub type Skip = SkipMap<u64, Value>;
/// concurrent-map's tree.
pub type Concurrent = ConcurrentMap<u64, u64>;

subject!(Scc, "scc::TreeIndex", "atomic values");
subject!(Skip, "crossbeam::SkipMap", "atomic values");
subject!(Concurrent, "concurrent-map", "values replaced");

impl Session for &Scc {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        self.insert_sync(key, Value::new(value))
            .map_err(|_| Failure::Broken(format!("scc::TreeIndex already has key {key:#x}")))
    }

    #[inline]
    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        match self.peek_with(&key, |_, old| old.store(value, Relaxed)) {
            Some(()) => Ok(()),
            None => self.insert(key, value),
        }
    }

    #[inline]
    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        Ok(self.peek_with(&key, |_, value| value.load(Relaxed)))
    }

    #[inline]
    fn scan(&mut self, from: u64, count: usize) -> Result<u64, Failure> {
        let guard = Guard::new();
        let values = self.range(from.., &guard).take(count);
        Ok(values.fold(0, |sum: u64, (_, value)| sum.wrapping_add(value.load(Relaxed))))
    }
}

impl Session for &Skip {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        SkipMap::insert(self, key, Value::new(value));
        Ok(())
    }

    #[inline]
    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        match SkipMap::get(self, &key) {
            Some(entry) => entry.value().store(value, Relaxed),
            None => drop(SkipMap::insert(self, key, Value::new(value))),
        }
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        Ok(SkipMap::get(self, &key).map(|entry| entry.value().load(Relaxed)))
    }

    #[inline]
    fn scan(&mut self, from: u64, count: usize) -> Result<u64, Failure> {
        let values = self.range(from..).take(count);
        Ok(values.fold(0, |sum: u64, entry| sum.wrapping_add(entry.value().load(Relaxed))))
    }
}

impl Session for &Concurrent {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        ConcurrentMap::insert(self, key, value);
        Ok(())
    }

    #[inline]
    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        ConcurrentMap::insert(self, key, value);
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        Ok(ConcurrentMap::get(self, &key))
    }

    #[inline]
    fn scan(&mut self, from: u64, count: usize) -> Result<u64, Failure> {
        let values = self.range(from..).take(count);
        Ok(values.fold(0, |sum: u64, (_, value)| sum.wrapping_add(value)))
    }
}
