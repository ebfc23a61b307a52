//! The recoverable lock of the pool's own tables (Lupin, section 3.5): test-and-set, owner's identity inside.
//!
//! The word is 0, or the owner's worker index plus one in its low half and the owner's generation in its high half.
//!
//! A waiter polls the owner's life now and then, and takes a dead owner's lock over by one compare-exchange of
//! identities. No timeout decides that an owner is dead. An owner that cannot be judged because the pool is damaged
//! counts as living; after many polls the waiter fails and names the damage.
//!
//! A waiter that takes over the allocator's lock first finishes what the dead owner had committed in its redo log. A
//! waiter that takes over the trim lock takes the allocator's lock once before: the dead owner may have died with both,
//! and with a log about a hole. Other locks need neither: no log changes what they guard, and a monitor, which notifies
//! groups of deaths, must not wait for an allocation.
//!
//! Crash points: the holder may die anywhere. A worker that takes over may die before, during or after the replay, and
//! is then itself a dead owner with nothing committed of its own, so the *first* owner's log must not be forgotten:
//! replay happens while the word still names the dead owner's successor, and a successor that dies is succeeded by one
//! that replays every log in the table (there are few, and only committed ones cost anything).

pub mod redo;

use std::time::Duration;

use crate::error::{Error, Result};
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::format::record::WorkerRecord;
use crate::pod::format::superblock::{DIRECTORY_LOCK, HEAP_LOCK, TRIM_LOCK};
use crate::pod::instance::back_off::BackOff;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::worker::Worker;

/// Failures after which a waiter yields its processor, and between two polls of the owner.
const FAILURES_PER_POLL: u32 = 8;
/// Polls of an owner that cannot be judged, after which a waiter gives up: about a second.
const UNKNOWN_POLLS: u32 = 1000;

/// Nanoseconds for which a waiter stays awake, and for how long it sleeps between two tries then: who has the lock is
/// stopped, or reserves bytes of a slow file system.
const AWAKE_NS: u64 = 100_000_000;
const BETWEEN_TRIES: Duration = Duration::from_millis(1);
/// Nanoseconds after which the process is told, if it wants to be
/// ([`Pod::on_lock_wait`](crate::pod::Pod::on_lock_wait)), and again after each so many more.
const REPORT_AFTER_NS: u64 = 1_000_000_000;
const REPORT_AGAIN_NS: u64 = 10_000_000_000;

/// A held lock.
pub struct Held<'w, M: Memory> {
    word: SyncWord,
    worker: &'w Worker<M>,
}

/// Takes the lock, from a dead owner if need be.
pub fn acquire<M: Memory>(worker: &Worker<M>, word: SyncWord) -> Result<Held<'_, M>> {
    let mem = worker.mem();
    if worker.pod().is_reader() {
        // It would wait for ever.
        return Err(Error::ReadOnly);
    }
    let mine = worker.identity();
    // Waiters leave the word alone for longer and longer: the owner that releases it must get through.
    let back_off = BackOff::new(mine);
    let (mut waited, mut unknown, mut clock) = (0u32, Unknown::default(), WaitClock::default());
    loop {
        // PAIRS WITH: pod::lock::Held::drop
        let owner = match word.compare_exchange_acquire(mem, 0, mine) {
            Ok(_) => break,
            Err(owner) => owner,
        };
        waited = waited.wrapping_add(1).max(1);
        back_off.lost(mem);
        if waited < FAILURES_PER_POLL {
            continue;
        }
        // No worker takes it twice, and no other one writes this: the worker would wait for itself.
        if owner == mine {
            return Err(Error::corrupt(
                "a lock that says that its waiter holds it, seen",
                word.offset(),
            ));
        }
        // Who rests between two tries has time to ask each time.
        let polls = clock.is_over || waited.is_multiple_of(FAILURES_PER_POLL);
        if polls && unknown.is_gone(worker, owner)? {
            if word == TRIM_LOCK && !mutant::is(Mutant::TakenOverUnapplied) {
                // What the dead owner had committed under both locks is done before another worker has this one.
                drop(acquire(worker, HEAP_LOCK)?);
            }
            // NO PAIR: claim
            if word.compare_exchange_acquire(mem, owner, mine).is_ok() {
                if word == HEAP_LOCK {
                    finish_for_the_dead(worker);
                }
                return Ok(Held { word, worker });
            }
        }
        if polls {
            clock.check(worker, word, owner);
        }
        match clock.is_over {
            true => mem.rest(BETWEEN_TRIES),
            false => mem.relax(),
        }
    }
    crash_point(Point::LockTaken);
    Ok(Held { word, worker })
}

/// How long a waiter has waited, by the clock that people read; where there is none, as in simulation, it stays awake.
#[derive(Default)]
struct WaitClock {
    began: Option<u64>,
    /// When this was last reported, counted from then; 0 if never.
    reported: u64,
    is_over: bool,
}

impl WaitClock {
    fn check<M: Memory>(&mut self, worker: &Worker<M>, word: SyncWord, owner: u64) {
        let now = worker.mem().kernel().now();
        let waited = now.saturating_sub(*self.began.get_or_insert(now));
        self.is_over = waited >= AWAKE_NS;
        let is_due = match self.reported {
            0 => waited >= REPORT_AFTER_NS,
            reported => waited >= reported + REPORT_AGAIN_NS,
        };
        if is_due {
            self.reported = waited;
            worker.pod().tell_wait(name_of(word), owner);
        }
    }
}

/// What people call a lock.
fn name_of(word: SyncWord) -> &'static str {
    match word {
        HEAP_LOCK => "the allocator's lock",
        DIRECTORY_LOCK => "the lock of the directory of names",
        TRIM_LOCK => "the trim lock",
        _ => "the lock of a group or of a directory lock",
    }
}

/// An owner that cannot be judged, as the pool is damaged: it counts as living, for a while. Most give the lock back,
/// whatever happened to their host's entry.
#[derive(Default)]
struct Unknown {
    owner: u64,
    polls: u32,
}

impl Unknown {
    /// [`is_gone`], but damage is an error only after many polls of the same owner.
    fn is_gone<M: Memory>(&mut self, worker: &Worker<M>, owner: u64) -> Result<bool> {
        match is_gone(worker, owner) {
            Err(error @ Error::Corrupt { .. }) => {
                self.polls = if self.owner == owner { self.polls + 1 } else { 0 };
                self.owner = owner;
                if self.polls < UNKNOWN_POLLS {
                    Ok(false)
                } else {
                    Err(error)
                }
            }
            known => known,
        }
    }
}

/// Takes a lock that is held for long, unless a living worker has it; returns whether this worker has it now. Never
/// waits, and may be called again and again: one sync load while another worker has it.
pub fn hold<M: Memory>(worker: &Worker<M>, word: SyncWord) -> Result<bool> {
    let mem = worker.mem();
    let mine = worker.identity();
    let owner = word.load(mem);
    if owner == mine {
        return Ok(true);
    }
    let is_free = owner == 0 || is_gone(worker, owner)?;
    // NO PAIR: claim
    Ok(is_free && word.compare_exchange_acquire(mem, owner, mine).is_ok())
}

/// Takes the lock if nobody alive has it; never waits.
pub fn try_acquire<M: Memory>(worker: &Worker<M>, word: SyncWord) -> Result<Option<Held<'_, M>>> {
    if worker.pod().is_reader() {
        return Err(Error::ReadOnly);
    }
    Ok(hold(worker, word)?.then_some(Held { word, worker }))
}

/// Gives a lock back that was taken by [`hold`], if this worker has it. The lock only says which worker acts: its
/// earlier stores may be seen after the release.
pub fn let_go<M: Memory>(worker: &Worker<M>, word: SyncWord) {
    // NO PAIR: claim
    let _ = word.compare_exchange_acquire(worker.mem(), worker.identity(), 0);
}

/// Whether no living worker has this identity.
pub fn is_gone<M: Memory>(worker: &Worker<M>, identity: u64) -> Result<bool> {
    let generation = (identity >> 32) as u32;
    is_owner_gone(worker, identity as u16, |found| found == generation)
}

/// Whether no living worker has this place in the worker table (index plus one) in a generation for which `is_meant` is
/// true.
///
/// Cost: up to two sync loads, and one system call for a worker of another process.
pub fn is_owner_gone<M: Memory>(
    worker: &Worker<M>,
    place: u16,
    is_meant: impl FnOnce(u32) -> bool,
) -> Result<bool> {
    match worker.pod().owner_of(place, is_meant)? {
        Some((index, state)) => {
            Ok(mutant::is(Mutant::LockFromTheLiving) || !worker.pod().worker_lives(index, state)?)
        }
        None => Ok(true),
    }
}

/// Ends the hold that the dead worker with this index and generation has on a lock, if it has one, and its log is
/// finished. Never waits.
pub fn release_for_dead<M: Memory>(worker: &Worker<M>, word: SyncWord, index: u32, generation: u32) {
    let dead = u64::from(index + 1) | u64::from(generation) << 32;
    if word.load(worker.mem()) != dead {
        // Nothing that the dead worker asked for takes effect any more.
        return;
    }
    // NO PAIR: claim
    if word
        .compare_exchange_acquire(worker.mem(), dead, worker.identity())
        .is_ok()
    {
        drop(Held { word, worker });
    }
}

/// Replays the committed logs of all dead workers. Under the lock only its holder commits, and a log is cleared before
/// its lock is released, so at most one is found, or its replay is repeated. It may be in this worker's own record, if
/// it has taken the place of the dead one.
fn finish_for_the_dead<M: Memory>(worker: &Worker<M>) {
    let geometry = worker.geometry();
    if mutant::is(Mutant::ReplaySkipped) {
        return;
    }
    // If the committed number is damaged, nothing of the data is written.
    let limit = geometry.frame_offset(worker.committed_frames().unwrap_or(0));
    for index in 0..worker.pod().workers_high() {
        redo::replay(worker.mem(), WorkerRecord::new(geometry, index), limit);
    }
}

impl<M: Memory> Drop for Held<'_, M> {
    fn drop(&mut self) {
        // A failed exchange would mean that another worker took this one for dead: then the lock is no longer this
        // worker's to release.
        // PAIRS WITH: pod::lock::acquire
        let _ = self
            .word
            .compare_exchange(self.worker.mem(), self.worker.identity(), 0);
    }
}
