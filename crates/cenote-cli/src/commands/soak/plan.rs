//! What all processes of a run agree on: the pool, how much of it each phase may use, and which phase a worker is in
//! when.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::family::{Family, VALUE_MAX};
use crate::trial::content::{Keyspace, mix};

/// What a worker does for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Ranges that move: pushed at one end, popped at the other, `first` and `last`.
    Queue,
    /// A hash map and an ordered map are filled and emptied.
    Bulk,
    /// Values of all sizes are written and removed.
    Values,
    /// Much is overwritten at first; then the worker sleeps.
    Idle,
    /// Values are held for long.
    Reader,
    /// The worker ends, and is started again.
    Churn,
    /// The pool is driven near full.
    Full,
}

impl Phase {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Queue,
        Self::Bulk,
        Self::Values,
        Self::Idle,
        Self::Reader,
        Self::Churn,
        Self::Full,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        ["queue", "bulk", "values", "idle", "reader", "churn", "full"][self as usize]
    }
}

/// A planted fault: a check proves that it can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Plant {
    /// A worker acknowledges a write that it has not done.
    Lose,
    /// A worker writes a value with a wrong byte.
    Tear,
    /// A worker takes a write for refused that it has not tried.
    Refuse,
}

/// From this place of a round on, the pool is driven near full; each worker does that in one of the places.
const FULL_FROM: usize = 4;

/// What all processes of a run agree on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The pool.
    pub pool: PathBuf,
    /// Where journals, measures, logs and the files of words are.
    pub folder: PathBuf,
    /// Decides everything that can be decided.
    pub seed: u64,
    /// How many workers there are.
    pub workers: u32,
    /// What kind of memory it is for.
    pub memory: cenote::MemoryKind,
    /// Bytes that the pool may grow to.
    pub max: u64,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// Milliseconds of a phase.
    pub phase_ms: u64,
    /// A fault to plant.
    pub plant: Option<Plant>,
}

impl Plan {
    /// The number of a worker's present phase since the beginning.
    fn turn(&self) -> u64 {
        milliseconds().saturating_sub(self.began) / self.phase_ms
    }

    /// The phase that a worker is in now. In each round it goes through all of them, in an order of its own.
    pub fn phase(&self, worker: u32) -> Phase {
        let turn = self.turn();
        let (round, place) = (turn / Phase::ALL.len() as u64, turn % Phase::ALL.len() as u64);
        let draw = mix(mix(self.seed) ^ u64::from(worker) << 32 ^ round);
        let mut random = ChaCha8Rng::seed_from_u64(draw);
        let mut order = Phase::ALL.to_vec();
        order.pop();
        order.shuffle(&mut random);
        order.insert(random.random_range(FULL_FROM..Phase::ALL.len()), Phase::Full);
        order[place as usize]
    }

    /// Whether the pool is to be near full now: a worker that has ballast keeps it, while it goes on with something
    /// else.
    pub fn is_near_full(&self) -> bool {
        self.turn() % Phase::ALL.len() as u64 >= FULL_FROM as u64
    }

    /// The live bytes at which workers aim that drive the pool near full: 70 to 90 % of it, another share in each
    /// round.
    pub fn target(&self) -> u64 {
        let round = self.turn() / Phase::ALL.len() as u64;
        let draw = mix(self.seed ^ mix(round)) % 1000;
        self.max / 1000 * (700 + draw / 5)
    }

    /// Keys of a family that a worker uses.
    pub fn keys(&self, family: Family) -> u32 {
        let share =
            |percent: u64, each: u64| (self.max / 100 * percent / u64::from(self.workers) / each) as u32;
        let wanted = match family {
            Family::Up | Family::Down => 2000,
            Family::BulkHash | Family::BulkOrdered => share(5, 160),
            // The mean of sizes whose logarithms are evenly spread.
            Family::Values => share(20, VALUE_MAX / VALUE_MAX.ilog2() as u64 * 3 / 2),
            Family::Ballast => family.keys(),
        };
        wanted.clamp(8, family.keys())
    }
}

/// Milliseconds since 1970.
pub fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
