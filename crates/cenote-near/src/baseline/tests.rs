//! The baselines answer as a model does: batches of one kind of operation each.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::map::Config;
use crate::modules::Profile;

fn answers_as_the_model(index: &mut dyn Index, seed: u64) {
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut model: BTreeMap<u64, u64> = (0..3000)
        .map(|_| (rng.random_range(0..1 << 13) << 50, 1))
        .collect();
    let pairs: Vec<(u64, u64)> = model.iter().map(|(key, value)| (*key, *value)).collect();
    index.load(&pairs).unwrap();
    for _ in 0..30 {
        let kind = rng.random_range(0..6);
        let narrow = rng.random_bool(0.5);
        let batch: Vec<Operation> = (0..800)
            .map(|_| {
                let key = rng.random_range(0..if narrow { 1 << 6 } else { 1 << 13 }) << 50;
                match kind {
                    0 => Operation::Get(key),
                    1 => Operation::Predecessor(key + rng.random_range(0..2)),
                    2 => Operation::Insert(key | rng.random_range(0..9), 2),
                    3 => Operation::Delete(key),
                    4 => Operation::CompareSwap {
                        key,
                        expected: 1,
                        value: rng.random_range(0..3),
                    },
                    _ => Operation::Scan(Bound::Included(key), Bound::Excluded(key + (9 << 50))),
                }
            })
            .collect();
        let answers = index.execute(&batch).unwrap();
        for (operation, answer) in batch.iter().zip(answers) {
            let expected = match *operation {
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
                Operation::Scan(from, to) => {
                    let pairs = model.range((from, to)).map(|(key, value)| (*key, *value));
                    Answer::Pairs(Arc::new(pairs.collect()))
                }
            };
            assert_eq!(answer, expected, "{operation:?}");
        }
    }
}

#[test]
fn trees_answer_as_a_model_does() {
    for seed in 0..6 {
        for form in [Form::PimTree, Form::JumpPush] {
            let mut tree = Tree::simulated(form, 16, Profile::upmem().unwrap()).unwrap();
            answers_as_the_model(&mut tree, seed);
        }
    }
}

#[test]
fn range_partition_answers_as_a_model_does() {
    for seed in 0..3 {
        let profile = Profile::upmem().unwrap();
        let mut map = range::simulated(&Config::default(), 16, profile).unwrap();
        answers_as_the_model(&mut map, seed);
        assert_eq!(map.moves(), crate::map::Moves::default());
    }
}
