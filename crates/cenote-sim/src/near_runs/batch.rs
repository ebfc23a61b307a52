//! Batches, drawn one after the other.

use std::ops::Bound;
use std::sync::Arc;

use cenote_near::map::Operation;
use cenote_ycsb::{Action, Scatter, Skewed, Spec, Stream, key_of_record};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::text::{Text, last_passage};
use super::{Plan, TextWork, Work};

/// Keys that a scan finds: the paper expects 32 to 1,024, of which this is the geometric middle.
const SCAN_KEYS: u64 = 181;
/// Scans are so many times fewer than other operations.
const SCANS_FEWER: usize = 16;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A key's value.
    Get,
    /// The greatest key at or below one.
    Predecessor,
    /// A new key near a drawn one.
    Insert,
    /// A key goes.
    Delete,
    /// A key's value is replaced.
    Update,
    /// The pairs from a key on.
    Scan,
}

impl Kind {
    /// All kinds, in the order of the paper's figures.
    pub const ALL: [Self; 6] = [
        Self::Get,
        Self::Predecessor,
        Self::Insert,
        Self::Delete,
        Self::Update,
        Self::Scan,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Predecessor => "predecessor",
            Self::Insert => "insert",
            Self::Delete => "delete",
            Self::Update => "update",
            Self::Scan => "scan",
        }
    }

    /// Whether keys come or go by it.
    pub fn changes_keys(self) -> bool {
        matches!(self, Self::Insert | Self::Delete)
    }
}

/// Where batches come from.
pub struct Batches {
    size: usize,
    keys: u64,
    source: Source,
}

enum Source {
    Each {
        kind: Kind,
        skewed: Skewed,
        scatter: Scatter,
        random: Xoshiro256PlusPlus,
        /// The value of each record, for updates: each takes effect.
        values: Vec<u64>,
    },
    Ycsb {
        stream: Box<Stream>,
        /// The value of each record.
        values: Vec<u64>,
    },
    Text {
        work: TextWork,
        text: Arc<Text>,
        /// The next word to be inserted.
        next: usize,
        random: Xoshiro256PlusPlus,
    },
}

impl Batches {
    /// Those of a plan.
    pub fn new(plan: &Plan) -> Self {
        let source = match &plan.work {
            Work::Each(kind) => Source::Each {
                kind: *kind,
                skewed: Skewed::new(plan.keys, plan.alpha),
                scatter: Scatter::new(plan.keys),
                random: Xoshiro256PlusPlus::seed_from_u64(plan.seed),
                values: match kind {
                    Kind::Update => (0..plan.keys).collect(),
                    _ => Vec::new(),
                },
            },
            Work::Ycsb(workload) => {
                let mut spec = Spec::new(*workload, plan.keys);
                (spec.theta, spec.seed) = (plan.alpha, plan.seed);
                spec.operations = u64::MAX;
                Source::Ycsb {
                    stream: Box::new(spec.stream()),
                    values: (0..plan.keys).collect(),
                }
            }
            Work::Text(work, text) => Source::Text {
                work: *work,
                text: text.clone(),
                next: plan.keys as usize,
                random: Xoshiro256PlusPlus::seed_from_u64(plan.seed),
            },
        };
        let has_scans = match &plan.work {
            Work::Each(kind) => *kind == Kind::Scan,
            Work::Ycsb(workload) => workload.mix().scan > 0,
            Work::Text(..) => false,
        };
        Self {
            size: if has_scans {
                plan.batch / SCANS_FEWER
            } else {
                plan.batch
            },
            keys: plan.keys,
            source,
        }
    }

    /// The next batch.
    pub fn draw(&mut self) -> Vec<Operation> {
        let apart = u64::MAX / self.keys.max(1);
        match &mut self.source {
            Source::Text {
                work: TextWork::Last,
                text,
                random,
                ..
            } => (0..self.size)
                .map(|_| Operation::Predecessor(last_passage(text.key(random.next_u64() as usize))))
                .collect(),
            Source::Text {
                work: TextWork::Insert,
                text,
                next,
                ..
            } => {
                let from = *next;
                *next += self.size;
                (from..*next)
                    .map(|word| Operation::Insert(text.key(word), word as u64))
                    .collect()
            }
            Source::Each {
                kind,
                skewed,
                scatter,
                random,
                values,
            } => (0..self.size)
                .map(|_| {
                    let record = scatter.apply(skewed.sample(random));
                    let key = key_of_record(record);
                    match kind {
                        Kind::Get => Operation::Get(key),
                        Kind::Predecessor => Operation::Predecessor(key),
                        // As near as the loaded keys are to each other.
                        Kind::Insert => {
                            Operation::Insert(key.wrapping_add(1 + random.next_u64() % apart), record)
                        }
                        Kind::Delete => Operation::Delete(key),
                        Kind::Update => next_value(values, record, key),
                        Kind::Scan => scan(key, apart.saturating_mul(SCAN_KEYS)),
                    }
                })
                .collect(),
            Source::Ycsb { stream, values } => stream
                .take(self.size)
                .map(|drawn| {
                    let (record, key) = (drawn.record, key_of_record(drawn.record));
                    match drawn.action {
                        Action::Read => Operation::Get(key),
                        Action::Insert => {
                            // Records are inserted in their order.
                            values.resize(values.len().max(record as usize + 1), record);
                            Operation::Insert(key, record)
                        }
                        Action::Scan => scan(key, apart.saturating_mul(drawn.length.into())),
                        Action::Update | Action::Modify => next_value(values, record, key),
                    }
                })
                .collect(),
        }
    }
}

/// Updates a record to its next value.
fn next_value(values: &mut [u64], record: u64, key: u64) -> Operation {
    let mut expected = record;
    if let Some(value) = values.get_mut(record as usize) {
        expected = *value;
        *value += 1;
    }
    Operation::CompareSwap {
        key,
        expected,
        value: expected + 1,
    }
}

fn scan(from: u64, wide: u64) -> Operation {
    Operation::Scan(Bound::Included(from), Bound::Included(from.saturating_add(wide)))
}
