//! Cenote: a store for memory that processes and hosts share.
//!
//! A *pool* is a file, normally in `/dev/shm`, that processes open at the same time: up to 128, or as many as
//! `Options::processes` says. A pool on coherent memory needs no server. Each process may be killed at any instruction:
//! the others go on, nothing acknowledged is lost, nothing leaks, and nobody waits for a dead process. The same code is
//! correct on memory that hosts share without cache coherence, through another memory backend ([`Backend`]).
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
//! // A value is read in place; the guard keeps it there.
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
//! Its layers are `memory`, `pod`, `sync`, `index` and `store`, from the bottom; they are private, but for the feature
//! `internals`. See `ARCHITECTURE.md`.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]
// Without the feature nobody uses what the simulator, benchmarks and the command need.
#![cfg_attr(not(feature = "internals"), allow(dead_code, unused_imports))]

pub mod causes;
mod error;
#[cfg(not(feature = "internals"))]
mod index;
#[cfg(feature = "internals")]
pub mod index;
#[cfg(not(feature = "internals"))]
mod memory;
#[cfg(feature = "internals")]
pub mod memory;
#[cfg(feature = "mutants")]
pub mod mutant;
#[cfg(not(feature = "mutants"))]
mod mutant;
#[cfg(not(feature = "internals"))]
mod pod;
#[cfg(feature = "internals")]
pub mod pod;
pub mod remote;
#[cfg(not(feature = "internals"))]
mod store;
#[cfg(feature = "internals")]
pub mod store;
#[cfg(not(feature = "internals"))]
mod sync;
#[cfg(feature = "internals")]
pub mod sync;

pub use bytemuck;
pub use error::{Error, Result};
pub use index::common::guidelines::Guidelines;
pub use index::common::outcome::{Put, Replace};
pub use index::common::value::Value;
pub use index::dropping::Dropped;
pub use index::hash::HashMap;
pub use index::hash::iter::{Cursor, Iter};
pub use index::ordered::OrderedMap;
pub use index::ordered::range::Range;
pub use memory::{Backend, Coherent, Delegated, Noncoherent};
pub use pod::format::superblock::MemoryKind;
pub use pod::tasks::result::TaskResult;
pub use pod::tasks::{Committed, NextTask, Plan, TaskList, TaskPosition};
pub use store::{
    Condvar, Events, FailoverThread, FsckReport, Group, GroupSize, HostAgent, Listener, LockHolder, LockWait,
    Locks, Map, MapReader, MapReport, Membership, MonitorOptions, Mutex, NextEvent, Options, Ordered,
    OrderedReader, Pool, QueueMutex, RawRwLock, Reader, RegionsLock, RwLock, Semaphore, SpinMutex, Stat,
    Tasks, TrimReport, has_hosts, host_id, kind_of, parse_size, pool_id,
};
pub use sync::{Acquired, Owner};

/// Events and members of groups.
pub mod group {
    pub use crate::pod::group::{Event, EventKind, MEMBER_NAME_MAX, Member, Status};
}

/// Locks of a pool: guards, timeouts, and what can be seen of a lock.
pub mod locks {
    pub use crate::store::{
        Named, RegionsLockBuilder, RegionsReadGuard, RegionsWriteGuard, RwLockReadGuard, RwLockWriteGuard,
    };
    pub use crate::sync::condvar::Waited;
    pub use crate::sync::inspect::{Holder, LockState};
    pub use crate::sync::object::LockKind;
    pub use crate::sync::{
        Condvar, Guard, LockArray, Mutex, Permit, QueueLock, ReadGuard, ReadWriteLock, Semaphore, SpinLock,
        Timeout,
    };
}

/// Object stores: byte strings that are written once, and viewed where they are.
pub mod objects {
    pub use crate::index::objects::{
        AuditedObjects, Evictions, ID_MAX, NewObject, ObjectHolder, ObjectInfo, ObjectSettings, Sealed, Ttl,
    };
    pub use crate::store::{ObjectView, ObjectWriter, Objects};
}

/// Hosts of a pod: agents, monitors, fences.
pub mod hosts {
    pub use crate::pod::format::host_entry::{HostInstance, HostPhase};
    pub use crate::pod::hosts::failover::{LeaseElection, LeaseEvent, Nomination, Nominations};
    pub use crate::pod::hosts::monitor::Event;
    pub use crate::store::{AgentStatus, HostStatus, Leave, MonitorHandler, MonitorRole, Peers, Reporter};
}

/// Parts of the reports of `stat` and `fsck`.
pub mod report {
    pub use crate::memory::{Distrust, MappingError, Priority, Unfit, WrongLockFile};
    pub use crate::pod::commit::recovery::Recovered;
    pub use crate::pod::reclaim::backlog::Amount;
    pub use crate::store::{
        DamagedStat, Failure, GroupStat, HeldBackStat, HostStat, InstanceStat, LaggardStat, LockStat,
        MapKind, MapStat, ObjectsReport, ObjectsStat, RecoveryStat, TasksReport, TasksStat,
    };
}

/// Processes and threads that are started again when they fail.
pub mod supervise {
    pub use crate::store::supervise::*;
}
