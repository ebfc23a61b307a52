//! Cenote: a store for memory that processes and hosts share.
//!
//! A *pool* is a file, normally in `/dev/shm`, that any number of processes open at the same time. There is no
//! server. Each process may be killed at any instruction; the others go on, nothing acknowledged is lost, nothing
//! leaks, nobody waits for a dead one. The same code is correct on memory that hosts share without cache coherence,
//! through another [memory backend](memory).
//!
//! ```
//! # fn main() -> cenote::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("pool");
//! use cenote::{Options, Pool};
//!
//! let pool: Pool = Pool::open_or_create(&path, &Options::default())?;
//! let map = pool.map("visits")?;
//! map.put_u64(7, 1)?;
//! assert_eq!(map.get_u64(7)?, Some(1));
//!
//! // A value is read where it lies; the guard keeps it there.
//! map.put(b"name", b"cenote")?;
//! if let Some(value) = map.get(b"name")? {
//!     assert_eq!(&value[..], b"cenote");
//! }
//!
//! // Every thread opens its own handle.
//! std::thread::scope(|scope| {
//!     scope.spawn(|| pool.map("visits")?.put_u64(8, 1));
//! });
//! assert_eq!(map.len(), 3);
//! # Ok(())
//! # }
//! ```
//!
//! Layers, from the bottom: [`memory`], [`pod`], [`sync`], [`index`], [`store`]. Start reading at `ARCHITECTURE.md`.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod error;
pub mod index;
pub mod memory;
#[cfg(feature = "mutants")]
pub mod mutant;
#[cfg(not(feature = "mutants"))]
mod mutant;
pub mod pod;
pub mod store;
pub mod sync;

pub use error::{Error, Result};
pub use index::hash::{Guidelines, Put, Replace, Value};
pub use index::ordered::range::Range;
pub use memory::{Coherent, Delegated, Noncoherent};
pub use pod::format::superblock::Kind;
pub use pod::group;
pub use pod::tasks::{Committed, Next, Plan};
pub use store::{
    Condvar, Events, FailoverThread, FsckReport, Group, GroupSize, HostAgent, Listener, LockHolder, LockWait,
    Locks, Map, MapReader, MapReport, Membership, MonitorOptions, Mutex, NextEvent, Options, Ordered,
    OrderedReader, Pool, QueueMutex, Reader, RwLock, Semaphore, SpinMutex, Stat, Tasks, TrimReport,
    has_hosts, host_id, kind_of, parse_size, pool_id,
};
pub use sync::{Acquired, Owner};
