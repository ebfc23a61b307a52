//! Watching: a thread that sleeps until somebody dies, and then sees to it.
//!
//! **Sleeping.** A watcher sleeps by the death slots of all workers that live and by the death event count, which is notified when a worker
//! attaches. The kernel wakes one of those who sleep by a death slot in which a thread has died. That one recovers the worker;
//! groups are told first. If it dies meanwhile, its own death slot wakes another, who looks at everybody. So nobody has to be notified of a
//! death whom it does not concern, and nothing runs while nothing happens but a look now and then.
//!
//! **Looking.** A quick look reads each worker's state and death slot. A thorough one asks for the byte locks of processes too: one
//! whose last thread died before it registered, or that had no worker, shows by them alone, and the place of a dead process
//! becomes free only when its lock is. Looks are thorough at first, for a moment after each death, and every slow tick of one of the watchers: who
//! looks writes down when, and the others of that tick look quickly. One that dies meanwhile costs a tick. In a pod an agent asks for its host's
//! byte locks, as often as it sends heartbeats.
//! A quick look recovers whom it sees dead for the first time: what cannot be recovered is tried again by thorough ones.
//!
//! **Other hosts** have kernels of their own: their death slots wake nobody here, and in incoherent caches they could not even be
//! read. Their dead are found by agents and monitors, who tell the groups. That event counts are notified there is [relayed](super::relay) by this host's agent.
//!
//! | a crash | leaves | who goes on |
//! |---|---|---|
//! | of a watcher that was woken, before it has recovered the dead | a death that nobody has been notified of | who sleeps by the death slot of the watcher; a slow tick at the latest |
//! | of one that sleeps | the waiters bit in death slots | nobody has to: a system call for nobody |
//!
//! Words: the death slots (`memory/death_slot.rs`), the death event count ([`event_count`]).

use std::time::Duration;

use crate::memory::{Memory, SLEEPS_BY_MAX};
use crate::pod::commit::recovery::{self, Recovered};
use crate::pod::format::record::{Phase, State, WorkerRecord};
use crate::pod::format::superblock::{DEATH_EVENTS, LAST_SCAN};
use crate::pod::instance::event_count;
use crate::pod::instance::worker::Worker;

/// Between two thorough scans while nothing happens.
const SLOW: Duration = Duration::from_millis(100);
/// The same in a pod, where an agent looks thoroughly as often as it sends heartbeats, and relays event counts.
const ATTENDED: Duration = Duration::from_secs(1);
/// The same if there are more death slots than one can sleep by.
const CROWDED: Duration = Duration::from_millis(8);
/// Between two polls just after a death: the rest of the process follows.
const RESTLESS: Duration = Duration::from_millis(1);
/// Looks just after a death.
const RESTLESS_POLLS: u32 = 40;

/// What a watcher remembers.
#[derive(Debug)]
pub struct Watch {
    /// Death slots of those who lived when it looked last, and their generations.
    death_slots: Vec<(u64, u32)>,
    /// Whether an agent looks after this host.
    is_in_pod: bool,
    /// Looks to be thorough.
    restless: u32,
    /// The dead that were found, by place and generation, as long as their records are not free.
    found: Vec<(u32, u32)>,
}

/// Whether no watcher has begun a thorough scan within a slow tick; then the caller has.
///
/// Cost: a load, and a store if so.
fn is_first_of_tick<M: Memory>(mem: &M) -> bool {
    let (now, looked) = (mem.kernel().now(), LAST_SCAN.load(mem));
    // Less a tenth: who looks at every tick is not to find its own last poll.
    let tick = SLOW.as_nanos() as u64 / 10 * 9;
    // A time that is to come is that of a clock that was put back, or damage.
    if looked != 0 && looked <= now && now - looked < tick {
        return false;
    }
    // NO PAIR: hint
    LAST_SCAN.store(mem, now);
    true
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            death_slots: Vec::new(),
            is_in_pod: false,
            restless: 1,
            found: Vec::new(),
        }
    }
}

impl Watch {
    /// Says that this thread is about to sleep by the death event count; to be called before [`Watch::look`].
    pub fn prepare_wait<M: Memory>(worker: &Worker<M>) -> (u64, u32) {
        event_count::prepare_wait(worker.mem(), DEATH_EVENTS)
    }

    /// Looks at everybody, and recovers who is dead. `due` says that a slow tick has passed.
    ///
    /// Cost: two or three loads a worker; if the look is thorough, a system call for each process too.
    pub fn look<M: Memory>(&mut self, worker: &Worker<M>, due: bool) -> Recovered {
        let mut recovered = Recovered::default();
        let pod = worker.pod();
        let (mem, geometry, high) = (worker.mem(), worker.geometry(), pod.workers_high());
        self.death_slots.clear();
        self.is_in_pod = pod.is_in_pod();
        let found_before = std::mem::take(&mut self.found);
        let me = u32::from(worker.me()) - 1;
        for index in (0..high).filter(|&index| index != me) {
            let state = State::decode(WorkerRecord::new(geometry, index).state().load(mem));
            let death_slot = geometry.death_slot(index);
            if state.phase != Phase::Alive {
                continue;
            }
            if !pod.shares_kernel(state) {
                continue;
            }
            if !mem.kernel().has_died(death_slot, state.generation) {
                self.death_slots.push((death_slot, state.generation));
                continue;
            }
            self.found.push((index, state.generation));
            // One that is here still is left to thorough scans. It may be damaged, and who tries to recover it notifies event counts, by which others wake
            // up who try.
            if found_before.contains(&(index, state.generation)) {
                continue;
            }
            self.restless = RESTLESS_POLLS;
            // One of which nobody can tell is notified of by thorough scans.
            if matches!(pod.worker_lives(index, state), Ok(false)) {
                recovery::recover_one(worker, index, state, &mut recovered);
            }
        }
        if self.restless > 0 || due && (self.is_in_pod || is_first_of_tick(mem)) {
            self.restless = self.restless.saturating_sub(1);
            recovery::recover_all(worker, &mut recovered);
        }
        // If there are more than one can sleep by, watchers sleep by different ones.
        if self.death_slots.len() > SLEEPS_BY_MAX {
            let from = me as usize % self.death_slots.len();
            self.death_slots.rotate_left(from);
        }
        recovered
    }

    /// How long one may sleep after the last poll.
    pub fn timeout(&self) -> Duration {
        match self.restless {
            0 if self.death_slots.len() >= SLEEPS_BY_MAX => CROWDED,
            0 if self.is_in_pod => ATTENDED,
            0 => SLOW,
            _ => RESTLESS,
        }
    }

    /// Sleeps until somebody dies who was seen to live, one of the event counts is notified, or the time is over; not longer than [`Watch::timeout`] if it is to see deaths.
    pub fn wait<M: Memory>(&self, worker: &Worker<M>, event_counts: &[(u64, u32)], time: Duration) {
        let death_slots: Vec<u64> = self
            .death_slots
            .iter()
            .map(|&(death_slot, _)| death_slot)
            .collect();
        worker.mem().kernel().wait(&death_slots, event_counts, time);
    }

    /// For one that does not look after it has slept: wakes the others who sleep by death slots in which somebody has died, as the kernel has woken one
    /// alone.
    ///
    /// Cost: two loads a death slot; a system call for each of the dead.
    pub fn pass_on<M: Memory>(&self, worker: &Worker<M>) {
        let kernel = worker.mem().kernel();
        for &(death_slot, generation) in &self.death_slots {
            if kernel.has_died(death_slot, generation) {
                kernel.wake(death_slot);
            }
        }
    }
}
