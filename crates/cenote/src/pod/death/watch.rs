//! Watching: a thread sleeps until a worker dies, and then recovers it.
//!
//! **Sleeping.** A watcher sleeps by the death slots of all living workers and by the death event count, which is
//! notified when a worker attaches. When a thread dies, the kernel wakes one of the watchers that sleep by its death
//! slot. That watcher recovers the dead worker; groups are notified first. If the watcher dies meanwhile, its own death
//! slot wakes another, which scans all workers. So a death wakes nobody else, and while nothing happens only an
//! occasional scan runs.
//!
//! **Scanning.** A quick scan reads each worker's state and death slot. A thorough scan also tests the byte locks of
//! processes: only these show a process whose last thread died before it registered, or that had no worker, and the
//! place of a dead process becomes free only when its lock is. Scans are thorough at first, for a moment after each
//! death, and once every slow tick by one of the watchers: the first writes down the time, and the others scan quickly
//! in that tick. If it dies meanwhile, a tick is lost. In a pod an agent tests its host's byte locks as often as it
//! sends heartbeats. A quick scan recovers a worker the first time it sees it dead; thorough scans retry what cannot be
//! recovered.
//!
//! **Other hosts** have kernels of their own: their death slots wake nobody here, and in incoherent caches they could
//! not even be read. Agents and monitors find their dead and notify the groups. This host's agent
//! [relays](super::relay) event counts that are notified there.
//!
//! | a crash | leaves | who goes on |
//! |---|---|---|
//! | of a watcher that was woken, before it has recovered the dead | a death that nobody was notified of | a watcher that sleeps by this watcher's death slot; a slow tick at the latest |
//! | of a watcher that sleeps | the waiters bit in death slots | nobody has to: it costs a needless system call |
//!
//! Words: the death slots (`memory/death_slot.rs`), the death event count ([`event_count`]).

use std::time::Duration;

use crate::memory::{DeathSlot, Memory, SLEEPS_BY_MAX};
use crate::pod::commit::recovery::{self, Recovered};
use crate::pod::format::record::{Phase, State, WorkerRecord};
use crate::pod::format::superblock::{DEATH_EVENTS, LAST_SCAN};
use crate::pod::instance::event_count;
use crate::pod::instance::worker::Worker;

/// Between two thorough scans while nothing happens.
const SLOW: Duration = Duration::from_millis(100);
/// The same in a pod, where an agent scans thoroughly as often as it sends heartbeats, and relays event counts.
const SLOW_IN_POD: Duration = Duration::from_secs(1);
/// The same if there are more death slots than a thread can sleep by.
const CROWDED: Duration = Duration::from_millis(8);
/// Between two polls just after a death: the rest of the process follows.
const RESTLESS: Duration = Duration::from_millis(1);
/// Death slots that a thread can sleep by beside event counts, of which a background thread has three.
const DEATH_SLOTS_MAX: usize = SLEEPS_BY_MAX - 3;
/// Polls just after a death.
const RESTLESS_POLLS: u32 = 40;

/// What a watcher remembers.
#[derive(Debug)]
pub struct Watch {
    /// Death slots of the workers that lived in the last scan, and their generations.
    death_slots: Vec<(DeathSlot, u32)>,
    /// Whether this host has an agent.
    is_in_pod: bool,
    /// Scans left that are thorough.
    restless: u32,
    /// The dead workers found, by place and generation, until their records are free.
    found: Vec<(u32, u32)>,
}

/// Whether no watcher has begun a thorough scan within a slow tick; then the caller begins one.
///
/// Cost: a load, and a store if so.
fn is_first_of_tick<M: Memory>(mem: &M) -> bool {
    let (now, looked) = (mem.kernel().now(), LAST_SCAN.load(mem));
    // Less a tenth: a watcher that scans every tick must not find its own last scan.
    let tick = SLOW.as_nanos() as u64 / 10 * 9;
    // A time in the future means that a clock was put back, or damage.
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
    /// This thread is about to sleep by the death event count; to be called before [`Watch::poll`].
    pub fn prepare_wait<M: Memory>(worker: &Worker<M>) -> (u64, u32) {
        event_count::prepare_wait(worker.mem(), DEATH_EVENTS)
    }

    /// Scans all workers, and recovers the dead. `due` says that a slow tick has passed.
    ///
    /// Cost: two or three loads a worker; if the scan is thorough, a system call for each process too.
    pub fn poll<M: Memory>(&mut self, worker: &Worker<M>, due: bool) -> Recovered {
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
                // What a death slot says before its worker has registered is of an earlier one. It notifies then.
                if mem.kernel().is_shown(death_slot, state.generation) {
                    self.death_slots.push((death_slot, state.generation));
                }
                continue;
            }
            self.found.push((index, state.generation));
            // A worker found before is left to thorough scans. It may be damaged, and each attempt to recover it
            // notifies event counts, which wakes other watchers that try again.
            if found_before.contains(&(index, state.generation)) {
                continue;
            }
            self.restless = RESTLESS_POLLS;
            // Thorough scans report a worker that may or may not live.
            if matches!(pod.worker_lives(index, state), Ok(false)) {
                recovery::recover_one(worker, index, state, &mut recovered);
            }
        }
        if self.restless > 0 || due && (self.is_in_pod || is_first_of_tick(mem)) {
            self.restless = self.restless.saturating_sub(1);
            recovery::recover_all(worker, &mut recovered);
        }
        // If there are more than a thread can sleep by, watchers sleep by different ones.
        if self.death_slots.len() > DEATH_SLOTS_MAX {
            let from = me as usize % self.death_slots.len();
            self.death_slots.rotate_left(from);
        }
        recovered
    }

    /// How long a watcher may sleep after the last scan.
    pub fn timeout(&self) -> Duration {
        match self.restless {
            0 if self.death_slots.len() > DEATH_SLOTS_MAX => CROWDED,
            0 if self.is_in_pod => SLOW_IN_POD,
            0 => SLOW,
            _ => RESTLESS,
        }
    }

    /// Sleeps until a worker dies that was seen alive, an event count is notified, or the time is over; for
    /// [`Watch::timeout`] at most if it is to see all deaths.
    pub fn wait<M: Memory>(&self, worker: &Worker<M>, event_counts: &[(u64, u32)], time: Duration) {
        let death_slots: Vec<DeathSlot> = self
            .death_slots
            .iter()
            .map(|&(death_slot, _)| death_slot)
            .collect();
        worker.mem().kernel().wait(&death_slots, event_counts, time);
    }

    /// For a thread that does not scan after it has slept: wakes the other threads that sleep by death slots of dead
    /// threads, as the kernel has woken only one.
    ///
    /// Cost: two loads a death slot; a system call for each of the dead.
    pub fn pass_on<M: Memory>(&self, worker: &Worker<M>) {
        let kernel = worker.mem().kernel();
        for &(death_slot, generation) in &self.death_slots {
            if kernel.has_died(death_slot, generation) {
                kernel.wake(death_slot.offset());
            }
        }
    }
}
