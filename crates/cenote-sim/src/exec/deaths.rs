//! Ends: threads that end or are killed, processes that die, hosts that lose their caches.
//!
//! A process that dies is dead at once: none of its threads runs again. The kernel drops its locks at once or some
//! steps later, as a real kernel does once it has torn the process down. That is how others learn of the death.

use super::crash::Crash;
use super::world::{Event, Life, Process, Thread, World};
use crate::policy::{Fault, Phase};

/// Locks of a killed process are dropped in fewer than 2 to the power of this many steps.
const AGONY_BITS: u64 = 12;
/// Steps for which the death of a process is put off until it has stored something that it leaves behind.
const DIRTY_WAIT: u64 = 64;

impl World {
    /// Whether a process dies now. One whose host goes on waits for a moment in which it leaves something dirty in the
    /// cache.
    pub fn is_due(&self, process: u32, crash: Crash, has_stored: bool) -> bool {
        let Process { steps, host, .. } = &self.processes[process as usize];
        let Some(since) = steps.checked_sub(crash.step) else {
            return false;
        };
        since >= DIRTY_WAIT || has_stored || self.machine.shape().coherent || self.is_last_of(process, *host)
    }

    /// Whether no other process of a host lives.
    pub fn is_last_of(&self, process: u32, host: u32) -> bool {
        let mut others = self.processes.iter().enumerate();
        others.all(|(other, state)| {
            other == process as usize || state.host != host || state.life != Life::Alive
        })
    }

    /// The running thread has ended.
    pub fn retire_current(&mut self) {
        let thread = self.current;
        self.discount(thread);
        self.drain(thread);
        self.put_down(thread);
        self.threads[thread as usize].alive = false;
        self.runnable.retain(|&other| other != thread);
        self.ended = true;
        let process = self.threads[thread as usize].process;
        if self
            .threads
            .iter()
            .all(|other| other.process != process || !other.alive)
        {
            self.processes[process as usize].life = Life::Left;
            self.drop_locks(process);
        }
        if let Some(clock) = &mut self.clock {
            clock.end(thread);
        }
    }

    /// Kills one thread. If it was the last of its process, that has died.
    pub fn kill_thread(&mut self, thread: u32) {
        self.end_thread(thread);
        self.ended |= thread == self.current;
        self.note(Event::KilledThread { thread });
        let process = self.threads[thread as usize].process;
        let is_last = |other: &Thread| other.process != process || !other.alive;
        if self.threads.iter().all(is_last) {
            self.kill(process);
        }
    }

    /// A thread is not waited for any more.
    fn discount(&mut self, thread: u32) {
        if let Some(counted) = self.threads[thread as usize].counted.take() {
            counted.set(counted.get() - 1);
        }
    }

    /// In how many steps the kernel drops the locks of a process that is killed now: at once, or once it has torn the
    /// process down.
    fn agony(&self) -> u64 {
        let draw = (self.digest ^ self.steps).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        match self.phase {
            Phase::Run | Phase::Gathered if self.clock.is_none() && draw & 1 == 1 => {
                (draw >> 8) % (1 << ((draw >> 1) % AGONY_BITS))
            }
            _ => 0,
        }
    }

    /// Whether a process was killed whose locks the kernel has not dropped yet.
    pub fn is_anybody_dying(&self) -> bool {
        !self.dying.is_empty()
    }

    /// How many processes were killed so far.
    pub fn killed(&self) -> usize {
        let is_killed = |process: &&Process| process.life == Life::Killed;
        self.processes.iter().filter(is_killed).count()
    }

    /// The kernel drops the locks of those who are dead for good by a step.
    pub fn drop_locks_of_the_dead(&mut self, step: u64) {
        while let Some(n) = self.dying.iter().position(|&(_, until)| until <= step) {
            let (process, _) = self.dying.swap_remove(n);
            self.drop_locks(process);
        }
    }

    /// The kernel drops what locks an ended process has held.
    fn drop_locks(&mut self, process: u32) {
        for lock in 0..self.locks.len() {
            if self.locks[lock] == Some(process) {
                self.locks[lock] = None;
                for thread in 0..self.threads.len() as u32 {
                    if self.threads[thread as usize].process == process {
                        self.drops_lock(thread, lock as u32);
                    }
                }
            }
        }
    }

    fn end_thread(&mut self, thread: u32) {
        if std::mem::take(&mut self.threads[thread as usize].alive) {
            self.discount(thread);
            self.drain(thread);
            self.put_down(thread);
            self.thread_died(thread);
            self.deaths.push((thread, self.steps));
            self.runnable.retain(|&other| other != thread);
            if let Some(clock) = &mut self.clock {
                clock.end(thread);
            }
        }
    }

    /// Kills all processes of a host, and its cache is lost. Others begin in their places if `restarts` says so.
    pub fn power_off(&mut self, host: u32, restarts: bool) {
        for number in 0..self.processes.len() as u32 {
            let process = &mut self.processes[number as usize];
            if process.host == host && process.life == Life::Alive {
                process.restarts |= restarts;
                self.kill(number);
            }
        }
        // Its processes may all have ended before.
        self.lose_host(host);
    }

    /// Kills a process. If it was the last of its host, the host's cache is lost with it.
    pub fn kill(&mut self, process: u32) {
        if self.processes[process as usize].life != Life::Alive {
            return;
        }
        self.processes[process as usize].life = Life::Killed;
        let host = self.processes[process as usize].host;
        for thread in 0..self.threads.len() as u32 {
            if self.threads[thread as usize].process == process {
                self.end_thread(thread);
            }
        }
        self.ended |= !self
            .threads
            .get(self.current as usize)
            .is_some_and(|thread| thread.alive);
        self.note(Event::Killed { process });
        self.dying.push((process, self.steps + self.agony()));
        self.drop_locks_of_the_dead(self.steps);
        let is_last = self.is_last_of(process, host);
        if self.machine.shape().coherent {
            return;
        }
        if !is_last {
            if self.machine.shape().persists_at_crash {
                self.persist(host);
            }
            let dirty = self.machine.cache(host).map_or(Vec::new(), |cache| cache.dirty());
            self.left.extend(dirty.into_iter().map(|line| (host, line)));
            return;
        }
        self.lose_host(host);
    }

    /// A host's cache is lost, but for some of its dirty lines.
    fn lose_host(&mut self, host: u32) {
        self.left.retain(|&(of, _)| of != host);
        let dirty = self.machine.cache(host).map_or(Vec::new(), |cache| cache.dirty());
        let how = if dirty.is_empty() {
            0
        } else {
            self.fault(Fault::LoseCache, 3)
        };
        let survive: Vec<u64> = dirty
            .iter()
            .copied()
            .filter(|_| how == 1 || (how == 2 && self.fault(Fault::LoseLine, 2) == 1))
            .collect();
        self.lose_cache(host, &dirty, &survive);
    }
}
