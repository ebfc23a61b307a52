//! Futexes: threads sleep by event counts and death slots until they are woken or their timeout ends.
//!
//! A sleeping thread reads nothing. A changed event count wakes nobody by itself; the system call that follows the
//! change does. When a thread dies or unregisters, one of the sleepers by its death slot is woken.
//!
//! **Lost wake-ups.** If a timeout ends a sleep although an event count of the sleeper has changed, the run ends: with
//! a longer timeout the thread would have slept on. It is no fault if the call is still to come, from a living thread
//! or from the server of exchanges ([`super::sleeper::Owed`]), or if the thread that was to make it has died.
//!
//! A timeout of [`TO_BE_WOKEN`] or more never ends, so that a lost wake-up shows. Only where one sleeper was woken for
//! all, and dies before it has woken the others, do these wake by themselves.
//!
//! A kernel wakes its own threads. Where hosts are [apart](super::Context::is_apart), threads of other hosts sleep on
//! although an event count has changed. That is no fault: they check it again when their timeout ends.

use std::time::Duration;

use super::op::{Kind, Op};
use super::sleeper::Sleeper;
use super::stop::{Overslept, Stop};
use super::world::{Thread, World};
use crate::machine::LINE;

/// From the line of an answer back to its request's.
const REQUEST_BEFORE: u64 = 2 * LINE;
/// The value by which [`World::wake`]'s system call is recorded.
const WAKES: u64 = 4;
/// A sleep takes a wait for each of these, up to that of a longest one.
const SLEEP_PER_WAIT: Duration = Duration::from_micros(16);
const LONGEST_SLEEP: Duration = Duration::from_millis(16);

/// The system call that wakes the sleepers by an event count.
pub(super) fn waking(event_count: u64) -> Op {
    Op::word(Kind::Kernel, event_count, WAKES)
}

/// A thread that sleeps for so long is to be woken: its timeout never ends, so that none relies on it.
pub(super) const TO_BE_WOKEN: Duration = Duration::from_secs(1);

/// How many waits a sleep takes if nobody ends it.
pub(super) fn waits(time: Duration) -> u128 {
    if time >= TO_BE_WOKEN {
        return u128::MAX;
    }
    time.min(LONGEST_SLEEP).as_micros() / SLEEP_PER_WAIT.as_micros()
}

impl Thread {
    /// Whether it has changed an event count, or may have, and has not woken the sleepers by it yet.
    fn is_notifying(&self, event_count: u64) -> bool {
        self.next == waking(event_count) || self.exchanging == Some(event_count)
    }
}

impl World {
    /// Whether the server of exchanges, or its successor, has yet to wake the sleepers by an event count.
    fn owes(&self, event_count: u64) -> bool {
        let lives = self
            .server
            .is_some_and(|server| self.threads[server as usize].alive);
        match lives {
            true => self.owed.is_due(event_count),
            false => self.owed.lines.contains_key(&event_count),
        }
    }

    /// Whether an event count by which a client sleeps says already that its request is answered: the request's line
    /// begins with the same ticket. It is not notified once more, and the thread that was to wake the client may have
    /// looked for it already.
    fn has_notified(&self, event_count: u64) -> bool {
        self.machine.load(event_count) == self.machine.load(event_count - REQUEST_BEFORE)
    }

    /// Whether a thread has died that had asked the server of exchanges to change an event count. The server may do so
    /// at any later time, and then nobody wakes the sleepers.
    fn may_be_notified_by_the_dead(&self, event_count: u64) -> bool {
        self.threads
            .iter()
            .any(|thread| !thread.alive && thread.exchanging == Some(event_count))
    }

    fn says(&self, (event_count, seen): (u64, u32)) -> bool {
        self.machine.load(event_count) as u32 == seen
    }

    /// Puts the running thread to sleep. False, and no sleep, if an event count has changed or a thread in a death slot
    /// is dead; at times for no reason.
    pub fn falls_asleep(&mut self, death_slots: &[u64], event_counts: &[(u64, u32)]) -> bool {
        // A death slot of another kernel wakes nobody.
        let registered = |death_slot: &&u64| {
            let found = self.death_slots.get(*death_slot);
            found.is_some_and(|&(_, thread)| self.share_kernel(self.current, thread))
        };
        let death_slots: Vec<u64> = death_slots.iter().filter(registered).copied().collect();
        let lives = |death_slot: &u64| {
            self.death_slots
                .get(death_slot)
                .is_some_and(|&(_, thread)| self.threads[thread as usize].alive)
        };
        let draw = (self.digest ^ self.steps).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
        let sleeps = draw != 0
            && death_slots.iter().all(lives)
            && event_counts.iter().all(|&event_count| self.says(event_count));
        self.threads[self.current as usize].overslept = false;
        let current = &self.threads[self.current as usize];
        if sleeps && current.exchanging.is_some() {
            let thread = self.current;
            let beside = event_counts
                .iter()
                .find(|(event_count, _)| self.has_notified(*event_count));
            if let Some(&(event_count, _)) = beside {
                self.stop
                    .get_or_insert(Stop::Overslept(Overslept { thread, event_count }));
            }
        }
        if sleeps {
            let mut sleeper = Sleeper {
                thread: self.current,
                death_slots,
                event_counts: event_counts.to_vec(),
                missed: Vec::new(),
            };
            sleeper.miss(|event_count| self.may_be_notified_by_the_dead(event_count));
            self.sleepers.push(sleeper);
        }
        sleeps
    }

    /// Whether the running thread has not been woken yet.
    pub fn is_asleep(&self) -> bool {
        self.sleepers.iter().any(|sleeper| sleeper.thread == self.current)
    }

    /// The running thread's timeout has ended.
    pub fn times_out(&mut self) {
        let current = self.current;
        let Some(n) = self.sleepers.iter().position(|sleeper| sleeper.thread == current) else {
            return;
        };
        let Sleeper {
            thread, event_counts, ..
        } = self.sleepers.swap_remove(n);
        self.threads[thread as usize].overslept = true;
        let is_late = |event_count: u64| {
            self.owes(event_count)
                || self
                    .threads
                    .iter()
                    .any(|other| other.alive && other.is_notifying(event_count))
        };
        let missed = event_counts
            .into_iter()
            .find(|&event_count| !self.says(event_count) && !is_late(event_count.0));
        if let Some((event_count, _)) = missed {
            self.stop
                .get_or_insert(Stop::Overslept(Overslept { thread, event_count }));
        }
    }

    /// Whether one kernel runs two threads.
    fn share_kernel(&self, one: u32, other: u32) -> bool {
        !self.is_apart || self.host_of(one) == self.host_of(other)
    }

    /// Wakes all sleepers by an event count or a death slot that the caller's kernel runs. The others may sleep on.
    pub fn wake(&mut self, caller: u32, by: u64) {
        self.woken_by.remove(&by);
        self.owed.lines.remove(&by);
        let mut sleepers = std::mem::take(&mut self.sleepers);
        sleepers.retain_mut(|sleeper| {
            if self.share_kernel(caller, sleeper.thread) {
                return !sleeper.sleeps_by(by) && !sleeper.death_slots.contains(&by);
            }
            // The bit by which notifiers of its own kernel know of it is gone too, until another thread falls asleep.
            sleeper.miss(|event_count| event_count == by);
            true
        });
        self.sleepers = sleepers;
    }

    /// Wakes one of the sleepers by a death slot.
    pub fn wake_one_by(&mut self, death_slot: u64) {
        let by_it: Vec<usize> = (0..self.sleepers.len())
            .filter(|&n| self.sleepers[n].death_slots.contains(&death_slot))
            .collect();
        if !by_it.is_empty() {
            let chosen = by_it[(self.digest ^ self.steps) as usize % by_it.len()];
            let thread = self.sleepers.swap_remove(chosen).thread;
            self.woken_by.insert(death_slot, thread);
        }
    }

    /// Wakes one of the sleepers by an event count; false if there is none. The others may sleep on.
    pub fn wake_one_by_event_count(&mut self, event_count: u64) -> bool {
        self.owed.lines.remove(&event_count);
        let by_it: Vec<usize> = (0..self.sleepers.len())
            .filter(|&n| self.sleepers[n].sleeps_by(event_count))
            .filter(|&n| self.share_kernel(self.current, self.sleepers[n].thread))
            .collect();
        if by_it.is_empty() {
            return false;
        }
        let chosen = by_it[(self.digest ^ self.steps) as usize % by_it.len()];
        let thread = self.sleepers.swap_remove(chosen).thread;
        self.woken_by.insert(event_count, thread);
        let says = self.machine.load(event_count) as u32;
        for (by, seen) in self
            .sleepers
            .iter_mut()
            .flat_map(|sleeper| &mut sleeper.event_counts)
        {
            if *by == event_count {
                *seen = says;
            }
        }
        true
    }

    /// A thread has died: it sleeps no more, and the kernel wakes a sleeper by each of its death slots. The call that
    /// it was about to make wakes nobody.
    pub fn thread_died(&mut self, thread: u32) {
        self.sleepers.retain(|sleeper| sleeper.thread != thread);
        let dead = &self.threads[thread as usize];
        for sleeper in &mut self.sleepers {
            sleeper.miss(|event_count| dead.is_notifying(event_count));
        }
        let death_slots: Vec<u64> = self
            .death_slots
            .iter()
            .filter(|(_, (_, registered))| *registered == thread)
            .map(|(&death_slot, _)| death_slot)
            .collect();
        for death_slot in death_slots {
            self.wake_one_by(death_slot);
        }
        // It was to wake these sleepers: they wake by themselves.
        let missed: Vec<u64> = self
            .woken_by
            .iter()
            .filter(|(_, woken)| **woken == thread)
            .map(|(&death_slot, _)| death_slot)
            .collect();
        for death_slot in missed {
            self.wake(thread, death_slot);
        }
    }
}
