//! Mutual exclusion and lost locks, over the events of locks (Lamport 1986, "The mutual exclusion problem", part II:
//! exclusion and the absence of lockout; with the death of owners added).
//!
//! **Exclusion.** An exclusive owner is the only living owner. A process owns a lock from `Granted` to `Released` or to
//! its death, so the events must be written where ownership is certain: `Granted` when the acquisition returns,
//! `Released` before the first step of the release. Then no correct lock is suspected.
//!
//! **Lost locks.** At the end of a run, which must give every living process as many steps as it needs, no process may
//! wait for a lock that no living process owns: its owner released it or died, and it will never be granted again.
//!
//! What a process does after it died is done by its successor of the same number.

use std::collections::{BTreeMap, BTreeSet};

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By one process.
    Exclusive,
    /// By any number of processes.
    Shared,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process begins to wait for a lock.
    Requested {
        /// Which lock.
        lock: u64,
        /// Who.
        process: u32,
    },
    /// A process does not wait any longer, and has not got it.
    Withdrawn {
        /// Which lock.
        lock: u64,
        /// Who.
        process: u32,
    },
    /// A process has got a lock, whether it had to wait or not.
    Granted {
        /// Which lock.
        lock: u64,
        /// Who.
        process: u32,
        /// How.
        mode: Mode,
    },
    /// A process gives a lock up.
    Released {
        /// Which lock.
        lock: u64,
        /// Who.
        process: u32,
    },
    /// A process dies.
    Died {
        /// Who.
        process: u32,
    },
}

/// What a lock must not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Two living owners, not both of them shared.
    #[error(
        "step {step}: lock {lock} is granted to process {process}, but process {owner} has owned it since step {since}"
    )]
    TwoOwners {
        /// When.
        step: u64,
        /// Which lock.
        lock: u64,
        /// The new owner.
        process: u32,
        /// The old one.
        owner: u32,
        /// Since when.
        since: u64,
    },
    /// A release by a process that is not the owner.
    #[error("step {step}: process {process} releases lock {lock}, which it does not own")]
    NotOwned {
        /// When.
        step: u64,
        /// Which lock.
        lock: u64,
        /// Who.
        process: u32,
    },
    /// No process owns it, and one waits.
    #[error("lock {lock} is lost: no living process owns it, and processes {waiting:?} wait for it; {last}")]
    Lost {
        /// Which lock.
        lock: u64,
        /// The processes that wait.
        waiting: Vec<u32>,
        /// How it lost its last owner.
        last: LastOwner,
    },
}

/// How a lock lost its last owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastOwner {
    /// It never had one.
    None,
    /// The owner gave it up.
    Released {
        /// Who.
        process: u32,
        /// When.
        step: u64,
    },
    /// The owner died.
    Died {
        /// Who.
        process: u32,
        /// When.
        step: u64,
    },
}

impl std::fmt::Display for LastOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LastOwner::None => write!(f, "it never had an owner"),
            LastOwner::Released { process, step } => {
                write!(f, "process {process} released it at step {step}")
            }
            LastOwner::Died { process, step } => {
                write!(f, "process {process} died at step {step} as its owner")
            }
        }
    }
}

#[derive(Debug)]
struct Lock {
    /// The living owners, since when, and how.
    owners: BTreeMap<u32, (u64, Mode)>,
    /// The living processes that wait.
    waiting: BTreeSet<u32>,
    last: LastOwner,
}

impl Default for Lock {
    fn default() -> Self {
        Lock {
            owners: BTreeMap::new(),
            waiting: BTreeSet::new(),
            last: LastOwner::None,
        }
    }
}

impl Lock {
    /// An owner that cannot be one beside another of this mode.
    fn rival(&self, mode: Mode) -> Option<(u32, u64)> {
        let mut rivals = self
            .owners
            .iter()
            .filter(|(_, (_, held))| mode == Mode::Exclusive || *held == Mode::Exclusive);
        rivals.next().map(|(&owner, &(since, _))| (owner, since))
    }
}

/// Checks the events, in the order of their steps. The first fault is returned.
pub fn check(trace: &[(u64, Event)]) -> Result<(), Fault> {
    let mut locks: BTreeMap<u64, Lock> = BTreeMap::new();
    for &(step, event) in trace {
        match event {
            Event::Requested { lock, process } => {
                locks.entry(lock).or_default().waiting.insert(process);
            }
            Event::Withdrawn { lock, process } => {
                locks.entry(lock).or_default().waiting.remove(&process);
            }
            Event::Granted { lock, process, mode } => {
                let held = locks.entry(lock).or_default();
                if let Some((owner, since)) = held.rival(mode) {
                    return Err(Fault::TwoOwners {
                        step,
                        lock,
                        process,
                        owner,
                        since,
                    });
                }
                held.waiting.remove(&process);
                held.owners.insert(process, (step, mode));
            }
            Event::Released { lock, process } => {
                let held = locks.entry(lock).or_default();
                if held.owners.remove(&process).is_none() {
                    return Err(Fault::NotOwned { step, lock, process });
                }
                held.last = LastOwner::Released { process, step };
            }
            Event::Died { process } => {
                for held in locks.values_mut() {
                    held.waiting.remove(&process);
                    if held.owners.remove(&process).is_some() {
                        held.last = LastOwner::Died { process, step };
                    }
                }
            }
        }
    }
    let is_lost = |held: &Lock| held.owners.is_empty() && !held.waiting.is_empty();
    match locks.into_iter().find(|(_, held)| is_lost(held)) {
        Some((lock, held)) => Err(Fault::Lost {
            lock,
            waiting: held.waiting.into_iter().collect(),
            last: held.last,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "exclusion_tests.rs"]
mod tests;
