//! How a process joins a pool, and how it leaves.
//!
//! **Joining.** Take the byte lock of a place whose entry is free, then move the entry `Free(g) -> Alive(g + 1)`.
//! A crash between the two leaves nothing: the kernel drops the lock. Hence an entry that says `Alive` while its
//! byte is unlocked belonged to a process that died.
//!
//! **Leaving.** Detach all workers, move the entry to `Free`, drop the lock.
//!
//! **In a pod**, where hosts have kernels of their own and see nothing of each other's locks, a place is claimed first:
//! `Free(g) -> Joining(g + 1) -> Alive(g + 1)`, with the host's id and generation in the state. Whether a process of
//! another host lives is judged by what the pool says of that host (see `host`); the kernel's lock counts only within a
//! host.

use super::crash::{Point, crash_point};
use super::drain;
use super::hooks::Hooks;
use super::limits::Limits;
use super::process::{Identity, NO_PLACE, Pod};
use crate::causes::{HostError, Table};
use crate::error::{Error, Result};
use crate::memory::{Liveness, Memory, Snapshot};
use crate::mutant::{self, Mutant};
use crate::pod::format::geometry::NO_HOST;
use crate::pod::format::host_entry::{self, HostPhase, HostRecord};
use crate::pod::format::record::{Phase, ProcessRecord, State, WorkerRecord};
use crate::pod::format::superblock::{self, Superblock};

impl<M: Memory> Pod<M> {
    /// Joins the pool in `mem` as a new process, which lives as long as it holds a lock of `liveness`. A process of a
    /// host other than 0 needs its host's agent.
    pub fn join(
        mem: M,
        superblock: Superblock,
        identity: Identity,
        liveness: Box<dyn Liveness>,
        hooks: Hooks<M>,
    ) -> Result<Self> {
        Self::join_with(mem, superblock, identity, liveness, hooks, false)
    }

    /// Joins as a process that means to be its host's agent; the host is up ([`crate::pod::hosts::agent::bring_up`]).
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
            host_entry::check_id(&pod.geometry.parameters, pod.identity.host)?;
            pod.host_generation = pod.generation_to_join(is_agent)?;
        }
        pod.take_place()?;
        // Once the entry is alive: either this process sees the repairer, or the repairer sees it. It gives the place
        // back.
        pod.refuse_beside_repair()?;
        Ok(pod)
    }

    /// The present generation of this process's host, if one may join it.
    fn generation_to_join(&self, is_agent: bool) -> Result<u32> {
        let host = self.identity.host;
        if self.identity.name.machine == 0 {
            return Err(Error::Host {
                host,
                source: HostError::Unidentified,
            });
        }
        let state = HostRecord::new(&self.geometry, host).read(&self.mem)?;
        match state.phase {
            HostPhase::Up if is_agent || state.agent != 0 => {
                let record = HostRecord::new(&self.geometry, host);
                match host_entry::is_home(&self.mem, record, state.generation, self.identity.name.machine) {
                    true => Ok(state.generation),
                    false => Err(Error::Host {
                        host,
                        source: HostError::Elsewhere,
                    }),
                }
            }
            HostPhase::Fencing => Err(Error::Host {
                host,
                source: HostError::Suspected,
            }),
            _ => Err(Error::Host {
                host,
                source: HostError::NoAgent,
            }),
        }
    }

    /// Takes a free place; if there is none, that of a dead process, whose workers this process must then recover.
    /// Scans twice: a dead process's place may become free between the scan for free places and the one for dead
    /// processes.
    fn take_place(&mut self) -> Result<()> {
        for phase in [Phase::Free, Phase::Alive, Phase::Free, Phase::Alive] {
            for index in self.geometry.places_of(self.identity.host) {
                if self.try_place(index, phase)? {
                    return Ok(());
                }
            }
        }
        Err(Error::TooMany {
            what: Table::Processes,
            limit: self.geometry.parameters.processes,
        })
    }

    fn try_place(&mut self, index: u32, phase: Phase) -> Result<bool> {
        let record = ProcessRecord::new(&self.geometry, index);
        let word = record.state().load(&self.mem);
        let state = State::decode(word);
        let lock = self.liveness.as_ref().ok_or(Error::Forked)?;
        // The place of a process that died while it joined can be taken, like that of one that died later.
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
        // What the dead process has left in this host's cache would overwrite what others make of its workers' places.
        drain::drain(self, index, state)?;
        if self.is_in_pod() {
            return self.claim_place(index, word);
        }
        let generation = state.generation.wrapping_add(1);
        self.introduce(record);
        self.claim_entry(index, word, generation)
    }

    /// In a pod: claims a place, before anything is written to it, then takes it. The caller has its lock, which says
    /// nothing about processes of other hosts.
    fn claim_place(&mut self, index: u32, word: u64) -> Result<bool> {
        let record = ProcessRecord::new(&self.geometry, index);
        let state = State::decode(word);
        let lock = self.liveness.as_ref().ok_or(Error::Forked)?;
        let is_elsewhere = state.phase != Phase::Free && !self.is_judged_by_lock(state);
        let generation = state.generation.wrapping_add(1);
        let joining = self.entry(Phase::Joining, generation);
        // A process whose host's entry is damaged may or may not live, and keeps its place.
        let may_live = || host_entry::may_live(&self.mem, &self.geometry, index, state).unwrap_or(true);
        // PAIRS WITH: pod::hosts::agent::leave, pod::hosts::agent::is_all_dead, pod::hosts::fence::fence, pod::instance::repair::is_alone
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
        // PAIRS WITH: pod::hosts::agent::leave, pod::hosts::agent::is_all_dead, pod::hosts::fence::fence
        let found = HostRecord::new(&self.geometry, self.identity.host).read(&self.mem)?;
        if found.phase != HostPhase::Up || found.generation != self.host_generation {
            let free = State::free(generation);
            // NO PAIR: claim
            let _ = record
                .state()
                .compare_exchange_acquire(&self.mem, joining.encode(), free.encode());
            lock.unlock(index)?;
            return Err(Error::Host {
                host: self.identity.host,
                source: HostError::Closing,
            });
        }
        let [started, namespace] = record.name();
        started.set(&self.mem, self.identity.name.started);
        namespace.set(&self.mem, self.identity.name.namespace);
        record
            .host_generation()
            .set(&self.mem, u64::from(self.host_generation));
        self.introduce(record);
        self.claim_entry(index, joining.encode(), generation)
    }

    /// Describes this process in its entry.
    fn introduce(&self, record: ProcessRecord) {
        record.pid().set(&self.mem, u64::from(self.identity.name.pid));
        record.since().set(&self.mem, self.identity.since);
        record.host().set(&self.mem, u64::from(self.identity.host));
        record
            .relies_on_barrier()
            .set(&self.mem, u64::from(self.relies_on_barrier()));
        // If this host's cache has an older value, the background thread only serves rounds that it need not have
        // served.
        let round = superblock::FLUSH_ROUND.load_speculative(&self.mem);
        // PAIRS WITH: pod::reclaim::flush::is_complete
        record.flushed().store(&self.mem, round);
        // Complete before the entry is alive.
        self.mem.write_back(record.pid().offset(), 64);
    }

    /// Makes the entry this process's, if it is still as it was found.
    fn claim_entry(&mut self, index: u32, word: u64, generation: u32) -> Result<bool> {
        let alive = self.entry(Phase::Alive, generation);
        let state = ProcessRecord::new(&self.geometry, index).state();
        // PAIRS WITH: pod::instance::process::entries, pod::instance::advance::somebody_relies_on_it, pod::instance::repair::is_alone
        let exchanged = state.fence_and_exchange(&self.mem, word, alive.encode());
        if exchanged.is_err() {
            self.liveness.as_ref().ok_or(Error::Forked)?.unlock(index)?;
            return Ok(false);
        }
        self.index = index;
        self.generation = generation;
        // A fence that finds the entry alive reads them, and kills by them.
        self.mem
            .must_be_in_memory(ProcessRecord::new(&self.geometry, index).pid().offset(), 64);
        crash_point(Point::OpenAlive);
        self.note_requests_before_joining();
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

    /// The process that joins need not serve what has been requested so far: its cache is dropped after this. Such a
    /// request may be over, and lead to memory that is in use again.
    ///
    /// Cost: on incoherent memory a load from far away for each worker's place.
    fn note_requests_before_joining(&self) {
        if M::COHERENT {
            return;
        }
        for worker in 0..self.workers_high() {
            let record = WorkerRecord::new(&self.geometry, worker);
            let [_, _, serial, _] = record.flush_request();
            self.served.note(record, serial.peek(&self.mem));
        }
    }

    /// Drops the whole pool from this host's cache. An earlier process of this host may have left lines there, and
    /// since it left, memory was reused without waiting for this host. From now on it is not.
    fn forget_cached(&self) {
        if !mutant::is(Mutant::JoinCacheKept) {
            drain::drop_cached(&self.mem, &self.geometry);
        }
    }
}

impl<M: Memory> Pod<Snapshot<M>> {
    /// A view of the pool for a process that takes no place, and of which no other process knows
    /// (`docs/protocols/snapshots.md`). `liveness` says which processes live; without it nothing does. The kernel can
    /// judge processes of this host only if the host is up here.
    pub fn open_reader(
        mem: Snapshot<M>,
        superblock: Superblock,
        identity: Identity,
        liveness: Option<Box<dyn Liveness>>,
        hooks: Hooks<Snapshot<M>>,
    ) -> Result<Self> {
        // Nothing is remembered from one attempt to the next.
        let limits = Limits {
            cached_words: 0,
            ..Limits::usual::<M>()
        };
        let mut pod = Self::without_place(mem, superblock, identity, liveness, hooks, limits)?;
        pod.is_in_pod |= host_entry::hosts_high(&pod.mem, &pod.geometry) != 0;
        if pod.identity.host < pod.geometry.parameters.hosts && pod.identity.host != NO_HOST {
            let record = HostRecord::new(&pod.geometry, pod.identity.host);
            let state = record.read(&pod.mem).ok();
            let machine = pod.identity.name.machine;
            let home = state.filter(|state| host_entry::is_home(&pod.mem, record, state.generation, machine));
            pod.host_generation = home.map_or(0, |state| state.generation);
        }
        Ok(pod)
    }
}

impl<M: Memory> Drop for Pod<M> {
    fn drop(&mut self) {
        if self.is_forked() {
            // The descriptor was closed when this child was made, and its number may be another file's by now.
            std::mem::forget(self.liveness.take());
            return;
        }
        if self.index == NO_PLACE {
            return;
        }
        self.flush_written();
        crash_point(Point::DetachDone);
        let record = ProcessRecord::new(&self.geometry, self.index);
        let free = State::free(self.generation);
        let mine = self.entry(Phase::Alive, self.generation);
        // Its threads' stores are visible: exchanges ended their places in the worker table.
        // NO PAIR: claim
        let _ = record
            .state()
            .compare_exchange_acquire(&self.mem, mine.encode(), free.encode());
        if let Some(lock) = &self.liveness {
            let _ = lock.unlock(self.index);
        }
    }
}
