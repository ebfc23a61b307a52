//! What this process could not recover, and why.
//!
//! Recovery goes on past what it cannot do: a damaged structure must not keep other deaths from being recovered, nor
//! unrelated calls from being made. So nothing fails where the damage is met. Whichever thread recovers writes the
//! failure down here instead, in memory of the process; it is shown where people look: by `cenote stat`, `cenote fsck`,
//! agents and monitors. In the pool, the [log](crate::pod::format::recovery_log) says of a recovery that something in
//! it failed.
//!
//! A reason is shown once, with the first failure that has it: a damaged host entry makes one line, not one for each of
//! its workers. At most [`FAILURES_MAX`] are kept, the first ones.
//!
//! **Until it is mended.** Each failure is kept with the [`Task`] that failed, and forgotten once that task was done
//! without meeting it: so nothing is shown for ever, and later damage has room. Recovery of the dead must have been
//! complete for that: of a record that another worker has claimed meanwhile, nothing is known.
//!
//! | task | done once |
//! |---|---|
//! | recovering the dead | all places were scanned, and none was left to others |
//! | a registered step | it was run, for any worker |
//! | emptying what vacant places have left; notifying groups of hosts; declaring | it was done |

use std::fmt::{self, Display, Formatter};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::memory::LocalWord;

/// Failures that a process remembers.
pub const FAILURES_MAX: usize = 64;

/// Something that could not be recovered. It is left as it was, and the next recovery tries again.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// The recovery that it was a part of.
    pub what: String,
    /// What was in the way.
    pub why: String,
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// What a failure is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Recovering the dead.
    Dead,
    /// A step that another structure has registered.
    Step(&'static str),
    /// Emptying what vacant places have left.
    Vacant,
    /// Taking over the lists and reserves of idle workers.
    Idle,
    /// Notifying groups of hosts that died.
    Hosts,
    /// Declaring the dead of a host.
    Declaring,
}

/// The failures of a process.
#[derive(Debug)]
pub(in crate::pod) struct Failures {
    known: Mutex<Vec<Known>>,
    /// Their number.
    count: LocalWord,
    /// Grows with each task that begins.
    now: LocalWord,
}

/// One of them.
#[derive(Debug)]
struct Known {
    task: Task,
    failure: Failure,
    /// The task number when it was met last.
    met: u64,
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            count: LocalWord::new(0),
            now: LocalWord::new(0),
        }
    }
}

impl Failures {
    /// A task begins; returns the argument for [`Failures::end`].
    pub(in crate::pod) fn begin(&self) -> u64 {
        // NO PAIR: count
        self.now.add(1);
        self.now.load()
    }

    /// Keeps a failure.
    pub(in crate::pod) fn note(&self, task: Task, what: impl Display, error: &Error) {
        let (why, now) = (error.to_string(), self.now.load());
        let mut all = self.locked();
        let is_it = |known: &Known| known.task == task && known.failure.why == why;
        if let Some(n) = all.iter().position(is_it) {
            all[n].met = now;
        } else if all.len() < FAILURES_MAX {
            all.push(Known {
                task,
                failure: Failure {
                    what: what.to_string(),
                    why,
                },
                met: now,
            });
        }
        // NO PAIR: hint
        self.count.store(all.len() as u64);
    }

    /// A task was done as a whole: forgets its failures that were not met since it began.
    pub(in crate::pod) fn end(&self, task: Task, began: u64) {
        if self.count.load() != 0 {
            let mut all = self.locked();
            all.retain(|known| known.task != task || known.met >= began);
            // NO PAIR: hint
            self.count.store(all.len() as u64);
        }
    }

    /// The failures until now, each reason once.
    pub(in crate::pod) fn all(&self) -> Vec<Failure> {
        let mut told: Vec<Failure> = Vec::new();
        for known in self.locked().iter() {
            if !told.iter().any(|failure| failure.why == known.failure.why) {
                told.push(known.failure.clone());
            }
        }
        told
    }

    /// Forgets them: the next recovery finds those that are left.
    pub(in crate::pod) fn forget(&self) {
        let mut all = self.locked();
        all.clear();
        // NO PAIR: hint
        self.count.store(0);
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage(at: u64) -> Error {
        Error::corrupt("a host's state", at)
    }

    #[test]
    fn a_reason_is_told_once_and_there_are_not_too_many() {
        let failures = Failures::default();
        for worker in 0..3 {
            failures.note(Task::Dead, format_args!("worker {worker}"), &damage(64));
        }
        failures.note(Task::Hosts, "telling groups", &damage(64));
        assert_eq!(failures.all().len(), 1);
        assert!(
            failures.all()[0]
                .to_string()
                .starts_with("worker 0: damaged pool: a host's state")
        );
        for at in 0..200 {
            failures.note(Task::Dead, "worker 4", &damage(at));
        }
        assert!(failures.locked().len() == FAILURES_MAX);
        failures.forget();
        assert!(failures.all().is_empty());
    }

    #[test]
    fn what_was_mended_is_forgotten_and_nothing_else() {
        let failures = Failures::default();
        let first = failures.begin();
        failures.note(Task::Dead, "worker 1", &damage(64));
        failures.note(Task::Dead, "worker 2", &damage(128));
        failures.note(Task::Step("groups"), "worker 2, groups", &damage(192));
        failures.end(Task::Dead, first);
        assert_eq!(failures.all().len(), 3);
        let second = failures.begin();
        failures.note(Task::Dead, "worker 2", &damage(128));
        failures.end(Task::Dead, second);
        let told: Vec<String> = failures.all().into_iter().map(|failure| failure.what).collect();
        assert_eq!(told, ["worker 2", "worker 2, groups"]);
        failures.end(Task::Step("groups"), failures.begin());
        failures.end(Task::Dead, failures.begin());
        assert!(failures.all().is_empty());
    }
}
