//! Moments of the system's clocks, until which a thread waits.

use std::time::Duration;

use crate::refusal::Refusal;

/// A moment of one of the system's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    clock: libc::clockid_t,
    at: Duration,
}

impl Deadline {
    /// A moment as C has it. `CLOCK_REALTIME` and `CLOCK_MONOTONIC` are known.
    pub fn new(clock: libc::clockid_t, at: &libc::timespec) -> Result<Self, Refusal> {
        let nanoseconds = u32::try_from(at.tv_nsec).ok().filter(|&n| n < 1_000_000_000);
        let (Some(nanoseconds), true) = (
            nanoseconds,
            matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC),
        ) else {
            return Err(Refusal::Invalid("the moment or its clock is none"));
        };
        // What was before the clock began is over.
        let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
        Ok(Self {
            clock,
            at: Duration::new(seconds, nanoseconds),
        })
    }

    /// How long it is until then by its clock, which may have been set meanwhile.
    pub fn left(&self) -> Duration {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: fills in a structure of ours.
        unsafe { libc::clock_gettime(self.clock, &mut now) };
        self.at
            .saturating_sub(Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
    }
}

/// How long to wait for a lock.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until it has the lock.
    Forever,
    /// Until a moment.
    Until(Deadline),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tv_sec: i64, tv_nsec: i64) -> libc::timespec {
        libc::timespec { tv_sec, tv_nsec }
    }

    #[test]
    fn moments_that_are_none_are_refused() {
        for (clock, moment) in [
            (libc::CLOCK_REALTIME, at(1, 1_000_000_000)),
            (libc::CLOCK_REALTIME, at(1, -1)),
            (libc::CLOCK_PROCESS_CPUTIME_ID, at(1, 0)),
        ] {
            assert!(Deadline::new(clock, &moment).is_err());
        }
    }

    #[test]
    fn what_is_over_leaves_nothing() {
        let past = Deadline::new(libc::CLOCK_REALTIME, &at(-5, 0)).unwrap();
        assert_eq!(past.left(), Duration::ZERO);
        let far = Deadline::new(libc::CLOCK_MONOTONIC, &at(i64::MAX, 0)).unwrap();
        assert!(far.left() > Duration::from_secs(1 << 40));
    }
}
