//! Hot sets that drift, and what a model of hotness makes of them.

use cenote_near::hotness::{Report, Settings};
use cenote_near::map::{Config, Map, Operation};
use cenote_near::modules::{Counters, Profile};
use cenote_ycsb::{Scatter, Skewed, key_of_record};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::NearRunError;

/// How a hot set drifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Hot keys are neighbours, and their middle goes on by a share of them each batch.
    Moving,
    /// Hot keys are scattered, and of the 64 hottest two are replaced by others each batch.
    Changing,
}

impl Drift {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Moving => "moving",
            Self::Changing => "changing",
        }
    }
}

/// Keys, and which of them are hot in which batch.
pub struct HotKeys {
    drift: Drift,
    keys: Vec<u64>,
    skewed: Skewed,
    scatter: Scatter,
}

impl HotKeys {
    /// So many keys, under a zipfian exponent.
    pub fn new(keys: u64, alpha: f64, drift: Drift) -> Self {
        let mut sorted: Vec<u64> = (0..keys).map(key_of_record).collect();
        sorted.sort_unstable();
        Self {
            drift,
            keys: sorted,
            skewed: Skewed::new(keys, alpha),
            scatter: Scatter::new(keys),
        }
    }

    /// All of them, with values, ascending.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.keys.iter().map(|key| (*key, *key)).collect()
    }

    /// Gets of a batch.
    pub fn batch(&self, number: usize, size: usize, random: &mut impl RngCore) -> Vec<Operation> {
        let count = self.keys.len() as u64;
        let place = |rank: u64| match self.drift {
            Drift::Moving => {
                // Ranks to both sides of a middle that moves.
                let middle = number as u64 * (count / 4096);
                let side = rank.div_ceil(2);
                let at = if rank.is_multiple_of(2) {
                    middle + side
                } else {
                    middle + count - side
                };
                at % count
            }
            Drift::Changing => {
                // Each of the hottest keeps its place for 32 batches.
                let life = if rank < 64 {
                    (number as u64 * 2 + rank) / 64
                } else {
                    0
                };
                self.scatter.apply((rank + life * 4099) % count)
            }
        };
        (0..size)
            .map(|_| Operation::Get(self.keys[place(self.skewed.sample(random)) as usize]))
            .collect()
    }
}

/// A run with the model, or without.
#[derive(Clone, Copy, Debug)]
pub struct HotPlan {
    /// Modules.
    pub modules: usize,
    /// Gets of a batch.
    pub batch: usize,
    /// Batches, of which the first quarter does not count.
    pub batches: usize,
}

/// What a run has shown.
#[derive(Clone, Copy, Debug)]
pub struct HotOutcome {
    /// Millions of gets in a virtual second, without what the model takes.
    pub mops: f64,
    /// Predictions that were right, of a hundred; none if there was no model, or nothing to predict.
    pub right: Option<f64>,
    /// Milliseconds of this machine's time that the model took for a batch.
    pub training_ms: f64,
    /// Virtual milliseconds of a batch.
    pub batch_ms: f64,
}

/// Runs batches on a simulated map, with a model of these settings or without.
pub fn predict(
    plan: &HotPlan,
    keys: &HotKeys,
    settings: Option<Settings>,
) -> Result<HotOutcome, NearRunError> {
    let failed = |error| NearRunError::Index {
        design: "near, with a model of hotness",
        alpha: f64::NAN,
        error,
    };
    let mut map = Map::simulated(Config::default(), plan.modules, Profile::upmem()?).map_err(failed)?;
    map.load(&keys.pairs()).map_err(failed)?;
    if let Some(settings) = settings {
        map.predict_hotness(settings).map_err(failed)?;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut before, mut first) = (Counters::default(), None);
    let warm = plan.batches / 4;
    for number in 0..plan.batches {
        if number == warm {
            (before, first) = (map.counters(), map.hotness());
        }
        map.execute(&keys.batch(number, plan.batch, &mut random))
            .map_err(failed)?;
    }
    let counted = (plan.batches - warm).max(1) as f64;
    let virtual_ns = (map.counters().virtual_ns - before.virtual_ns).max(1) as f64;
    let (report, first) = (map.hotness().unwrap_or_default(), first.unwrap_or_default());
    Ok(HotOutcome {
        mops: plan.batch as f64 * counted * 1e3 / virtual_ns,
        right: right(&report, &first),
        training_ms: (report.training - first.training).as_secs_f64() * 1e3 / counted,
        batch_ms: virtual_ns / counted / 1e6,
    })
}

fn right(report: &Report, first: &Report) -> Option<f64> {
    let predictions = report.accuracy.predictions - first.accuracy.predictions;
    let right = report.accuracy.right - first.accuracy.right;
    (predictions > 0).then(|| 100.0 * right as f64 / predictions as f64)
}
