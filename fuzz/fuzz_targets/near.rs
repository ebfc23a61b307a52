//! Any batches on a near-memory map and on a `BTreeMap`: the same answers.
//!
//! `cargo fuzz run near` with a nightly toolchain, or
//! `cargo run --release --bin near -- -max_total_time=60 -max_len=4000` in this folder with a stable one, without
//! coverage. The first byte of the input says how many modules and which settings; then come calls of four bytes: what
//! to do, which key (two), which value. A batch ends where a call says so, and subranges are split, moved, pulled and
//! merged for very little load.
#![no_main]

use std::collections::BTreeMap;
use std::ops::Bound;

use cenote_near::map::{Answer, Config, Map, Operation};
use cenote_near::modules::Profile;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

mod fresh;

type Model = BTreeMap<u64, u64>;

/// Few keys in few places, so that they coincide, and some at the ends.
fn key(which: [u8; 2]) -> u64 {
    let (place, near) = (u64::from(which[0]), u64::from(which[1]));
    match place % 16 {
        0 => near,
        1 => u64::MAX - near,
        2 => near << 56,
        3..8 => ((place << 56) | 0x5555_5555) + near,
        _ => ((place << 56) | 0x1234_5678) ^ (near << (place % 40)),
    }
}

fn operation(call: &[u8]) -> Operation {
    let (key, value) = (key([call[1], call[2]]), u64::from(call[3]));
    let other = key.saturating_add(value << (call[2] % 56));
    match call[0] % 16 {
        0..4 => Operation::Insert(key, value % 4),
        4 | 5 => Operation::Delete(key),
        6 | 7 => Operation::CompareSwap {
            key,
            expected: value % 4,
            value: value / 4 % 4,
        },
        8 | 9 => Operation::Predecessor(key),
        10 => Operation::Scan(Bound::Included(key), Bound::Excluded(other)),
        11 => Operation::Scan(Bound::Excluded(key), Bound::Included(other)),
        12 if value == 0 => Operation::Scan(Bound::Unbounded, Bound::Unbounded),
        _ => Operation::Get(key),
    }
}

/// Executes an operation on the model.
fn expected(model: &mut Model, operation: &Operation) -> Answer {
    let owned = |(key, value): (&u64, &u64)| (*key, *value);
    match *operation {
        Operation::Get(key) => Answer::Value(model.get(&key).copied()),
        Operation::Predecessor(key) => Answer::Pair(model.range(..=key).next_back().map(owned)),
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
            // A range of which the standard library says that it ends before it begins has no keys.
            let begins = match from {
                Bound::Included(key) => Some(key),
                Bound::Excluded(key) => key.checked_add(1),
                Bound::Unbounded => Some(0),
            };
            let ends = match to {
                Bound::Included(key) => Some(key),
                Bound::Excluded(key) => key.checked_sub(1),
                Bound::Unbounded => Some(u64::MAX),
            };
            let range = begins.zip(ends).filter(|(begins, ends)| begins <= ends);
            Answer::Pairs(range.map_or(Vec::new(), |(begins, ends)| {
                model.range(begins..=ends).map(owned).collect()
            }))
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((which, calls)) = input.split_first() else {
        return;
    };
    let config = Config {
        cold_batches: 2,
        finest_shift: if which & 1 == 0 { 1 } else { 4 },
        finest_gaps: which & 2 != 0,
        split_bits: [5, 0, 3, 11][usize::from(which >> 2 & 3)],
        accesses_per_round: [0.0, 1e9, 300.0][usize::from(which % 3)],
        entries_max: if which & 16 == 0 { 1 << 20 } else { 40 },
        ..Config::default()
    };
    let modules = [1, 3, 8, 16][usize::from(which >> 5 & 3)];
    let profile = Profile::upmem().expect("the built-in profile");
    let mut map = Map::simulated(config, modules, profile).expect("a new map");
    let mut model = Model::new();
    let mut batch = Vec::new();
    let calls = calls.chunks_exact(4);
    let last = calls.len().saturating_sub(1);
    for (number, call) in calls.enumerate() {
        batch.push(operation(call));
        // Some operations are there many times, so that a subrange is hot.
        if call[0] >= 224 {
            let hot = operation(call);
            batch.extend(std::iter::repeat_n(hot, usize::from(call[3])));
        }
        if call[0] % 32 == 15 || number == last {
            let answers = map.execute(&batch).expect("a batch");
            assert_eq!(answers.len(), batch.len());
            for (operation, answer) in batch.drain(..).zip(answers) {
                assert_eq!(answer, expected(&mut model, &operation), "{operation:?}");
            }
            assert_eq!(map.len(), model.len() as u64);
        }
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fresh::fresh(data, size, max_size, seed)
});
