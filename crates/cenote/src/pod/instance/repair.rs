//! A repair excludes everybody else from the pool.
//!
//! Repair frees what nothing refers to. So nobody may create a reference meanwhile. The repairer sets [`REPAIRER`], a
//! word of the superblock, then counts the others; a joiner, also a worker that attaches, becomes alive, then reads
//! `REPAIRER`. One sees the other, as both write by exchanges that are complete before the read. A joiner that sees a
//! living repairer is refused; a repairer that sees anybody withdraws.
//!
//! | step | who | a crash after it leaves |
//! |---|---|---|
//! | 1. [`REPAIRER`] = identity, from 0 or from a dead one's | the repairer | `repair.named`: the identity of a dead worker, which counts for nothing |
//! | 2. [`REPAIRER_MACHINE`] = its machine | the same | the same |
//! | 3. no other process has an entry, no thread of this one a place, no host is up; else 5 | the same | `repair.alone`: the same |
//! | 4. repairs | the same | what each change leaves, of which each is complete or not begun; the same |
//! | 5. [`REPAIRER`] = 0 | the same, or its recoverer | `repair.done`, before it: the same |
//!
//! **Whether it lives** is asked as of any owner of a lock; a repairer that is stopped lives. It is of host 0, as every
//! other host has an agent, which is a process. Processes of a pod cannot judge those of host 0
//! ([`hosts`](crate::pod::hosts)) but on its own machine: hence the second word. Else it counts as living until it is
//! recovered there.
//!
//! **Readers without a place** change nothing, and look at no such word.

use super::crash::{Point, crash_point};
use super::process::Pod;
use super::worker::Worker;
use crate::causes::RepairObstacle;
use crate::error::{Error, Result};
use crate::memory::{Liveness, Memory};
use crate::mutant::{self, Mutant};
use crate::pod::format::geometry::{Geometry, NO_HOST};
use crate::pod::format::host_entry;
use crate::pod::format::record::{Phase, ProcessRecord, State, WorkerRecord};
use crate::pod::format::superblock::{REPAIRER, REPAIRER_MACHINE};

/// The right to repair: nobody else has the pool open, nor will as long as this lasts.
pub struct Repairing<'w, M: Memory> {
    worker: &'w Worker<M>,
}

/// Makes this worker the pool's repairer. Refused while any other process, any other thread of this process with a
/// place, or another repairer is there.
pub fn begin<M: Memory>(worker: &Worker<M>) -> Result<Repairing<'_, M>> {
    let (pod, mem) = (worker.pod(), worker.mem());
    // A repair that will be refused keeps nobody out meanwhile.
    pod.refuse_beside_repair()?;
    is_alone(worker)?;
    let mut expected = 0;
    // It and the reads behind it are half of Dekker's protocol: nothing that this thread has stored before matters to
    // those who come.
    // PAIRS WITH: pod::instance::repair::refuse_beside_repair, pod::instance::repair::refuse_host
    while let Err(found) = REPAIRER.compare_exchange_acquire(mem, expected, worker.identity()) {
        // The word that is judged is the word that is replaced: a living repairer loses it to nobody.
        pod.refuse_repairer(found)?;
        expected = found;
    }
    let repairing = Repairing { worker };
    crash_point(Point::RepairNamed);
    // A joiner that still finds the last repairer's machine here was there before this one counts.
    // PAIRS WITH: pod::instance::repair::is_elsewhere
    REPAIRER_MACHINE.swap(mem, pod.identity().name.machine);
    if !mutant::is(Mutant::RepairUncounted) {
        is_alone(worker)?;
    }
    crash_point(Point::RepairAlone);
    Ok(repairing)
}

/// Fails if anybody else is there.
fn is_alone<M: Memory>(worker: &Worker<M>) -> Result<()> {
    let pod = worker.pod();
    let is_other = |&(index, entry): &(u32, State)| entry.phase != Phase::Free && index != pod.index();
    // PAIRS WITH: pod::instance::join::claim_entry, pod::instance::join::claim_place
    if pod.entries().any(|entry| is_other(&entry)) {
        return Err(Error::RepairRefused(RepairObstacle::Processes));
    }
    if !pod.other_threads(worker).is_empty() {
        return Err(Error::RepairRefused(RepairObstacle::Threads));
    }
    if !host_entry::up(pod.mem(), pod.geometry())?.is_empty() {
        return Err(Error::RepairRefused(RepairObstacle::Hosts));
    }
    Ok(())
}

impl<M: Memory> Drop for Repairing<'_, M> {
    fn drop(&mut self) {
        if self.worker.is_forked() {
            return;
        }
        crash_point(Point::RepairDone);
        // PAIRS WITH: pod::instance::repair::refuse_beside_repair, pod::instance::repair::refuse_host
        let _ = REPAIRER.compare_exchange(self.worker.mem(), self.worker.identity(), 0);
    }
}

impl<M: Memory> Pod<M> {
    /// The places that threads of this process have, but for a worker's own and that of the background thread, which
    /// changes nothing that anybody accounts for while it is held still (`Pod::hold_still`).
    pub fn other_threads(&self, worker: &Worker<M>) -> Vec<u32> {
        let background = self.background_identity();
        let identity = |index: u32, state: State| u64::from(index + 1) | u64::from(state.generation) << 32;
        // PAIRS WITH: pod::commit::attach::attach_at
        let attached = self.attached_workers().into_iter();
        attached
            .filter(|&(index, state)| {
                index + 1 != u32::from(worker.me())
                    && identity(index, state) != background
                    && self.is_own(state)
            })
            .map(|(index, _)| index)
            .collect()
    }

    /// Fails while a repairer of the pool lives, or may live. A joiner asks once its entry or its place is visible. One
    /// sync load if nobody repairs.
    pub(in crate::pod) fn refuse_beside_repair(&self) -> Result<()> {
        // PAIRS WITH: pod::instance::repair::begin, pod::instance::repair::Repairing::drop, pod::commit::recovery::release_locks
        // PAIRS WITH: pod::instance::repair::forget_dead_repairer
        let identity = REPAIRER.load(&self.mem);
        if mutant::is(Mutant::RepairUnasked) {
            return Ok(());
        }
        self.refuse_repairer(identity)
    }

    /// Forgets a dead repairer of this machine, for a process that may not recover it because a host went up while it
    /// counted.
    pub(crate) fn forget_dead_repairer(&self) {
        let identity = REPAIRER.load(&self.mem);
        let is_here = !is_elsewhere(&self.mem, self.identity.name.machine);
        if identity != 0 && is_here && self.refuse_repairer(identity).is_ok() {
            // PAIRS WITH: pod::instance::repair::refuse_beside_repair, pod::instance::repair::refuse_host
            let _ = REPAIRER.compare_exchange(&self.mem, identity, 0);
        }
    }

    /// Fails if this is the identity of a worker that lives, or may.
    fn refuse_repairer(&self, identity: u64) -> Result<()> {
        if identity == 0 {
            return Ok(());
        }
        let generation = (identity >> 32) as u32;
        let Some((index, state)) = self.owner_of(identity as u16, |found| found == generation)? else {
            return Ok(());
        };
        let is_elsewhere = self.is_in_pod()
            && is_hostless(&self.mem, &self.geometry, state)
            && is_elsewhere(&self.mem, self.identity.name.machine);
        if !is_elsewhere && !self.worker_lives(index, state)? {
            return Ok(());
        }
        Err(repairing(&self.mem, &self.geometry, state, is_elsewhere))
    }
}

/// The same, before a host goes up: it would be up without an agent. A repairer counts as living unless this machine's
/// kernel says otherwise.
pub(in crate::pod) fn refuse_host<M: Memory>(
    mem: &M,
    geometry: &Geometry,
    machine: u64,
    liveness: &dyn Liveness,
) -> Result<()> {
    // PAIRS WITH: pod::instance::repair::begin, pod::instance::repair::Repairing::drop, pod::commit::recovery::release_locks
    // PAIRS WITH: pod::instance::repair::forget_dead_repairer
    let identity = REPAIRER.load(mem);
    let place = u32::from(identity as u16);
    if place == 0 || place > geometry.parameters.workers {
        return Ok(());
    }
    let state = State::decode(WorkerRecord::new(geometry, place - 1).state().load(mem));
    let is_meant = state.phase == Phase::Alive && state.generation == (identity >> 32) as u32;
    if !is_meant || state.process >= geometry.parameters.processes {
        return Ok(());
    }
    let is_elsewhere = is_elsewhere(mem, machine);
    match is_elsewhere || liveness.is_locked(state.process)? {
        true => Err(repairing(mem, geometry, state, is_elsewhere)),
        false => Ok(()),
    }
}

/// Whether the process of a worker is of no host of a pod.
fn is_hostless<M: Memory>(mem: &M, geometry: &Geometry, worker: State) -> bool {
    worker.process < geometry.parameters.processes
        && State::decode(ProcessRecord::new(geometry, worker.process).state().load(mem)).process == NO_HOST
}

/// Whether the repairer is on another machine, or on another start of this one, or on one that nobody knows.
fn is_elsewhere<M: Memory>(mem: &M, machine: u64) -> bool {
    // PAIRS WITH: pod::instance::repair::begin
    machine == 0 || REPAIRER_MACHINE.load(mem) != machine
}

fn repairing<M: Memory>(mem: &M, geometry: &Geometry, worker: State, is_elsewhere: bool) -> Error {
    let is_place = worker.process < geometry.parameters.processes;
    // For people to read: that of the place's last process does no harm.
    let pid = is_place.then(|| {
        ProcessRecord::new(geometry, worker.process)
            .pid()
            .peek_speculative(mem)
    });
    Error::Repairing {
        pid: pid.unwrap_or(0),
        is_elsewhere,
    }
}
