//! Times that an operation waited for a processor, or for the host of a virtual machine.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The kernel counts stolen time in steps as long as this.
const STEAL_STEP: Duration = Duration::from_millis(10);

/// What the first thread of a process has spent its life with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// How long it ran.
    pub ran: Duration,
    /// How long it waited for a processor. The kernel adds a wait when it is over.
    pub waited: Duration,
    /// Whether it runs, or waits for a processor now.
    pub is_runnable: bool,
}

impl Life {
    /// Zeros if nothing can be told about the process.
    pub fn of_process(pid: u32) -> Self {
        let about = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let spent = about("schedstat");
        Self {
            ran: Duration::from_nanos(number(&spent, 0).unwrap_or(0)),
            waited: Duration::from_nanos(number(&spent, 1).unwrap_or(0)),
            is_runnable: is_runnable(&about("stat")),
        }
    }

    /// How long it could have moved since an `earlier` look, which was `elapsed` ago: what it slept and ran, or what it
    /// ran alone while it may wait for a processor.
    pub fn could_move(self, earlier: Self, elapsed: Duration) -> Duration {
        if self.is_runnable {
            return self.ran.saturating_sub(earlier.ran);
        }
        elapsed.saturating_sub(self.waited.saturating_sub(earlier.waited))
    }
}

/// The state of a process follows its name, which is in parentheses and may have some itself.
fn is_runnable(stat: &str) -> bool {
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('R'))
}

/// A number of a `schedstat`: nanoseconds run, nanoseconds waited for a processor, slices.
fn number(text: &str, n: usize) -> Option<u64> {
    text.split_ascii_whitespace().nth(n)?.parse().ok()
}

/// How long this thread has waited for a processor.
pub struct Waits {
    schedstat: Option<File>,
    seen: u64,
}

impl Waits {
    /// From now on, of the thread that calls this.
    pub fn new() -> Self {
        let mut waits = Self {
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
            seen: 0,
        };
        waits.since_last_poll();
        waits
    }

    /// Nanoseconds that it has waited since it was last asked.
    pub fn since_last_poll(&mut self) -> u64 {
        let mut text = [0; 64];
        let read = self
            .schedstat
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok())
            .unwrap_or(0);
        let waited = std::str::from_utf8(&text[..read])
            .ok()
            .and_then(|text| number(text, 1));
        let since = waited.unwrap_or(self.seen).saturating_sub(self.seen);
        self.seen += since;
        since
    }
}

/// What the host of a virtual machine takes from it, as the kernel counts it over all processors.
pub struct Steal {
    stat: Option<File>,
    seen: u64,
    looked: Instant,
}

impl Steal {
    /// From now on.
    pub fn new() -> Self {
        let mut steal = Self {
            stat: File::open("/proc/stat").ok(),
            seen: 0,
            looked: Instant::now(),
        };
        steal.since_last_poll();
        steal
    }

    /// Reads the kernel's count, if it can have changed.
    pub fn poll_now_and_then(&mut self) {
        if self.looked.elapsed() >= STEAL_STEP {
            self.since_last_poll();
        }
    }

    /// Nanoseconds stolen since it was last asked.
    pub fn since_last_poll(&mut self) -> u64 {
        self.looked = Instant::now();
        let mut text = [0; 256];
        let read = self
            .stat
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok())
            .unwrap_or(0);
        // "cpu", then user, nice, system, idle, iowait, irq, softirq, steal
        let steps = std::str::from_utf8(&text[..read])
            .ok()
            .and_then(|text| text.split_ascii_whitespace().nth(8)?.parse().ok());
        let since = steps.unwrap_or(self.seen).saturating_sub(self.seen);
        self.seen += since;
        since * STEAL_STEP.as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn life(ran: u32, waited: u32, is_runnable: bool) -> Life {
        Life {
            ran: ran * SECOND,
            waited: waited * SECOND,
            is_runnable,
        }
    }

    #[test]
    fn a_wait_for_a_processor_that_is_not_over_is_no_time_to_move_in() {
        let earlier = life(5, 2, true);
        let could_move = |now: Life| now.could_move(earlier, 96 * SECOND);
        assert_eq!(could_move(life(5, 2, true)), Duration::ZERO, "starved");
        assert_eq!(could_move(life(101, 2, true)), 96 * SECOND, "runs in a circle");
        assert_eq!(could_move(life(5, 2, false)), 96 * SECOND, "sleeps");
        assert_eq!(could_move(life(6, 50, false)), 48 * SECOND, "was starved, sleeps");
    }

    #[test]
    fn the_state_of_a_process_is_behind_its_name() {
        assert!(is_runnable("7 (a) S (b) R 1 7"));
        assert!(!is_runnable("7 (a) R (b) S 1 7"));
        assert!(!is_runnable(""));
    }
}
