//! The conformance suite of ordered maps, run on both backends and under all guidelines; and a model test, whose failures
//! shrink.

mod model;
mod shrinks;

use std::collections::BTreeMap;
use std::ops::Bound;

use cenote::index::ordered::{KEY_MAX, LEAF_MAX};
use cenote::memory::Mapped;
use cenote::{Coherent, Error, Guidelines, Noncoherent, Options, Ordered, Pool, Put, Range, Replace};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use shrinks::{shrinks_and_grows_again, threads_shrink};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(guidelines: Guidelines) -> Options {
    Options {
        size: 1 << 20,
        max: 4 << 30,
        guidelines,
        ..Options::default()
    }
}

fn seed() -> u64 {
    let seed = std::env::var("CENOTE_TEST_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0x5eed);
    println!("seed: CENOTE_TEST_SEED={seed}");
    seed
}

/// Runs a test on every backend and under every set of guidelines.
macro_rules! everywhere {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            use super::*;
            #[test]
            fn coherent_p3() { super::$name::<Coherent>(Guidelines::P3) }
            #[test]
            fn coherent_sp() { super::$name::<Coherent>(Guidelines::SP) }
            #[test]
            fn noncoherent_p3() { super::$name::<Noncoherent>(Guidelines::P3) }
            #[test]
            fn noncoherent_replicated() {
                super::$name::<Noncoherent>(Guidelines { speculate: false, ..Guidelines::P3 })
            }
            #[test]
            fn noncoherent_sp() { super::$name::<Noncoherent>(Guidelines::SP) }
        })*
    };
}

everywhere!(
    one_key,
    behaves_like_a_btree_map,
    grows_and_keeps_everything,
    threads_agree,
    large_values_and_keys,
    keys_that_begin_alike,
    many_at_once,
    ascending_keys_fill_leaves,
    shrinks_and_grows_again,
    threads_shrink,
);

fn pool<M: Mapped>(guidelines: Guidelines) -> (tempfile::TempDir, Pool<M>) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::create(folder.path().join("pool"), &options(guidelines)).unwrap();
    (folder, pool)
}

fn assert_clean<M: Mapped>(pool: &Pool<M>) {
    let report = pool.fsck(false).unwrap();
    assert!(report.is_clean(), "{report:#?}");
    let sum = report.reachable_bytes
        + report.free_bytes
        + report.retired_bytes
        + report.held_bytes
        + report.overhead_bytes
        + report.leaked_bytes;
    assert_eq!(sum, report.committed_bytes, "{report:#?}");
}

fn scanned<M: Mapped>(map: &Ordered<M>, range: Range<'_>, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    map.scan(range, |key, value| {
        if found.len() < limit {
            found.push((key.to_vec(), value.to_vec()));
        }
        found.len() < limit
    })
    .unwrap();
    found
}

fn scanned_back<M: Mapped>(map: &Ordered<M>, range: Range<'_>, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    map.scan_reverse(range, |key, value| {
        if found.len() < limit {
            found.push((key.to_vec(), value.to_vec()));
        }
        found.len() < limit
    })
    .unwrap();
    found
}

/// Compares all that reads order with the model, around one key.
fn assert_same_around<M: Mapped>(map: &Ordered<M>, model: &Model, from: &[u8], to: Option<&[u8]>) {
    let owned = |pair: Option<(&Vec<u8>, &Vec<u8>)>| pair.map(|(k, v)| (k.clone(), v.clone()));
    let above = (Bound::Excluded(from.to_vec()), Bound::Unbounded);
    assert_eq!(map.successor(from).unwrap(), owned(model.range(above).next()));
    let below = (Bound::Unbounded, Bound::Excluded(from.to_vec()));
    assert_eq!(
        map.predecessor(from).unwrap(),
        owned(model.range(below).next_back())
    );
    assert_eq!(map.first().unwrap(), owned(model.first_key_value()));
    assert_eq!(map.last().unwrap(), owned(model.last_key_value()));
    let range = Range { from, to };
    let expected: Vec<_> = match to {
        Some(to) if to < from => Vec::new(),
        Some(to) => model.range(from.to_vec()..to.to_vec()).collect(),
        None => model.range(from.to_vec()..).collect(),
    };
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    assert_eq!(scanned(map, range, usize::MAX), expected);
    assert_eq!(scanned(map, range, 3), expected[..expected.len().min(3)]);
    let back: Vec<_> = expected.iter().rev().cloned().collect();
    assert_eq!(scanned_back(map, range, usize::MAX), back);
    assert_eq!(scanned_back(map, range, 2), back[..back.len().min(2)]);
    assert_eq!(map.count(range).unwrap(), expected.len() as u64);
}

fn one_key<M: Mapped>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = pool.ordered("m").unwrap();
    assert!(map.get(b"k").unwrap().is_none());
    assert!(!map.remove(b"k").unwrap());
    assert_eq!(map.replace(b"k", b"", b"").unwrap(), Replace::Missing);
    assert_same_around(&map, &Model::new(), b"", None);
    assert_eq!(map.put(b"k", b"v1").unwrap(), Put::Inserted);
    assert_eq!(map.put(b"k", b"v2").unwrap(), Put::Replaced);
    assert!(!map.insert(b"k", b"v3").unwrap());
    assert_eq!(map.get(b"k").unwrap().as_deref(), Some(&b"v2"[..]));
    assert_eq!(
        map.replace(b"k", b"v1", b"v4").unwrap(),
        Replace::Differs(b"v2".to_vec())
    );
    assert_eq!(map.replace(b"k", b"v2", b"v4").unwrap(), Replace::Replaced);
    assert_eq!(map.replace(b"x", b"v2", b"v4").unwrap(), Replace::Missing);
    assert_eq!(map.len(), 1);
    assert!(map.remove(b"k").unwrap());
    assert!(map.get(b"k").unwrap().is_none());
    assert_same_around(&map, &Model::new(), b"k", None);
    assert!(map.insert(b"k", b"").unwrap());
    assert_eq!(map.get(b"k").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(map.put(b"", b"empty key").unwrap(), Put::Inserted);
    assert_eq!(map.get(b"").unwrap().as_deref(), Some(&b"empty key"[..]));
    assert_eq!(map.put_u64(5, 6).unwrap(), Put::Inserted);
    assert_eq!(map.get_u64(5).unwrap(), Some(6));
    assert_eq!(map.put_u64(5, 7).unwrap(), Put::Replaced);
    assert_eq!(map.get_u64(5).unwrap(), Some(7));
    assert_eq!(
        map.put(&5u64.to_be_bytes(), b"longer than eight").unwrap(),
        Put::Replaced
    );
    assert_eq!(map.get_u64(5).unwrap(), None);
    assert_eq!(map.put_u64(5, 8).unwrap(), Put::Replaced);
    assert_eq!(map.get_u64(5).unwrap(), Some(8));
    assert_eq!(map.len(), 3);
    let error = pool.map("m").err().unwrap();
    assert!(matches!(error, Error::OtherKind { .. }), "{error}");
    drop(pool.map("hash").unwrap());
    assert!(matches!(pool.ordered("hash"), Err(Error::OtherKind { .. })));
    assert!(matches!(
        pool.existing_ordered("none"),
        Err(Error::NoSuchMap { .. })
    ));
    assert_clean(&pool);
}

fn behaves_like_a_btree_map<M: Mapped>(guidelines: Guidelines) {
    let mut rng = StdRng::seed_from_u64(seed());
    let (_folder, pool) = pool::<M>(guidelines);
    let map = pool.ordered("m").unwrap();
    let mut model = Model::new();
    let steps = if M::COHERENT { 20_000 } else { 8_000 };
    for step in 0..steps {
        let key: Vec<u8> = match rng.random_range(0..3) {
            0 => rng.random_range(0..500u64).to_be_bytes().to_vec(),
            1 => format!("key{}", rng.random_range(0..500)).into_bytes(),
            _ => vec![7; rng.random_range(0..300)],
        };
        let value = vec![step as u8; [8, 8, 8, 0, 3, 100, 5000][rng.random_range(0..7)]];
        match rng.random_range(0..10) {
            0..4 => {
                let old = model.insert(key.clone(), value.clone());
                let put = map.put(&key, &value).unwrap();
                assert_eq!(put == Put::Replaced, old.is_some(), "step {step}");
            }
            4 => {
                let is_new = !model.contains_key(&key);
                assert_eq!(map.insert(&key, &value).unwrap(), is_new, "step {step}");
                model.entry(key).or_insert(value);
            }
            5 => {
                let expected = match model.get_mut(&key) {
                    Some(old) if old.len() % 2 == 0 => {
                        let before = std::mem::replace(old, value.clone());
                        assert_eq!(map.replace(&key, &before, &value).unwrap(), Replace::Replaced);
                        continue;
                    }
                    Some(old) => Replace::Differs(old.clone()),
                    None => Replace::Missing,
                };
                assert_eq!(map.replace(&key, b"certainly not it", &value).unwrap(), expected);
            }
            6..8 => assert_eq!(
                map.remove(&key).unwrap(),
                model.remove(&key).is_some(),
                "step {step}"
            ),
            _ => {
                let found = map.get(&key).unwrap();
                assert_eq!(
                    found.as_deref(),
                    model.get(&key).map(Vec::as_slice),
                    "step {step}"
                );
            }
        }
        if step % 500 == 0 {
            let to = [rng.random_range(0..10), 1];
            assert_same_around(&map, &model, &[rng.random_range(0..120)], None);
            assert_same_around(&map, &model, &[0, rng.random_range(0..3)], Some(&to));
        }
    }
    assert_eq!(map.len(), model.len() as u64);
    assert_same_around(&map, &model, b"", None);
    assert_clean(&pool);
}

fn grows_and_keeps_everything<M: Mapped>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = pool.ordered("m").unwrap();
    let n: u64 = if M::COHERENT { 100_000 } else { 12_000 };
    // Each number once, in an order that is none.
    let key = |i: u64| (i * 7919) % n;
    for i in 0..n {
        assert_eq!(map.put_u64(key(i), !key(i)).unwrap(), Put::Inserted, "{i}");
        if i % 1000 == 0 {
            assert_eq!(map.get_u64(key(i / 2)).unwrap(), Some(!key(i / 2)));
        }
    }
    for i in 0..n {
        assert_eq!(map.get_u64(i).unwrap(), Some(!i), "{i}");
    }
    assert_eq!(map.get_u64(n).unwrap(), None);
    assert_eq!(map.len(), n);
    let mut next = 0u64;
    map.for_each(|key, value| {
        assert_eq!(
            (key, value),
            (&next.to_be_bytes()[..], &(!next).to_le_bytes()[..])
        );
        next += 1;
    })
    .unwrap();
    assert_eq!(next, n);
    assert_eq!(scanned_back(&map, Range::ALL, usize::MAX).len() as u64, n);
    assert_clean(&pool);
    let map_report = pool.fsck(false).unwrap().maps[0].clone();
    assert!(
        map_report.levels >= 3 && map_report.nodes > n / LEAF_MAX as u64,
        "{map_report:?}"
    );
    for i in 0..n {
        assert!(map.remove(&key(i).to_be_bytes()).unwrap());
    }
    assert_eq!(map.len(), 0);
    assert_eq!(map.first().unwrap(), None);
    assert_eq!(map.last().unwrap(), None);
    assert_clean(&pool);
    for i in 0..n / 2 {
        assert_eq!(map.put_u64(i, i).unwrap(), Put::Inserted);
    }
    assert_eq!(map.count(Range::ALL).unwrap(), n / 2);
    assert_clean(&pool);
}

fn threads_agree<M: Mapped>(guidelines: Guidelines) {
    let seed = seed();
    let (_folder, pool) = pool::<M>(guidelines);
    let per_thread: u64 = if M::COHERENT { 20_000 } else { 3_000 };
    // Each thread counts a key up by compare-and-replace, and churns keys of its own that lie among those of the others;
    // it sees its own in every scan.
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let pool = &pool;
            scope.spawn(move || {
                let map = pool.ordered("m").unwrap();
                let mut rng = StdRng::seed_from_u64(seed + thread);
                let mut own = BTreeMap::new();
                for i in 0..per_thread {
                    let key = 3 * rng.random_range(0..per_thread) + thread + 10;
                    if rng.random_range(0..4) == 0 {
                        assert_eq!(
                            map.remove(&key.to_be_bytes()).unwrap(),
                            own.remove(&key).is_some()
                        );
                    } else {
                        map.put_u64(key, i).unwrap();
                        own.insert(key, i);
                        assert_eq!(map.get_u64(key).unwrap(), Some(i));
                    }
                    if i % 64 == 0 {
                        let mut seen = Vec::new();
                        let from = key.to_be_bytes();
                        map.scan(
                            Range {
                                from: &from,
                                to: None,
                            },
                            |found, value| {
                                let found = u64::from_be_bytes(found.try_into().unwrap());
                                if found % 3 == (thread + 10) % 3 {
                                    seen.push((found, u64::from_le_bytes(value.try_into().unwrap())));
                                }
                                seen.len() < 20
                            },
                        )
                        .unwrap();
                        let expected: Vec<_> = own.range(key..).take(20).map(|(&k, &v)| (k, v)).collect();
                        assert_eq!(seen, expected);
                    }
                    if i % 16 == 0 {
                        let counted = 1u64.to_be_bytes();
                        loop {
                            let done = match map.get_u64(1).unwrap() {
                                None => map.insert(&counted, &1u64.to_le_bytes()).unwrap(),
                                Some(n) => {
                                    let (n, next) = (n.to_le_bytes(), (n + 1).to_le_bytes());
                                    map.replace(&counted, &n, &next).unwrap() == Replace::Replaced
                                }
                            };
                            if done {
                                break;
                            }
                        }
                    }
                }
            });
        }
    });
    let map = pool.ordered("m").unwrap();
    assert_eq!(map.get_u64(1).unwrap(), Some(3 * per_thread.div_ceil(16)));
    assert_clean(&pool);
}

fn large_values_and_keys<M: Mapped>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = pool.ordered("m").unwrap();
    for round in 0..3u8 {
        for len in [1, 15, 16, 17, 1000, 32_000, 40_000, 65_536, 1 << 20, 9 << 20] {
            let value = vec![round; len];
            map.put(format!("value of {len}").as_bytes(), &value).unwrap();
            assert_eq!(
                map.get(format!("value of {len}").as_bytes()).unwrap().as_deref(),
                Some(&value[..])
            );
        }
        assert_clean(&pool);
    }
    let key = vec![1; KEY_MAX];
    map.put(&key, b"long").unwrap();
    assert_eq!(map.get(&key).unwrap().as_deref(), Some(&b"long"[..]));
    let error = map.put(&vec![1; KEY_MAX + 1], b"too long").unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    assert_clean(&pool);
}

/// Separators as long as keys: pages that take units of their own.
fn keys_that_begin_alike<M: Mapped>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = pool.ordered("m").unwrap();
    let mut model = Model::new();
    for n in 0..400u32 {
        let mut key = vec![7; 20_000];
        key.extend_from_slice(&(n.wrapping_mul(2_654_435_761)).to_be_bytes());
        map.put(&key, &n.to_le_bytes()).unwrap();
        model.insert(key, n.to_le_bytes().to_vec());
    }
    assert!(
        scanned(&map, Range::ALL, usize::MAX)
            .into_iter()
            .eq(model.clone())
    );
    for (key, value) in &model {
        assert_eq!(map.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    assert_eq!(scanned_back(&map, Range::ALL, usize::MAX).len(), model.len());
    assert_clean(&pool);
    let before = pool.fsck(false).unwrap().maps[0].nodes;
    for key in model.keys() {
        assert!(map.remove(key).unwrap());
    }
    assert_clean(&pool);
    let after = pool.fsck(false).unwrap().maps[0].nodes;
    assert!(after < before / 4, "{after} nodes of {before}");
}

fn many_at_once<M: Mapped>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = pool.ordered("m").unwrap();
    let mut model = Model::new();
    let pair = |n: u64, value: u64| (n.to_be_bytes().to_vec(), value.to_le_bytes().to_vec());
    let mut check = |pairs: Vec<(Vec<u8>, Vec<u8>)>| {
        let expected = pairs.iter().filter(|(key, _)| !model.contains_key(key));
        let expected = expected
            .map(|(key, _)| key)
            .collect::<std::collections::BTreeSet<_>>()
            .len();
        assert_eq!(map.put_all(pairs.clone()).unwrap(), expected as u64);
        model.extend(pairs);
        assert!(
            scanned(&map, Range::ALL, usize::MAX)
                .into_iter()
                .eq(model.clone())
        );
        assert_eq!(map.len(), model.len() as u64);
        assert_clean(&pool);
    };
    check((0..1000).map(|n| pair(4 * n, n)).collect());
    // Between them, over them, and not in order.
    check((0..1000).map(|n| pair(3 * n, n + 1)).collect());
    check((0..1000).map(|n| pair(n * 7919 % 5000, n + 2)).collect());
    // Among and over records.
    check(
        (0..300)
            .map(|n| (pair(n, 0).0, vec![1; n as usize % 20]))
            .collect(),
    );
    check((0..300).map(|n| pair(n, n + 3)).collect());
    check(Vec::new());
    let nodes = pool.fsck(false).unwrap().maps[0].nodes;
    let (_folder, pool) = self::pool::<M>(guidelines);
    let map = pool.ordered("m").unwrap();
    assert_eq!(map.put_all((0..5000u64).map(|n| pair(n, n))).unwrap(), 5000);
    let ascending = pool.fsck(false).unwrap().maps[0].nodes;
    assert!(ascending < 5000 / 28 + 20 && nodes > 0, "{ascending} nodes");
    assert_clean(&pool);
}

fn ascending_keys_fill_leaves<M: Mapped>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = pool.ordered("m").unwrap();
    let n = 5_000;
    for i in 0..n {
        map.put_u64(i, i).unwrap();
    }
    let report = pool.fsck(false).unwrap().maps[0].clone();
    let least = n / LEAF_MAX as u64;
    assert!(report.nodes < least + least / 8, "{report:?}");
    assert_eq!(map.count(Range::ALL).unwrap(), n);
    assert_clean(&pool);
}
