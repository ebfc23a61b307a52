//! The conformance suite of maps, run on both backends and under all guidelines.

use std::collections::BTreeMap;

use cenote::memory::Mapped;
use cenote::{Coherent, Error, Guidelines, Noncoherent, Options, Pool, Put, Replace};
use rand::prelude::*;

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
            fn coherent_cc() { super::$name::<Coherent>(Guidelines::CC) }
            #[test]
            fn noncoherent_p3() { super::$name::<Noncoherent>(Guidelines::P3) }
            #[test]
            fn noncoherent_sp() { super::$name::<Noncoherent>(Guidelines::SP) }
            #[test]
            fn noncoherent_cc() { super::$name::<Noncoherent>(Guidelines::CC) }
        })*
    };
}

everywhere!(
    one_key,
    behaves_like_a_btree_map,
    grows_and_keeps_everything,
    threads_agree,
    large_values_and_keys
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

fn one_key<M: Mapped>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = pool.map("m").unwrap();
    assert!(map.get(b"k").unwrap().is_none());
    assert!(!map.remove(b"k").unwrap());
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
    assert!(map.insert(b"k", b"").unwrap());
    assert_eq!(map.get(b"k").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(map.put(b"", b"empty key").unwrap(), Put::Inserted);
    assert_eq!(map.get(b"").unwrap().as_deref(), Some(&b"empty key"[..]));
    assert_eq!(map.put_u64(5, 6).unwrap(), Put::Inserted);
    assert_eq!(map.get_u64(5).unwrap(), Some(6));
    assert_eq!(map.put_u64(5, 7).unwrap(), Put::Replaced);
    assert_eq!(map.get_u64(5).unwrap(), Some(7));
    assert_eq!(
        map.replace(&5u64.to_le_bytes(), &7u64.to_le_bytes(), &8u64.to_le_bytes())
            .unwrap(),
        Replace::Replaced
    );
    assert_eq!(map.get_u64(5).unwrap(), Some(8));
    assert_eq!(
        map.put(&5u64.to_le_bytes(), b"longer than eight").unwrap(),
        Put::Replaced
    );
    assert_eq!(map.get_u64(5).unwrap(), None);
    assert_eq!(map.len(), 3);
    assert_clean(&pool);
}

fn behaves_like_a_btree_map<M: Mapped>(guidelines: Guidelines) {
    let seed = seed();
    let mut rng = StdRng::seed_from_u64(seed);
    let (_folder, pool) = pool::<M>(guidelines);
    let map = pool.map("m").unwrap();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for step in 0..20_000 {
        let key: Vec<u8> = match rng.random_range(0..3) {
            0 => rng.random_range(0..500u64).to_le_bytes().to_vec(),
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
                        let is_overwritten = !guidelines.out_of_place && key.len() == 8 && old.len() == 8;
                        match map.replace(&key, old, &value) {
                            Ok(replaced) => {
                                assert_eq!(replaced, Replace::Replaced, "step {step}");
                                *old = value;
                            }
                            Err(Error::InPlace { len }) => {
                                assert!(is_overwritten && len != 8, "step {step}: {len} bytes");
                            }
                            Err(error) => panic!("step {step}: {error}"),
                        }
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
    }
    let mut pairs: Vec<_> = map.iter().map(|pair| pair.unwrap()).collect();
    pairs.sort();
    assert!(pairs.iter().map(|(k, v)| (k, v)).eq(model.iter()));
    assert_eq!(map.len(), model.len() as u64);
    let keys: Vec<_> = model.keys().cloned().chain([b"missing".to_vec()]).collect();
    let mut found = 0;
    map.get_many(&keys, |n, value| {
        assert_eq!(value, model.get(&keys[n]).map(Vec::as_slice));
        found += 1;
    })
    .unwrap();
    assert_eq!(found, keys.len());
    assert_clean(&pool);
}

fn grows_and_keeps_everything<M: Mapped>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = pool.map("m").unwrap();
    let n = if M::COHERENT { 200_000 } else { 40_000 };
    for i in 0..n {
        assert_eq!(map.put_u64(i, !i).unwrap(), Put::Inserted, "{i}");
        if i % 1000 == 0 {
            assert_eq!(map.get_u64(i / 2).unwrap(), Some(!(i / 2)));
        }
    }
    for i in 0..n {
        assert_eq!(map.get_u64(i).unwrap(), Some(!i), "{i}");
    }
    assert_eq!(map.len(), n);
    let mut seen = 0;
    map.for_each(|_, _| seen += 1).unwrap();
    assert_eq!(seen, n);
    assert_clean(&pool);
    for i in 0..n {
        assert!(map.remove(&i.to_le_bytes()).unwrap());
    }
    assert_eq!(map.len(), 0);
    assert_clean(&pool);
    for i in 0..n / 2 {
        assert_eq!(map.put_u64(i, i).unwrap(), Put::Inserted);
    }
    assert_clean(&pool);
}

fn threads_agree<M: Mapped>(guidelines: Guidelines) {
    let seed = seed();
    let (_folder, pool) = pool::<M>(guidelines);
    let per_thread = if M::COHERENT { 30_000 } else { 6_000 };
    // Each thread counts a key up by compare-and-replace, and churns keys of its own so that the map moves.
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let pool = &pool;
            scope.spawn(move || {
                let map = pool.map("m").unwrap();
                let mut rng = StdRng::seed_from_u64(seed + thread);
                for i in 0..per_thread {
                    let own = (thread + 1) << 32 | rng.random_range(0..per_thread);
                    if rng.random_range(0..4) == 0 {
                        map.remove(&own.to_le_bytes()).unwrap();
                    } else {
                        map.put_u64(own, i).unwrap();
                        assert_eq!(map.get_u64(own).unwrap(), Some(i));
                    }
                    if i % 16 == 0 {
                        loop {
                            let current = map.get_u64(1).unwrap();
                            let done = match current {
                                None => map.insert(&1u64.to_le_bytes(), &1u64.to_le_bytes()).unwrap(),
                                Some(n) => {
                                    let (n, next) = (n.to_le_bytes(), (n + 1).to_le_bytes());
                                    map.replace(&1u64.to_le_bytes(), &n, &next).unwrap() == Replace::Replaced
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
    let map = pool.map("m").unwrap();
    assert_eq!(map.get_u64(1).unwrap(), Some(3 * per_thread.div_ceil(16)));
    assert_clean(&pool);
}

fn large_values_and_keys<M: Mapped>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = pool.map("m").unwrap();
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
    let key = vec![1; cenote::index::hash::KEY_MAX];
    map.put(&key, b"long").unwrap();
    assert_eq!(map.get(&key).unwrap().as_deref(), Some(&b"long"[..]));
    let error = map
        .put(&vec![1; cenote::index::hash::KEY_MAX + 1], b"too long")
        .unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    assert_clean(&pool);
}
