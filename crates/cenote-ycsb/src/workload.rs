//! The mixes A to F and Load, the choosers of records, and the stream of operations they make.
//!
//! Several workers share a workload without talking: a [`Spec`] names its worker and the number of workers. Worker
//! w of n loads the records w, w + n, w + 2n…, and what it inserts later are the records `records + w`,
//! `records + w + n`… A stream asks only for records that exist by then whatever the other workers do: those
//! loaded, and those that it inserted itself.
//!
//! Deviations from YCSB: Latest prefers what this worker inserted last (YCSB's threads share a counter), and
//! inserted records enter a zipfian choice as its least popular ones (YCSB draws over a guess of the final number
//! and redraws what is not there yet).

use super::skewed::Skewed;
use super::zipf::{Scatter, THETA, Zipfian};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::str::FromStr;

/// YCSB's core workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Inserts every record once.
    Load,
    /// Update heavy: half reads, half updates, zipfian.
    A,
    /// Read mostly: 95 % reads, 5 % updates, zipfian.
    B,
    /// Read only, zipfian.
    C,
    /// Read latest: 95 % reads of recent records, 5 % inserts.
    D,
    /// Short ranges: 95 % scans of 1 to 100 records, 5 % inserts, zipfian.
    E,
    /// Read, modify, write: half reads, half read-modify-writes, zipfian.
    F,
}

impl Workload {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 7] = [Self::Load, Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// The name, as it is parsed and printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
        }
    }

    /// What it does, in per cent.
    pub const fn mix(self) -> Mix {
        let none = Mix {
            read: 0,
            update: 0,
            insert: 0,
            scan: 0,
            modify: 0,
        };
        match self {
            Self::Load => Mix { insert: 100, ..none },
            Self::A => Mix {
                read: 50,
                update: 50,
                ..none
            },
            Self::B => Mix {
                read: 95,
                update: 5,
                ..none
            },
            Self::C => Mix { read: 100, ..none },
            Self::D => Mix {
                read: 95,
                insert: 5,
                ..none
            },
            Self::E => Mix {
                scan: 95,
                insert: 5,
                ..none
            },
            Self::F => Mix {
                read: 50,
                modify: 50,
                ..none
            },
        }
    }

    /// How YCSB chooses its records by default.
    pub const fn chooser(self) -> Chooser {
        match self {
            Self::Load => Chooser::Uniform,
            Self::D => Chooser::Latest,
            _ => Chooser::Zipfian,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|workload| workload.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("unknown workload \"{text}\": known are load, a, b, c, d, e and f"))
    }
}

/// The share of each action in per cent; they add up to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// Reads of one record.
    pub read: u8,
    /// Blind writes of an existing record.
    pub update: u8,
    /// Writes of a new record.
    pub insert: u8,
    /// Reads of several records in key order.
    pub scan: u8,
    /// Reads of a record followed by a write of the same.
    pub modify: u8,
}

impl Mix {
    const fn total(self) -> u32 {
        self.read as u32 + self.update as u32 + self.insert as u32 + self.scan as u32 + self.modify as u32
    }

    /// The action for a number below 100.
    const fn action(self, percent: u8) -> Action {
        let mut bound = self.read;
        if percent < bound {
            return Action::Read;
        }
        bound += self.update;
        if percent < bound {
            return Action::Update;
        }
        bound += self.insert;
        if percent < bound {
            return Action::Insert;
        }
        bound += self.scan;
        if percent < bound {
            return Action::Scan;
        }
        Action::Modify
    }
}

/// How records are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Chooser {
    /// Each with the same probability.
    Uniform,
    /// A few of them most of the time, scattered over the records.
    Zipfian,
    /// Zipfian, with the newest as the most popular.
    Latest,
}

/// What one operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Reads a record.
    Read,
    /// Writes an existing record.
    Update,
    /// Writes a new record.
    Insert,
    /// Reads up to [`Operation::length`] records in key order, starting at a record.
    Scan,
    /// Reads a record and writes it.
    Modify,
}

/// One step of a workload; 16 bytes, so that millions can be made beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What to do.
    pub action: Action,
    /// How many records a scan reads; 1 for every other action.
    pub length: u32,
    /// To which record; [`key_of_record`](super::key_of_record) gives its key.
    pub record: u64,
}

/// A workload with its sizes and its seed.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What is done, in per cent.
    pub mix: Mix,
    /// How records are chosen.
    pub chooser: Chooser,
    /// The number of records loaded by all workers together before the workload runs; while loading, 0.
    pub records: u64,
    /// The number of operations of this worker.
    pub operations: u64,
    /// The skew of [`Chooser::Zipfian`] and [`Chooser::Latest`], 0 to 100. Outside of 0 to 1, ends excluded, what is
    /// inserted is never chosen.
    pub theta: f64,
    /// Ranks that are drawn, where that is more than there are records, up to 2^52; what is drawn is taken modulo the
    /// records. So few records are as skewed as many: of 100,000 records the most popular has 7.9 % of all operations,
    /// and 4.8 % if 10^8 ranks are drawn.
    pub ranks: u64,
    /// The longest scan; lengths are uniform from 1.
    pub scan_max: u32,
    /// Everything is drawn from it; workers with the same seed draw differently.
    pub seed: u64,
    /// Which worker this is, from 0.
    pub worker: u64,
    /// How many workers there are.
    pub workers: u64,
}

impl Spec {
    /// YCSB's defaults for one worker: theta 0.99, scans up to 100, seed 1, as many operations as records.
    pub fn new(workload: Workload, records: u64) -> Self {
        Self {
            mix: workload.mix(),
            chooser: workload.chooser(),
            records: if workload == Workload::Load { 0 } else { records },
            operations: records,
            theta: THETA,
            ranks: 0,
            scan_max: 100,
            seed: 1,
            worker: 0,
            workers: 1,
        }
    }

    /// The same for worker `worker` of `workers`. The share of a load is cut to what this worker has to insert;
    /// other workloads keep their number of operations for each worker.
    pub fn for_worker(mut self, worker: u64, workers: u64) -> Self {
        if self.records == 0 {
            self.operations = self.operations.saturating_sub(worker).div_ceil(workers);
        }
        self.worker = worker;
        self.workers = workers;
        self
    }

    /// The operations of this worker, the same for the same `Spec`.
    ///
    /// # Panics
    /// If the mix does not add up to 100, if it asks for records where there are none, if theta does not lie
    /// from 0 to 100, if `ranks` is above 2^52, if `scan_max` is 0 or if `worker` is not below `workers`.
    pub fn stream(&self) -> Stream {
        assert!(self.mix.total() == 100, "the mix adds up to {}", self.mix.total());
        assert!(
            self.worker < self.workers,
            "worker {} of {}",
            self.worker,
            self.workers
        );
        assert!(self.scan_max > 0, "a scan reads at least one record");
        let inserts_only = self.mix.insert == 100;
        assert!(inserts_only || self.records > 0, "no records to choose from");
        // YCSB's method has exponents between 0 and 1 alone.
        let is_folded = self.ranks > self.records || self.theta <= 0.0 || self.theta >= 1.0;
        let ranks = self.ranks.max(self.records);
        let source = match self.chooser {
            _ if inserts_only => Source::Uniform,
            Chooser::Uniform => Source::Uniform,
            Chooser::Zipfian if is_folded => {
                Source::Folded(Skewed::new(ranks, self.theta), Scatter::new(self.records))
            }
            Chooser::Latest if is_folded => Source::FoldedLatest(Skewed::new(ranks, self.theta)),
            Chooser::Zipfian => {
                Source::Zipfian(Zipfian::new(self.records, self.theta), Scatter::new(self.records))
            }
            Chooser::Latest => Source::Latest(Zipfian::new(self.records, self.theta)),
        };
        // Workers must not repeat each other's numbers: each has its own of the generator's 2^64 streams.
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(self.worker);
        Stream {
            spec: self.clone(),
            source,
            rng,
            done: 0,
            known: self.records,
        }
    }
}

/// The choice of a record among those known.
#[derive(Debug, Clone)]
enum Source {
    Uniform,
    Zipfian(Zipfian, Scatter),
    Latest(Zipfian),
    /// Of more ranks than records. What is inserted is never chosen.
    Folded(Skewed, Scatter),
    FoldedLatest(Skewed),
}

/// The operations of one worker, in order; made by [`Spec::stream`].
///
/// Invariant: `spec.records <= known`, and every record returned by an action other than an insert is one of the
/// first `known` in this worker's order: first those loaded, then its own inserts.
#[derive(Debug, Clone)]
pub struct Stream {
    spec: Spec,
    source: Source,
    rng: ChaCha8Rng,
    done: u64,
    known: u64,
}

impl Stream {
    /// The record at a place in this worker's order.
    fn record_at(&self, place: u64) -> u64 {
        match place.checked_sub(self.spec.records) {
            None => place,
            Some(inserted) => self.spec.records + self.spec.worker + inserted * self.spec.workers,
        }
    }

    fn insert(&mut self) -> u64 {
        let record = self.record_at(self.known);
        self.known += 1;
        match &mut self.source {
            Source::Uniform | Source::Folded(..) | Source::FoldedLatest(_) => {}
            Source::Zipfian(zipfian, _) | Source::Latest(zipfian) => zipfian.grow(self.known),
        }
        record
    }

    fn choose(&mut self) -> u64 {
        let place = match &self.source {
            Source::Uniform => self.rng.random_range(0..self.known),
            Source::Zipfian(zipfian, scatter) => match zipfian.sample(&mut self.rng) {
                rank if rank < self.spec.records => scatter.apply(rank),
                rank => rank,
            },
            Source::Latest(zipfian) => self.known - 1 - zipfian.sample(&mut self.rng),
            Source::Folded(skewed, scatter) => {
                scatter.apply(skewed.sample(&mut self.rng) % self.spec.records)
            }
            Source::FoldedLatest(skewed) => self.known - 1 - skewed.sample(&mut self.rng) % self.known,
        };
        self.record_at(place)
    }
}

impl Iterator for Stream {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        if self.done == self.spec.operations {
            return None;
        }
        self.done += 1;
        let action = self.spec.mix.action(self.rng.random_range(0..100));
        let record = if action == Action::Insert {
            self.insert()
        } else {
            self.choose()
        };
        let length = if action == Action::Scan {
            self.rng.random_range(1..=self.spec.scan_max)
        } else {
            1
        };
        Some(Operation {
            action,
            length,
            record,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.spec.operations - self.done) {
            Ok(left) => (left, Some(left)),
            Err(_) => (usize::MAX, None),
        }
    }
}

#[cfg(test)]
#[path = "workload_tests.rs"]
mod tests;
