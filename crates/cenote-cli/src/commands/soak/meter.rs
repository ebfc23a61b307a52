//! How long a worker's operations took: a histogram for each kind, and the longest ones, in a file that outlives it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::plan::Phase;
use crate::trial::histogram::{self, BUCKETS, bucket_of};
use crate::trial::waits::{Steal, Waits};

/// The kinds of operations that are measured. Puts of more than [`LARGE`] bytes are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Get,
    Put,
    PutLarge,
    Remove,
    First,
    Last,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Get,
        Self::Put,
        Self::PutLarge,
        Self::Remove,
        Self::First,
        Self::Last,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        ["get", "put", "put_large", "remove", "first", "last"][self as usize]
    }

    /// That of a put of so many bytes.
    pub fn of_put(len: usize) -> Self {
        if len > LARGE { Self::PutLarge } else { Self::Put }
    }
}

/// Above this, copying the value is what a put costs.
pub const LARGE: usize = 4096;
/// Counters before the histograms.
const HEAD: usize = 8;
const SPIKES_AT: usize = HEAD + Kind::ALL.len() * BUCKETS;
/// The longest operations that are kept.
const SPIKES: usize = 8;
const SPIKE_WORDS: usize = 6;
const WORDS: usize = SPIKES_AT + SPIKES * SPIKE_WORDS;
const FLUSH_EVERY: Duration = Duration::from_millis(50);
/// An operation as long as this is recorded in detail.
const SLOW: Duration = Duration::from_micros(500);

/// What is counted.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Counter {
    /// Writes that were acknowledged.
    Writes,
    /// Reads that were checked.
    Reads,
    /// Operations that were in flight when a worker died.
    InFlight,
    /// Refusals.
    Refused,
    /// Those of them for which there was no reason.
    FalselyRefused,
    /// Guards that were held, and their bytes compared at their end.
    Guards,
}

/// A long operation.
#[derive(Clone, Debug, Serialize)]
pub struct Spike {
    /// What it was.
    pub operation: &'static str,
    /// Bytes of its value.
    pub bytes: u64,
    /// What the worker was at.
    pub phase: &'static str,
    /// How long it took.
    pub milliseconds: f64,
    /// How much of that the worker waited for a processor.
    pub waited_for_cpu_ms: f64,
    /// What the host of a virtual machine took from all its processors about that time.
    pub stolen_by_host_ms: f64,
}

impl Spike {
    /// Its milliseconds, without those in which the worker waited for a processor.
    pub fn own(&self) -> f64 {
        self.milliseconds - self.waited_for_cpu_ms
    }
}

/// What was measured of one worker or of several.
#[derive(Clone)]
pub struct Measures {
    words: Vec<u64>,
}

impl Measures {
    /// Nothing measured.
    pub fn new() -> Self {
        Self {
            words: vec![0; WORDS],
        }
    }

    fn path(folder: &Path, worker: u32) -> std::path::PathBuf {
        folder.join(format!("measures-{worker}"))
    }

    /// Makes a worker's file.
    pub fn create(folder: &Path, worker: u32) -> io::Result<()> {
        File::create_new(Self::path(folder, worker))?.set_len(WORDS as u64 * 8)
    }

    fn open(folder: &Path, worker: u32) -> io::Result<(File, Self)> {
        let path = Self::path(folder, worker);
        let file = File::options().read(true).write(true).open(path)?;
        let mut bytes = vec![0; WORDS * 8];
        file.read_exact_at(&mut bytes, 0)?;
        let words = bytes.as_chunks::<8>().0.iter();
        let words = words.map(|bytes| u64::from_le_bytes(*bytes)).collect();
        Ok((file, Self { words }))
    }

    /// Those of a worker.
    pub fn read(folder: &Path, worker: u32) -> io::Result<Self> {
        Ok(Self::open(folder, worker)?.1)
    }

    /// Adds another worker's counters and histograms.
    pub fn add(&mut self, other: &Self) {
        let both = self.words.iter_mut().zip(&other.words).take(SPIKES_AT);
        both.for_each(|(sum, more)| *sum += more);
    }

    /// What was measured since.
    pub fn since(&self, earlier: &Self) -> Self {
        let both = self.words.iter().zip(&earlier.words);
        Self {
            words: both.map(|(now, then)| now.saturating_sub(*then)).collect(),
        }
    }

    /// A counter.
    pub fn count(&self, counter: Counter) -> u64 {
        self.words[counter as usize]
    }

    fn histogram(&self, kind: Kind) -> &[u64] {
        &self.words[HEAD + kind as usize * BUCKETS..][..BUCKETS]
    }

    /// How often something was done.
    pub fn operations(&self, kind: Kind) -> u64 {
        self.histogram(kind).iter().sum()
    }

    /// Within how many microseconds a share of the operations was done, when the time waited for a processor is not
    /// counted.
    pub fn quantile(&self, kind: Kind, share: f64) -> f64 {
        histogram::quantile(self.histogram(kind), share) as f64 / 1e3
    }

    /// The longest operations of one worker.
    pub fn spikes(&self) -> Vec<Spike> {
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let spikes = self.words[SPIKES_AT..].chunks_exact(SPIKE_WORDS);
        let spikes = spikes.filter(|words| words[0] > 0).map(|words| Spike {
            operation: Kind::ALL
                .get(words[1] as usize)
                .map_or("none", |kind| kind.name()),
            bytes: words[2],
            phase: Phase::ALL
                .get(words[3] as usize)
                .map_or("none", |phase| phase.name()),
            milliseconds: milliseconds(words[0]),
            waited_for_cpu_ms: milliseconds(words[4]),
            stolen_by_host_ms: milliseconds(words[5]),
        });
        spikes.collect()
    }
}

/// Measures a worker.
pub struct Meter {
    file: File,
    measures: Measures,
    waits: Waits,
    steal: Steal,
    flushed: Instant,
    /// What the worker is at.
    pub phase: Phase,
}

impl Meter {
    /// Goes on from what the file says.
    pub fn new(folder: &Path, worker: u32) -> io::Result<Self> {
        let (file, measures) = Measures::open(folder, worker)?;
        Ok(Self {
            file,
            measures,
            waits: Waits::new(),
            steal: Steal::new(),
            flushed: Instant::now(),
            phase: Phase::Queue,
        })
    }

    /// Counts.
    pub fn count(&mut self, counter: Counter, more: u64) {
        self.measures.words[counter as usize] += more;
    }

    /// Records an operation. One that is `excused` (the supervisor had stopped this worker) is not.
    pub fn record(&mut self, kind: Kind, bytes: usize, took: Duration, excused: impl FnOnce() -> bool) {
        let mut nanoseconds = took.as_nanos() as u64;
        if took >= SLOW {
            let waited = self.waits.since_last_poll().min(nanoseconds);
            if excused() {
                return;
            }
            nanoseconds -= waited;
            let stolen = self.steal.since_last_poll();
            let spike = [
                took.as_nanos() as u64,
                kind as u64,
                bytes as u64,
                self.phase as u64,
                waited,
                stolen,
            ];
            self.keep(spike);
        }
        self.measures.words[HEAD + kind as usize * BUCKETS + bucket_of(nanoseconds)] += 1;
    }

    /// Keeps a long operation in place of the shortest one that is kept.
    fn keep(&mut self, spike: [u64; SPIKE_WORDS]) {
        let own = |words: &[u64]| words[0] - words[4].min(words[0]);
        let kept = self.measures.words[SPIKES_AT..].chunks_exact_mut(SPIKE_WORDS);
        if let Some(least) = kept.min_by_key(|words| own(words))
            && own(least) < own(&spike)
        {
            least.copy_from_slice(&spike);
        }
    }

    /// Forgets the longest operations.
    pub fn forget_spikes(&mut self) {
        self.measures.words[SPIKES_AT..].fill(0);
    }

    /// Now and then: keeps what was measured.
    pub fn tick(&mut self) -> io::Result<()> {
        self.waits.since_last_poll();
        self.steal.poll_now_and_then();
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the measures.
    pub fn flush(&mut self) -> io::Result<()> {
        self.flushed = Instant::now();
        let bytes: Vec<u8> = self
            .measures
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        self.file.write_all_at(&bytes, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_outlives_the_meter() {
        let folder = tempfile::tempdir().unwrap();
        Measures::create(folder.path(), 3).unwrap();
        let mut meter = Meter::new(folder.path(), 3).unwrap();
        for n in 1..=20 {
            meter.record(Kind::PutLarge, n, Duration::from_millis(10 * n as u64), || false);
        }
        meter.record(Kind::First, 0, Duration::from_nanos(300), || false);
        meter.count(Counter::Writes, 20);
        meter.flush().unwrap();
        let measures = Measures::read(folder.path(), 3).unwrap();
        assert_eq!(measures.count(Counter::Writes), 20);
        assert_eq!(measures.operations(Kind::PutLarge), 20);
        assert_eq!(measures.quantile(Kind::First, 0.5), 0.319);
        let spikes = measures.spikes();
        assert_eq!(spikes.len(), SPIKES);
        assert!(
            spikes
                .iter()
                .all(|spike| spike.bytes > 12 && spike.operation == "put_large")
        );
        assert_eq!(measures.since(&measures).operations(Kind::PutLarge), 0);
    }
}
