//! Which processes and workers live, as far as this process can know.
//!
//! | who | lives if | page |
//! |---|---|---|
//! | a process of this machine | the kernel says that its byte is locked | `docs/protocols/instances.md` |
//! | a process of another host | the pool does not say otherwise of its host, nor its host's agent of it | `docs/protocols/hosts.md` |
//! | a worker | its process does, and its death slot does not say otherwise | `docs/protocols/detection.md` |

use super::drain::drain;
use super::process::Pod;
use super::worker::Worker;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::memory::checked::sync_word;
use crate::mutant::{self, Mutant};
use crate::pod::format::geometry::NO_HOST;
use crate::pod::format::host_entry;
use crate::pod::format::record::{Phase, ProcessRecord, State, WorkerRecord};

impl<M: Memory> Pod<M> {
    /// Whether the process at a place lives: one system call, none for this process. In a pod it takes a round trip
    /// before that, and for a process of another host two round trips instead.
    pub fn process_lives(&self, index: u32) -> Result<bool> {
        if index == self.index() {
            return Ok(true);
        }
        if index >= self.geometry().parameters.processes {
            return Ok(false);
        }
        if !self.is_in_pod() {
            return self.is_locked(index);
        }
        let entry = ProcessRecord::new(self.geometry(), index)
            .state()
            .load(self.mem());
        self.entry_lives(index, State::decode(entry))
    }

    /// The same for a process whose entry is known.
    fn entry_lives(&self, index: u32, entry: State) -> Result<bool> {
        if index == self.index() {
            Ok(true)
        } else if self.is_judged_by_lock(entry) {
            self.is_locked(index)
        } else {
            host_entry::may_live(self.mem(), self.geometry(), index, entry)
        }
    }

    /// Whether this process's kernel knows whether the process of an entry lives: if it is of this host in this
    /// generation, which is on one machine, or of no host. A process of an earlier generation is dead, wherever it was.
    pub(in crate::pod) fn is_judged_by_lock(&self, entry: State) -> bool {
        let is_fellow = entry.process == self.host() && entry.tag == self.host_generation() as u8;
        !self.is_in_pod() || is_fellow || entry.process == NO_HOST
    }

    /// Whether the process that a worker's state names lives: exactly that generation, not a later one in its place. If
    /// it does not, nothing that it has begun takes effect any more, and nothing that it has left in a cache reaches
    /// memory any more.
    pub fn instance_lives(&self, worker: State) -> Result<bool> {
        if worker.process >= self.geometry().parameters.processes {
            return Ok(false);
        }
        let entry = State::decode(
            ProcessRecord::new(self.geometry(), worker.process)
                .state()
                .load(self.mem()),
        );
        let is_damaged = matches!(entry.phase, Phase::Damaged | Phase::Recovering);
        if is_damaged && self.entry_lives(worker.process, entry)? {
            // Whether it is the process that is meant cannot be told.
            let at = ProcessRecord::new(self.geometry(), worker.process)
                .state()
                .offset();
            return Err(Error::corrupt("the state of a process", at));
        }
        let same = entry.phase == Phase::Alive
            && (entry.generation as u8 == worker.tag || mutant::is(Mutant::InstanceByPlace));
        let lives = same && self.entry_lives(worker.process, entry)?;
        if same && !lives {
            drain(self, worker.process, entry)?;
        }
        if !lives {
            self.mem().quiesce();
        }
        Ok(lives)
    }

    /// The identity of this process: its place plus one, its generation in the high half.
    pub fn process_identity(&self) -> u64 {
        u64::from(self.index() + 1) | u64::from(self.generation()) << 32
    }

    /// Whether the process of an identity lives no more. If so, nothing that it has begun takes effect any more, as for
    /// [`Pod::instance_lives`].
    ///
    /// Cost: two sync loads, and one system call for another process of this machine.
    pub fn process_is_gone(&self, identity: u64) -> Result<bool> {
        let Some(process) = u32::from(identity as u16).checked_sub(1) else {
            return Ok(true);
        };
        if process >= self.geometry().parameters.processes {
            return Ok(true);
        }
        let generation = (identity >> 32) as u32;
        let record = ProcessRecord::new(self.geometry(), process);
        let entry = State::decode(record.state().load(self.mem()));
        // The worker that has the place now has seen the death of the one before, and all that it had begun.
        let is_later = entry.phase == Phase::Alive && entry.generation != generation;
        Ok(is_later
            || !self.instance_lives(State {
                process,
                tag: generation as u8,
                ..entry
            })?)
    }

    /// A number that differs from an earlier one if a process has come or gone since, and its place says so.
    ///
    /// Cost: a sync load for each process.
    pub fn processes_seen(&self) -> u64 {
        (0..self.geometry().parameters.processes)
            .map(|process| {
                ProcessRecord::new(self.geometry(), process)
                    .state()
                    .load(self.mem())
            })
            .fold(0, |seen, state| {
                seen.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(state)
            })
    }

    /// Whether the worker in a place lives, given its state: its process does, and its thread was not seen to die.
    /// A record that is being recovered lives as long as its recoverer.
    ///
    /// What a dead thread of a living process has stored lies in that process's cache. Where caches are incoherent,
    /// only that process acts on such a death; to others the worker lives. To other hosts it does in any case: they
    /// have another kernel.
    pub fn worker_lives(&self, index: u32, state: State) -> Result<bool> {
        let (index, state) = match state.phase {
            Phase::Recovering => {
                let recoverer = self.state_of(state.process);
                match recoverer {
                    Some(by) if by.phase == Phase::Alive && by.generation as u8 == state.tag => {
                        (state.process, by)
                    }
                    _ => return Ok(false),
                }
            }
            _ => (index, state),
        };
        let has_died = self.thread_has_died(index, state);
        if has_died {
            self.mem().quiesce();
        }
        Ok(!has_died && self.instance_lives(state)?)
    }

    /// The index and the state of the worker that has a place in the worker table (index plus one) in a generation for
    /// which `is_meant` is true, alive or dead; `None` if it has left, or is recovered, or is being recovered.
    pub(in crate::pod) fn owner_of(
        &self,
        place: u16,
        is_meant: impl FnOnce(u32) -> bool,
    ) -> Result<Option<(u32, State)>> {
        let Some(index) = u32::from(place).checked_sub(1) else {
            return Ok(None);
        };
        let Some(state) = self.state_of(index) else {
            return Ok(None);
        };
        let is_damaged = matches!(state.phase, Phase::Damaged | Phase::Joining);
        if is_damaged && self.instance_lives(state)? {
            // It may be the worker that is meant.
            let at = WorkerRecord::new(self.geometry(), index).state().offset();
            return Err(Error::corrupt("the state of a worker", at));
        }
        Ok((is_meant(state.generation) && state.phase == Phase::Alive).then_some((index, state)))
    }

    /// Whether a worker's place belongs to a thread of this process, or is being recovered by one.
    pub(in crate::pod) fn is_own(&self, state: State) -> bool {
        let by = match state.phase {
            Phase::Recovering => self.state_of(state.process),
            _ => Some(state),
        };
        by.is_some_and(|by| by.process == self.index() && by.tag == self.generation() as u8)
    }

    /// Whether a worker's thread is known to have died, whatever its process does.
    fn thread_has_died(&self, index: u32, state: State) -> bool {
        let death_slot = self.geometry().death_slot(index);
        (M::COHERENT || state.process == self.index())
            && !mutant::is(Mutant::LoneDeathIgnored)
            && self.mem().kernel().has_died(death_slot, state.generation)
            && self.shares_kernel(state)
    }

    /// Whether the process that a worker's state names has the same kernel as this one, so that threads here can sleep
    /// by its workers' death slots. One round trip in a pod, none on a single machine.
    pub fn shares_kernel(&self, worker: State) -> bool {
        if !self.is_in_pod() || worker.process == self.index() {
            return true;
        }
        if worker.process >= self.geometry().parameters.processes {
            return false;
        }
        let entry = ProcessRecord::new(self.geometry(), worker.process)
            .state()
            .load(self.mem());
        self.is_judged_by_lock(State::decode(entry))
    }

    /// The state of a worker's place; `None` if there is no such place.
    fn state_of(&self, index: u32) -> Option<State> {
        let is_place = index < self.geometry().parameters.workers;
        is_place.then(|| State::decode(WorkerRecord::new(self.geometry(), index).state().load(self.mem())))
    }

    /// The places of processes that died; nothing that they have begun takes effect any more, as for
    /// [`Pod::instance_lives`]. A process whose host's entry is damaged may or may not live, and is not among them:
    /// `unknown` is called for it.
    pub fn dead_processes(&self, mut unknown: impl FnMut(u32, Error)) -> Vec<u32> {
        let mut dead = Vec::new();
        for index in (0..self.geometry().parameters.processes).filter(|&index| index != self.index()) {
            match self.has_died(index) {
                Ok(true) => dead.push(index),
                Ok(false) => {}
                Err(error) => unknown(index, error),
            }
        }
        if !dead.is_empty() {
            self.mem().quiesce();
        }
        dead
    }

    /// Whether a place is that of a process that died. What it has left in a cache reaches memory no more.
    fn has_died(&self, index: u32) -> Result<bool> {
        let state = State::decode(
            ProcessRecord::new(self.geometry(), index)
                .state()
                .load(self.mem()),
        );
        if state.phase == Phase::Free || self.entry_lives(index, state)? {
            return Ok(false);
        }
        drain(self, index, state)?;
        Ok(true)
    }

    /// Whether this process may recover others: not while its host is being fenced. Processes that die from then on die
    /// with the host, and groups must be notified so. To be called after a death was found. One round trip in a pod.
    pub fn may_recover(&self) -> Result<bool> {
        let origin = host_entry::HostInstance {
            host: self.host(),
            generation: self.host_generation(),
        };
        origin.is_up(self.mem(), self.geometry())
    }
}

/// Whether no other process has the pool open, nor is dead in it; as far as this host's cache knows, which is enough to
/// choose how space is reserved.
pub(crate) fn is_alone<M: Memory>(worker: &Worker<M>) -> bool {
    let geometry = worker.geometry();
    let taken = (0..geometry.parameters.processes)
        .map(|index| ProcessRecord::new(geometry, index).state().offset())
        .map(|state| sync_word(state).load_speculative(worker.mem()))
        .filter(|&state| State::decode(state).phase != Phase::Free);
    taken.take(2).count() < 2
}
