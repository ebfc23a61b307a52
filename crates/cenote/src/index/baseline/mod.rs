//! Indexes to compare the maps with: those of the paper's table 1, and forms of the maps that pass messages
//! instead of sharing (pcc-indexes, sections 4 and 7).
//!
//! They are written against the same memory contract, so that they run on all backends and in the simulator. They are small:
//! keys and values of 8 bytes, and memory that is [allocated and never freed](arena). No named map of the store is one of
//! them; they are built only with the feature `baselines`.
//!
//! [`WordMap`] is the interface of everything that is compared.

pub mod arena;
pub mod art;
mod back_off;
pub mod btree;
pub mod clht;
mod content;
pub mod hot;
pub mod masstree;
pub mod messages;
mod once;
pub mod sherman;
pub mod version;

use std::rc::Rc;

use crate::error::Result;
use crate::index::common::guidelines::Guidelines;
use crate::index::common::outcome::Put;
use crate::memory::Memory;
use crate::pod::Worker;

/// What there was of a key before an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// It had a value.
    Present,
    /// It had none.
    Absent,
}

impl Before {
    /// The outcome of a put.
    fn put(self) -> Put {
        match self {
            Self::Present => Put::Replaced,
            Self::Absent => Put::Inserted,
        }
    }
}

/// A map of 8-byte keys to 8-byte values, as one thread has it open.
pub trait WordMap<M: Memory>: Sized {
    /// What tables call it.
    const NAME: &'static str;
    /// Whether keys are ordered, as numbers.
    const IS_ORDERED: bool;

    /// Opens the map of a name, or creates it; for about so many records, if it cannot grow.
    fn open_or_create(
        worker: Rc<Worker<M>>,
        name: &str,
        guidelines: Guidelines,
        records: u64,
    ) -> Result<Self>;

    /// Makes room for so many records in an empty map, if it grows in steps.
    fn reserve(&self, _records: u64) -> Result<()> {
        Ok(())
    }

    /// A key's value.
    fn get_u64(&self, key: u64) -> Result<Option<u64>>;

    /// Sets a key's value, whether it had one or not.
    fn put_u64(&self, key: u64, value: u64) -> Result<Put>;

    /// Sets a key's value if it has none. Returns whether it did.
    fn insert_u64(&self, key: u64, value: u64) -> Result<bool>;

    /// Removes a key. Returns whether it was there.
    fn remove_u64(&self, key: u64) -> Result<bool>;

    /// Calls `each` for the keys from `from` on, in ascending order, until it returns `false`. Does nothing if there is no order.
    fn scan_u64(&self, from: u64, each: impl FnMut(u64, u64) -> bool) -> Result<()>;
}
