//! How a worker attaches and detaches.
//!
//! `attach` claims a record `Free -> Alive`, `Drop` gives it back. Between the two the worker alone writes its record's
//! owned words.

use std::sync::Arc;
use std::time::Duration;

use super::recovery::{hint_at_orphans, leave, recover_dead};
use crate::causes::Table;
use crate::error::{Error, Result};
use crate::memory::{LocalWord, Memory, Registration};
use crate::mutant::{self, Mutant};
use crate::pod::alloc::heap;
use crate::pod::format::actor::Actor;
use crate::pod::format::record::{IDLE, Phase, State, WorkerRecord};
use crate::pod::format::superblock::{DEATH_EVENTS, HEAP_LOCK, WORKERS_HIGH};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::process::Pod;
use crate::pod::instance::worker::{LocalPin, Worker, unregister};
use crate::pod::instance::{epoch, event_count};
use crate::pod::lock;
use crate::pod::reclaim::collect;
use crate::pod::reclaim::takeover::{first_owner, has_nothing_begun, tidy};

/// Attempts to find a place while dead workers, or recoverers, hold some, or places change hands. There is a limit
/// because a recoverer may be stopped.
const ATTEMPTS: u32 = 500;
/// Between two of these attempts.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);

impl<M: Memory> Worker<M> {
    /// Takes a place in the worker table. If all are taken, some by dead workers, recovers those from the last place,
    /// which is reserved for that. Fails only if living workers held all places at one time, or after half a second in
    /// which others recover dead workers and do not finish.
    pub fn attach(pod: &Arc<Pod<M>>, replicate: bool) -> Result<Self> {
        let limit = pod.geometry().parameters.workers;
        for _ in 0..ATTEMPTS {
            for index in 0..limit - 1 {
                if let Some(worker) = Self::attach_at(pod, index, replicate)? {
                    return Ok(worker);
                }
            }
            if mutant::is(Mutant::AttachScansOnce) || !Self::may_become_free(pod) {
                break;
            }
            match Self::attach_at(pod, limit - 1, false)? {
                Some(reserve) if recover_dead(&reserve)?.workers > 0 => {}
                _ => pod.mem().rest(BETWEEN_ATTEMPTS),
            }
        }
        Err(Error::TooMany {
            what: Table::Workers,
            limit,
        })
    }

    /// Whether a place other than the last is free, or held by a dead worker, a recoverer or an adopter. Also if places
    /// have changed hands meanwhile: a worker that leaves a place already scanned for one not yet scanned would be seen
    /// in both.
    fn may_become_free(pod: &Pod<M>) -> bool {
        let look = || -> Vec<u64> {
            (0..pod.geometry().parameters.workers - 1)
                .map(|index| WorkerRecord::new(pod.geometry(), index).state().load(pod.mem()))
                .collect()
        };
        let words = look();
        for (index, &word) in (0..).zip(&words) {
            let state = State::decode(word);
            // A worker that may or may not live keeps its place.
            if state.phase != Phase::Alive || matches!(pod.worker_lives(index, state), Ok(false)) {
                return true;
            }
        }
        // No generation comes twice: a word that is the same has not changed between.
        look() != words
    }

    /// Takes a given place, if it is free; the last place also from a dead process.
    fn attach_at(pod: &Arc<Pod<M>>, index: u32, replicate: bool) -> Result<Option<Self>> {
        if pod.is_forked() {
            return Err(Error::Forked);
        }
        let mem = pod.mem();
        let record = WorkerRecord::new(pod.geometry(), index);
        // Before the claim, so that recovery scans every record that was ever claimed.
        raise(mem, u64::from(index) + 1);
        let word = record.state().load(mem);
        let state = State::decode(word);
        let is_last = index + 1 == pod.geometry().parameters.workers;
        let free = match state.phase {
            Phase::Free => true,
            _ => is_last && matches!(pod.worker_lives(index, state), Ok(false)),
        };
        let generation = state.generation.wrapping_add(1);
        let alive = pod.claim(Phase::Alive, generation);
        // PAIRS WITH: pod::commit::attach::drop, pod::commit::recovery::recover, pod::reclaim::vacant::with_claim, pod::instance::repair::other_threads
        if !free
            || record
                .state()
                .compare_exchange_acquire(mem, word, alive.encode())
                .is_err()
                && !mutant::is(Mutant::StateNotClaimed)
        {
            return Ok(None);
        }
        crash_point(Point::AttachClaimed);
        // Once the claim is made: either this worker sees the repairer, or the repairer sees it.
        if let Err(error) = pod.refuse_beside_repair() {
            // The place of a dead worker stays its own.
            let before = match state.phase {
                Phase::Free => State::free(generation).encode(),
                _ => word,
            };
            // NO PAIR: claim
            let _ = record
                .state()
                .compare_exchange_acquire(mem, alive.encode(), before);
            return Err(error);
        }
        let registration = register(pod, index, generation);
        if !mutant::is(Mutant::AttachNotInvalidated) {
            record.invalidate(mem);
        }
        // PAIRS WITH: pod::instance::advance::least
        record.announced().store(mem, IDLE);
        if M::COHERENT {
            // PAIRS WITH: pod::reclaim::takeover::of_idle
            record.busy().store(mem, 0);
        }
        epoch::catch_up(mem, record);
        let local = Arc::new(LocalPin {
            record,
            generation,
            active: LocalWord::new(0),
            announced: LocalWord::new(IDLE),
            refresh: LocalWord::new(0),
            busy: first_owner::<M>(),
            list_version: LocalWord::new(0),
        });
        if !M::COHERENT
            && let Ok(mut all) = pod.local.lock()
        {
            all.retain(|other| other.strong_count() > 0);
            all.push(Arc::downgrade(&local));
        }
        // On coherent memory not the current one: another worker may be about to take the list over just now.
        let list_version = match M::COHERENT {
            true => !record.list_version().load(mem),
            false => 0,
        };
        let actor = Actor {
            record,
            me: index as u16 + 1,
        };
        let worker = Self::assemble(pod, actor, local, replicate, list_version, registration);
        worker.begin(state.phase != Phase::Free)?;
        Ok(Some(worker))
    }

    /// Prepares the record of a worker that has just attached. On incoherent memory this brings the record into order
    /// and lets go of the list. On coherent memory the worker does so when it first holds its list. That may wait for a
    /// dead worker's lock which only a monitor's fence frees, and a monitor's own worker must not wait so; a place
    /// taken from the dead has waited for it already, and does it at once.
    fn begin(&self, is_of_the_dead: bool) -> Result<()> {
        if !M::COHERENT {
            let _first = self.first_hold();
            if is_of_the_dead {
                drop(lock::acquire(self, HEAP_LOCK)?);
            }
            self.reclaim.is_tidy.set(true);
            tidy(self);
        } else if is_of_the_dead || mutant::is(Mutant::AttachWaits) {
            drop(self.hold_list()?);
        } else {
            let (head, tail) = (self.record().head(), self.record().tail());
            self.reclaim
                .has_adopted
                .set(head.get(self.mem()) != tail.get(self.mem()));
        }
        Ok(())
    }

    /// Gives back what a leaving worker holds. A worker that has never held its list holds nothing, and waits for no
    /// lock: what its place came with is left for the next.
    fn end(&self) {
        let record = self.record();
        if !self.reclaim.is_tidy.get() && has_nothing_begun(record, |word| word.get(self.mem())) {
            return;
        }
        // What cannot be given back now is found by recovery or by the place's next worker. The hold is never given
        // back: else another worker could move the list of a record that is free, beside its adopters.
        let hold = self.hold_list().map(std::mem::forget);
        if hold.is_err() || give_back_all(self, self.actor()).is_err() {
            record.write_back(self.mem());
        }
    }
}

/// The thread's death shows from now on. First drops what this host may have cached of the death slot under an earlier
/// owner.
fn register<M: Memory>(pod: &Pod<M>, index: u32, generation: u32) -> Registration {
    let (mem, death_slot) = (pod.mem(), pod.geometry().death_slot(index));
    unregister(mem, death_slot);
    // SAFETY: the death slot of the place that this thread has just taken.
    let registration = unsafe { mem.kernel().register(death_slot, generation) };
    event_count::notify_all(mem, DEATH_EVENTS);
    registration
}

/// Raises the watermark of worker indexes.
fn raise<M: Memory>(mem: &M, to: u64) {
    let mut high = WORKERS_HIGH.load(mem);
    while high < to {
        // NO PAIR: claim
        match WORKERS_HIGH.compare_exchange_acquire(mem, high, to) {
            Ok(_) => return,
            Err(found) => high = found,
        }
    }
}

impl<M: Memory> Drop for Worker<M> {
    fn drop(&mut self) {
        if self.is_forked() || self.pod().is_reader() {
            return;
        }
        let record = self.actor().record;
        self.end();
        self.disown_pin();
        // The last store to the record: all of it is seen before that is free.
        // PAIRS WITH: pod::instance::advance::least
        record.announced().store_seq_cst(self.mem(), IDLE);
        // Before the record is free: then the death slot has another owner.
        let death_slot = self.geometry().death_slot(u32::from(self.actor().me) - 1);
        // SAFETY: registered as the worker was attached, by this thread: a worker stays in its thread.
        unsafe { self.mem().kernel().unregister(death_slot, self.registration) };
        unregister(self.mem(), death_slot);
        let mine = self.pod().claim(Phase::Alive, self.generation());
        let free = State {
            phase: Phase::Free,
            process: 0,
            tag: 0,
            generation: self.generation(),
        };
        // PAIRS WITH: pod::commit::attach::attach_at, pod::reclaim::vacant::with_claim
        let _ = record
            .state()
            .compare_exchange_acquire(self.mem(), mine.encode(), free.encode());
        hint_at_orphans(self, record);
    }
}

/// Gives back what a detaching worker holds, and frees what can be freed.
pub fn give_back_all<M: Memory>(worker: &Worker<M>, actor: Actor) -> Result<()> {
    let record = actor.record;
    let _hold = worker.hold_list()?;
    if record.root().get(worker.mem()) != 0 {
        (worker.pod().hooks().finish_root)(worker, actor)?;
    }
    heap::discard_with_secondaries(worker)?;
    collect::free_own(worker)?;
    heap::return_reserves(worker, actor)?;
    leave(worker, actor);
    Ok(())
}
