//! How long operations took, and whether the worker moves at all. This is kept in the journal's first page, so that it
//! outlives the worker and the supervisor can watch it.

use std::io;
use std::time::{Duration, Instant};

use super::content::Family;
use crate::trial::histogram::{self, BUCKETS, bucket_of};
use crate::trial::waits::{Steal, Waits};

type Journal = crate::trial::journal::Journal<Family>;

/// Words before the buckets.
const HEAD: usize = 8;
const FLUSH_EVERY: Duration = Duration::from_millis(50);
/// An operation as long as this is recorded in detail.
const SLOW: Duration = Duration::from_micros(500);

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
        histogram::quantile(&self.words[HEAD..], share)
    }
}

/// Measures a worker.
pub struct Meter {
    measures: Measures,
    waits: Waits,
    steal: Steal,
    flushed: Instant,
    is_dirty: bool,
}

impl Meter {
    /// Goes on from what the journal says.
    pub fn new(journal: &Journal) -> io::Result<Self> {
        Ok(Self {
            measures: Measures::read(journal)?,
            waits: Waits::new(),
            steal: Steal::new(),
            flushed: Instant::now(),
            is_dirty: true,
        })
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

    /// Records an operation. One that is `excused` (the supervisor had stopped this worker) is not.
    pub fn record(&mut self, kind: Kind, took: Duration, excused: impl FnOnce() -> bool) {
        let nanoseconds = took.as_nanos() as u64;
        let mut running = nanoseconds;
        if took >= SLOW {
            if excused() {
                self.waits.since_last_poll();
                return;
            }
            running -= self.waits.since_last_poll().min(nanoseconds);
        }
        let words = &mut self.measures.words;
        words[HEAD + bucket_of(nanoseconds)] += 1;
        if nanoseconds > words[3] {
            words[3..6].copy_from_slice(&[nanoseconds, kind as u64, nanoseconds - running]);
            words[7] = self.steal.since_last_poll();
            self.is_dirty = true;
        }
        words[6] = words[6].max(running);
    }

    /// Now and then: shows that the worker lives, and keeps what was measured.
    pub fn tick(&mut self, journal: &Journal) -> io::Result<()> {
        self.waits.since_last_poll();
        self.steal.poll_now_and_then();
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
