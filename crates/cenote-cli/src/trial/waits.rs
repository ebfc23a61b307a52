//! Times that an operation waited for a processor, or for the host of a virtual machine.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The kernel counts stolen time in steps as long as this.
const STEAL_STEP: Duration = Duration::from_millis(10);

/// How long the first thread of a process has waited for a processor in its life; nothing if that cannot be told.
pub fn of_process(pid: u32) -> Duration {
    let waited = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))
        .ok()
        .and_then(|text| waited_by(&text));
    Duration::from_nanos(waited.unwrap_or(0))
}

/// The second number of a `schedstat`.
fn waited_by(text: &str) -> Option<u64> {
    text.split(' ').nth(1)?.parse().ok()
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
        let waited = std::str::from_utf8(&text[..read]).ok().and_then(waited_by);
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
