//! A worker: one thread's place in the pool.
//!
//! [`attach`](crate::pod::commit) describes how it attaches and detaches. In between, the worker alone writes its
//! record's owned words. What an upper folder remembers for a worker is one field of it; its type is here, and its use
//! is there. [`Worker::pin`] announces that the worker reads: until the [`Pin`] is dropped, nothing that it can reach
//! is reused.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use super::alloc_state::AllocState;
use super::back_off::BackOff;
use super::epoch;
use super::limits::Limits;
use super::process::Pod;
use super::reclaim_state::ReclaimState;
use crate::error::{Error, Result};
use crate::memory::{
    DeathSlot, ForkWatch, LocalWord, Memory, Registration, Snapshot, compiler_barrier, forked,
};
use crate::mutant::{self, Mutant};
use crate::pod::format::actor::Actor;
use crate::pod::format::geometry::{FRAME, Geometry};
use crate::pod::format::host_entry::HostInstance;
use crate::pod::format::lock_slots::OwnSlots;
use crate::pod::format::record::{IDLE, Phase, State, WorkerRecord};
use crate::pod::format::superblock::COMMITTED;

/// What a worker and its process's background thread agree on (incoherent memory; see `epoch`).
#[derive(Debug)]
pub struct LocalPin {
    /// The worker's record.
    pub(in crate::pod) record: WorkerRecord,
    /// Its generation.
    pub(in crate::pod) generation: u32,
    /// 0 idle, 1 reading, 2 managed by the background thread, 3 the worker is dead.
    pub(in crate::pod) active: LocalWord,
    /// What is announced in the pool.
    pub(in crate::pod) announced: LocalWord,
    /// Set when the announcement is out of date.
    pub(in crate::pod) refresh: LocalWord,
    /// Which thread changes the worker's retired list; see `takeover`.
    pub(in crate::pod) busy: LocalWord,
    /// How often the list was taken over.
    pub(in crate::pod) list_version: LocalWord,
}

impl LocalPin {
    /// Its worker is dead: the background thread leaves its announcement alone from now on. `false` if that thread is
    /// at it for so long that it may be dead too.
    pub(in crate::pod) fn disown<M: Memory>(&self, mem: &M) -> bool {
        for _ in 0..DISOWN_TRIES {
            // PAIRS WITH: pod::reclaim::flush::withdraw_idle
            if self.active.load() == 3 || self.active.exchange(0, 3) || self.active.exchange(1, 3) {
                return true;
            }
            mem.relax();
        }
        false
    }
}

/// Polls of a recoverer for the background thread to be done with a dead worker's announcement.
const DISOWN_TRIES: u32 = 1000;

/// A thread's place in the pool. It stays in its thread and dies with it.
pub struct Worker<M: Memory> {
    /// Not [`Send`].
    _of_its_thread: PhantomData<*const ()>,
    /// The memory and the layout, by value: every operation needs them.
    mem: M,
    geometry: Geometry,
    limits: Limits,
    watch: ForkWatch,
    pod: Arc<Pod<M>>,
    actor: Actor,
    generation: u32,
    pub(crate) registration: Registration,
    replicate: bool,
    /// Whether announcements need no barrier, because their readers execute one for all threads.
    lazy: bool,
    /// Whether [`Worker::briefly`] can announce: the epoch is its replica and no barrier is needed.
    brief: bool,
    depth: Cell<u32>,
    /// Bytes known to be committed.
    committed: Cell<u64>,
    /// Frames that are known to have memory.
    backed_frames: Cell<u64>,
    /// Incoherent memory: the epoch as it was seen when the announcement stood.
    epoch_since: Cell<u64>,
    /// Incoherent memory: the time of the present announcement. It grows; what was read under another may have been
    /// reused.
    stamp: Cell<u64>,
    local: Arc<LocalPin>,
    /// What `reclaim` remembers.
    pub(in crate::pod) reclaim: ReclaimState,
    /// What `alloc` remembers.
    pub(in crate::pod) alloc: AllocState,
    pub(in crate::pod) back_off: BackOff,
    /// Incoherent memory: the last operation is over, and that may not have been written back.
    pub(in crate::pod) is_end_in_flight: Cell<bool>,
    slots: OwnSlots,
    /// Numbers given to removals.
    removals: Cell<u32>,
}

impl<M: Memory> Worker<M> {
    /// A new worker, which is `actor` in the pool.
    pub(crate) fn assemble(
        pod: &Arc<Pod<M>>,
        actor: Actor,
        local: Arc<LocalPin>,
        replicate: bool,
        list_version: u64,
        registration: Registration,
    ) -> Self {
        let lazy = pod.relies_on_barrier();
        Self {
            _of_its_thread: PhantomData,
            mem: pod.mem().clone(),
            geometry: *pod.geometry(),
            limits: *pod.limits(),
            watch: pod.watch(),
            pod: pod.clone(),
            actor,
            generation: local.generation,
            registration,
            replicate,
            lazy,
            brief: M::COHERENT && lazy && replicate,
            depth: Cell::new(0),
            committed: Cell::new(0),
            backed_frames: Cell::new(0),
            epoch_since: Cell::new(0),
            stamp: Cell::new(0),
            local,
            reclaim: ReclaimState::new::<M>(list_version),
            alloc: AllocState::new::<M>(),
            back_off: BackOff::new(u64::from(actor.me)),
            is_end_in_flight: Cell::new(false),
            slots: OwnSlots::default(),
            removals: Cell::new(0),
        }
    }

    /// The memory.
    #[inline]
    pub fn mem(&self) -> &M {
        &self.mem
    }

    /// The process's view.
    #[inline]
    pub fn pod(&self) -> &Arc<Pod<M>> {
        &self.pod
    }

    /// The layout.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The thresholds of its process.
    #[inline]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether this process is a child of the one that the worker belongs to.
    #[inline]
    pub fn is_forked(&self) -> bool {
        forked(self.watch)
    }

    /// Its identity in locks, never used again: its place plus one, and its generation.
    #[inline]
    pub fn identity(&self) -> u64 {
        u64::from(self.me()) | u64::from(self.generation()) << 32
    }

    /// The host that its process joined under.
    pub fn host_instance(&self) -> HostInstance {
        HostInstance {
            host: self.pod.host(),
            generation: self.pod.host_generation(),
        }
    }

    /// Waits until the end of the last operation is written back. Called before a secondary object is named: the name
    /// has a line of its own, which must not reach memory while the other line still says that the last operation
    /// happened.
    #[inline]
    pub(in crate::pod) fn await_end(&self) {
        if !M::COHERENT && self.is_end_in_flight.replace(false) && !mutant::is(Mutant::EndNotAwaited) {
            self.mem.fence();
        }
    }

    /// Its record and mark.
    #[inline]
    pub fn actor(&self) -> Actor {
        self.actor
    }

    /// Its record.
    #[inline]
    pub fn record(&self) -> WorkerRecord {
        self.actor.record
    }

    /// Its index plus one: its mark in cells, table words and locks.
    #[inline]
    pub fn me(&self) -> u16 {
        self.actor.me
    }

    /// The state of a record that this worker recovers or adopts. Claims name workers, not processes: a thread may
    /// die alone.
    pub fn claim(&self, generation: u32) -> State {
        State {
            phase: Phase::Recovering,
            process: u32::from(self.actor.me) - 1,
            tag: self.generation as u8,
            generation,
        }
    }

    /// Its generation.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// What it and its process's background thread agree on.
    #[inline]
    pub(in crate::pod) fn local(&self) -> &LocalPin {
        &self.local
    }

    /// Whether it announces without a barrier, because readers of announcements execute one for all threads.
    #[inline]
    pub(in crate::pod) fn is_lazy(&self) -> bool {
        self.lazy
    }

    /// A number of 44 bits for a removal. It repeats an earlier one of its place after 2^32 removals, or with
    /// the 4096th worker after it there.
    #[inline]
    pub fn next_removal(&self) -> u64 {
        let count = self.removals.get().wrapping_add(1);
        self.removals.set(count);
        u64::from(self.generation & 0xfff) << 32 | u64::from(count)
    }

    /// What it remembers of its slots for locks.
    #[inline]
    pub fn slots(&self) -> &OwnSlots {
        &self.slots
    }

    /// Whether it reads its replica of the epoch rather than the epoch itself.
    #[inline]
    pub fn replicates(&self) -> bool {
        self.replicate
    }

    /// The time of the present announcement, by the clock of the process's [`WordCache`](super::word_cache::WordCache).
    /// What was read at an equal time is still protected, while pinned. On incoherent memory.
    #[inline]
    pub fn stamp(&self) -> u64 {
        self.stamp.get()
    }

    /// Announces that this worker reads. Pins nest. On coherent memory one store to the worker's own line; on
    /// incoherent memory nothing while the announcement stands, else a sync load and a sync store.
    #[inline]
    pub fn pin(&self) -> Result<Pin<'_, M>> {
        if self.depth.get() == 0 {
            if self.is_forked() {
                return Err(Error::Forked);
            }
            if M::COHERENT {
                let epoch = self.epoch_to_announce();
                if self.lazy {
                    // PAIRS WITH: pod::instance::advance::least
                    self.actor.record.announced().store(self.mem(), epoch);
                    compiler_barrier();
                } else {
                    self.announce(epoch);
                }
            } else {
                self.enter_incoherent();
            }
            self.mem().pinned();
        }
        self.depth.set(self.depth.get() + 1);
        Ok(Pin { worker: self })
    }

    /// Announces the present epoch, where an older announcement stands from an earlier operation.
    ///
    /// Cost: on incoherent memory, a sync load and a sync store.
    pub(in crate::pod) fn announce_anew(&self) -> Result<()> {
        if !M::COHERENT {
            // NO PAIR: hint
            self.local.refresh.store(1);
        }
        self.pin().map(drop)
    }

    /// Runs `read` with an announcement of its own: [`Worker::pin`] for a few loads that call nothing which pins.
    /// `None` also if a pin is needed instead: on incoherent memory, under another pin, in a forked child.
    #[inline(always)]
    pub fn briefly<R>(&self, read: impl FnOnce() -> Option<R>) -> Option<R> {
        if self.depth.get() != 0 || !self.brief || self.is_forked() {
            return None;
        }
        let (mem, record) = (self.mem(), self.actor.record);
        let epoch = match mutant::is(Mutant::NotAnnounced) {
            true => IDLE,
            // It has a replica, or it could not be brief.
            false => epoch::current(mem, record, true),
        };
        // PAIRS WITH: pod::instance::advance::least
        record.announced().store(mem, epoch);
        compiler_barrier();
        let found = read();
        // PAIRS WITH: pod::instance::advance::least
        record.announced().store(mem, IDLE);
        found
    }

    /// Announces with a barrier of its own.
    #[inline]
    fn announce(&self, epoch: u64) {
        let (mem, word) = (self.mem(), self.actor.record.announced());
        if mutant::is(Mutant::AnnouncedWithoutFence) {
            word.store(mem, epoch);
        } else {
            // PAIRS WITH: pod::instance::advance::least
            word.store_seq_cst(mem, epoch);
        }
    }

    #[inline(always)]
    fn epoch_to_announce(&self) -> u64 {
        match mutant::is(Mutant::NotAnnounced) {
            true => IDLE,
            false => epoch::current(self.mem(), self.actor.record, self.replicate),
        }
    }

    fn enter_incoherent(&self) {
        // PAIRS WITH: pod::reclaim::flush::withdraw_idle
        while !self.local.active.exchange(0, 1) {
            self.mem().pause();
        }
        if self.local.announced.load() == IDLE || self.local.refresh.load() != 0 {
            // A name that is over could be taken for evidence once the object is reused, which the old announcement
            // prevents.
            self.await_end();
            self.actor.record.expect_end_in_memory(self.mem());
            // NO PAIR: hint
            self.local.refresh.store(0);
            let epoch = self.epoch_to_announce();
            self.announce(epoch);
            // PAIRS WITH: pod::reclaim::flush::withdraw_idle
            self.local.announced.store(epoch);
            self.epoch_since
                .set(epoch::current(self.mem(), self.actor.record, self.replicate));
            self.stamp.set(self.pod.words().tick());
        }
    }

    /// The epoch with which to tag what an actor retires now: at most one behind the epoch.
    ///
    /// While an announcement stands, the epoch is at most one ahead of what was seen after it was made
    /// (`docs/protocols/reclamation.md`).
    ///
    /// Cost: a load; on incoherent memory none for what a pinned worker retires itself.
    #[inline]
    pub(in crate::pod) fn epoch_to_tag(&self, actor: Actor) -> u64 {
        if !M::COHERENT && self.is_pinned() && actor == self.actor {
            return self.epoch_since.get();
        }
        epoch::current(self.mem(), actor.record, self.replicate)
    }

    /// Makes the background thread leave this worker's announcement alone from now on: the thread may be using its list
    /// of pins, and the record will have another owner.
    pub(crate) fn disown_pin(&self) {
        if M::COHERENT || mutant::is(Mutant::LeftWithPin) {
            return;
        }
        while !self.local.disown(self.mem()) && !self.pod.has_lost_flush_server() {}
    }

    /// Whether a pin is held.
    pub fn is_pinned(&self) -> bool {
        self.depth.get() > 0
    }

    #[inline]
    fn unpin(&self) {
        let depth = self.depth.get() - 1;
        self.depth.set(depth);
        if depth == 0 && !self.is_forked() {
            self.mem().unpinned();
            if M::COHERENT {
                // PAIRS WITH: pod::instance::advance::least
                self.actor.record.announced().store(self.mem(), IDLE);
            } else {
                // PAIRS WITH: pod::reclaim::flush::withdraw_idle
                self.local.active.store(0);
            }
        }
    }

    /// Checks that a range lies in committed frames, so that touching it cannot fault.
    #[inline(always)]
    pub fn check(&self, what: &'static str, at: u64, len: u64) -> Result<()> {
        if self.is_committed(at, len) {
            return Ok(());
        }
        self.check_slowly(what, at, len)
    }

    /// Whether a range lies in frames that this worker knows to be committed.
    #[inline(always)]
    pub fn is_committed(&self, at: u64, len: u64) -> bool {
        let (from, committed) = (at.wrapping_sub(self.geometry().data), self.committed.get());
        from < committed && len <= committed - from
    }

    /// Whether the aligned block of up to a line around an offset lies in frames that this worker knows to be
    /// committed.
    #[inline(always)]
    pub fn is_in_committed(&self, at: u64) -> bool {
        at.wrapping_sub(self.geometry().data) < self.committed.get()
    }

    #[cold]
    fn check_slowly(&self, what: &'static str, at: u64, len: u64) -> Result<()> {
        self.committed.set(self.committed_frames()? * FRAME);
        if self.is_committed(at, len) {
            Ok(())
        } else {
            Err(Error::corrupt(what, at))
        }
    }

    /// Frames committed now. A number that has grown is trusted when there is memory behind that many frames.
    ///
    /// Cost: a sync load; when it has grown, a system call.
    pub fn committed_frames(&self) -> Result<u64> {
        let frames = COMMITTED.load(self.mem());
        if frames <= self.backed_frames.get() {
            return Ok(frames);
        }
        let is_possible = frames <= self.geometry().parameters.max_frames;
        let is_backed = || {
            self.mem().is_backed(self.geometry().frame_offset(frames)) || mutant::is(Mutant::FramesBelieved)
        };
        if !is_possible || !is_backed() {
            return Err(Error::corrupt(
                "the number of committed frames",
                COMMITTED.offset(),
            ));
        }
        self.backed_frames.set(frames);
        Ok(frames)
    }
}

impl<M: Memory> Worker<Snapshot<M>> {
    /// A worker without a place, for code that reads. Its announcements reach nobody, so what it reads is valid as long
    /// as the attempt of its memory [holds](Snapshot::holds).
    pub fn of_reader(pod: &Arc<Pod<Snapshot<M>>>) -> Self {
        let local = LocalPin {
            record: WorkerRecord::nowhere(),
            generation: 0,
            active: LocalWord::new(0),
            announced: LocalWord::new(IDLE),
            refresh: LocalWord::new(0),
            busy: LocalWord::new(0),
            list_version: LocalWord::new(0),
        };
        let actor = Actor {
            record: WorkerRecord::nowhere(),
            // Above all indexes.
            me: u16::MAX,
        };
        Self::assemble(pod, actor, Arc::new(local), false, 0, Registration::default())
    }
}

/// Drops a death slot from this host's cache: the next owner may be on another host, and would not see this cache's
/// changes.
pub(in crate::pod) fn unregister<M: Memory>(mem: &M, death_slot: DeathSlot) {
    if !M::COHERENT {
        mem.invalidate(death_slot.offset() - 8, 16);
        mem.fence();
    }
}

/// While it lives, nothing that its worker can reach is reused.
pub struct Pin<'w, M: Memory> {
    worker: &'w Worker<M>,
}

impl<M: Memory> Pin<'_, M> {
    /// Plants [`Mutant::ValueUnpinned`]: the pin's announcement is withdrawn early.
    #[inline(always)]
    pub(crate) fn handed_out(&self) {
        if mutant::is(Mutant::ValueUnpinned) {
            self.worker
                .actor
                .record
                .announced()
                .store(self.worker.mem(), IDLE);
        }
    }
}

impl<M: Memory> Drop for Pin<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.worker.unpin()
    }
}
