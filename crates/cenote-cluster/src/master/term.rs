//! A term: the time for which a master leads, and the number that orders it among all terms of a cluster.
//!
//! The number is that of the change by which the master became the leader, so a later leader's is greater. Memory nodes
//! hear it with everything that a master asks of them, and obey none of an earlier term ([`crate::node`]). A master
//! that keeps its state in a pool leads until its process ends; one that was elected by etcd for as long as its lease
//! lasts, by its own clock, counted from when a renewal was *sent*.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The part of a lease that its holder does not use, so that no other is elected before the holder stands by.
const UNUSED: u32 = 8;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Term {
    number: u64,
    /// `None`: as long as the process.
    until: Cell<Option<Instant>>,
}

impl Term {
    /// One that lasts as long as this process.
    pub fn of_process(number: u64) -> Self {
        Self {
            number,
            until: Cell::new(None),
        }
    }

    /// One that lasts for a lease that was asked for at `sent`.
    pub fn of_lease(number: u64, sent: Instant, lease: Duration) -> Self {
        Self {
            number,
            until: Cell::new(Some(sent + used(lease))),
        }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The lease was renewed, as was asked for at `sent`. A term that is over stays so.
    pub fn extend(&self, sent: Instant, lease: Duration) {
        if let Some(until) = self.until.get().filter(|_| self.lasts()) {
            self.until.set(Some(until.max(sent + used(lease))));
        }
    }

    /// It is over.
    pub fn end(&self) {
        self.until.set(Some(Instant::now()));
    }

    /// Whether it lasts.
    pub fn lasts(&self) -> bool {
        self.until.get().is_none_or(|until| Instant::now() < until)
    }

    /// How long it lasts yet; `None` if its end is not known.
    pub fn left(&self) -> Option<Duration> {
        let until = self.until.get()?;
        Some(until.saturating_duration_since(Instant::now()))
    }
}

/// For how long a lease is used.
fn used(lease: Duration) -> Duration {
    lease - lease / UNUSED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_ends_before_its_lease_and_never_begins_again() {
        let lease = Duration::from_secs(800);
        let term = Term::of_lease(7, Instant::now(), lease);
        assert!(term.lasts() && term.left().unwrap() <= Duration::from_secs(700));
        term.end();
        term.extend(Instant::now(), lease);
        assert!(!term.lasts());
        assert_eq!(term.left(), Some(Duration::ZERO));
    }

    #[test]
    fn a_lease_counts_from_when_it_was_asked_for() {
        let long_ago = Instant::now() - Duration::from_secs(8);
        assert!(!Term::of_lease(1, long_ago, Duration::from_secs(9)).lasts());
        let term = Term::of_lease(1, long_ago, Duration::from_secs(100));
        let before = term.left();
        term.extend(long_ago - Duration::from_secs(1), Duration::from_secs(100));
        assert!(term.left() <= before);
    }

    #[test]
    fn that_of_a_process_lasts() {
        let term = Term::of_process(3);
        assert!(term.lasts() && term.left().is_none());
        assert_eq!(term.number(), 3);
    }
}
