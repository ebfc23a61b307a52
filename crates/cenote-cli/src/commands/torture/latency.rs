//! How long operations took, and whether the worker moves at all: kept in the journal's first page, so that it
//! outlives the worker and the supervisor can watch it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::journal::Journal;

/// Eight buckets for each power of two of nanoseconds.
const BUCKETS: usize = 40 * 8;
/// Words before the buckets.
const HEAD: usize = 8;
const FLUSH_EVERY: Duration = Duration::from_millis(50);
/// An operation as long as this is looked at more closely.
const SLOW: Duration = Duration::from_micros(500);
/// The kernel counts stolen time in steps as long as this.
const STEAL_STEP: Duration = Duration::from_millis(10);

/// What was measured of a worker, over all its incarnations.
#[derive(Clone)]
pub struct Measures {
    words: Vec<u64>,
}

/// The kinds of operations that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Get,
    GetMany,
    Put,
    Insert,
    Replace,
    Remove,
    PutLarge,
    OpenMap,
}

impl Kind {
    const NAMES: [&str; 8] = [
        "get",
        "get_many",
        "put",
        "insert",
        "replace",
        "remove",
        "put of a large value",
        "map",
    ];
}

impl Measures {
    /// Nothing measured.
    pub fn new() -> Self {
        Self {
            words: vec![0; HEAD + BUCKETS],
        }
    }

    /// Those of a journal.
    pub fn read(journal: &Journal) -> io::Result<Self> {
        Ok(Self {
            words: journal.read_measures(HEAD + BUCKETS)?,
        })
    }

    /// Changes whenever the worker lives on.
    pub fn heartbeat(&self) -> u64 {
        self.words[0]
    }

    /// Reads that were checked.
    pub fn reads(&self) -> u64 {
        self.words[1]
    }

    /// Operations that were in flight when the worker died.
    pub fn in_flight(&self) -> u64 {
        self.words[2]
    }

    /// The longest operation, in nanoseconds.
    pub fn longest(&self) -> u64 {
        self.words[3]
    }

    /// What the longest operation was.
    pub fn longest_kind(&self) -> &'static str {
        Kind::NAMES.get(self.words[4] as usize).copied().unwrap_or("none")
    }

    /// How much of the longest operation the worker may have waited for a processor, in nanoseconds.
    pub fn longest_waited(&self) -> u64 {
        self.words[5]
    }

    /// How much the host of this virtual machine took from all processors about that time, in nanoseconds.
    pub fn longest_stolen(&self) -> u64 {
        self.words[7]
    }

    /// The longest operation, without the time in which it waited for a processor, in nanoseconds.
    pub fn longest_running(&self) -> u64 {
        self.words[6]
    }

    /// Adds another worker's.
    pub fn add(&mut self, other: &Self) {
        for n in [1, 2].into_iter().chain(HEAD..HEAD + BUCKETS) {
            self.words[n] += other.words[n];
        }
        if other.longest() > self.longest() {
            self.words[3..6].copy_from_slice(&other.words[3..6]);
            self.words[7] = other.words[7];
        }
        self.words[6] = self.words[6].max(other.words[6]);
    }

    /// The time within which a share of the operations was done, in nanoseconds.
    pub fn quantile(&self, share: f64) -> u64 {
        let all: u64 = self.words[HEAD..].iter().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut sum = 0;
        for (bucket, count) in self.words[HEAD..].iter().enumerate() {
            sum += count;
            if sum >= wanted && sum > 0 {
                return upper_bound(bucket);
            }
        }
        0
    }
}

fn bucket_of(nanoseconds: u64) -> usize {
    if nanoseconds < 8 {
        return nanoseconds as usize;
    }
    let power = nanoseconds.ilog2() as usize;
    ((power - 2) * 8 + (nanoseconds >> (power - 3)) as usize % 8).min(BUCKETS - 1)
}

fn upper_bound(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let power = bucket / 8 + 2;
    ((8 + bucket as u64 % 8 + 1) << (power - 3)) - 1
}

/// Measures a worker.
pub struct Meter {
    measures: Measures,
    schedstat: Option<File>,
    waited: u64,
    steal: Steal,
    flushed: Instant,
    is_dirty: bool,
}

impl Meter {
    /// Goes on from what the journal says.
    pub fn new(journal: &Journal) -> io::Result<Self> {
        let mut meter = Self {
            measures: Measures::read(journal)?,
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
            waited: 0,
            steal: Steal::new(),
            flushed: Instant::now(),
            is_dirty: true,
        };
        meter.sample_waiting();
        Ok(meter)
    }

    /// Counts checked reads.
    pub fn count_reads(&mut self, reads: u64) {
        self.measures.words[1] += reads;
    }

    /// Counts an operation that was in flight; written at once.
    pub fn count_in_flight(&mut self, journal: &Journal) -> io::Result<()> {
        self.measures.words[2] += 1;
        self.flush(journal)
    }

    /// Nanoseconds that this thread has waited for a processor since the last look.
    pub fn sample_waiting(&mut self) -> u64 {
        let mut text = [0; 64];
        let read = self
            .schedstat
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok())
            .unwrap_or(0);
        let waited = std::str::from_utf8(&text[..read])
            .ok()
            .and_then(|text| text.split(' ').nth(1)?.parse().ok());
        let since = waited.unwrap_or(self.waited).saturating_sub(self.waited);
        self.waited += since;
        since
    }

    /// Records an operation. One that is `excused` (the supervisor had stopped this worker) is not.
    pub fn record(&mut self, kind: Kind, took: Duration, excused: impl FnOnce() -> bool) {
        let nanoseconds = took.as_nanos() as u64;
        let mut running = nanoseconds;
        if took >= SLOW {
            if excused() {
                self.sample_waiting();
                return;
            }
            running -= self.sample_waiting().min(nanoseconds);
        }
        let words = &mut self.measures.words;
        words[HEAD + bucket_of(nanoseconds)] += 1;
        if nanoseconds > words[3] {
            words[3..6].copy_from_slice(&[nanoseconds, kind as u64, nanoseconds - running]);
            words[7] = self.steal.since_last_look();
            self.is_dirty = true;
        }
        words[6] = words[6].max(running);
    }

    /// Now and then: shows that the worker lives, and keeps what was measured.
    pub fn tick(&mut self, journal: &Journal) -> io::Result<()> {
        self.sample_waiting();
        self.steal.look_now_and_then();
        if self.is_dirty || self.flushed.elapsed() >= FLUSH_EVERY {
            self.flush(journal)?;
        }
        Ok(())
    }

    /// Writes the measures.
    pub fn flush(&mut self, journal: &Journal) -> io::Result<()> {
        self.measures.words[0] += 1;
        self.flushed = Instant::now();
        self.is_dirty = false;
        journal.write_measures(&self.measures.words)
    }
}

/// What the host of a virtual machine takes from it, as the kernel counts it over all processors.
struct Steal {
    stat: Option<File>,
    seen: u64,
    looked: Instant,
}

impl Steal {
    fn new() -> Self {
        let mut steal = Self {
            stat: File::open("/proc/stat").ok(),
            seen: 0,
            looked: Instant::now(),
        };
        steal.since_last_look();
        steal
    }

    fn look_now_and_then(&mut self) {
        if self.looked.elapsed() >= STEAL_STEP {
            self.since_last_look();
        }
    }

    /// Nanoseconds stolen since it was last asked.
    fn since_last_look(&mut self) -> u64 {
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

    #[test]
    fn buckets_hold_what_they_say() {
        for nanoseconds in (0..10_000).chain([1 << 20, (1 << 20) - 1, 123_456_789]) {
            let bucket = bucket_of(nanoseconds);
            assert!(nanoseconds <= upper_bound(bucket), "{nanoseconds} in {bucket}");
            assert!(
                bucket == 0 || nanoseconds > upper_bound(bucket - 1),
                "{nanoseconds} in {bucket}"
            );
        }
    }

    #[test]
    fn quantiles_are_found() {
        let mut measures = Measures::new();
        measures.words[HEAD + bucket_of(100)] = 999;
        measures.words[HEAD + bucket_of(1_000_000)] = 1;
        assert_eq!(measures.quantile(0.5), upper_bound(bucket_of(100)));
        assert_eq!(measures.quantile(1.0), upper_bound(bucket_of(1_000_000)));
    }
}
