//! Clients whose verbs do not come back suspect regions: they ask for a closing.
//!
//! A closing takes something from everybody. A client that cannot reach a node which the master reaches would ask again
//! under each view: so the time between two closings that one client has asked for doubles, to a second at most, while
//! it does not stop asking.

use std::time::{Duration, Instant};

/// The time between its first two closings.
const FIRST: Duration = Duration::from_millis(20);
/// The longest time between two.
const LONGEST: Duration = Duration::from_secs(1);
/// Who has not asked for so long asks as if for the first time.
const FORGOTTEN: Duration = Duration::from_secs(2);

/// What a client suspects.
#[derive(Debug, Default)]
pub struct Suspicions {
    /// The view under which it suspects a region, if no closing has begun for that yet.
    view: Option<u64>,
    /// When a closing began for it last.
    heard: Option<Instant>,
    /// The time from then on in which none begins for it.
    pause: Duration,
}

impl Suspicions {
    /// The client suspects a region under a view.
    pub fn add(&mut self, view: u64) {
        self.view = Some(view);
    }

    /// Whether a closing is to begin for it, under a view. A suspicion under an earlier view is over.
    pub fn take(&mut self, view: u64, now: Instant) -> bool {
        if self.view != Some(view) {
            self.view = None;
            return false;
        }
        let since = self.heard.map(|heard| now.saturating_duration_since(heard));
        self.pause = match since {
            Some(since) if since < self.pause => return false,
            Some(since) if since < FORGOTTEN => (self.pause * 2).clamp(FIRST, LONGEST),
            _ => FIRST,
        };
        (self.view, self.heard) = (None, Some(now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST, FORGOTTEN, LONGEST, Suspicions};
    use std::time::{Duration, Instant};

    /// Asks under each view, as often as it can; returns when it was heard.
    fn heard(suspicions: &mut Suspicions, begin: Instant, span: Duration) -> Vec<Duration> {
        let (mut view, mut at) = (1, Vec::new());
        for n in 0..span.as_millis() as u32 {
            let now = Duration::from_millis(n.into());
            suspicions.add(view);
            if suspicions.take(view, begin + now) {
                at.push(now);
                view += 1;
            }
        }
        at
    }

    #[test]
    fn who_asks_again_and_again_waits_longer() {
        let mut suspicions = Suspicions::default();
        let begin = Instant::now();
        let at = heard(&mut suspicions, begin, Duration::from_secs(10));
        assert_eq!(at[..3], [Duration::ZERO, FIRST, FIRST * 3]);
        assert!(at.windows(2).all(|two| two[1] - two[0] <= LONGEST), "{at:?}");
        assert!((10..20).contains(&at.len()), "{at:?}");
        let later = begin + Duration::from_secs(10) + FORGOTTEN;
        assert_eq!(heard(&mut suspicions, later, FIRST * 2), [Duration::ZERO, FIRST]);
    }

    #[test]
    fn a_suspicion_under_an_earlier_view_is_over() {
        let mut suspicions = Suspicions::default();
        suspicions.add(1);
        assert!(!suspicions.take(2, Instant::now()));
        assert!(!suspicions.take(1, Instant::now()));
    }
}
