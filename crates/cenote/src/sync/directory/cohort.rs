//! What a process has of a directory lock, and how its threads share it: a cohort lock (Dice, Marathe and Shavit, PPoPP
//! 2012). The threads of a node are served by the node, first come first served, as long as nobody else asks; then
//! [`PASSES`] times more; then the lock goes to the other node.
//!
//! All of it lies in memory of the process, under a mutex that no thread holds while it touches the pool. So getting a
//! lock again that the process has kept costs no access to the pool. If the process dies, others find in the pool what
//! it had ([`transition`](super::transition)). If one of its threads dies alone, the others find its identity here, and
//! ask the pool whether it lives.
//!
//! One thread at a time acts for the cohort, its *driver*: it alone changes the node's part of the entry.
//! [`Cohort::next_step`] says what it has to do.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::layout::{Layout, Region};
use super::node::Node;
use super::queue::Permission;
use crate::mutant::{self, Mutant};

/// How often a node's threads get the lock after another node has asked for it.
pub const PASSES: u32 = 64;

/// A lock, as one process has it.
pub struct Cohort {
    /// Where the lock is.
    pub layout: Layout,
    /// What it covers.
    pub regions: Vec<Region>,
    local: Mutex<Local>,
}

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    identity: u64,
    wants: Permission,
}

/// What the threads of a process know in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Local {
    /// The process's number among the nodes.
    pub node: Option<Node>,
    /// What the node has.
    pub has: Option<Permission>,
    /// Whether another node waits for it.
    pub is_asked: bool,
    /// Whether a request of the node waits.
    pub is_pending: bool,
    /// Whether the node is about to have less than it has, so that no thread gets the lock.
    pub is_yielding: bool,
    /// How many handles the threads of the process have on the lock.
    pub handles: u32,
    /// How often the entry had been changed when it was read last.
    pub number: u64,
    /// Identity of a thread, of any node, that died or panicked writing, until a writer has unlocked; else 0.
    pub former: u64,
    /// Identity of the thread that drives, or 0.
    pub driver: u64,
    /// Whether another thread wanted the entry polled while the driver was at work.
    pub is_poll_due: bool,
    /// Who died or panicked writing, as the thread knew that began to close the lock.
    pub kept: u64,
    /// How often threads have given the lock up, in a pool.
    pub releases: u32,
    writer: u64,
    readers: Vec<u64>,
    waiting: VecDeque<Waiter>,
    /// How often a thread got the lock since another node asked for it.
    passes: u32,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing for now.
    Nothing,
    /// To read the entry.
    Poll,
    /// To ask for the lock.
    Request(Permission),
    /// To hand the lock over, or to give it up.
    Yield(Permission),
}

impl Cohort {
    /// What a process that has just opened a lock has of it.
    pub fn new(layout: Layout, regions: Vec<Region>) -> Self {
        Self {
            layout,
            regions,
            local: Mutex::default(),
        }
    }

    /// What the threads know, while the caller does nothing else.
    pub fn local(&self) -> MutexGuard<'_, Local> {
        // A thread changes it in single steps that cannot panic.
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Local {
    /// Whether a thread has the lock, or waits for it.
    pub fn is_used_by(&self, identity: u64) -> bool {
        self.writer == identity
            || self.readers.contains(&identity)
            || self.waiting.iter().any(|waiter| waiter.identity == identity)
    }

    /// Whether no thread has the lock.
    pub fn is_idle(&self) -> bool {
        self.writer == 0 && self.readers.is_empty()
    }

    /// Whether nobody waits here, and a thread may have the lock at once.
    pub fn is_open(&self, wants: Permission) -> bool {
        self.waiting.is_empty() && self.is_to_be_had(wants)
    }

    fn is_to_be_had(&self, wants: Permission) -> bool {
        let is_compatible = match wants {
            Permission::Shared => self.writer == 0,
            Permission::Exclusive => self.is_idle(),
        };
        let is_kept = !self.is_asked || self.passes < PASSES || mutant::is(Mutant::DirectoryPassesUnbounded);
        let is_open = !self.is_yielding || mutant::is(Mutant::DirectoryEnteredYielding);
        is_compatible && is_kept && is_open && self.has >= Some(wants)
    }

    /// A thread gets the lock, which is to be had.
    pub fn enter(&mut self, identity: u64, wants: Permission) {
        if self.is_asked {
            self.passes += 1;
        }
        match wants {
            Permission::Shared => self.readers.push(identity),
            Permission::Exclusive => self.writer = identity,
        }
    }

    /// A thread waits from now on.
    pub fn wait(&mut self, identity: u64, wants: Permission) {
        self.waiting.push_back(Waiter { identity, wants });
    }

    /// Gives the lock to a thread that waits, if its turn has come. Returns whether it has.
    pub fn enter_in_turn(&mut self, identity: u64) -> bool {
        if !self.is_served_next(identity) {
            return false;
        }
        if let Some(waiter) = self.waiting.pop_front() {
            self.enter(identity, waiter.wants);
        }
        true
    }

    /// Whether it is a waiting thread's turn.
    pub fn is_served_next(&self, identity: u64) -> bool {
        let is_next = |front: &&Waiter| front.identity == identity && self.is_to_be_had(front.wants);
        self.waiting.front().filter(is_next).is_some()
    }

    /// A thread does not wait any longer.
    pub fn withdraw(&mut self, identity: u64) {
        self.waiting.retain(|waiter| waiter.identity != identity);
    }

    /// A thread gives the lock up.
    pub fn leave(&mut self, identity: u64) {
        if self.writer == identity {
            self.writer = 0;
        }
        if let Some(n) = self.readers.iter().position(|reader| *reader == identity) {
            self.readers.swap_remove(n);
        }
    }

    /// Whether a thread waits here.
    pub fn is_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The thread that writes, those that read, those that wait, and the one that drives.
    pub fn identities(&self) -> Vec<u64> {
        let waiting = self.waiting.iter().map(|waiter| waiter.identity);
        let known = [self.writer, self.driver]
            .into_iter()
            .chain(self.readers.iter().copied());
        known.chain(waiting).filter(|identity| *identity != 0).collect()
    }

    /// A thread has died alone.
    pub fn lose(&mut self, identity: u64) {
        if self.writer == identity {
            self.former = identity;
        }
        self.leave(identity);
        self.withdraw(identity);
        if self.driver == identity {
            self.driver = 0;
            self.reread();
        }
    }

    /// Whatever is known of the entry is read again.
    pub fn reread(&mut self) {
        self.number = u64::MAX;
    }

    /// The process gives up what it has: until it has, no thread gets the lock, and if the thread that does it dies
    /// alone, the next one begins by finding what the process has. Returns what that is, and the identity of the worker
    /// that died writing, or has left its hold behind.
    pub fn close(&mut self) -> (Option<Node>, Option<Permission>, u64) {
        let former = match self.writer {
            0 => self.former,
            writer => writer,
        };
        self.is_yielding = true;
        self.is_pending = self.node.is_some();
        self.reread();
        self.kept = former;
        (self.node.take(), self.has.take(), former)
    }

    /// The process has nothing any more. Threads that have come meanwhile wait on.
    pub fn closed(&mut self) {
        *self = Self {
            handles: self.handles,
            waiting: std::mem::take(&mut self.waiting),
            ..Self::default()
        };
    }

    /// The node has got the lock.
    pub fn granted(&mut self, permission: Permission, former: u64) {
        let kept = std::mem::take(&mut self.kept);
        self.has = Some(permission);
        self.former = if former == 0 { kept } else { former };
        (self.is_pending, self.passes) = (false, 0);
    }

    /// What the driver has to do next; `polls` if it may read the entry.
    pub fn next_step(&self, polls: bool) -> Step {
        let wanted = self.waiting.front().map(|front| front.wants);
        let is_served = wanted.is_some_and(|wants| self.is_to_be_had(wants));
        match self.has {
            Some(has) if (self.is_asked || self.is_yielding) && self.is_idle() && !is_served => {
                return Step::Yield(has);
            }
            // A thread that is served is about to take it.
            Some(_) if is_served || !self.is_idle() => {}
            has => {
                if let Some(wants) = wanted.filter(|wants| has < Some(*wants))
                    && !self.is_pending
                {
                    return Step::Request(wants);
                }
            }
        }
        match polls && (self.is_pending || self.has.is_some()) {
            true => Step::Poll,
            false => Step::Nothing,
        }
    }
}

#[cfg(test)]
#[path = "cohort_tests.rs"]
mod tests;
