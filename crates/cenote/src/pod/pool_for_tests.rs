//! A small pool in memory of a test's own, the processes that have it open, and how they die: for the tests beside the
//! pod's files.
//!
//! Processes are views of one mapping that lock their places in a table of the test's. One that is
//! [killed](TestPool::kill) keeps its entry and those of its workers, and loses its lock, as the kernel has it for a
//! real one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;
use crate::memory::checked::unpublished;
use crate::memory::{Liveness, Mapped, Mapping, MappingError, Memory};
use crate::pod::alloc::auxiliary::clear_auxiliary;
use crate::pod::alloc::growth::commit_initial;
use crate::pod::alloc::heap::allocate_for;
use crate::pod::alloc::slab::{Location, locate};
use crate::pod::format::actor::Actor;
use crate::pod::format::geometry::{Geometry, NO_HOST, Parameters};
use crate::pod::format::record::{State, WorkerRecord};
use crate::pod::format::superblock::{MemoryKind, Superblock};
use crate::pod::instance::hooks::{Hooks, Progress};
use crate::pod::instance::limits::Limits;
use crate::pod::instance::process::Identity;
use crate::pod::reclaim::retire;
use crate::pod::{Pod, Worker};

/// Tests that take the kind of memory, each on coherent and on incoherent memory. One that is not listed is dead code.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod coherent {
            $(#[test] fn $name() { super::$name::<crate::memory::Coherent>(); })*
        }
        mod noncoherent {
            $(#[test] fn $name() { super::$name::<crate::memory::Noncoherent>(); })*
        }
    };
}
pub(in crate::pod) use on_both;

/// Places of the process table.
pub(in crate::pod) const PROCESSES: u32 = 4;
/// Places of the worker table; the last one is kept for recovery.
pub(in crate::pod) const WORKERS: u32 = 8;

/// Who holds which lock, by number.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<BTreeMap<u32, u64>>>);

impl Table {
    fn with<R>(&self, change: impl FnOnce(&mut BTreeMap<u32, u64>) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One process's handle on the table.
struct Locks {
    table: Table,
    process: u64,
}

impl Liveness for Locks {
    fn try_lock(&self, number: u32) -> Result<bool, MappingError> {
        Ok(self
            .table
            .with(|held| *held.entry(number).or_insert(self.process) == self.process))
    }

    fn unlock(&self, number: u32) -> Result<(), MappingError> {
        self.table.with(|held| held.remove(&number));
        Ok(())
    }

    fn is_locked(&self, number: u32) -> Result<bool, MappingError> {
        Ok(self
            .table
            .with(|held| held.get(&number).is_some_and(|process| *process != self.process)))
    }
}

/// A pool.
pub(in crate::pod) struct TestPool<M: Mapped> {
    pub mem: M,
    pub geometry: Geometry,
    superblock: Superblock,
    table: Table,
    joined: Mutex<u64>,
}

impl<M: Mapped> TestPool<M> {
    /// One of so many frames, all of which are committed.
    pub fn of_frames(frames: u64) -> Self {
        let parameters = Parameters {
            kind: MemoryKind::of::<M>(),
            max_frames: frames,
            processes: PROCESSES,
            workers: WORKERS,
            entries: 4,
            hosts: 1,
        };
        let geometry = Geometry::new(parameters);
        let mapping = Mapping::anonymous(geometry.mapped).unwrap();
        let mem = M::over(Arc::new(mapping)).unwrap();
        let superblock = Superblock {
            parameters,
            id: 1,
            created: 0,
        };
        superblock.format(&mem).unwrap();
        let pool = Self {
            mem,
            geometry,
            superblock,
            table: Table::default(),
            joined: Mutex::new(0),
        };
        commit_initial(&pool.worker(), frames).unwrap();
        pool
    }

    /// A process that joins.
    pub fn join(&self) -> Arc<Pod<M>> {
        self.join_with(Limits::usual::<M>(), hooks())
    }

    /// The same with thresholds and hooks of its own.
    pub fn join_with(&self, limits: Limits, hooks: Hooks<M>) -> Arc<Pod<M>> {
        let process = {
            let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
            *joined += 1;
            *joined
        };
        let locks = Locks {
            table: self.table.clone(),
            process,
        };
        let path = Path::new("a test's pool");
        let identity = Identity::here(path, path, NO_HOST);
        let pod = Pod::join(
            self.mem.clone(),
            self.superblock,
            identity,
            Box::new(locks),
            hooks,
        );
        Arc::new(pod.unwrap().with_limits(limits))
    }

    /// A worker of a process of its own.
    pub fn worker(&self) -> Worker<M> {
        Worker::attach(&self.join(), false).unwrap()
    }

    /// The same with other thresholds.
    pub fn worker_with(&self, limits: Limits) -> Worker<M> {
        Worker::attach(&self.join_with(limits, hooks()), false).unwrap()
    }

    /// Ends a worker's process in the middle of what it does. That has no other workers but those that were
    /// [left](std::mem::forget).
    pub fn kill(&self, worker: Worker<M>) -> Actor {
        let actor = worker.actor();
        let place = worker.pod().index();
        // It holds its process, which so is never dropped either.
        std::mem::forget(worker);
        self.table.with(|held| held.remove(&place));
        actor
    }

    /// A record.
    pub fn record(&self, index: u32) -> WorkerRecord {
        WorkerRecord::new(&self.geometry, index)
    }

    /// The state of a worker's place.
    pub fn state(&self, index: u32) -> State {
        State::decode(self.record(index).state().load(&self.mem))
    }
}

/// What the upper layers would register, of which the pod's files need nothing.
pub(in crate::pod) fn hooks<M: Memory>() -> Hooks<M> {
    Hooks {
        finish_root: |worker, actor| {
            actor.record.root().set(worker.mem(), 0);
            Ok(())
        },
        drain_extent: |_, _, _, _| Ok(Progress::Complete),
        extent_lines: |_, _, _| Ok(()),
        recover_held: |_, _| Ok(()),
        inner: crate::pod::inner_hooks(),
        steps: &[],
    }
}

/// An object that no record names any more, as one that is reachable. All of it is 0.
pub(in crate::pod) fn object<M: Memory>(worker: &Worker<M>, len: u64) -> u64 {
    let _hold = worker.hold_list().unwrap();
    let (actor, mem) = (worker.actor(), worker.mem());
    let object = allocate_for(worker, actor, len, actor.record.aux_object(), 0).unwrap();
    unpublished(object, len).zero(mem);
    mem.persist(object, len);
    clear_auxiliary(worker, actor);
    object
}

/// What the cell of an object of a slab says.
pub(in crate::pod) fn cell<M: Memory>(worker: &Worker<M>, object: u64) -> u16 {
    match locate(worker, object).unwrap() {
        Location::Slab(cell) => cell.load(worker.mem()),
        Location::Extent { .. } => panic!("{object:#x} is an extent"),
    }
}

/// The objects that wait in a record's list.
pub(in crate::pod) fn waiting_in<M: Memory>(worker: &Worker<M>, record: WorkerRecord) -> Vec<u64> {
    let mut found = Vec::new();
    retire::pending(worker, record, |object| found.push(object)).unwrap();
    found
}

/// Whether an error says that the pool is damaged.
pub(in crate::pod) fn is_damage<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Corrupt { .. }))
}
