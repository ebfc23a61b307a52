//! The two maps behind the interface of [what is compared with them](super::baseline).

use std::rc::Rc;

use super::baseline::WordMap;
use super::common::guidelines::Guidelines;
use super::common::outcome::Put;
use super::hash::HashMap;
use super::ordered::OrderedMap;
use super::ordered::range::Range;
use crate::error::Result;
use crate::memory::Memory;
use crate::pod::Worker;

impl<M: Memory> WordMap<M> for HashMap<M> {
    const NAME: &'static str = "hash map";
    const IS_ORDERED: bool = false;

    fn open_or_create(
        worker: Rc<Worker<M>>,
        name: &str,
        guidelines: Guidelines,
        _records: u64,
    ) -> Result<Self> {
        HashMap::open_or_create(worker, name, guidelines)
    }

    fn reserve(&self, records: u64) -> Result<()> {
        HashMap::reserve(self, records)
    }

    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        HashMap::get_u64(self, key)
    }

    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        HashMap::put_u64(self, key, value)
    }

    fn insert_u64(&self, key: u64, value: u64) -> Result<bool> {
        self.insert(&key.to_le_bytes(), &value.to_le_bytes())
    }

    fn remove_u64(&self, key: u64) -> Result<bool> {
        self.remove(&key.to_le_bytes())
    }

    fn scan_u64(&self, _from: u64, _each: impl FnMut(u64, u64) -> bool) -> Result<()> {
        Ok(())
    }
}

impl<M: Memory> WordMap<M> for OrderedMap<M> {
    const NAME: &'static str = "ordered map";
    const IS_ORDERED: bool = true;

    fn open_or_create(
        worker: Rc<Worker<M>>,
        name: &str,
        guidelines: Guidelines,
        _records: u64,
    ) -> Result<Self> {
        OrderedMap::open_or_create(worker, name, guidelines)
    }

    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        OrderedMap::get_u64(self, key)
    }

    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        OrderedMap::put_u64(self, key, value)
    }

    fn insert_u64(&self, key: u64, value: u64) -> Result<bool> {
        self.insert(&key.to_be_bytes(), &value.to_le_bytes())
    }

    fn remove_u64(&self, key: u64) -> Result<bool> {
        self.remove(&key.to_be_bytes())
    }

    fn scan_u64(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) -> Result<()> {
        let range = Range {
            from: &from.to_be_bytes(),
            to: None,
        };
        self.scan(range, |key, value| match (key.try_into(), value.try_into()) {
            (Ok(key), Ok(value)) => each(u64::from_be_bytes(key), u64::from_le_bytes(value)),
            _ => true,
        })
    }
}
