//! Processes: how one joins a pool, how others see whether it lives, how it leaves.
//!
//! Liveness is a byte lock that the kernel holds on the pool file (or a side file) for the process and drops when
//! its last thread has gone; no process id and no timeout is involved, so it is right across PID namespaces and
//! reused ids.
//!
//! **Joining.** Take the byte lock of a place whose entry is free, then move the entry `Free(g) -> Alive(g + 1)`.
//! A crash between the two leaves nothing: the kernel drops the lock. Hence an entry that says `Alive` while its
//! byte is unlocked belonged to a process that died.
//!
//! **Leaving.** Detach all workers, move the entry to `Free`, drop the lock.
//!
//! **In a pod**, where hosts have kernels of their own and see nothing of each other's locks, a place is claimed first:
//! `Free(g) -> Joining(g + 1) -> Alive(g + 1)`, with the host's id and generation in the state. Whoever is of another
//! host is judged by what the pool says of that host (see `host`), and by the kernel's lock only among its own.

use super::actor::Actor;
use super::geometry::ALONE;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::crash::{Point, crash_point};
use super::drain;
use super::failures::{Failure, Failures, Task};
use super::geometry::Geometry;
use super::host::{self, HostPhase, HostRecord};
use super::limits::Limits;
use super::record::{Phase, ProcessRecord, State, WorkerRecord};
use super::superblock::{self, Superblock};
use super::word_cache::WordCache;
use super::worker::{LocalPin, Worker};
use crate::error::{Error, Result};
use crate::memory::{
    FileId, ForkWatch, Liveness, LocalWord, Memory, ProcessName, Snapshot, forked, watch_fork,
};
use crate::mutant::{self, Mutant};

/// Finishes the retirement of an index's old root on behalf of a worker record; registered by the index layer.
pub type FinishRoot<M> = fn(&Worker<M>, Actor) -> Result<()>;
/// Frees what a tagged range refers to, before the range itself is freed, following so many links. Whether nothing is left of it. Registered by the
/// index layer.
pub type DrainRange<M> = fn(&Worker<M>, Actor, u64, &mut u64) -> Result<bool>;

/// Calls its last argument for the lines that a tagged range refers to; registered by the index layer. Other objects
/// have none.
pub type RangeLines<M> = fn(&Worker<M>, u64, &mut dyn FnMut(u64)) -> Result<()>;

/// Ends what the dead worker at a place of the worker table holds of locks; registered by the layer of locks.
pub type SettleHeld<M> = fn(&Worker<M>, u32) -> Result<()>;

/// A worker that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dead {
    /// Its place.
    pub index: u32,
    /// Its generation.
    pub generation: u32,
}

impl Dead {
    /// The one that a place's state names.
    pub fn at(index: u32, state: State) -> Self {
        Self {
            index,
            generation: state.generation,
        }
    }

    /// What locks, claims and members that it has hold.
    pub fn identity(self) -> u64 {
        u64::from(self.index + 1) | u64::from(self.generation) << 32
    }
}

impl Display for Dead {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} (generation {})", self.index, self.generation)
    }
}

/// How a structure recovers from the death of a worker. Steps are run by whoever has found the worker dead, in the order in
/// which they are registered, before it claims the dead one's record: so who is stopped with the claim holds none of them back. They need no
/// claim: several may run them for the same dead at a time, and whoever recovers it next runs all of them again.
pub struct Step<M: Memory> {
    /// Its name in figures.
    pub name: &'static str,
    /// Does it; whether there was something to do.
    pub run: fn(&Worker<M>, Dead) -> Result<bool>,
}

/// What the layers above register, so that recovery can finish what it does not understand.
#[derive(Clone, Copy)]
pub struct Hooks<M: Memory> {
    /// See [`FinishRoot`].
    pub finish_root: FinishRoot<M>,
    /// See [`DrainRange`].
    pub drain_range: DrainRange<M>,
    /// See [`RangeLines`].
    pub range_lines: RangeLines<M>,
    /// See [`SettleHeld`].
    pub settle_held: SettleHeld<M>,
    /// What the pod's own folders need of those above them.
    pub inner: Inner<M>,
    /// How structures recover that have no part in a worker's record. Groups come first, so that nobody waits for the rest.
    pub steps: &'static [Step<M>],
}

/// What folders of the pod need of those above them: who allocates may have to free first, and who frees to recover the dead.
#[derive(Clone, Copy)]
pub struct Inner<M: Memory> {
    /// Frees what can be freed, and gives empty blocks back.
    pub make_room: fn(&Worker<M>) -> Result<()>,
    /// Retires an object of the actor that nobody has seen, and that cannot be given back otherwise.
    pub retire: fn(&Worker<M>, Actor, u64) -> Result<()>,
    /// Recovers every dead process.
    pub recover_dead: fn(&Worker<M>) -> Result<()>,
    /// Finishes or undoes whatever a record says was begun.
    pub finish_record: fn(&Worker<M>, Actor) -> Result<()>,
}

/// What a process says of itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The pool's file, for messages.
    pub path: PathBuf,
    /// The host's id, given by the administrator; 0 on a single machine.
    pub host: u32,
    /// What the operating system knows it by; the process id is for people too.
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
const NO_PLACE: u32 = u32::MAX;

/// One process's view of a pool.
pub struct Pod<M: Memory> {
    mem: M,
    geometry: Geometry,
    superblock: Superblock,
    identity: Identity,
    hooks: Hooks<M>,
    limits: Limits,
    index: u32,
    generation: u32,
    /// The generation of this process's host that it joined under; 0 on a single machine.
    host_generation: u32,
    watch: ForkWatch,
    liveness: Option<Box<dyn Liveness>>,
    /// The workers of this process whose announcements its background thread looks after.
    pub(super) local: Mutex<Vec<std::sync::Weak<LocalPin>>>,
    /// What [`Pod::companion`] has made.
    #[cfg(feature = "baselines")]
    companions: Mutex<Vec<(u64, Companion)>>,
    words: WordCache,
    /// Set when the background thread shall end.
    closing: LocalWord,
    /// Set while the background thread frees what others have retired, or must not.
    reclaiming: LocalWord,
    /// The worker of the background thread, as in locks; 0 while there is none.
    attendant: LocalWord,
    /// What could not be recovered by this process.
    failures: Failures,
    /// Whether this machine is one of several that share the pool.
    is_in_pod: bool,
}

/// Something that handles keep alive.
#[cfg(feature = "baselines")]
type Companion = std::sync::Weak<dyn std::any::Any + Send + Sync>;

impl<M: Memory> Pod<M> {
    /// Joins the pool in `mem` as a new process, which lives as long as it holds a lock of `liveness`. A process of a host
    /// other than 0 needs its host's agent.
    pub fn join(
        mem: M,
        superblock: Superblock,
        identity: Identity,
        liveness: Box<dyn Liveness>,
        hooks: Hooks<M>,
    ) -> Result<Self> {
        Self::join_with(mem, superblock, identity, liveness, hooks, false)
    }

    /// Joins as a process that means to be its host's agent; the host is up ([`super::agency::bring_up`]).
    pub fn join_as_agent(
        mem: M,
        superblock: Superblock,
        identity: Identity,
        liveness: Box<dyn Liveness>,
        hooks: Hooks<M>,
    ) -> Result<Self> {
        Self::join_with(mem, superblock, identity, liveness, hooks, true)
    }

    fn join_with(
        mem: M,
        superblock: Superblock,
        identity: Identity,
        liveness: Box<dyn Liveness>,
        hooks: Hooks<M>,
        is_agent: bool,
    ) -> Result<Self> {
        let limits = Limits::usual::<M>();
        let mut pod = Self::without_place(mem, superblock, identity, Some(liveness), hooks, limits)?;
        if pod.is_in_pod() {
            host::check_id(&pod.geometry.parameters, pod.identity.host)?;
            pod.host_generation = pod.generation_to_join(is_agent)?;
        }
        pod.take_place()?;
        Ok(pod)
    }

    /// A view of the pool by a process that takes no place in it.
    fn without_place(
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
            is_in_pod: identity.host != ALONE,
            identity,
            hooks,
            limits,
            index: NO_PLACE,
            generation: 0,
            host_generation: 0,
            watch: watch_fork()?,
            liveness,
            local: Mutex::new(Vec::new()),
            #[cfg(feature = "baselines")]
            companions: Mutex::default(),
            words: WordCache::new(limits.cached_words),
            closing: LocalWord::new(0),
            reclaiming: LocalWord::new(0),
            attendant: LocalWord::new(0),
            failures: Failures::default(),
        })
    }

    /// The present generation of this process's host, if one may join it.
    fn generation_to_join(&self, is_agent: bool) -> Result<u32> {
        let host = self.identity.host;
        if self.identity.name.machine == 0 {
            return Err(Error::Host {
                host,
                why: host::UNTOLD,
            });
        }
        let state = HostRecord::new(&self.geometry, host).read(&self.mem)?;
        match state.phase {
            HostPhase::Up if is_agent || state.agent != 0 => {
                let record = HostRecord::new(&self.geometry, host);
                match host::is_home(&self.mem, record, state.generation, self.identity.name.machine) {
                    true => Ok(state.generation),
                    false => Err(Error::Host {
                        host,
                        why: host::ELSEWHERE,
                    }),
                }
            }
            HostPhase::Fencing => Err(Error::Host {
                host,
                why: "it is being fenced: its beats were missed",
            }),
            _ => Err(Error::Host {
                host,
                why: "it has no agent on this pool; start `cenote agent`, or give host 0 if the machine is no part of a pod",
            }),
        }
    }

    /// Takes a free place; if there is none, that of a dead process, whose workers are then ours to recover. Looks twice: what
    /// was a dead process's place when free ones were looked for may be free when those of the dead are.
    fn take_place(&mut self) -> Result<()> {
        for phase in [Phase::Free, Phase::Alive, Phase::Free, Phase::Alive] {
            for index in self.geometry.places_of(self.identity.host) {
                if self.try_place(index, phase)? {
                    return Ok(());
                }
            }
        }
        Err(Error::TooMany {
            what: "process places",
            limit: self.geometry.parameters.processes,
            flag: "processes",
        })
    }

    fn try_place(&mut self, index: u32, phase: Phase) -> Result<bool> {
        let record = ProcessRecord::new(&self.geometry, index);
        let word = record.state().load(&self.mem);
        let state = State::decode(word);
        let lock = self.liveness.as_ref().ok_or(Error::Forked)?;
        // One that died while it joined has a place that can be taken, as one that died later.
        let found = match state.phase {
            Phase::Joining => Phase::Alive,
            other => other,
        };
        if found != phase || !lock.try_lock(index)? {
            return Ok(false);
        }
        crash_point(Point::OpenLocked);
        if !self.mem.enter(index) {
            lock.unlock(index)?;
            return Ok(false);
        }
        // What the dead one has left in this host's cache would come over what others make of its workers' places.
        drain::drain(self, index, state)?;
        if self.is_in_pod() {
            return self.claim_place(index, word);
        }
        let generation = state.generation.wrapping_add(1);
        self.introduce(record);
        self.settle(index, word, generation)
    }

    /// In a pod: claims a place, before anything is written to it, then takes it. The caller has its lock, which says nothing
    /// about processes of other hosts.
    fn claim_place(&mut self, index: u32, word: u64) -> Result<bool> {
        let record = ProcessRecord::new(&self.geometry, index);
        let state = State::decode(word);
        let lock = self.liveness.as_ref().ok_or(Error::Forked)?;
        let is_elsewhere = state.phase != Phase::Free && !self.is_judged_by_lock(state);
        let generation = state.generation.wrapping_add(1);
        let joining = self.entry(Phase::Joining, generation);
        // One of which nobody can tell, as what the pool says of its host is damaged, keeps its place.
        let may_live = || host::may_live(&self.mem, &self.geometry, index, state).unwrap_or(true);
        if (is_elsewhere && may_live())
            || record
                .state()
                .compare_exchange_acquire(&self.mem, word, joining.encode())
                .is_err()
        {
            lock.unlock(index)?;
            return Ok(false);
        }
        crash_point(Point::OpenClaimed);
        // PAIRS WITH: pod::agency::leave, pod::agency::is_all_dead, pod::fence::fence
        let found = HostRecord::new(&self.geometry, self.identity.host).read(&self.mem)?;
        if found.phase != HostPhase::Up || found.generation != self.host_generation {
            let free = State::free(generation);
            let _ = record
                .state()
                .compare_exchange_acquire(&self.mem, joining.encode(), free.encode());
            lock.unlock(index)?;
            return Err(Error::Host {
                host: self.identity.host,
                why: "it is being fenced, or its agent is leaving",
            });
        }
        let [started, namespace] = record.name();
        started.set(&self.mem, self.identity.name.started);
        namespace.set(&self.mem, self.identity.name.namespace);
        record
            .host_generation()
            .set(&self.mem, u64::from(self.host_generation));
        self.introduce(record);
        self.settle(index, joining.encode(), generation)
    }

    /// Writes what the entry says of this process.
    fn introduce(&self, record: ProcessRecord) {
        record.pid().set(&self.mem, u64::from(self.identity.name.pid));
        record.since().set(&self.mem, self.identity.since);
        record.host().set(&self.mem, u64::from(self.identity.host));
        record
            .relies_on_barrier()
            .set(&self.mem, u64::from(self.relies_on_barrier()));
        // If this host's cache has an older one, the background thread will serve rounds that it need not have served, and no more.
        let round = self.mem.load_speculative(superblock::FLUSH_ROUND.offset());
        record.flushed().store(&self.mem, round);
        // Complete before the entry is alive.
        self.mem.write_back(record.pid().offset(), 64);
    }

    /// Makes the entry this process's, if it is still as it was found.
    fn settle(&mut self, index: u32, word: u64, generation: u32) -> Result<bool> {
        let alive = self.entry(Phase::Alive, generation);
        let state = ProcessRecord::new(&self.geometry, index).state();
        let exchanged = self.mem.fence_and_exchange(state.offset(), word, alive.encode());
        if exchanged.is_err() {
            self.liveness.as_ref().ok_or(Error::Forked)?.unlock(index)?;
            return Ok(false);
        }
        self.index = index;
        self.generation = generation;
        // Who finds the entry alive reads them: a fence kills by them.
        self.mem
            .must_be_in_memory(ProcessRecord::new(&self.geometry, index).pid().offset(), 64);
        crash_point(Point::OpenAlive);
        self.forget_cached();
        Ok(true)
    }

    /// The state of this process's entry.
    fn entry(&self, phase: Phase, generation: u32) -> State {
        State {
            phase,
            process: self.identity.host,
            tag: self.host_generation as u8,
            generation,
        }
    }

    /// Drops the whole pool from this host's cache. A process that was here before may have left lines there, and since it
    /// left nobody has waited for this host before memory was reused. From now on they do.
    fn forget_cached(&self) {
        if !mutant::is(Mutant::JoinCacheKept) {
            drain::drop_cached(&self.mem, &self.geometry);
        }
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

    /// What words of indexes held lately.
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

    /// Whether this process has no place: it only reads.
    pub fn is_observer(&self) -> bool {
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

    /// What tells a forked child that it is one.
    pub fn watch(&self) -> ForkWatch {
        self.watch
    }

    /// Tells this process's background thread to end.
    pub fn close(&self) {
        self.closing.store(1);
    }

    /// Whether the background thread shall end.
    pub fn is_closing(&self) -> bool {
        self.closing.load() != 0
    }

    /// The right to change what the pool has retired beside the own list, in the background, unless somebody has it: who accounts for
    /// every byte.
    pub(super) fn may_reclaim(&self) -> Option<Reclaiming<'_, M>> {
        let is_ours = self.reclaiming.exchange(0, 1);
        is_ours.then(|| Reclaiming { pod: self })
    }

    /// Has the background thread of this process change nothing of what is retired until the guard is dropped.
    pub fn hold_still(&self) -> Reclaiming<'_, M> {
        loop {
            if let Some(right) = self.may_reclaim() {
                return right;
            }
            self.mem.relax();
        }
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
            (index, State::decode(record.state().load(&self.mem)))
        })
    }

    /// What the handles of this process share, in memory of the process, about the thing at an offset. It is made by the first of
    /// them, and dropped with the last.
    #[cfg(feature = "baselines")]
    pub fn companion<T: Send + Sync + 'static>(
        &self,
        at: u64,
        make: impl FnOnce() -> T,
    ) -> std::sync::Arc<T> {
        let mut all = self
            .companions
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        all.retain(|(_, companion)| companion.strong_count() > 0);
        let found = all.iter().filter(|(of, _)| *of == at);
        let mut alive = found.filter_map(|(_, companion)| companion.upgrade());
        if let Some(companion) = alive.find_map(|companion| companion.downcast().ok()) {
            return companion;
        }
        let companion = std::sync::Arc::new(make());
        let kept: std::sync::Arc<dyn std::any::Any + Send + Sync> = companion.clone();
        all.push((at, std::sync::Arc::downgrade(&kept)));
        companion
    }

    /// Something begins that may fail in parts: what [`Pod::end_task`] is to be told.
    pub(crate) fn begin_task(&self) -> u64 {
        self.failures.begin()
    }

    /// Writes down something that could not be done.
    pub(crate) fn note_failure(&self, task: Task, what: impl Display, error: &Error) {
        self.failures.note(task, what, error);
    }

    /// It was done as a whole: what failed of it before, and did not now, was mended.
    pub(crate) fn end_task(&self, task: Task, began: u64) {
        self.failures.end(task, began);
    }

    /// What this process could not recover of the dead, and has not found mended since.
    pub fn failures(&self) -> Vec<Failure> {
        self.failures.all()
    }

    /// Has it forget them: what cannot be recovered still is found again by who recovers next.
    pub fn forget_failures(&self) {
        self.failures.forget();
    }

    /// A worker is this process's background thread from now on, or nobody is.
    pub(super) fn attended_by(&self, worker: Option<&Worker<M>>) {
        self.attendant.store(worker.map_or(0, Worker::identity));
    }

    /// Whether this process's background thread has died, and the process has not.
    ///
    /// Cost: a sync load if there is such a thread.
    pub fn has_lost_attendant(&self) -> bool {
        let identity = self.attendant.load();
        let Some(index) = (identity as u32).checked_sub(1) else {
            return false;
        };
        let generation = (identity >> 32) as u32;
        let state = State::decode(WorkerRecord::new(&self.geometry, index).state().load(&self.mem));
        let is_its = state.generation == generation && state.phase == Phase::Alive;
        !is_its || self.mem.kernel().has_died(self.geometry.bed(index), generation)
    }

    /// The file that has the liveness locks, by which a fence proves of whom it kills that it is of this pool.
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

    /// Has the background thread of this process leave a dead worker's announcement alone from now on: the record will be
    /// another's. `false` if it is at it just now, for long.
    pub(super) fn disown(&self, index: u32, generation: u32) -> bool {
        let record = WorkerRecord::new(&self.geometry, index);
        let pins: Vec<_> = match self.local.lock() {
            Ok(all) => all.iter().filter_map(std::sync::Weak::upgrade).collect(),
            Err(_) => return false,
        };
        pins.iter()
            .filter(|pin| pin.record == record && pin.generation == generation)
            .all(|pin| pin.disown(&self.mem))
    }

    /// Reads every worker's state: index and state of those that are not free.
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

impl<M: Memory> Pod<Snapshot<M>> {
    /// A view of the pool by a process that takes no place, and of which nobody knows (`docs/protocols/snapshots.md`). `liveness` says who lives; without
    /// it that cannot be asked. Whether a process of this host lives its kernel says only if the host is up here.
    pub fn observe(
        mem: Snapshot<M>,
        superblock: Superblock,
        identity: Identity,
        liveness: Option<Box<dyn Liveness>>,
        hooks: Hooks<Snapshot<M>>,
    ) -> Result<Self> {
        // Nothing is kept in mind from one attempt to the next.
        let limits = Limits {
            cached_words: 0,
            ..Limits::usual::<M>()
        };
        let mut pod = Self::without_place(mem, superblock, identity, liveness, hooks, limits)?;
        pod.is_in_pod |= host::hosts_high(&pod.mem, &pod.geometry) != 0;
        if pod.identity.host < pod.geometry.parameters.hosts && pod.identity.host != ALONE {
            let record = HostRecord::new(&pod.geometry, pod.identity.host);
            let state = record.read(&pod.mem).ok();
            let machine = pod.identity.name.machine;
            let home = state.filter(|state| host::is_home(&pod.mem, record, state.generation, machine));
            pod.host_generation = home.map_or(0, |state| state.generation);
        }
        Ok(pod)
    }
}

/// See [`Pod::hold_still`].
pub struct Reclaiming<'p, M: Memory> {
    pod: &'p Pod<M>,
}

impl<M: Memory> Drop for Reclaiming<'_, M> {
    fn drop(&mut self) {
        self.pod.reclaiming.store(0);
    }
}

impl<M: Memory> Drop for Pod<M> {
    fn drop(&mut self) {
        if self.is_forked() {
            // The descriptor was closed when this child was made, and its number may be somebody else's by now.
            std::mem::forget(self.liveness.take());
            return;
        }
        if self.index == NO_PLACE {
            return;
        }
        crash_point(Point::DetachDone);
        let record = ProcessRecord::new(&self.geometry, self.index);
        let free = State::free(self.generation);
        let mine = self.entry(Phase::Alive, self.generation);
        // What its threads have stored is seen: they ended their places in the worker table by exchanges.
        let _ = record
            .state()
            .compare_exchange_acquire(&self.mem, mine.encode(), free.encode());
        if let Some(lock) = &self.liveness {
            let _ = lock.unlock(self.index);
        }
    }
}

/// The clock that people read.
pub fn seconds_since_1970() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}
