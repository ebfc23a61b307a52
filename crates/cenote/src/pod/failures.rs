//! What this process could not recover, and why.
//!
//! Recovery goes on past what it cannot do: a damaged structure keeps nobody else's death from being recovered, and no call from
//! being made that has nothing to do with it. So nothing fails where the damage is met. It is written down here instead, in
//! memory of the process, whoever recovered and for whatever reason; and told where people look: `cenote stat`, `cenote fsck`, the output of agents
//! and monitors. In the pool, the [log](super::log) says of a recovery that something in it failed.
//!
//! A reason is kept once, with the first that failed by it: a damaged host entry makes one line, not one for each of its workers. At most
//! [`FAILURES_MAX`] are kept, the first ones.

use std::fmt::{self, Display, Formatter};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;

/// Failures that a process remembers.
pub const FAILURES_MAX: usize = 64;

/// Something that could not be recovered. It is left as it was, and tried again by whoever recovers next.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Whose recovery it was a part of.
    pub what: String,
    /// What was in the way.
    pub why: String,
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// The failures of a process.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<Vec<Failure>>);

impl Failures {
    /// Writes one down, unless its reason is known.
    pub(super) fn note(&self, what: impl Display, error: &Error) {
        let why = error.to_string();
        let mut all = self.locked();
        if all.len() < FAILURES_MAX && !all.iter().any(|failure| failure.why == why) {
            all.push(Failure {
                what: what.to_string(),
                why,
            });
        }
    }

    /// Those until now.
    pub(super) fn all(&self) -> Vec<Failure> {
        self.locked().clone()
    }

    /// Forgets them: who recovers anew finds those that are left.
    pub(super) fn forget(&self) {
        self.locked().clear();
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_kept_once_and_there_are_not_too_many() {
        let failures = Failures::default();
        for worker in 0..3 {
            failures.note(
                format_args!("worker {worker}"),
                &Error::corrupt("a host's state", 64),
            );
        }
        assert_eq!(failures.all().len(), 1);
        assert!(
            failures.all()[0]
                .to_string()
                .starts_with("worker 0: damaged pool: a host's state")
        );
        for at in 0..200 {
            failures.note("worker 4", &Error::corrupt("a group's header", at));
        }
        assert_eq!(failures.all().len(), FAILURES_MAX);
        failures.forget();
        assert!(failures.all().is_empty());
    }
}
