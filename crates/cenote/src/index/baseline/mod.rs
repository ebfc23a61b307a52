//! Indexes to compare the maps with: those of the paper's table 1, and forms of the maps that pass messages
//! instead of sharing (pcc-indexes, sections 4 and 7).
//!
//! They are written against the same memory contract, so that they run on all backends and in the simulator. They are
//! small: keys and values of 8 bytes, and memory that is [allocated and never freed](arena). No named map of the store
//! is one of them; they are built only with the feature `baselines`.
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

/// What came of an attempt; `None` if another worker was in between, so that it is made again.
type Attempt<T> = Option<T>;

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
///
/// # What an implementer promises
///
/// **Sharing.** Any number of handles are open on a map at a time, on all hosts of the pool, each used by the thread
/// that opened it. Keys and values are any numbers.
///
/// **Linearizability.** Each call but a scan takes effect at one moment between its begin and its return. A call that
/// changes the map has taken effect for every thread when it returns: later loads of the same thread do not overtake
/// it. A compare-exchange sees to that; after a [store](crate::memory::SyncWord::store) it needs a
/// [fence](Memory::fence).
///
/// **Crash.** A process may die at any instruction of any call, also in [`open_or_create`](Self::open_or_create). A
/// call that has returned keeps its effect. One that has not has taken effect wholly or not at all: before the death,
/// or at any time where others complete what the dead one had begun. The others go on: what the dead one holds they
/// take over without being told. On incoherent memory the dead one's host may lose what it has not written back, so
/// whatever a word refers to is in memory before the word is.
///
/// **Memory.** All bytes of the map are found by its name, and `fsck` accounts for them. An [arena] does that; then
/// bytes that a dead worker had allocated are lost to the arena alone.
///
/// **Errors.** A call that fails has changed nothing. [`Error::Full`](crate::Error::Full) says that there is no memory,
/// [`Error::Forked`](crate::Error::Forked) that the process is a child of the one that opened the map. What is read
/// from the pool is checked before it becomes an offset, a length or an index: damage is
/// [`Error::Corrupt`](crate::Error::Corrupt), no panic and no endless loop.
///
/// The simulator checks the first four, with few keys (`docs/simulator.md`, "Bring your own index").
pub trait WordMap<M: Memory>: Sized {
    /// What tables call it.
    const NAME: &'static str;
    /// Whether keys are ordered, as numbers.
    const IS_ORDERED: bool;

    /// Opens the map of a name, or creates it empty; for about so many records, if it cannot grow. Many may call it at
    /// once; all open the same map. Only its creator's number of records counts.
    fn open_or_create(
        worker: Rc<Worker<M>>,
        name: &str,
        guidelines: Guidelines,
        records: u64,
    ) -> Result<Self>;

    /// Makes room for so many records in an empty map, if it grows in steps. Nobody else has the map open.
    fn reserve(&self, _records: u64) -> Result<()> {
        Ok(())
    }

    /// A key's value.
    fn get_u64(&self, key: u64) -> Result<Option<u64>>;

    /// Sets a key's value, whether it had one or not. Returns which.
    fn put_u64(&self, key: u64, value: u64) -> Result<Put>;

    /// Sets a key's value if it has none. Returns whether it did.
    fn insert_u64(&self, key: u64, value: u64) -> Result<bool>;

    /// Removes a key. Returns whether it was there.
    fn remove_u64(&self, key: u64) -> Result<bool>;

    /// Calls `each` for the keys from `from` on, in ascending order, until it returns `false`. Does nothing if there is
    /// no order.
    ///
    /// Beside others who write, each pair was there at some moment of the scan, and a key that is there all the time is
    /// found. While nobody writes, the pairs are those of the map.
    fn scan_u64(&self, from: u64, each: impl FnMut(u64, u64) -> bool) -> Result<()>;
}
