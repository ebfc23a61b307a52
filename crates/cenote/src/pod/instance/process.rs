//! Processes: a process's view of a pool, and how others see whether it lives.
//!
//! Liveness is a byte lock that the kernel holds on the pool file (or a side file) for the process and drops when
//! its last thread has gone; no process id and no timeout is involved, so it is right across PID namespaces and
//! reused ids.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::failures::{Failure, Failures, Task};
use super::hooks::Hooks;
use super::limits::Limits;
use super::served::ServedRequests;
use super::word_cache::WordCache;
use super::worker::{LocalPin, Worker};
use crate::error::{Error, Result};
use crate::memory::{FileId, ForkWatch, Liveness, LocalWord, Memory, ProcessName, forked, watch_fork};
use crate::pod::format::geometry::{Geometry, NO_HOST};
use crate::pod::format::lock_wait::LockWait;
use crate::pod::format::record::{Phase, ProcessRecord, State, WorkerRecord};
use crate::pod::format::superblock::{self, Superblock};

/// How a process describes itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The pool's file, for messages.
    pub path: PathBuf,
    /// The host's id, given by the administrator; 0 on a single machine.
    pub host: u32,
    /// Its name for the operating system; the process id is for people too.
    pub name: ProcessName,
    /// Seconds since 1970 when it joined, for people.
    pub since: u64,
}

impl Identity {
    /// This process, on a host, now; its liveness lock is in a file of its own or the pool's.
    pub fn here(path: &Path, lock_file: &Path, host: u32) -> Self {
        Self {
            path: path.to_owned(),
            host,
            name: ProcessName::here(lock_file),
            since: seconds_since_1970(),
        }
    }
}

/// The index of a process without a place.
pub(crate) const NO_PLACE: u32 = u32::MAX;

/// One process's view of a pool.
pub struct Pod<M: Memory> {
    pub(crate) mem: M,
    pub(crate) geometry: Geometry,
    superblock: Superblock,
    pub(crate) identity: Identity,
    hooks: Hooks<M>,
    limits: Limits,
    pub(crate) index: u32,
    pub(crate) generation: u32,
    /// The generation of this process's host that it joined under; 0 on a single machine.
    pub(crate) host_generation: u32,
    watch: ForkWatch,
    pub(crate) liveness: Option<Box<dyn Liveness>>,
    /// The workers of this process whose announcements its background thread manages.
    pub(in crate::pod) local: Mutex<Vec<std::sync::Weak<LocalPin>>>,
    /// What [`Pod::extension`] has made.
    extensions: Mutex<Vec<(u64, Extension)>>,
    /// What [`Pod::kept_extension`] has made.
    kept: Mutex<Vec<KeptExtension>>,
    /// Bytes that this process writes and has not flushed, by where they begin (incoherent memory).
    unflushed: Mutex<BTreeMap<u64, u64>>,
    words: WordCache,
    /// Set when the background thread must end.
    closing: LocalWord,
    /// Set while the background thread frees what other workers have retired, or must not.
    pub(crate) reclaiming: LocalWord,
    /// From this frame on the pool grew without huge pages, as far as this process knows.
    pub(in crate::pod) small_pages_from: LocalWord,
    /// The identity of the background thread's worker; 0 while there is none.
    flush_server: LocalWord,
    /// The flush requests that it need not serve.
    pub(in crate::pod) served: ServedRequests,
    /// What this process could not recover.
    failures: Failures,
    /// Whether this machine is one of several that share the pool.
    pub(crate) is_in_pod: bool,
    /// See [`Pod::on_lock_wait`].
    pub(super) tell: Option<fn(&LockWait)>,
}

/// Something that the process keeps as long as it has the pool open.
type KeptExtension = std::sync::Arc<dyn std::any::Any + Send + Sync>;

/// Something that handles keep alive.
type Extension = std::sync::Weak<dyn std::any::Any + Send + Sync>;

impl<M: Memory> Pod<M> {
    /// A view of the pool by a process that takes no place in it.
    pub(crate) fn without_place(
        mem: M,
        superblock: Superblock,
        identity: Identity,
        liveness: Option<Box<dyn Liveness>>,
        hooks: Hooks<M>,
        limits: Limits,
    ) -> Result<Self> {
        Ok(Self {
            mem,
            geometry: Geometry::new(superblock.parameters),
            superblock,
            is_in_pod: identity.host != NO_HOST,
            identity,
            hooks,
            limits,
            index: NO_PLACE,
            generation: 0,
            host_generation: 0,
            watch: watch_fork()?,
            liveness,
            local: Mutex::new(Vec::new()),
            extensions: Mutex::default(),
            kept: Mutex::default(),
            unflushed: Mutex::default(),
            words: WordCache::new(limits.cached_words),
            closing: LocalWord::new(0),
            reclaiming: LocalWord::new(0),
            small_pages_from: LocalWord::new(u64::MAX),
            flush_server: LocalWord::new(0),
            served: ServedRequests::default(),
            failures: Failures::default(),
            tell: None,
        })
    }

    /// The memory.
    #[inline]
    pub fn mem(&self) -> &M {
        &self.mem
    }

    /// The layout.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The superblock's immutable part.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The pool's file.
    pub fn path(&self) -> &Path {
        &self.identity.path
    }

    /// What the layers above registered.
    pub fn hooks(&self) -> &Hooks<M> {
        &self.hooks
    }

    /// The same with other thresholds. Workers take them when they attach.
    pub fn with_limits(self, limits: Limits) -> Self {
        let mut changed = self;
        changed.limits = limits;
        changed.words = WordCache::new(limits.cached_words);
        changed
    }

    /// The thresholds of this process.
    #[inline]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The cache of index words.
    #[inline]
    pub(crate) fn words(&self) -> &WordCache {
        &self.words
    }

    /// What this process says of itself.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// This process's host.
    pub fn host(&self) -> u32 {
        self.identity.host
    }

    /// The generation of its host that it joined under; 0 on a single machine.
    pub fn host_generation(&self) -> u32 {
        self.host_generation
    }

    /// Whether its machine is one of several that share the pool.
    pub fn is_in_pod(&self) -> bool {
        self.is_in_pod
    }

    /// Whether its workers announce without a barrier. The kernel's barrier does not reach other hosts.
    pub fn relies_on_barrier(&self) -> bool {
        M::COHERENT && !self.is_in_pod() && self.mem.relies_on_barrier()
    }

    /// Whether this process is a reader without a place, and only reads.
    pub fn is_reader(&self) -> bool {
        self.index == NO_PLACE
    }

    /// This process's place.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// This process's generation.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// How a forked child finds out that it is one.
    pub fn watch(&self) -> ForkWatch {
        self.watch
    }

    /// Tells this process's background thread to end.
    pub fn close(&self) {
        // PAIRS WITH: pod::instance::process::is_closing
        self.closing.store(1);
    }

    /// Whether the background thread shall end.
    pub fn is_closing(&self) -> bool {
        // PAIRS WITH: pod::instance::process::close
        self.closing.load() != 0
    }

    /// Whether this process is a forked child of the one that joined.
    #[inline]
    pub fn is_forked(&self) -> bool {
        forked(self.watch)
    }

    /// One more than the highest worker index in use.
    pub fn workers_high(&self) -> u32 {
        let high = superblock::WORKERS_HIGH.load(&self.mem);
        high.min(u64::from(self.geometry.parameters.workers)) as u32
    }

    /// Whether another process of this machine holds the lock of a place. One system call.
    pub fn is_locked(&self, index: u32) -> Result<bool> {
        match &self.liveness {
            Some(lock) => Ok(lock.is_locked(index)?),
            None => Err(Error::Forked),
        }
    }

    /// The state of every place of the process table.
    pub fn entries(&self) -> impl Iterator<Item = (u32, State)> + '_ {
        (0..self.geometry.parameters.processes).map(|index| {
            let record = ProcessRecord::new(&self.geometry, index);
            // PAIRS WITH: pod::instance::join::claim_entry
            (index, State::decode(record.state().load(&self.mem)))
        })
    }

    /// State in memory of this process that its handles share about the object at an offset. The first handle makes it,
    /// and it is dropped with the last.
    pub fn extension<T: Send + Sync + 'static>(
        &self,
        at: u64,
        make: impl FnOnce() -> T,
    ) -> std::sync::Arc<T> {
        let mut all = self
            .extensions
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        all.retain(|(_, extension)| extension.strong_count() > 0);
        let found = all.iter().filter(|(of, _)| *of == at);
        let mut alive = found.filter_map(|(_, extension)| extension.upgrade());
        if let Some(extension) = alive.find_map(|extension| extension.downcast().ok()) {
            return extension;
        }
        let extension = std::sync::Arc::new(make());
        let kept: std::sync::Arc<dyn std::any::Any + Send + Sync> = extension.clone();
        all.push((at, std::sync::Arc::downgrade(&kept)));
        extension
    }

    /// The same, but it lasts as long as the process has the pool open.
    pub(crate) fn kept_extension<T: Send + Sync + 'static>(
        &self,
        at: u64,
        make: impl FnOnce() -> T,
    ) -> std::sync::Arc<T> {
        let mut kept = self
            .kept
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let extension = self.extension(at, make);
        let this: KeptExtension = extension.clone();
        if !kept.iter().any(|other| std::sync::Arc::ptr_eq(other, &this)) {
            kept.push(this);
        }
        extension
    }

    /// This process is about to write bytes outside of an operation. Until it says that they are flushed, it flushes
    /// them before it leaves: of a process that has left nobody expects lines in a cache. If it dies, that is drained.
    pub(crate) fn writes(&self, at: u64, len: u64) {
        if !M::COHERENT {
            self.unflushed().insert(at, len);
        }
    }

    /// The bytes that begin there are flushed, or written back.
    pub(crate) fn has_flushed(&self, at: u64) {
        if !M::COHERENT {
            self.unflushed().remove(&at);
        }
    }

    /// Flushes what this process has written outside of operations; it is about to leave.
    pub(in crate::pod) fn flush_written(&self) {
        let unflushed = std::mem::take(&mut *self.unflushed());
        if !unflushed.is_empty() {
            for (at, len) in unflushed {
                self.mem.invalidate(at, len);
            }
            self.mem.fence();
        }
    }

    fn unflushed(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, u64>> {
        self.unflushed
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A task begins that may fail in parts; returns the argument for [`Pod::end_task`].
    pub(crate) fn begin_task(&self) -> u64 {
        self.failures.begin()
    }

    /// Keeps a failure.
    pub(crate) fn note_failure(&self, task: Task, what: impl Display, error: &Error) {
        self.failures.note(task, what, error);
    }

    /// The task was done as a whole: its earlier failures that were not met again were mended.
    pub(crate) fn end_task(&self, task: Task, began: u64) {
        self.failures.end(task, began);
    }

    /// What this process could not recover, and has not found mended since.
    pub fn failures(&self) -> Vec<Failure> {
        self.failures.all()
    }

    /// Forgets them: the next recovery finds again what still cannot be recovered.
    pub fn forget_failures(&self) {
        self.failures.forget();
    }

    /// From now on this worker is the process's background thread, or none is.
    pub(in crate::pod) fn flush_server_is(&self, worker: Option<&Worker<M>>) {
        // PAIRS WITH: pod::instance::process::has_lost_flush_server, pod::instance::process::background_identity
        self.flush_server.store(worker.map_or(0, Worker::identity));
    }

    /// The worker of this process's background thread, as in locks; 0 if there is none.
    pub(in crate::pod) fn background_identity(&self) -> u64 {
        // PAIRS WITH: pod::instance::process::flush_server_is
        self.flush_server.load()
    }

    /// Whether this process's background thread has died although the process lives.
    ///
    /// Cost: a sync load if there is such a thread.
    pub fn has_lost_flush_server(&self) -> bool {
        // PAIRS WITH: pod::instance::process::flush_server_is
        let identity = self.flush_server.load();
        let Some(index) = (identity as u32).checked_sub(1) else {
            return false;
        };
        let generation = (identity >> 32) as u32;
        let state = State::decode(WorkerRecord::new(&self.geometry, index).state().load(&self.mem));
        let is_its = state.generation == generation && state.phase == Phase::Alive;
        !is_its
            || self
                .mem
                .kernel()
                .has_died(self.geometry.death_slot(index), generation)
    }

    /// The file of the liveness locks: by it a fence proves that a process which it kills is of this pool.
    pub(crate) fn lock_file(&self) -> Result<FileId> {
        let file = self.liveness.as_ref().and_then(|locks| locks.file());
        file.ok_or(Error::Forked)
    }

    /// A worker's state word in this process's name.
    pub fn claim(&self, phase: Phase, generation: u32) -> State {
        State {
            phase,
            process: self.index,
            tag: self.generation as u8,
            generation,
        }
    }

    /// Makes the background thread of this process leave a dead worker's announcement alone from now on: the record
    /// will have another owner. `false` if the thread is at it just now, for long.
    pub(in crate::pod) fn disown(&self, index: u32, generation: u32) -> bool {
        let record = WorkerRecord::new(&self.geometry, index);
        let pins: Vec<_> = match self.local.lock() {
            Ok(all) => all.iter().filter_map(std::sync::Weak::upgrade).collect(),
            Err(_) => return false,
        };
        pins.iter()
            .filter(|pin| pin.record == record && pin.generation == generation)
            .all(|pin| pin.disown(&self.mem))
    }

    /// Reads every worker's state; returns index and state of those that are not free.
    pub fn attached_workers(&self) -> Vec<(u32, State)> {
        (0..self.workers_high())
            .map(|index| {
                let word = WorkerRecord::new(&self.geometry, index).state().load(&self.mem);
                (index, State::decode(word))
            })
            .filter(|(_, state)| state.phase != Phase::Free)
            .collect()
    }
}

/// Wall-clock time.
pub fn seconds_since_1970() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}
