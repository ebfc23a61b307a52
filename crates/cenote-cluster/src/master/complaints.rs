//! Clients whose verbs do not come back ask for a closing.
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

/// What a client has complained of.
#[derive(Debug, Default)]
pub struct Complaints {
    /// The view under which it did, if that was not heard yet.
    view: Option<u64>,
    /// When it was heard last.
    heard: Option<Instant>,
    /// The time from then on in which it is not heard again.
    pause: Duration,
}

impl Complaints {
    /// The client complains under a view.
    pub fn add(&mut self, view: u64) {
        self.view = Some(view);
    }

    /// Whether a closing is to begin for it, under a view. A complaint about an earlier view is over.
    pub fn take(&mut self, view: u64, now: Instant) -> Option<()> {
        if self.view != Some(view) {
            self.view = None;
            return None;
        }
        let since = self.heard.map(|heard| now.saturating_duration_since(heard));
        self.pause = match since {
            Some(since) if since < self.pause => return None,
            Some(since) if since < FORGOTTEN => (self.pause * 2).clamp(FIRST, LONGEST),
            _ => FIRST,
        };
        (self.view, self.heard) = (None, Some(now));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Complaints, FIRST, FORGOTTEN, LONGEST};
    use std::time::{Duration, Instant};

    /// Asks under each view, as often as it can; returns when it was heard.
    fn heard(complaints: &mut Complaints, begin: Instant, span: Duration) -> Vec<Duration> {
        let (mut view, mut at) = (1, Vec::new());
        for n in 0..span.as_millis() as u32 {
            let now = Duration::from_millis(n.into());
            complaints.add(view);
            if complaints.take(view, begin + now).is_some() {
                at.push(now);
                view += 1;
            }
        }
        at
    }

    #[test]
    fn who_asks_again_and_again_waits_longer() {
        let mut complaints = Complaints::default();
        let begin = Instant::now();
        let at = heard(&mut complaints, begin, Duration::from_secs(10));
        assert_eq!(at[..3], [Duration::ZERO, FIRST, FIRST * 3]);
        assert!(at.windows(2).all(|two| two[1] - two[0] <= LONGEST), "{at:?}");
        assert!((10..20).contains(&at.len()), "{at:?}");
        let later = begin + Duration::from_secs(10) + FORGOTTEN;
        assert_eq!(heard(&mut complaints, later, FIRST * 2), [Duration::ZERO, FIRST]);
    }

    #[test]
    fn a_complaint_about_an_earlier_view_is_over() {
        let mut complaints = Complaints::default();
        complaints.add(1);
        assert_eq!(complaints.take(2, Instant::now()), None);
        assert_eq!(complaints.take(1, Instant::now()), None);
    }
}
