//! Byte strings as keys and values, in every map of a store.

use std::collections::BTreeMap;

use cenote::causes::Structure;
use cenote::memory::Mapped;
use cenote::{Error, Guidelines, Put, Replace};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Model, assert_clean, pool, seed};
use crate::subject::{Pair, TestMap};

/// Each call on a key, there and not there, empty and not.
pub fn one_key<M: Mapped, T: TestMap<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = T::open(&pool, "m").unwrap();
    assert!(map.get(b"k").unwrap().is_none());
    assert!(!map.remove(b"k").unwrap());
    assert_eq!(map.replace(b"k", b"", b"").unwrap(), Replace::Missing);
    map.assert_same(&Model::new(), b"", None);
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
    map.assert_same(&Model::new(), b"k", None);
    assert!(map.insert(b"k", b"").unwrap());
    assert_eq!(map.get(b"k").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(map.put(b"", b"empty key").unwrap(), Put::Inserted);
    assert_eq!(map.get(b"").unwrap().as_deref(), Some(&b"empty key"[..]));
    assert_eq!(map.put_u64(5, 6).unwrap(), Put::Inserted);
    assert_eq!(map.get_u64(5).unwrap(), Some(6));
    assert_eq!(map.put_u64(5, 7).unwrap(), Put::Replaced);
    assert_eq!(map.get_u64(5).unwrap(), Some(7));
    let (key, seven, eight) = (T::word(5), 7u64.to_le_bytes(), 8u64.to_le_bytes());
    assert_eq!(map.replace(&key, &seven, &eight).unwrap(), Replace::Replaced);
    assert_eq!(map.get_u64(5).unwrap(), Some(8));
    assert_eq!(map.put(&key, b"longer than eight").unwrap(), Put::Replaced);
    assert_eq!(map.get_u64(5).unwrap(), None);
    assert_eq!(map.put_u64(5, 9).unwrap(), Put::Replaced);
    assert_eq!(map.get_u64(5).unwrap(), Some(9));
    assert_eq!(map.len(), 3);
    assert_clean(&pool);
}

/// A name has one kind, and `existing` calls create nothing.
pub fn one_kind_a_name<M: Mapped, T: TestMap<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    assert!(matches!(
        T::existing(&pool, "m"),
        Err(Error::NoSuch {
            kind: Structure::Map,
            ..
        })
    ));
    drop(T::open(&pool, "m").unwrap());
    assert!(T::existing(&pool, "m").is_ok());
    let errors = [pool.map("m").err(), pool.ordered("m").err()];
    let refusals = errors.iter().flatten();
    assert_eq!(refusals.clone().count(), 1, "{errors:?}");
    for error in refusals {
        assert!(matches!(error, Error::OtherKind { .. }), "{error}");
    }
    assert_eq!(pool.names().unwrap(), ["m"]);
    assert_clean(&pool);
}

/// Random calls, step by step as a model does.
pub fn behaves_like_a_btree_map<M: Mapped, T: TestMap<M>>(guidelines: Guidelines) {
    let mut rng = StdRng::seed_from_u64(seed());
    let (_folder, pool) = pool::<M>(guidelines);
    let map = T::open(&pool, "m").unwrap();
    let mut model = Model::new();
    for step in 0..20_000 {
        let key: Vec<u8> = match rng.random_range(0..3) {
            0 => T::word(rng.random_range(0..500)).to_vec(),
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
                        match map.replace(&key, old, &value) {
                            Ok(replaced) => {
                                assert_eq!(replaced, Replace::Replaced, "step {step}");
                                *old = value;
                            }
                            Err(error) => {
                                let is_right = is_refused::<M, T>(guidelines, &key, old, &value);
                                assert!(
                                    is_right && matches!(error, Error::InPlace { .. }),
                                    "step {step}: {error}"
                                );
                            }
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
        if step % 1000 == 0 {
            map.assert_same(&model, &[rng.random_range(0..120)], None);
        }
        if step % 1000 == 500 {
            let to = [rng.random_range(0..10), 1];
            map.assert_same(&model, &[0, rng.random_range(0..3)], Some(&to));
        }
    }
    assert_eq!(map.len(), model.len() as u64);
    map.assert_same(&model, b"", None);
    assert_clean(&pool);
}

/// Whether a map that overwrites in place may refuse to replace a value by another.
pub fn is_refused<M: Mapped, T: TestMap<M>>(
    guidelines: Guidelines,
    key: &[u8],
    old: &[u8],
    value: &[u8],
) -> bool {
    let is_in_place = T::HAS_IN_PLACE && !guidelines.out_of_place;
    is_in_place && key.len() == 8 && old.len() == 8 && value.len() != 8
}

/// Many keys, in random order; all of them removed; half of them put again.
pub fn grows_and_keeps_everything<M: Mapped, T: TestMap<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = T::open(&pool, "m").unwrap();
    let n = T::MANY[usize::from(!M::COHERENT)];
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
    let mut seen = Vec::new();
    map.for_each(|key, value| {
        let key = T::number(key);
        assert_eq!(value, (!key).to_le_bytes());
        seen.push(key);
    })
    .unwrap();
    if map.ascending(b"", |_, _| false).is_none() {
        seen.sort();
    }
    assert!(seen.into_iter().eq(0..n));
    assert_clean(&pool);
    for i in 0..n {
        assert!(map.remove(&T::word(key(i))).unwrap());
    }
    assert_eq!(map.len(), 0);
    map.assert_same(&Model::new(), b"", None);
    assert_clean(&pool);
    for i in 0..n / 2 {
        assert_eq!(map.put_u64(i, i).unwrap(), Put::Inserted);
    }
    let mut seen = 0;
    map.for_each(|_, _| seen += 1).unwrap();
    assert_eq!((seen, map.len()), (n / 2, n / 2));
    assert_clean(&pool);
}

/// Each thread increments a key by compare-and-replace, and churns keys of its own that lie among those of the others;
/// it sees its own in every lookup, and in every scan.
pub fn threads_agree<M: Mapped, T: TestMap<M>>(guidelines: Guidelines) {
    const COUNTED: u64 = 1;
    let seed = seed();
    let (_folder, pool) = pool::<M>(guidelines);
    let per_thread: u64 = if M::COHERENT { 30_000 } else { 6_000 };
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let pool = &pool;
            scope.spawn(move || {
                let map = T::open(pool, "m").unwrap();
                let mut rng = StdRng::seed_from_u64(seed + thread);
                let mut own = BTreeMap::new();
                for i in 0..per_thread {
                    let key = 3 * rng.random_range(0..per_thread) + thread + 10;
                    if rng.random_range(0..4) == 0 {
                        assert_eq!(map.remove(&T::word(key)).unwrap(), own.remove(&key).is_some());
                    } else {
                        let put = map.put_u64(key, i).unwrap();
                        assert_eq!(put == Put::Replaced, own.insert(key, i).is_some());
                        assert_eq!(map.get_u64(key).unwrap(), Some(i));
                    }
                    if i % 64 == 0 {
                        let mut seen = Vec::new();
                        let scan = map.ascending(&T::word(key), |found, value| {
                            let found = T::number(found);
                            if found % 3 == (thread + 10) % 3 {
                                seen.push((found, u64::from_le_bytes(value.try_into().unwrap())));
                            }
                            seen.len() < 20
                        });
                        let expected = own.range(key..).take(20).map(|(&k, &v)| (k, v));
                        match scan {
                            Some(outcome) => assert!(outcome.is_ok() && expected.eq(seen)),
                            None => expected.for_each(|(k, v)| assert_eq!(map.get_u64(k).unwrap(), Some(v))),
                        }
                    }
                    if i % 16 == 0 {
                        count_up(&map, &T::word(COUNTED));
                    }
                }
                own
            });
        }
    });
    let map = T::open(&pool, "m").unwrap();
    assert_eq!(map.get_u64(COUNTED).unwrap(), Some(3 * per_thread.div_ceil(16)));
    assert_clean(&pool);
}

/// Increments a key's value, while others may do so too.
fn count_up<M: Mapped, T: TestMap<M>>(map: &T, key: &[u8]) {
    loop {
        let done = match map.get(key).unwrap() {
            None => map.insert(key, &1u64.to_le_bytes()).unwrap(),
            Some(found) => {
                let next = u64::from_le_bytes(found[..].try_into().unwrap()) + 1;
                map.replace(key, &found, &next.to_le_bytes()).unwrap() == Replace::Replaced
            }
        };
        if done {
            break;
        }
    }
}

/// Values of all classes of objects, and of several frames; keys as long as they may be.
pub fn large_values_and_keys<M: Mapped, T: TestMap<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = T::open(&pool, "m").unwrap();
    for round in 0..3u8 {
        for len in [1, 15, 16, 17, 1000, 32_000, 40_000, 65_536, 1 << 20, 9 << 20] {
            let (key, value) = pair(len, round);
            map.put(&key, &value).unwrap();
            assert_eq!(map.get(&key).unwrap(), Some(value));
        }
        assert_clean(&pool);
    }
    let key = vec![1; T::KEY_MAX];
    map.put(&key, b"long").unwrap();
    assert_eq!(map.get(&key).unwrap().as_deref(), Some(&b"long"[..]));
    let error = map.put(&vec![1; T::KEY_MAX + 1], b"too long").unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    assert_clean(&pool);
}

fn pair(len: usize, content: u8) -> Pair {
    (format!("value of {len}").into_bytes(), vec![content; len])
}
