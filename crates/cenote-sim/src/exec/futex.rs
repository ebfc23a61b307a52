//! Futexes: threads sleep by bells and beds until somebody wakes them, or until their time is over.
//!
//! Who sleeps looks at nothing. A bell that is rung wakes nobody by itself, only the call that follows does; of those who sleep by a bed one is woken
//! when the thread that lies there dies or gets up. If a bell has changed and the time ends a sleep, although nobody is about to wake
//! those who sleep by that bell, nor owes it ([`Owed`]), the run ends: with more time the thread would have slept on. Who dies before the call leaves sleepers, and that is no fault.
//!
//! Who sleeps for as long as one who is to be woken sleeps for ever, so that a wake-up that is lost shows. Only if the one that a bed has woken dies before it has woken the others who
//! sleep by that bed do they wake up by themselves.
//!
//! A kernel wakes its own threads. Where hosts are [apart](super::Context::is_apart), those of other hosts sleep on beside a bell that has changed, and that is
//! no fault: they look again when their time is over.

use std::collections::BTreeMap;
use std::time::Duration;

use super::op::{Kind, Op};
use super::world::{Stop, Thread, World};
use crate::machine::LINE;

/// From the line of an answer back to its request's.
const REQUEST_BEFORE: u64 = 2 * LINE;
/// What the system call of [`World::rouse`] says of itself.
const ROUSES: u64 = 4;
/// A sleep takes a wait for each of these, up to that of a longest one.
const SLEEP_PER_WAIT: Duration = Duration::from_micros(16);
const LONGEST_SLEEP: Duration = Duration::from_millis(16);

/// The system call that wakes those who sleep by a bell.
pub(super) fn rousing(bell: u64) -> Op {
    Op::word(Kind::Kernel, bell, ROUSES)
}

/// Who sleeps for so long is to be woken: it sleeps for ever, so that nobody lives by its time being over.
pub(super) const TO_BE_WOKEN: Duration = Duration::from_secs(1);

/// How many waits a sleep takes that nobody ends.
pub(super) fn waits(time: Duration) -> u128 {
    if time >= TO_BE_WOKEN {
        return u128::MAX;
    }
    time.min(LONGEST_SLEEP).as_micros() / SLEEP_PER_WAIT.as_micros()
}

/// A thread that slept although a bell had been rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overslept {
    /// The thread.
    pub thread: u32,
    /// The bell.
    pub bell: u64,
}

impl std::fmt::Display for Overslept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { thread, bell } = self;
        write!(
            f,
            "thread {thread} sleeps by the bell at {bell:#x}, which was rung, and nobody wakes it"
        )
    }
}

/// One who sleeps.
pub(super) struct Sleeper {
    thread: u32,
    beds: Vec<u64>,
    bells: Vec<(u64, u32)>,
    /// Bells that somebody has changed who died before the call, or may have: that one wakes nobody, and it is no fault to sleep on. Who rings later does.
    untold: Vec<u64>,
}

impl Sleeper {
    fn sleeps_by(&self, bell: u64) -> bool {
        self.bells.iter().any(|&(by, _)| by == bell) || self.untold.contains(&bell)
    }
}

impl Thread {
    /// Whether it has changed a bell, or may have, and has not woken those who sleep by it.
    fn rings(&self, bell: u64) -> bool {
        self.next == rousing(bell) || self.exchanging == Some(bell)
    }
}

/// Calls that the server of exchanges owes: it stores answers in a pass, and wakes those who sleep by them in the next one.
#[derive(Default)]
pub(super) struct Owed {
    /// Passes that were begun.
    pub passes: u64,
    /// The pass in which a line was stored that nobody was woken by since.
    lines: BTreeMap<u64, u64>,
}

impl Owed {
    /// Another server begins: it looks at all in its first pass.
    pub fn is_taken_over(&mut self) {
        let passes = self.passes;
        self.lines.values_mut().for_each(|pass| *pass = passes);
    }

    /// The server has stored a line.
    pub fn stores(&mut self, line: u64) {
        self.lines.insert(line, self.passes);
    }

    /// Whether a server that lives may come to it yet.
    fn is_due(&self, bell: u64) -> bool {
        self.lines.get(&bell).is_some_and(|pass| self.passes <= pass + 1)
    }
}

impl World {
    /// Whether the server of exchanges has yet to wake those who sleep by a bell, or the next one has.
    fn owes(&self, bell: u64) -> bool {
        let lives = self
            .server
            .is_some_and(|server| self.threads[server as usize].alive);
        match lives {
            true => self.owed.is_due(bell),
            false => self.owed.lines.contains_key(&bell),
        }
    }

    /// Whether a bell by which a client sleeps says already that its request is answered: its request's line begins with the same ticket. It does not ring once
    /// more, and who is to wake the client may have looked for it by now.
    fn has_rung(&self, bell: u64) -> bool {
        self.machine.load(bell) == self.machine.load(bell - REQUEST_BEFORE)
    }

    fn says(&self, (bell, seen): (u64, u32)) -> bool {
        self.machine.load(bell) as u32 == seen
    }

    /// The running thread goes to sleep. Whether it does: not if a bell is not what it was, or somebody in a bed is dead; and at times for no
    /// reason.
    pub fn falls_asleep(&mut self, beds: &[u64], bells: &[(u64, u32)]) -> bool {
        // By the beds of other kernels nobody is woken.
        let lies = |bed: &&u64| {
            let found = self.beds.get(*bed);
            found.is_some_and(|&(_, thread)| self.share_kernel(self.current, thread))
        };
        let beds: Vec<u64> = beds.iter().filter(lies).copied().collect();
        let lives = |bed: &u64| {
            self.beds
                .get(bed)
                .is_some_and(|&(_, thread)| self.threads[thread as usize].alive)
        };
        let draw = (self.digest ^ self.steps).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
        let sleeps = draw != 0 && beds.iter().all(lives) && bells.iter().all(|&bell| self.says(bell));
        self.threads[self.current as usize].overslept = false;
        let current = &self.threads[self.current as usize];
        if sleeps && current.exchanging.is_some() {
            let thread = self.current;
            let beside = bells.iter().find(|(bell, _)| self.has_rung(*bell));
            if let Some(&(bell, _)) = beside {
                self.stop
                    .get_or_insert(Stop::Overslept(Overslept { thread, bell }));
            }
        }
        if sleeps {
            self.sleepers.push(Sleeper {
                thread: self.current,
                beds,
                bells: bells.to_vec(),
                untold: Vec::new(),
            });
        }
        sleeps
    }

    /// Whether the running thread has not been woken yet.
    pub fn is_asleep(&self) -> bool {
        self.sleepers.iter().any(|sleeper| sleeper.thread == self.current)
    }

    /// The running thread's time is over.
    pub fn oversleeps(&mut self) {
        let current = self.current;
        let Some(n) = self.sleepers.iter().position(|sleeper| sleeper.thread == current) else {
            return;
        };
        let Sleeper { thread, bells, .. } = self.sleepers.swap_remove(n);
        self.threads[thread as usize].overslept = true;
        let is_late =
            |bell: u64| self.owes(bell) || self.threads.iter().any(|other| other.alive && other.rings(bell));
        let missed = bells
            .into_iter()
            .find(|&bell| !self.says(bell) && !is_late(bell.0));
        if let Some((bell, _)) = missed {
            self.stop
                .get_or_insert(Stop::Overslept(Overslept { thread, bell }));
        }
    }

    /// Whether one kernel runs two threads.
    fn share_kernel(&self, one: u32, other: u32) -> bool {
        !self.is_apart || self.host_of(one) == self.host_of(other)
    }

    /// All who sleep by a bell or a bed wake up, as far as the kernel of this thread runs them. The others sleep on by right.
    pub fn rouse(&mut self, caller: u32, by: u64) {
        self.woken_by.remove(&by);
        self.owed.lines.remove(&by);
        let mut sleepers = std::mem::take(&mut self.sleepers);
        sleepers.retain_mut(|sleeper| {
            if self.share_kernel(caller, sleeper.thread) {
                return !sleeper.sleeps_by(by) && !sleeper.beds.contains(&by);
            }
            for (bell, seen) in &mut sleeper.bells {
                if *bell == by {
                    *seen = self.machine.load(by) as u32;
                }
            }
            true
        });
        self.sleepers = sleepers;
    }

    /// One of those who sleep by a bed wakes up.
    pub fn rouse_one_by(&mut self, bed: u64) {
        let by_it: Vec<usize> = (0..self.sleepers.len())
            .filter(|&n| self.sleepers[n].beds.contains(&bed))
            .collect();
        if !by_it.is_empty() {
            let chosen = by_it[(self.digest ^ self.steps) as usize % by_it.len()];
            let thread = self.sleepers.swap_remove(chosen).thread;
            self.woken_by.insert(bed, thread);
        }
    }

    /// One of those who sleep by a bell wakes up; whether there was one. The others sleep on by right.
    pub fn rouse_one_by_bell(&mut self, bell: u64) -> bool {
        self.owed.lines.remove(&bell);
        let by_it: Vec<usize> = (0..self.sleepers.len())
            .filter(|&n| self.sleepers[n].sleeps_by(bell))
            .filter(|&n| self.share_kernel(self.current, self.sleepers[n].thread))
            .collect();
        if by_it.is_empty() {
            return false;
        }
        let chosen = by_it[(self.digest ^ self.steps) as usize % by_it.len()];
        let thread = self.sleepers.swap_remove(chosen).thread;
        self.woken_by.insert(bell, thread);
        let says = self.machine.load(bell) as u32;
        for (by, seen) in self.sleepers.iter_mut().flat_map(|sleeper| &mut sleeper.bells) {
            if *by == bell {
                *seen = says;
            }
        }
        true
    }

    /// A thread has died: it does not sleep any more, and it wakes those that kernels do. By a bell that it was about to ring it wakes nobody.
    pub fn dies_abed(&mut self, thread: u32) {
        self.sleepers.retain(|sleeper| sleeper.thread != thread);
        let dead = &self.threads[thread as usize];
        for sleeper in &mut self.sleepers {
            let (untold, bells) = std::mem::take(&mut sleeper.bells)
                .into_iter()
                .partition::<Vec<_>, _>(|&(bell, _)| dead.rings(bell));
            sleeper.bells = bells;
            sleeper.untold.extend(untold.into_iter().map(|(bell, _)| bell));
        }
        let beds: Vec<u64> = self
            .beds
            .iter()
            .filter(|(_, (_, lies))| *lies == thread)
            .map(|(&bed, _)| bed)
            .collect();
        for bed in beds {
            self.rouse_one_by(bed);
        }
        // Whom it was to wake wakes up when its time is over.
        let untold: Vec<u64> = self
            .woken_by
            .iter()
            .filter(|(_, woken)| **woken == thread)
            .map(|(&bed, _)| bed)
            .collect();
        for bed in untold {
            self.rouse(thread, bed);
        }
    }
}
