//! The `near` command: the near-memory map on worker threads beside crossbeam's skip list and concurrent-map, in
//! batches.
//!
//! All get the same batches and give the same vector of answers: the near map executes a batch by its own worker
//! threads, and of the others each of as many threads executes an equal part of it, by single operations on the shared
//! map. So the near map's host part, which is one thread, is in its time. Gets are of keys that are there; inserts bind
//! keys that are not, each beside one that is there. Keys are chosen evenly or by a zipfian distribution. Rounds are
//! interleaved; a ratio is the median of the ratios of rounds.

use std::time::Instant;

use cenote_near::map::{Answer, Config, Map, Operation};
use cenote_near::modules::Threads;
use cenote_ycsb::{Scatter, Skewed, key_of_record};
use clap::Args;
use concurrent_map::ConcurrentMap;
use crossbeam_skiplist::SkipMap;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What is measured, and how.
#[derive(Args)]
pub struct Options {
    /// Keys that are loaded.
    #[arg(long, default_value_t = 1 << 20)]
    keys: u64,
    /// Operations of a batch.
    #[arg(long, default_value_t = 1 << 17)]
    batch: usize,
    /// Rounds; each executes one batch by each map.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Threads of each map.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Modules of the near map.
    #[arg(long, default_value_t = 256)]
    modules: usize,
    /// Exponents of the zipfian distributions; 0 is even.
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.99])]
    alphas: Vec<f64>,
    /// Decides keys.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A map that executes batches.
trait Batches {
    const NAME: &'static str;

    fn load(options: &Options, pairs: &[(u64, u64)]) -> Result<Self, String>
    where
        Self: Sized;

    fn execute(&mut self, operations: &[Operation], threads: usize) -> Result<Vec<Answer>, String>;
}

impl Batches for Map<Threads<cenote_near::device::Skiplist>> {
    const NAME: &'static str = "cenote near";

    fn load(options: &Options, pairs: &[(u64, u64)]) -> Result<Self, String> {
        let mut map = Map::threads(Config::default(), options.modules, options.threads)
            .map_err(|error| error.to_string())?;
        map.load(pairs).map_err(|error| error.to_string())?;
        Ok(map)
    }

    fn execute(&mut self, operations: &[Operation], _: usize) -> Result<Vec<Answer>, String> {
        Map::execute(self, operations).map_err(|error| error.to_string())
    }
}

/// A map that threads share, operation by operation.
trait Shared: Clone + Send {
    const NAME: &'static str;

    fn new() -> Self;
    fn get(&self, key: u64) -> Option<u64>;
    /// The value that was bound before; binds the key if there was none.
    fn insert(&self, key: u64, value: u64) -> Option<u64>;
}

impl<S: Shared> Batches for S {
    const NAME: &'static str = S::NAME;

    fn load(_: &Options, pairs: &[(u64, u64)]) -> Result<Self, String> {
        let map = S::new();
        for (key, value) in pairs {
            map.insert(*key, *value);
        }
        Ok(map)
    }

    fn execute(&mut self, operations: &[Operation], threads: usize) -> Result<Vec<Answer>, String> {
        let mut answers = vec![Answer::Value(None); operations.len()];
        let part = operations.len().div_ceil(threads.max(1));
        std::thread::scope(|scope| {
            for (operations, answers) in operations.chunks(part).zip(answers.chunks_mut(part)) {
                let map = self.clone();
                scope.spawn(move || {
                    for (operation, answer) in operations.iter().zip(answers) {
                        *answer = match *operation {
                            Operation::Insert(key, value) => Answer::Insert {
                                existing: map.insert(key, value),
                            },
                            Operation::Get(key) => Answer::Value(map.get(key)),
                            _ => Answer::Value(None),
                        };
                    }
                });
            }
        });
        Ok(answers)
    }
}

impl Shared for std::sync::Arc<SkipMap<u64, u64>> {
    const NAME: &'static str = "crossbeam::SkipMap";

    fn new() -> Self {
        Self::default()
    }

    fn get(&self, key: u64) -> Option<u64> {
        Some(*SkipMap::get(self, &key)?.value())
    }

    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        // Its own insert replaces; this one keeps what is there, and the entry says which.
        let mut new = false;
        let entry = self.get_or_insert_with(key, || {
            new = true;
            value
        });
        (!new).then(|| *entry.value())
    }
}

impl Shared for ConcurrentMap<u64, u64> {
    const NAME: &'static str = "concurrent-map";

    fn new() -> Self {
        Self::default()
    }

    fn get(&self, key: u64) -> Option<u64> {
        ConcurrentMap::get(self, &key)
    }

    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.cas(key, None, Some(value))
            .err()
            .and_then(|error| error.actual)
    }
}

/// Batches of one kind.
struct Plan {
    inserts: bool,
    skewed: Skewed,
    scatter: Scatter,
    rng: ChaCha8Rng,
}

impl Plan {
    fn batch(&mut self, options: &Options) -> Vec<Operation> {
        (0..options.batch)
            .map(|_| {
                let record = self.scatter.apply(self.skewed.sample(&mut self.rng));
                let key = key_of_record(record);
                if self.inserts {
                    let beside = self.rng.random_range(1..u64::MAX / options.keys);
                    Operation::Insert(key.wrapping_add(beside), record)
                } else {
                    Operation::Get(key)
                }
            })
            .collect()
    }
}

/// How long a batch takes, in nanoseconds an operation, and what it answers.
fn timed<B: Batches>(
    map: &mut B,
    batch: &[Operation],
    options: &Options,
) -> Result<(f64, Vec<Answer>), String> {
    let began = Instant::now();
    let answers = map.execute(batch, options.threads)?;
    let took = began.elapsed().as_nanos() as f64 / batch.len() as f64;
    Ok((took, answers))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Measures all, and prints a table.
pub fn run(options: &Options) -> Result<(), String> {
    println!(
        "{} keys, batches of {}, {} threads each, near map of {} modules, {} rounds, seed {}. Medians; ns an operation, and how many times the near map's throughput is the other's.",
        options.keys, options.batch, options.threads, options.modules, options.rounds, options.seed
    );
    println!(
        "{:8} {:5} {:>14} {:>20} {:>16} {:>14} {:>14}",
        "",
        "alpha",
        <Map<Threads<_>> as Batches>::NAME,
        "crossbeam::SkipMap",
        "concurrent-map",
        "to crossbeam",
        "to concurrent"
    );
    let mut pairs: Vec<(u64, u64)> = (0..options.keys)
        .map(|record| (key_of_record(record), record))
        .collect();
    pairs.sort_unstable();
    for inserts in [false, true] {
        for &alpha in &options.alphas {
            let mut near: Map<Threads<_>> = Batches::load(options, &pairs)?;
            let mut skip: std::sync::Arc<SkipMap<u64, u64>> = Batches::load(options, &pairs)?;
            let mut tree: ConcurrentMap<u64, u64> = Batches::load(options, &pairs)?;
            let mut plan = Plan {
                inserts,
                skewed: Skewed::new(options.keys, alpha),
                scatter: Scatter::new(options.keys),
                rng: ChaCha8Rng::seed_from_u64(options.seed),
            };
            let mut took: [Vec<f64>; 5] = Default::default();
            for round in 0..options.rounds + 4 {
                let batch = plan.batch(options);
                let (first, answers) = timed(&mut near, &batch, options)?;
                let (second, others) = timed(&mut skip, &batch, options)?;
                let (third, more) = timed(&mut tree, &batch, options)?;
                // Threads insert their parts at once, so which of two that bind one key comes first is open.
                if !inserts && (answers != others || answers != more) {
                    return Err(format!("round {round}: the maps answer differently"));
                }
                // Four warm up.
                if round >= 4 {
                    for (all, one) in
                        took.iter_mut()
                            .zip([first, second, third, second / first, third / first])
                    {
                        all.push(one);
                    }
                }
            }
            let [near, skip, tree, to_skip, to_tree] = took.map(|mut all| median(&mut all));
            let name = if inserts { "insert" } else { "get" };
            println!(
                "{name:8} {alpha:<5} {near:14.1} {skip:20.1} {tree:16.1} {to_skip:13.2}x {to_tree:13.2}x"
            );
        }
    }
    Ok(())
}
