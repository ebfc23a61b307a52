//! The model of hotness on hot sets that drift: its predictions against the labels, and what the heights that follow
//! are worth. Simulated modules, so that everything is the same in each run.

use cenote_near::device::Skiplist;
use cenote_near::hotness::{Accuracy, Report, Settings};
use cenote_near::map::{Config, Map, Operation};
use cenote_near::modules::{Profile, Simulated};
use cenote_ycsb::{Scatter, Skewed, key_of_record};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const MODULES: usize = 32;
const KEYS: u64 = 32 * 1024;
const BATCH: usize = 48 * 1024;
const BATCHES: u64 = 72;
const ALPHA: f64 = 0.99;

/// Executes batches whose hot keys are replaced one by one, an eighth of the 32 hottest every eight batches; chases and
/// predictions of the second half.
fn run(settings: Option<Settings>, batches: u64) -> (u64, Option<Report>) {
    let config = Config::default();
    let mut map: Map<Simulated<Skiplist>> =
        Map::simulated(config, MODULES, Profile::upmem().unwrap()).unwrap();
    let mut keys: Vec<u64> = (0..KEYS).map(key_of_record).collect();
    keys.sort_unstable();
    let pairs: Vec<(u64, u64)> = keys.iter().map(|key| (*key, 1)).collect();
    map.load(&pairs).unwrap();
    if let Some(settings) = settings {
        map.predict_hotness(settings).unwrap();
    }
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (skewed, scatter) = (Skewed::new(KEYS, ALPHA), Scatter::new(KEYS));
    let (mut chases, mut early) = (0, Accuracy::default());
    for number in 0..batches {
        if number == batches / 2 {
            chases = map.counters().chases;
            early = map.hotness().map_or(early, |report| report.accuracy);
        }
        let place = |rank: u64| {
            let life = if rank < 32 { (number + rank * 2) / 64 } else { 0 };
            scatter.apply((rank + life * 4099) % KEYS) as usize
        };
        let batch: Vec<Operation> = (0..BATCH)
            .map(|_| Operation::Get(keys[place(skewed.sample(&mut rng))]))
            .collect();
        map.execute(&batch).unwrap();
    }
    let late = |report: Report| Report {
        accuracy: Accuracy {
            predictions: report.accuracy.predictions - early.predictions,
            right: report.accuracy.right - early.right,
            unchanged: report.accuracy.unchanged - early.unchanged,
            coldest: report.accuracy.coldest - early.coldest,
        },
        ..report
    };
    (map.counters().chases - chases, map.hotness().map(late))
}

fn settings() -> Settings {
    Settings {
        samples: 1024,
        ..Settings::default()
    }
}

#[test]
fn predictions_agree_with_the_labels_and_heights_save_chases() {
    let (without, none) = run(None, BATCHES);
    assert_eq!(none, None);
    let (with, report) = run(Some(settings()), BATCHES);
    let report = report.unwrap();
    let accuracy = report.accuracy;
    let share = |count: u64| count * 100 / accuracy.predictions.max(1);
    println!(
        "seed 1: {} predictions, {} % right; as before {} %, coldest {} %; {} heights; chases {with} with the model, {without} without",
        accuracy.predictions,
        share(accuracy.right),
        share(accuracy.unchanged),
        share(accuracy.coldest),
        report.heights
    );
    assert!(!report.ended && report.heights > 100, "{report:?}");
    assert!(
        accuracy.predictions > 1000 && share(accuracy.right) >= 70,
        "{accuracy:?}"
    );
    assert!(
        with * 100 < without * 97,
        "{with} chases with the model, {without} without"
    );
}

#[test]
fn nothing_depends_on_how_fast_the_thread_is() {
    let accuracy =
        |report: Option<Report>| report.map(|report| (report.batches, report.heights, report.accuracy));
    let (one, report) = run(Some(settings()), 18);
    let (other, again) = run(Some(settings()), 18);
    assert!(report.is_some_and(|report| report.heights > 0));
    assert_eq!((one, accuracy(report)), (other, accuracy(again)));
}
