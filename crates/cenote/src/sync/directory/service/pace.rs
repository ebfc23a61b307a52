//! When what may have been lost is sent again: soon at first, then less and less often, as long as nothing changes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::clock::micros;
use crate::sync::directory::messages::instant::Moment;
use crate::sync::directory::messages::message::LockId;

/// The longest pause between two repetitions.
const LONGEST: Duration = Duration::from_secs(1);

/// When the messages about each lock are sent again.
pub struct Pace {
    first: u64,
    due: BTreeMap<LockId, (Moment, u64)>,
}

impl Pace {
    /// First after so long.
    pub fn new(first: Duration) -> Self {
        Self {
            first: micros(first).max(1),
            due: BTreeMap::new(),
        }
    }

    /// Something about a lock was sent, or has arrived.
    pub fn restart(&mut self, lock: LockId, now: Moment) {
        let due = self.due.entry(lock).or_insert((Moment(u64::MAX), 0));
        *due = (due.0.min(now.after(self.first)), self.first);
    }

    /// A lock for which something may be due. The caller says whether there was something to send again.
    pub fn take_due(&mut self, now: Moment, mut again: impl FnMut(LockId) -> bool) {
        let longest = micros(LONGEST);
        self.due.retain(|lock, (due, pause)| {
            if *due > now {
                return true;
            }
            *pause = pause.saturating_mul(2).min(longest);
            *due = now.after(*pause);
            again(*lock)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_become_rare_until_something_changes() {
        let mut pace = Pace::new(Duration::from_millis(100));
        pace.restart(7, Moment(0));
        let mut sent = Vec::new();
        for time in (0..4_000_000).step_by(10_000) {
            pace.take_due(Moment(time), |_| {
                sent.push(time / 1000);
                true
            });
        }
        assert_eq!(sent, [100, 300, 700, 1500, 2500, 3500]);
        // Something else about the lock every 50 ms does not put it off.
        sent.clear();
        for time in (4_000_000..5_000_000).step_by(50_000) {
            pace.restart(7, Moment(time));
            pace.take_due(Moment(time), |_| {
                sent.push(time / 1000);
                true
            });
        }
        assert_eq!(sent, [4100, 4250, 4400, 4550, 4700, 4850]);
        pace.take_due(Moment(u64::MAX / 2), |_| false);
        pace.take_due(Moment(u64::MAX), |_| panic!("nothing is due"));
    }
}
