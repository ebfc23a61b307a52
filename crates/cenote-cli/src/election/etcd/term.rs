//! Until when a monitor may lead, by its own monotonic clock.

use std::time::{Duration, Instant};

use cenote::memory::LocalWord;

/// The part of a lease that its holder does not use, so that no other is elected before the holder stands by.
const UNUSED: u32 = 8;

/// Written by the thread that speaks with etcd, read by the thread that polls hosts.
pub struct Term {
    began: Instant,
    /// Nanoseconds after `began`; 0 for a term that is over.
    until: LocalWord,
}

impl Term {
    /// One that has not begun.
    pub fn new() -> Self {
        Self {
            began: Instant::now(),
            until: LocalWord::new(0),
        }
    }

    /// It lasts for a lease that was renewed by a request sent at `sent`, but for the part that is not used.
    pub fn extend(&self, sent: Instant, lease: Duration) {
        let until = (sent + used(lease)).saturating_duration_since(self.began);
        self.until.store(until.as_nanos() as u64);
    }

    /// It is over.
    pub fn end(&self) {
        self.until.store(0);
    }

    /// Whether it lasts.
    pub fn lasts(&self) -> bool {
        (self.began.elapsed().as_nanos() as u64) < self.until.load()
    }
}

/// For how long a lease is used.
pub fn used(lease: Duration) -> Duration {
    lease - lease / UNUSED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_ends_before_its_lease() {
        let (term, now) = (Term::new(), Instant::now());
        assert!(!term.lasts());
        term.extend(now, Duration::from_secs(800));
        assert!(term.lasts());
        assert!(Duration::from_nanos(term.until.load()) <= now - term.began + Duration::from_secs(700));
        term.end();
        assert!(!term.lasts());
    }

    #[test]
    fn a_lease_counts_from_when_it_was_asked_for() {
        let term = Term::new();
        let long_ago = Duration::from_nanos(1);
        term.extend(Instant::now(), long_ago);
        std::thread::sleep(long_ago);
        assert!(!term.lasts());
    }
}
