//! What the examples that measure have in common: keys, batches, a loaded map.

use cenote_near::device::Skiplist;
use cenote_near::map::{Config, Map, MapError, Operation};
use cenote_near::modules::Threads;
use cenote_ycsb::{Scatter, Skewed, key_of_record};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const KEYS: u64 = 1 << 20;
pub const BATCH: usize = 1 << 17;
pub const MODULES: usize = 256;

#[derive(Clone, Copy, Debug)]
pub enum Work {
    Gets,
    Updates,
    GetsAndUpdates,
    DeletesAndInserts,
}

/// Draws operations on keys, whose values it knows as far as updates need it.
pub struct Draw {
    work: Work,
    skewed: Skewed,
    scatter: Scatter,
    values: Vec<u64>,
    random: ChaCha8Rng,
}

impl Draw {
    pub fn new(work: Work, alpha: f64) -> Self {
        Self {
            work,
            skewed: Skewed::new(KEYS, alpha),
            scatter: Scatter::new(KEYS),
            values: (0..KEYS).collect(),
            random: ChaCha8Rng::seed_from_u64(1),
        }
    }

    pub fn batch(&mut self) -> Vec<Operation> {
        (0..BATCH).map(|_| self.operation()).collect()
    }

    fn operation(&mut self) -> Operation {
        let record = self.scatter.apply(self.skewed.sample(&mut self.random));
        let (key, is_first) = (key_of_record(record), self.random.random_bool(0.5));
        match self.work {
            Work::Gets => Operation::Get(key),
            Work::GetsAndUpdates if is_first => Operation::Get(key),
            Work::DeletesAndInserts if is_first => Operation::Delete(key),
            Work::DeletesAndInserts => Operation::Insert(key, record),
            Work::Updates | Work::GetsAndUpdates => {
                let value = &mut self.values[record as usize];
                *value += 1;
                Operation::CompareSwap {
                    key,
                    expected: *value - 1,
                    value: *value,
                }
            }
        }
    }
}

impl Work {
    pub const ALL: [Self; 4] = [
        Self::Gets,
        Self::Updates,
        Self::GetsAndUpdates,
        Self::DeletesAndInserts,
    ];
}

/// A map with all keys, on so many threads.
pub fn loaded(config: Config, threads: usize) -> Result<Map<Threads<Skiplist>>, MapError> {
    let mut map = Map::threads(config, MODULES, threads)?;
    let mut pairs: Vec<(u64, u64)> = (0..KEYS).map(|record| (key_of_record(record), record)).collect();
    pairs.sort_unstable();
    map.load(&pairs)?;
    Ok(map)
}

/// The one in the middle.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// A line for each kind of batch and exponent: the times with and without, and the one over the other.
pub fn table(measure: impl Fn(Work, f64) -> Result<[f64; 2], MapError>) -> Result<(), MapError> {
    for work in Work::ALL {
        for alpha in [0.0, 0.99, 1.2] {
            let [with, without] = measure(work, alpha)?;
            println!(
                "{:18} {alpha:<5} {with:8.2} {without:8.2} {:8.2}",
                format!("{work:?}"),
                with / without
            );
        }
    }
    Ok(())
}
