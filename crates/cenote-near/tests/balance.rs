//! The load of modules under skew, on simulated modules: after some batches the busiest has at most one and a half
//! times the mean.

use cenote_near::map::{Config, Map, Operation};
use cenote_near::modules::Profile;
use cenote_ycsb::{Scatter, Skewed, key_of_record};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const MODULES: usize = 64;
const KEYS: u64 = 64 * 1024;
const BATCH: usize = 64 * 512;

fn loaded(adaptive: bool) -> Map<cenote_near::modules::Simulated<cenote_near::device::Skiplist>> {
    let config = Config {
        adaptive,
        // Of a batch of skewed gets modules would see a few only.
        repeats: adaptive,
        ..Config::default()
    };
    let mut map = Map::simulated(config, MODULES, Profile::upmem().unwrap()).unwrap();
    let mut pairs: Vec<(u64, u64)> = (0..KEYS).map(|record| (key_of_record(record), record)).collect();
    pairs.sort_unstable();
    map.load(&pairs).unwrap();
    map
}

fn busiest_over_mean(loads: &[u64]) -> f64 {
    let busiest = loads.iter().max().copied().unwrap_or(0);
    busiest as f64 * loads.len() as f64 / loads.iter().sum::<u64>() as f64
}

fn imbalance(adaptive: bool, alpha: f64) -> (f64, u64) {
    let mut map = loaded(adaptive);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (skewed, scatter) = (Skewed::new(KEYS, alpha), Scatter::new(KEYS));
    let mut worst = 0.0f64;
    for number in 0..8 {
        let batch: Vec<Operation> = (0..BATCH)
            .map(|_| Operation::Get(key_of_record(scatter.apply(skewed.sample(&mut rng)))))
            .collect();
        map.execute(&batch).unwrap();
        if number >= 4 {
            worst = worst.max(busiest_over_mean(map.loads()));
        }
    }
    (worst, map.moves().pairs)
}

#[test]
fn the_busiest_module_has_at_most_one_and_a_half_times_the_mean() {
    for alpha in [0.0, 0.2, 0.4, 0.6, 0.8, 0.99, 1.2] {
        let (worst, pairs) = imbalance(true, alpha);
        println!("alpha {alpha}, seed 1: busiest over mean {worst:.2}, {pairs} pairs moved");
        assert!(worst <= 1.5, "alpha {alpha}: {worst}");
    }
}

#[test]
fn without_redistribution_it_has_more() {
    let (worst, pairs) = imbalance(false, 1.2);
    println!("alpha 1.2, seed 1: busiest over mean {worst:.2}");
    assert!(worst > 5.0, "{worst}");
    assert_eq!(pairs, 0);
}
