//! When a worker is restarted, after how long, and when it is given up.

use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

use super::Then;

/// Which ends are followed by another start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// All.
    Always,
    /// Ends with another exit status than 0, or by a signal.
    OnFailure,
    /// None.
    Never,
}

/// How workers are supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which ends are followed by another start.
    pub restart: Restart,
    /// Restarts of a worker within [`Policy::window`]; with one more it is given up. Default 10.
    pub restarts_max: u32,
    /// Default a minute.
    pub window: Duration,
    /// How long the first restart waits. Each further one waits twice as long, until the worker has run for
    /// [`Policy::wait_most`]. Default 10 ms.
    pub wait_first: Duration,
    /// How long a restart waits at most. Default 5 s.
    pub wait_most: Duration,
    /// How long a worker has between SIGTERM and SIGKILL. Default 5 s.
    pub grace: Duration,
    /// After so many failures in a row on one host, each sooner than [`Policy::wait_most`], the host counts as lost,
    /// and its workers are started on the others. Default: never.
    pub lost_after: Option<u32>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            restart: Restart::OnFailure,
            restarts_max: 10,
            window: Duration::from_secs(60),
            wait_first: Duration::from_millis(10),
            wait_most: Duration::from_secs(5),
            grace: Duration::from_secs(5),
            lost_after: None,
        }
    }
}

impl Policy {
    /// How long a restart waits after so many failures in a row. Random between half of the time and all of it, so that
    /// workers that failed together do not restart together.
    fn wait(&self, failures: u32, jitter: &mut Jitter) -> Duration {
        let doubled = self
            .wait_first
            .saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
        let most = doubled.min(self.wait_most);
        most.mul_f64(0.5 + jitter.next() / 2.0)
    }
}

/// A worker's recent ends.
#[derive(Default)]
pub(super) struct History {
    /// When it was restarted, within the window.
    recent: Vec<Instant>,
    /// Failures in a row.
    failures: u32,
}

impl History {
    /// What follows the end of a process that ran for so long.
    pub(super) fn follow(
        &mut self,
        policy: &Policy,
        is_failure: bool,
        ran: Duration,
        jitter: &mut Jitter,
    ) -> Then {
        let now = Instant::now();
        self.failures = match ran < policy.wait_most {
            true => self.failures.saturating_add(1),
            false => 1,
        };
        self.recent
            .retain(|when| now.duration_since(*when) < policy.window);
        let is_wanted = match policy.restart {
            Restart::Always => true,
            Restart::OnFailure => is_failure,
            Restart::Never => false,
        };
        if !is_wanted {
            return Then::Over;
        }
        if self.recent.len() as u32 >= policy.restarts_max {
            return Then::GivenUp;
        }
        self.recent.push(now);
        Then::Restart(policy.wait(self.failures, jitter))
    }
}

/// Practically for ever, and within the range of a clock.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// The time so long from now.
pub(super) fn after(wait: Duration) -> Instant {
    Instant::now() + wait.min(FOR_EVER)
}

/// Random numbers from 0 to 1, different in each process.
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new() -> Self {
        let mut hasher = std::hash::RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        Self(hasher.finish())
    }

    fn next(&mut self) -> f64 {
        // A step of SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_a_limit_and_differ() {
        let policy = Policy::default();
        let mut jitter = Jitter::new();
        for (failures, most) in [
            (1, 10),
            (2, 20),
            (5, 160),
            (30, 5_000),
            (40, 5_000),
            (u32::MAX, 5_000),
        ] {
            let most = Duration::from_millis(most);
            for _ in 0..100 {
                let wait = policy.wait(failures, &mut jitter);
                assert!(wait >= most / 2 && wait <= most, "{failures}: {wait:?}");
            }
        }
        assert_ne!(jitter.next(), jitter.next());
    }
}
