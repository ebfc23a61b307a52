//! Batches against `BTreeMap`, with few keys, so that subranges are split, moved, pulled and merged all the time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::modules::Profile;

fn bound(rng: &mut ChaCha8Rng, key: u64) -> Bound<u64> {
    match rng.random_range(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(key),
        _ => Bound::Included(key),
    }
}

/// Executes an operation on the model.
fn expected(model: &mut BTreeMap<u64, u64>, operation: &Operation) -> Answer {
    match *operation {
        Operation::Get(key) => Answer::Value(model.get(&key).copied()),
        Operation::Predecessor(key) => {
            Answer::Pair(model.range(..=key).next_back().map(|(key, value)| (*key, *value)))
        }
        Operation::Insert(key, value) => {
            let before = model.get(&key).copied();
            model.entry(key).or_insert(value);
            Answer::Insert { existing: before }
        }
        Operation::Delete(key) => Answer::Delete {
            removed: model.remove(&key),
        },
        Operation::CompareSwap { key, expected, value } => {
            let before = model.get(&key).copied();
            if before == Some(expected) {
                model.insert(key, value);
            }
            Answer::CompareSwap { before }
        }
        Operation::Scan(from, to) => Answer::Pairs(
            Operation::ends(from, to)
                .map(|(first, last)| {
                    let pairs = model.range(first..=last);
                    Arc::new(pairs.map(|(key, value)| (*key, *value)).collect())
                })
                .unwrap_or_default(),
        ),
    }
}

/// Keys of one trial: some regions, in each several clusters, and hot ones.
struct Keys {
    hot: Vec<u64>,
    base: Vec<u64>,
    skew: f64,
}

impl Keys {
    fn new(rng: &mut ChaCha8Rng) -> Self {
        let base: Vec<u64> = (0..6).map(|_| rng.random::<u64>() << 16).collect();
        Self {
            hot: (0..4).map(|at| base[at] | rng.random_range(0..64)).collect(),
            base,
            skew: [0.0, 0.5, 0.95][rng.random_range(0..3)],
        }
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> u64 {
        if rng.random_bool(self.skew) {
            return self.hot[rng.random_range(0..4) * rng.random_range(0..4) / 4];
        }
        match rng.random_range(0..12) {
            0 => rng.random(),
            1 => [0, u64::MAX, 1, 1 << 63][rng.random_range(0..4)],
            _ => self.base[rng.random_range(0..6)] | (rng.random_range(0..64) << rng.random_range(0..10)),
        }
    }

    fn operation(&self, rng: &mut ChaCha8Rng) -> Operation {
        let key = self.draw(rng);
        let value = rng.random_range(0..3);
        match rng.random_range(0..12) {
            0..3 => Operation::Insert(key, value),
            3 => Operation::Delete(key),
            4 | 5 => Operation::CompareSwap {
                key,
                expected: rng.random_range(0..3),
                value,
            },
            6 | 7 => Operation::Predecessor(key),
            8 if rng.random_bool(0.3) => {
                let other = self.draw(rng);
                Operation::Scan(bound(rng, key.min(other)), bound(rng, key.max(other)))
            }
            8 => Operation::Scan(bound(rng, key), bound(rng, key.saturating_add(64))),
            _ => Operation::Get(key),
        }
    }
}

/// Has scans of a batch come again later in it, and, in some batches, other reads.
fn repeat_reads(batch: &mut Vec<Operation>, rng: &mut ChaCha8Rng) {
    let has_points = rng.random_bool(0.5);
    let is_repeated = |one: &Operation| match one {
        Operation::Scan(..) => true,
        Operation::Get(_) | Operation::Predecessor(_) => has_points,
        _ => false,
    };
    let reads: Vec<Operation> = batch.iter().copied().filter(is_repeated).collect();
    for read in reads {
        let at = rng.random_range(0..=batch.len());
        batch.insert(at, read);
    }
}

/// What the directory says of itself, and of the model.
fn check<M: Modules>(map: &Map<M>, model: &BTreeMap<u64, u64>) {
    let mut end = None;
    let (mut keys, mut pulled) = (0, 0);
    for id in map.directory.all() {
        let entry = map.directory.entry(id);
        assert!(end.is_none_or(|end| end < entry.start), "subranges overlap");
        let last = map.directory.last(id);
        end = Some(last);
        let mut bound = model.range(entry.start..=last);
        let count = bound.clone().count() as u64;
        assert_eq!(entry.keys, count);
        assert_eq!(entry.least, bound.next().map(|(key, _)| *key));
        assert!(count > 0 || entry.level == 0);
        assert_eq!((entry.load, entry.sure, entry.grows), (0, count, false));
        assert_eq!(map.directory.locate(entry.start).0, Some(id));
        keys += count;
        if let Place::Host(pairs) = &entry.place {
            pulled += pairs.len() as u64;
            assert!(map.pulled.contains(&id));
        }
    }
    assert_eq!(
        (keys, map.len(), map.pulled_keys),
        (model.len() as u64, keys, pulled)
    );
}

/// A batch.
fn draw(keys: &Keys, rng: &mut ChaCha8Rng) -> Vec<Operation> {
    let size = [1, 10, 300, 900][rng.random_range(0..4)];
    let mut batch: Vec<Operation> = (0..size).map(|_| keys.operation(rng)).collect();
    repeat_reads(&mut batch, rng);
    if rng.random_bool(0.4) {
        // Many operations on a key are one command then.
        batch.retain(|one| !matches!(one, Operation::Scan(..) | Operation::Predecessor(_)));
    }
    batch
}

/// Random batches that overlap, some of them without operations, and now and then what was under way is waited for.
fn trial_overlapped<M: Modules>(mut map: Map<M>, seed: u64) {
    println!("seed {seed}, overlapped");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut model = BTreeMap::new();
    let mut keys = Keys::new(&mut rng);
    for _ in 0..8 {
        let mut overlapped = map.overlapped();
        let mut sent: Option<Vec<Operation>> = None;
        let check_answers = |sent: Option<Vec<Operation>>, answers: Option<Vec<Answer>>, model: &mut _| {
            assert_eq!(sent.as_ref().map(Vec::len), answers.as_ref().map(Vec::len));
            let answers = answers.into_iter().flatten();
            for (at, (operation, answer)) in sent.into_iter().flatten().zip(answers).enumerate() {
                assert_eq!(
                    answer,
                    expected(model, &operation),
                    "seed {seed}, {at}: {operation:?}"
                );
            }
        };
        for _ in 0..rng.random_range(0..16) {
            if rng.random_bool(0.1) {
                keys = Keys::new(&mut rng);
            }
            let batch = if rng.random_bool(0.1) {
                Vec::new()
            } else {
                draw(&keys, &mut rng)
            };
            let answers = overlapped.send(batch.clone()).unwrap();
            check_answers(sent.replace(batch), answers, &mut model);
        }
        if rng.random_bool(0.5) {
            let answers = overlapped.finish().unwrap();
            check_answers(sent, answers, &mut model);
        } else {
            drop(overlapped);
            for operation in sent.into_iter().flatten() {
                expected(&mut model, &operation);
            }
        }
        check(&map, &model);
    }
}

#[test]
fn batches_that_overlap_are_as_if_one_after_another() {
    for seed in 0..if cfg!(debug_assertions) { 60 } else { 2000 } {
        let modules = [1, 2, 8, 13][seed as usize % 4];
        trial_overlapped(Map::threads(config(seed), modules, 2).unwrap(), seed);
        let profile = Profile::upmem().unwrap();
        trial_overlapped(Map::simulated(config(seed), modules, profile).unwrap(), seed);
    }
}

/// Modules that fail in a round.
struct Failing {
    modules: Threads<Skiplist>,
    rounds: u32,
}

impl Modules for Failing {
    fn count(&self) -> usize {
        self.modules.count()
    }

    fn launch(&mut self, batches: Vec<Vec<u8>>) -> Result<(), ModulesError> {
        self.rounds = self.rounds.checked_sub(1).ok_or(ModulesError::NoModules)?;
        self.modules.launch(batches)
    }

    fn collect(&mut self) -> Result<Vec<Vec<u8>>, ModulesError> {
        self.modules.collect()
    }

    fn counters(&self) -> Counters {
        self.modules.counters()
    }

    fn memory_bytes(&self) -> u64 {
        self.modules.memory_bytes()
    }
}

#[test]
fn answers_are_not_lost_with_the_next_batch() {
    let modules = Threads::new(programs(&Config::default(), 2), 1).unwrap();
    // One of them makes the map.
    let mut map = Map::new(Config::default(), Failing { modules, rounds: 3 }).unwrap();
    let mut overlapped = map.overlapped();
    assert_eq!(overlapped.send(vec![Operation::Insert(1, 1)]), Ok(None));
    assert!(overlapped.send(vec![Operation::Get(1)]).unwrap().is_some());
    let last = overlapped.send(vec![Operation::Get(2)]).unwrap();
    assert_eq!(last, Some(vec![Answer::Value(Some(1))]));
    let failed = MapError::Modules(ModulesError::NoModules);
    assert_eq!(overlapped.send(vec![Operation::Get(3)]), Err(failed.clone()));
    assert_eq!(overlapped.finish(), Err(failed.clone()));
    assert_eq!(map.execute(&[Operation::Get(1)]), Err(failed));
}

/// Else a batch that was prepared would be sent to where subranges were.
#[test]
fn the_directory_has_another_version_whenever_a_subrange_is_elsewhere() {
    let mut directory = Directory::new(vec![60, 50]);
    let mut last = directory.version();
    let mut is_another =
        |directory: &Directory| std::mem::replace(&mut last, directory.version()) != directory.version();
    let id = directory.add(Entry::new(0, 1, Place::Module(0), 0, None));
    assert!(is_another(&directory));
    directory.set_place(id, Place::Module(1));
    assert!(is_another(&directory));
    directory.entry_mut(id).load = 1;
    assert!(!is_another(&directory));
    directory.remove(id);
    assert!(is_another(&directory));
}

/// A map that is not waited for cannot be used by mistake.
#[test]
fn a_batch_that_is_never_waited_for_loses_the_map() {
    let mut map = Map::threads(Config::default(), 2, 1).unwrap();
    let mut overlapped = map.overlapped();
    overlapped.send(vec![Operation::Insert(1, 1)]).unwrap();
    std::mem::forget(overlapped);
    let pending = MapError::Modules(ModulesError::RoundPending);
    assert_eq!(map.execute(&[Operation::Get(1)]), Err(pending.clone()));
    assert_eq!(map.overlapped().send(Vec::new()), Err(pending));
}

/// Random batches; how many plans had a round of their own.
fn trial<M: Modules>(map: Map<M>, seed: u64, total: &mut Moves) -> u64 {
    trial_and(map, seed, total, |_| {})
}

/// The same, with a look at the map after each batch.
fn trial_and<M: Modules>(mut map: Map<M>, seed: u64, total: &mut Moves, look: impl Fn(&Map<M>)) -> u64 {
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut model = BTreeMap::new();
    let mut keys = Keys::new(&mut rng);
    let mut at_once = 0;
    for number in 0..60 {
        if rng.random_bool(0.1) {
            keys = Keys::new(&mut rng);
        }
        let batch = draw(&keys, &mut rng);
        let rounds = map.counters().rounds;
        let answers = map.execute(&batch).unwrap();
        let rounds = map.counters().rounds - rounds;
        assert!(rounds <= 2, "more than two rounds");
        at_once += rounds.saturating_sub(1);
        assert_eq!(answers.len(), batch.len());
        for (at, (operation, answer)) in batch.iter().zip(answers).enumerate() {
            let expected = expected(&mut model, operation);
            assert_eq!(
                answer, expected,
                "seed {seed}, batch {number}, {at}: {operation:?}"
            );
        }
        check(&map, &model);
        look(&map);
    }
    let moves = map.moves();
    if map.config.accesses_per_round > 1e6 {
        assert_eq!(at_once, 0, "a round was paid that does not pay");
    }
    total.splits += moves.splits;
    total.moves += moves.moves;
    total.pulls += moves.pulls;
    total.returns += moves.returns;
    total.merges += moves.merges;
    at_once
}

#[test]
fn planted_faults_are_found() {
    for fault in mutant::ALL {
        let found = (0..40).find(|&seed| {
            mutant::plant(Some(fault));
            let map = Map::threads(config(seed), [2, 8][seed as usize % 2], 1).unwrap();
            let run = std::panic::AssertUnwindSafe(|| match fault {
                Mutant::PreparedBelieved => trial_overlapped(map, seed),
                _ => drop(trial(map, seed, &mut Moves::default())),
            });
            let outcome = std::panic::catch_unwind(run);
            mutant::plant(None);
            outcome.is_err()
        });
        println!("{fault:?}: found with seed {found:?}");
        assert!(found.is_some(), "{fault:?} was not found");
    }
}

/// Settings with which little load suffices.
fn config(seed: u64) -> Config {
    Config {
        cold_batches: 2,
        finest_shift: [1, 4][seed as usize % 2],
        finest_gaps: seed.is_multiple_of(5),
        split_bits: [5, 0, 3, 11][seed as usize / 3 % 4],
        accesses_per_round: [0.0, 1e9, 300.0][seed as usize % 3],
        entries_max: [40, 1 << 20][seed as usize % 2],
        ..Config::default()
    }
}

fn all_happened(moves: Moves, at_once: u64) {
    println!("{moves:?}, {at_once} plans at once");
    assert!(at_once > 20);
    for count in [
        moves.splits,
        moves.moves,
        moves.pulls,
        moves.returns,
        moves.merges,
    ] {
        assert!(count > 20, "{moves:?}");
    }
}

#[test]
fn batches_are_sequences_on_threads() {
    let (mut total, mut at_once) = (Moves::default(), 0);
    for seed in 0..30 {
        let modules = [1, 2, 5, 8][seed as usize % 4];
        at_once += trial(Map::threads(config(seed), modules, 2).unwrap(), seed, &mut total);
    }
    all_happened(total, at_once);
}

#[test]
fn batches_are_sequences_on_simulated_modules() {
    let (mut total, mut at_once) = (Moves::default(), 0);
    for seed in 100..140 {
        let modules = [1, 3, 16, 64][seed as usize % 4];
        let profile = Profile::upmem().unwrap();
        at_once += trial(
            Map::simulated(config(seed), modules, profile).unwrap(),
            seed,
            &mut total,
        );
    }
    all_happened(total, at_once);
}

#[cfg(feature = "hotness")]
#[test]
fn batches_are_sequences_while_heights_follow_hotness() {
    let mut heights = 0;
    for seed in 200..208 {
        let mut map = Map::threads(config(seed), [2, 8][seed as usize % 2], 2).unwrap();
        let settings = crate::hotness::Settings {
            window: 1,
            samples: 64,
            ..crate::hotness::Settings::default()
        };
        map.predict_hotness(settings).unwrap();
        let (mut total, counted) = (Moves::default(), std::cell::Cell::new(0));
        trial_and(map, seed, &mut total, |map| {
            let report = map.hotness().unwrap();
            assert!(!report.ended);
            counted.set(report.heights);
        });
        heights += counted.get();
    }
    println!("{heights} heights");
    assert!(heights > 100);
}

#[test]
fn backends_do_the_same() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let keys = Keys::new(&mut rng);
    let mut threads = Map::threads(Config::default(), 8, 3).unwrap();
    let mut simulated = Map::simulated(Config::default(), 8, Profile::upmem().unwrap()).unwrap();
    for _ in 0..20 {
        let batch: Vec<Operation> = (0..500).map(|_| keys.operation(&mut rng)).collect();
        assert_eq!(threads.execute(&batch), simulated.execute(&batch));
        assert_eq!(threads.moves(), simulated.moves());
        let (one, other) = (threads.counters(), simulated.counters());
        assert_eq!(
            (one.rounds, one.sent, one.chases),
            (other.rounds, other.sent, other.chases)
        );
    }
}

#[test]
fn a_full_module_refuses_inserts_and_loses_nothing() {
    full_modules(false);
}

#[test]
fn a_full_module_refuses_all_inserts_of_a_key_and_loses_nothing() {
    full_modules(true);
}

/// With several operations on each key of a batch, or one.
fn full_modules(several: bool) {
    let config = Config {
        module_bytes: 16 << 10,
        pulled_max: 64,
        ..Config::default()
    };
    let mut map = Map::threads(config, 4, 2).unwrap();
    let mut model = BTreeMap::new();
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut refused = 0;
    for _ in 0..60 {
        let shift = rng.random_range(0..50);
        let mut batch: Vec<Operation> = (0..100)
            .map(|_| match rng.random_range(0..4) {
                0 => Operation::Get(rng.random::<u64>() >> shift),
                1 if !several => Operation::Predecessor(rng.random::<u64>() >> shift),
                _ => Operation::Insert(rng.random::<u64>() >> shift, 1),
            })
            .collect();
        if several {
            for at in 0..batch.len() {
                let key = batch[at].key().unwrap();
                batch.extend([
                    Operation::CompareSwap {
                        key,
                        expected: 1,
                        value: 2,
                    },
                    Operation::Insert(key, 3),
                ]);
                if rng.random_bool(0.1) {
                    batch.push(Operation::Delete(key));
                }
                if rng.random_bool(0.5) {
                    batch.extend([Operation::Insert(key, 4), Operation::Get(key)]);
                }
            }
        }
        let answers = map.execute(&batch).unwrap();
        for (operation, answer) in batch.iter().zip(answers) {
            if answer == Answer::Full {
                refused += 1;
            } else {
                assert_eq!(answer, expected(&mut model, operation), "{operation:?}");
            }
        }
        check(&map, &model);
    }
    assert!(
        refused > 100 && model.len() > 500,
        "{refused} of {}, {:?}, {:?}, {:?}",
        model.len(),
        map.memory_bytes(),
        map.host_holds(),
        map.moves()
    );
}

#[test]
fn a_map_is_loaded_once() {
    let mut map = Map::threads(Config::default(), 4, 2).unwrap();
    assert_eq!(map.load(&[(2, 0), (1, 0)]), Err(LoadError::Unsorted.into()));
    let pairs: Vec<(u64, u64)> = (0..1000).map(|key| (key << 54, key)).collect();
    map.load(&pairs).unwrap();
    let scan = [Operation::Scan(Bound::Unbounded, Bound::Unbounded)];
    assert_eq!(map.execute(&scan).unwrap(), [Answer::Pairs(Arc::new(pairs))]);
    assert_eq!(map.load(&[]), Err(LoadError::HasKeys.into()));
}

#[test]
fn a_region_that_had_no_room_once_takes_keys_when_there_is_room() {
    let config = Config {
        module_bytes: 8 << 10,
        accesses_per_round: 0.0,
        ..Config::default()
    };
    // 32 regions; 0, 3, 6 ... are at home in module 0.
    let mut map = Map::threads(config, 3, 1).unwrap();
    let key_in = |region: u64, key: u64| region << 59 | key;
    let gone = [0, 6, 9, 12, 15, 18, 21, 24, 27, 30];
    for region in gone {
        // What is hot and has few keys is pulled, and forgotten when it is empty.
        map.execute(&[Operation::Insert(key_in(region, 1), 1)]).unwrap();
        for _ in 0..4 {
            map.execute(&vec![Operation::Get(key_in(region, 1)); 5000])
                .unwrap();
        }
        map.execute(&[Operation::Delete(key_in(region, 1))]).unwrap();
    }
    println!(
        "{:?} {:?}",
        map.moves(),
        gone.map(|region| map.directory.locate(key_in(region, 1)).0)
    );
    // Its home gets full.
    map.config.adaptive = false;
    let mut bound = Vec::new();
    let mut refused = 0;
    for key in 0.. {
        match map
            .execute(&[Operation::Insert(key_in(3, key << 20), 1)])
            .unwrap()[0]
        {
            Answer::Full => refused += 1,
            _ => bound.push(key),
        }
        if refused == 40 {
            break;
        }
    }
    println!("{} keys in region 3", bound.len());
    for region in gone {
        let answer = &map.execute(&[Operation::Insert(key_in(region, 1), 7)]).unwrap()[0];
        println!("insert into region {region} while its module is full: {answer:?}");
    }
    // There is room again.
    let all: Vec<Operation> = bound
        .iter()
        .map(|key| Operation::Delete(key_in(3, key << 20)))
        .collect();
    map.execute(&all).unwrap();
    println!("memory now {:?}, keys {}", map.memory_bytes(), map.len());
    map.config.adaptive = true;
    for region in gone {
        let tried: Vec<Answer> = (0..20)
            .map(|key| {
                map.execute(&[Operation::Insert(key_in(region, key), 7)])
                    .unwrap()
                    .remove(0)
            })
            .collect();
        let full = tried.iter().filter(|answer| **answer == Answer::Full).count();
        println!("region {region}: {full} of 20 refused");
        assert!(full < 20);
    }
}
