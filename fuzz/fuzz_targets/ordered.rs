//! Any calls on an ordered map and on a `BTreeMap`: the same answers, and no byte lost.
//!
//! `cargo fuzz run ordered` with a nightly toolchain, or
//! `cargo run --release --bin ordered -- -max_total_time=60 -max_len=2000` in this folder with a stable one, without
//! coverage. The first byte of the input says which guidelines; then come calls of four bytes: what to do, which key
//! (two), which value.
#![no_main]

use std::collections::BTreeMap;

use cenote::{Coherent, Guidelines, Options, Ordered, Pool, Put, Range, Replace};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

mod fresh;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys: words, short ones, and long ones that begin alike.
fn key(which: [u8; 2]) -> Vec<u8> {
    let n = u16::from_le_bytes(which);
    match n % 8 {
        0..4 => u64::from(n >> 3).to_be_bytes().to_vec(),
        4 | 5 => which[..usize::from(n >> 3) % 3].to_vec(),
        6 => vec![0; usize::from(n >> 3) % 64],
        _ => [&[9; 2_000][..], &which].concat(),
    }
}

fn value(which: u8) -> Vec<u8> {
    match which % 4 {
        0 | 1 => vec![which; 8],
        2 => vec![which; usize::from(which)],
        _ => vec![which; 20 * usize::from(which)],
    }
}

/// Compares reads of several keys with the model.
fn look(map: &Ordered<Coherent>, model: &Model, from: &[u8], limit: usize) {
    let (range, mut found) = (Range { from, to: None }, Vec::new());
    map.scan(range, |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        found.len() < limit
    })
    .expect("a scan");
    let expected = model.range(from.to_vec()..).take(limit.max(1));
    assert!(expected.eq(found.iter().map(|(key, value)| (key, value))));
    found.clear();
    let range = Range {
        from: &[],
        to: Some(from),
    };
    map.scan_reverse(range, |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        found.len() < limit
    })
    .expect("a scan");
    let expected = model.range(..from.to_vec()).rev().take(limit.max(1));
    assert!(expected.eq(found.iter().map(|(key, value)| (key, value))));
    let owned = |pair: Option<(&Vec<u8>, &Vec<u8>)>| pair.map(|(key, value)| (key.clone(), value.clone()));
    assert_eq!(map.first().expect("the first"), owned(model.first_key_value()));
    assert_eq!(map.last().expect("the last"), owned(model.last_key_value()));
}

fuzz_target!(|input: &[u8]| {
    let Some((which, calls)) = input.split_first() else {
        return;
    };
    let options = Options {
        size: 1 << 20,
        max: 256 << 20,
        processes: 4,
        workers: 8,
        names: 4,
        guidelines: if which % 2 == 0 {
            Guidelines::P3
        } else {
            Guidelines::SP
        },
        ..Options::default()
    };
    let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
    let pool: Pool = Pool::create(folder.path().join("pool"), &options).expect("a new pool");
    let map = pool.ordered("m").expect("a new map");
    let mut model = Model::new();
    for call in calls.chunks_exact(4) {
        let (key, value) = (key([call[1], call[2]]), value(call[3]));
        match call[0] % 16 {
            0..5 => {
                let put = map.put(&key, &value).expect("a put");
                assert_eq!(put == Put::Replaced, model.insert(key, value).is_some());
            }
            5 => {
                let inserted = map.insert(&key, &value).expect("an insert");
                assert_eq!(inserted, !model.contains_key(&key));
                model.entry(key).or_insert(value);
            }
            6 => {
                let expected = model.get(&key).cloned().unwrap_or_default();
                let outcome = map.replace(&key, &expected, &value).expect("a replace");
                assert_eq!(outcome == Replace::Replaced, model.contains_key(&key));
                model.entry(key).and_modify(|old| *old = value);
            }
            7..12 => assert_eq!(map.remove(&key).expect("a remove"), model.remove(&key).is_some()),
            12 => {
                // As many pairs as a leaf has, from a word on.
                let first = u64::from(call[1]) * 4;
                let pairs: Vec<_> = (first..first + 28)
                    .map(|n| (n.to_be_bytes().to_vec(), vec![call[3]; 8]))
                    .collect();
                let before = model.len() as u64;
                let new = map.put_all(pairs.clone()).expect("pairs");
                model.extend(pairs);
                assert_eq!(new, model.len() as u64 - before);
            }
            13 => look(&map, &model, &key, usize::from(call[3])),
            14 => drop(pool.collect().expect("a collection")),
            _ => {
                let found = map.get(&key).expect("a get");
                assert_eq!(found.as_deref(), model.get(&key).map(Vec::as_slice));
            }
        }
    }
    look(&map, &model, &[], usize::MAX);
    assert_eq!(map.len(), model.len() as u64);
    assert!(pool.fsck().expect("a check").is_clean());
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fresh::fresh(data, size, max_size, seed)
});
