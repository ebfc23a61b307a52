//! Locks that survive their owners: exclusion, no lost locks (both by [`exclusion`]), and what successors are notified
//! of.
//!
//! **Notified.** If the last exclusive owner died before it began to unlock, the next owner is notified of the death,
//! with a note that the dead owner had set or adopted. If it had begun to unlock and lived to the end, the next owner
//! is not notified. If a process died while it asked for the lock, or while it unlocked, the next owner may be
//! notified: to the lock, the dead process may have owned it. Shared owners are notified of the same, and the next
//! owner after them too.
//!
//! `Granted` is written when the acquisition returns, `Released` before the first step of the unlock, `Ended` after its
//! last, `Noting` before a note is set.

use std::collections::{BTreeMap, BTreeSet};

use cenote::{Acquired, Owner};

use super::exclusion::{self, Mode};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process, as this worker, begins to wait for a lock.
    Requested {
        /// Which lock.
        lock: u64,
        /// Who.
        process: u32,
        /// What the lock calls it.
        worker: Owner,
    },
    /// It does not wait any longer, and has not got the lock.
    Withdrawn {
        /// Which lock.
        lock: u64,
        /// Who.
        process: u32,
    },
    /// It has got the lock, and was notified of this.
    Granted {
        /// Which lock.
        lock: u64,
        /// Who.
        process: u32,
        /// How.
        mode: Mode,
        /// What it was notified of.
        acquired: Acquired,
    },
    /// It begins to set a note.
    Noting {
        /// Which lock.
        lock: u64,
        /// Who.
        process: u32,
        /// The note.
        note: u64,
    },
    /// It begins to give the lock up.
    Released {
        /// Which lock.
        lock: u64,
        /// Who.
        process: u32,
    },
    /// It has given the lock up.
    Ended {
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

/// What must not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Two owners, or a lost lock.
    #[error(transparent)]
    Exclusion(#[from] exclusion::Fault),
    /// A successor that is not notified.
    #[error(
        "step {step}: process {process} is not notified that the last owner of lock {lock}, {dead:?}, died"
    )]
    NotNotified {
        /// When.
        step: u64,
        /// Which lock.
        lock: u64,
        /// The successor.
        process: u32,
        /// The dead.
        dead: Owner,
    },
    /// A successor that is notified of a process that did not die as the lock's owner.
    #[error("step {step}: process {process} is notified of {from:?}, which did not die with lock {lock}")]
    NotifiedWrongly {
        /// When.
        step: u64,
        /// Which lock.
        lock: u64,
        /// The successor.
        process: u32,
        /// Whom it is notified of.
        from: Owner,
    },
    /// A note that no owner had left.
    #[error(
        "step {step}: process {process} gets a note {note} with lock {lock}, where one of {notes:?} was left"
    )]
    OtherNote {
        /// When.
        step: u64,
        /// Which lock.
        lock: u64,
        /// The successor.
        process: u32,
        /// The note that it got.
        note: u64,
        /// What may have been left.
        notes: BTreeSet<u64>,
    },
}

#[derive(Default)]
struct Lock {
    /// The processes that want it, have it, or are giving it up.
    workers: BTreeMap<u32, Owner>,
    /// The exclusive owner, until it begins to unlock.
    owner: Option<u32>,
    /// The processes that are unlocking an exclusive hold.
    unlocking: BTreeSet<u32>,
    /// The last exclusive owner, if it died before it began to unlock.
    dead: Option<Owner>,
    /// The dead of whom the next owner may be notified.
    may: Vec<Owner>,
    /// What the note may be.
    notes: BTreeSet<u64>,
}

impl Lock {
    fn granted(
        &mut self,
        step: u64,
        lock: u64,
        process: u32,
        mode: Mode,
        acquired: Acquired,
    ) -> Result<(), Fault> {
        match acquired {
            Acquired::Clean => {
                if let Some(dead) = self.dead {
                    return Err(Fault::NotNotified {
                        step,
                        lock,
                        process,
                        dead,
                    });
                }
            }
            Acquired::Recovered { from, note } => {
                if !self.may.contains(&from) {
                    return Err(Fault::NotifiedWrongly {
                        step,
                        lock,
                        process,
                        from,
                    });
                }
                if !self.notes.contains(&note) {
                    return Err(Fault::OtherNote {
                        step,
                        lock,
                        process,
                        note,
                        notes: self.notes.clone(),
                    });
                }
            }
        }
        if mode == Mode::Exclusive {
            self.owner = Some(process);
            self.dead = None;
            self.notes = match acquired {
                Acquired::Clean => [0].into(),
                Acquired::Recovered { note, .. } => [note].into(),
            };
        }
        Ok(())
    }

    fn died(&mut self, process: u32) {
        self.unlocking.remove(&process);
        let Some(worker) = self.workers.remove(&process) else {
            return;
        };
        self.may.push(worker);
        if self.owner == Some(process) {
            self.owner = None;
            self.dead = Some(worker);
        }
    }
}

/// Checks the events, in the order of their steps. The first fault is returned.
pub fn check(trace: &[(u64, Event)]) -> Result<(), Fault> {
    let plain: Vec<_> = trace
        .iter()
        .filter_map(|&(step, event)| Some((step, plain(event)?)))
        .collect();
    exclusion::check(&plain)?;
    let mut locks: BTreeMap<u64, Lock> = BTreeMap::new();
    for &(step, event) in trace {
        match event {
            Event::Requested {
                lock,
                process,
                worker,
            } => {
                let lock = locks.entry(lock).or_default();
                lock.notes.insert(0);
                lock.workers.insert(process, worker);
            }
            Event::Withdrawn { lock, process } => {
                locks.entry(lock).or_default().workers.remove(&process);
            }
            Event::Granted {
                lock,
                process,
                mode,
                acquired,
            } => {
                let held = locks.entry(lock).or_default();
                held.granted(step, lock, process, mode, acquired)?;
            }
            Event::Noting { lock, note, .. } => {
                locks.entry(lock).or_default().notes.insert(note);
            }
            Event::Released { lock, process } => {
                let lock = locks.entry(lock).or_default();
                if lock.owner == Some(process) {
                    lock.owner = None;
                    lock.unlocking.insert(process);
                    lock.notes.insert(0);
                }
            }
            Event::Ended { lock, process } => {
                let lock = locks.entry(lock).or_default();
                lock.workers.remove(&process);
                lock.unlocking.remove(&process);
            }
            Event::Died { process } => locks.values_mut().for_each(|lock| lock.died(process)),
        }
    }
    Ok(())
}

fn plain(event: Event) -> Option<exclusion::Event> {
    Some(match event {
        Event::Requested { lock, process, .. } => exclusion::Event::Requested { lock, process },
        Event::Withdrawn { lock, process } => exclusion::Event::Withdrawn { lock, process },
        Event::Granted {
            lock, process, mode, ..
        } => exclusion::Event::Granted { lock, process, mode },
        Event::Released { lock, process } => exclusion::Event::Released { lock, process },
        Event::Died { process } => exclusion::Event::Died { process },
        Event::Noting { .. } | Event::Ended { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Owner = Owner {
        worker: 0,
        generation: 1,
    };
    const B: Owner = Owner {
        worker: 1,
        generation: 1,
    };

    fn granted(process: u32, acquired: Acquired) -> Event {
        Event::Granted {
            lock: 1,
            process,
            mode: Mode::Exclusive,
            acquired,
        }
    }

    fn requested(process: u32, worker: Owner) -> Event {
        Event::Requested {
            lock: 1,
            process,
            worker,
        }
    }

    fn checked(events: &[Event]) -> Result<(), Fault> {
        let trace: Vec<_> = (1..).zip(events.iter().copied()).collect();
        check(&trace)
    }

    #[test]
    fn a_death_must_be_notified_with_its_note() {
        let noting = Event::Noting {
            lock: 1,
            process: 0,
            note: 7,
        };
        let died = Event::Died { process: 0 };
        let begin = [
            requested(0, A),
            granted(0, Acquired::Clean),
            noting,
            died,
            requested(1, B),
        ];
        let with = |acquired| checked(&[&begin[..], &[granted(1, acquired)]].concat());
        assert_eq!(with(Acquired::Recovered { from: A, note: 7 }), Ok(()));
        assert_eq!(with(Acquired::Recovered { from: A, note: 0 }), Ok(()));
        assert!(matches!(with(Acquired::Clean), Err(Fault::NotNotified { .. })));
        assert!(matches!(
            with(Acquired::Recovered { from: B, note: 7 }),
            Err(Fault::NotifiedWrongly { .. })
        ));
        assert!(matches!(
            with(Acquired::Recovered { from: A, note: 8 }),
            Err(Fault::OtherNote { .. })
        ));
    }

    #[test]
    fn an_unlock_is_not_notified() {
        let released = Event::Released { lock: 1, process: 0 };
        let ended = Event::Ended { lock: 1, process: 0 };
        let begin = [
            requested(0, A),
            granted(0, Acquired::Clean),
            released,
            ended,
            requested(1, B),
        ];
        let with = |acquired| checked(&[&begin[..], &[granted(1, acquired)]].concat());
        assert_eq!(with(Acquired::Clean), Ok(()));
        assert!(matches!(
            with(Acquired::Recovered { from: A, note: 0 }),
            Err(Fault::NotifiedWrongly { .. })
        ));
    }
}
