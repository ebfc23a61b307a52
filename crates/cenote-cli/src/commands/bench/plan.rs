//! What a benchmark's processes do, and what they report; both go through pipes as JSON.

use std::path::PathBuf;

use cenote::Guidelines;
use cenote::memory::Counts;
use cenote_ycsb::{Action, Spec, Workload};
use serde::{Deserialize, Serialize};

use crate::collection::CollectionKind;

/// Which of the paper's guidelines are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// All of them: out of place, replicated, speculative
    P3,
    /// Out of place only
    Sp,
    /// None: small values are overwritten in place
    InPlace,
}

impl Form {
    /// As the library takes them.
    pub fn guidelines(self) -> Guidelines {
        match self {
            Self::P3 => Guidelines::P3,
            Self::Sp => Guidelines::SP,
            Self::InPlace => Guidelines::IN_PLACE,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::P3 => "P3",
            Self::Sp => "SP",
            Self::InPlace => "in place",
        }
    }
}

/// Bytes of values, from and to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueSize {
    /// The fewest.
    pub least: usize,
    /// The most.
    pub most: usize,
}

impl std::str::FromStr for ValueSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = |text: &str| match cenote::parse_size(text) {
            Ok(size) if size <= 1 << 30 => Ok(size as usize),
            Ok(_) => Err("values here have at most 1GiB".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let (least, most) = match text.split_once('-') {
            Some((least, most)) => (size(least)?, size(most)?),
            None => (size(text)?, size(text)?),
        };
        if least > most {
            return Err("the first size is the smaller one, as in 100-1KiB".to_owned());
        }
        Ok(Self { least, most })
    }
}

impl std::fmt::Display for ValueSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.least == self.most {
            write!(f, "{}", self.most)
        } else {
            write!(f, "{} to {}", self.least, self.most)
        }
    }
}

/// What one process does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The pool.
    pub pool: PathBuf,
    /// The map's kind.
    pub map: CollectionKind,
    /// The map's name.
    pub name: String,
    /// The workload's name.
    pub workload: String,
    /// Records that are loaded.
    pub records: u64,
    /// Operations of all workers together.
    pub operations: u64,
    /// Bytes of values.
    pub value_size: ValueSize,
    /// Keys that one call looks up.
    pub batch: usize,
    /// Guidelines.
    pub form: Form,
    /// Whether operations on memory are counted.
    pub count: bool,
    /// Seed.
    pub seed: u64,
    /// Threads of this process, each a worker.
    pub threads: u64,
    /// The number of its first worker.
    pub first_worker: u64,
    /// Workers of all processes.
    pub workers: u64,
}

impl Plan {
    /// The workload of one of its threads.
    pub fn spec(&self, thread: u64) -> Result<Spec, String> {
        let workload: Workload = self.workload.parse()?;
        let worker = self.first_worker + thread;
        let mut spec = Spec {
            seed: self.seed,
            ..Spec::new(workload, self.records)
        };
        if workload != Workload::Load {
            spec.operations = self.operations.saturating_sub(worker).div_ceil(self.workers);
        }
        Ok(spec.for_worker(worker, self.workers))
    }
}

/// Actions in the order in which they are reported.
pub const ACTIONS: [(Action, &str); 5] = [
    (Action::Read, "read"),
    (Action::Update, "update"),
    (Action::Insert, "insert"),
    (Action::Scan, "scan"),
    (Action::Modify, "modify"),
];

/// The place of an action in [`ACTIONS`].
pub fn place(action: Action) -> usize {
    match action {
        Action::Read => 0,
        Action::Update => 1,
        Action::Insert => 2,
        Action::Scan => 3,
        Action::Modify => 4,
    }
}

/// Operations on memory, in the order of [`COUNTS`].
pub type CountsArray = [u64; 7];

/// Names of the counts.
pub const COUNTS: [&str; 7] = [
    "sync_loads",
    "sync_stores",
    "exchanges",
    "line_fetches",
    "protected_lines",
    "flushed_lines",
    "fences",
];

/// Counts as an array, which can be added up and sent.
pub fn counts_array(counts: &Counts) -> CountsArray {
    [
        counts.sync_loads,
        counts.sync_stores,
        counts.exchanges,
        counts.line_fetches,
        counts.protected_lines,
        counts.flushed_lines,
        counts.fences,
    ]
}

/// What workers have measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Operations of each action.
    pub operations: [u64; 5],
    /// Sampled latencies of each action: nanoseconds, and how many there are.
    pub latencies: [Vec<(u64, u64)>; 5],
    /// Seconds of the slowest worker.
    pub seconds: f64,
    /// Reads that found nothing.
    pub misses: u64,
    /// Replacements that had to be tried again because another worker was faster.
    pub retries: u64,
    /// Pairs that scans have read.
    pub scanned: u64,
    /// Operations on memory.
    pub counts: CountsArray,
}

impl Measured {
    /// Adds what other workers measured at the same time.
    pub fn add(&mut self, other: Self) {
        for (mine, theirs) in self.operations.iter_mut().zip(other.operations) {
            *mine += theirs;
        }
        for (mine, theirs) in self.latencies.iter_mut().zip(other.latencies) {
            mine.extend(theirs);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
        self.seconds = self.seconds.max(other.seconds);
        self.misses += other.misses;
        self.retries += other.retries;
        self.scanned += other.scanned;
    }
}
