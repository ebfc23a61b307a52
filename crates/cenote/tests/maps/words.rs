//! Keys and values of 8 bytes, in every map that implements `WordMap`: the store's maps, and those made for comparison.
//!
//! The latter never free memory, so each case says how often it writes at most.

use std::collections::BTreeMap;
use std::sync::Barrier;

use cenote::index::baseline::WordMap;
use cenote::memory::Mapped;
use cenote::{Guidelines, Pool, Put};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{assert_clean, pool, seed};

type Words = BTreeMap<u64, u64>;

const THREADS: u64 = 3;

/// Opens the map of these cases, for so many writes.
pub fn open<M: Mapped, T: WordMap<M>>(pool: &Pool<M>, guidelines: Guidelines, writes: u64) -> T {
    T::open_or_create(pool.worker().unwrap(), "words", guidelines, writes).unwrap()
}

/// The first pairs from a key on; nothing if the map has no order.
fn scanned<M: Mapped, T: WordMap<M>>(map: &T, from: u64, limit: usize) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    map.scan_u64(from, |key, value| {
        found.push((key, value));
        found.len() < limit
    })
    .unwrap();
    found
}

/// Compares what the map has from a key on with a model.
fn assert_scans<M: Mapped, T: WordMap<M>>(map: &T, model: &Words, from: u64, limit: usize) {
    let expected = model.range(from..).take(limit);
    let expected: Vec<_> = expected.map(|(key, value)| (*key, *value)).collect();
    let found = scanned(map, from, limit);
    match T::IS_ORDERED {
        true => assert_eq!(found, expected, "{}, from {from}", T::NAME),
        false => assert!(found.is_empty(), "{} has no order, and scans", T::NAME),
    }
}

/// Each call on a key, there and not there.
pub fn one_word<M: Mapped, T: WordMap<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map: T = open(&pool, guidelines, 100);
    assert!(!T::NAME.is_empty());
    assert_eq!(map.get_u64(5).unwrap(), None);
    assert!(!map.remove_u64(5).unwrap());
    assert_scans(&map, &Words::new(), 0, 9);
    assert_eq!(map.put_u64(5, 6).unwrap(), Put::Inserted);
    assert_eq!(map.get_u64(5).unwrap(), Some(6));
    assert_eq!(map.put_u64(5, 7).unwrap(), Put::Replaced);
    assert!(!map.insert_u64(5, 8).unwrap());
    assert_eq!(map.get_u64(5).unwrap(), Some(7));
    assert_eq!((map.get_u64(4).unwrap(), map.get_u64(6).unwrap()), (None, None));
    for from in [0, 5, 6] {
        assert_scans(&map, &Words::from([(5, 7)]), from, 9);
    }
    assert!(map.remove_u64(5).unwrap());
    assert!(!map.remove_u64(5).unwrap());
    assert_eq!(map.get_u64(5).unwrap(), None);
    assert_scans(&map, &Words::new(), 0, 9);
    assert!(map.insert_u64(5, 9).unwrap());
    assert_eq!(map.put_u64(5, 9).unwrap(), Put::Replaced);
    assert_eq!(map.get_u64(5).unwrap(), Some(9));
    assert_clean(&pool);
}

/// No key and no value is special: not 0, not the largest, not those that differ in their highest bits alone.
pub fn words_at_the_ends<M: Mapped, T: WordMap<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map: T = open(&pool, guidelines, 2_000);
    let mut words: Vec<u64> = (0..64).flat_map(|bit| [1 << bit, !(1 << bit)]).collect();
    words.extend([0, u64::MAX]);
    let mut model = Words::new();
    for (n, &key) in words.iter().enumerate() {
        let value = words[words.len() - 1 - n];
        let put = map.put_u64(key, value).unwrap();
        assert_eq!(
            put == Put::Replaced,
            model.insert(key, value).is_some(),
            "{key:#x}"
        );
        assert_eq!(map.get_u64(key).unwrap(), Some(value), "{key:#x}");
    }
    for &key in &words {
        assert_eq!(map.get_u64(key).unwrap(), model.get(&key).copied(), "{key:#x}");
        assert_scans(&map, &model, key, 200);
    }
    for &key in &words {
        assert_eq!(
            map.remove_u64(key).unwrap(),
            model.remove(&key).is_some(),
            "{key:#x}"
        );
        assert_eq!(map.get_u64(key).unwrap(), None, "{key:#x}");
    }
    assert_scans(&map, &model, 0, 9);
    assert_clean(&pool);
}

/// Random calls, step by step as a model does.
pub fn words_like_a_btree_map<M: Mapped, T: WordMap<M>>(guidelines: Guidelines) {
    let mut rng = StdRng::seed_from_u64(seed());
    let (_folder, pool) = pool::<M>(guidelines);
    let steps = if M::COHERENT { 20_000 } else { 6_000 };
    let map: T = open(&pool, guidelines, steps);
    let mut model = Words::new();
    for step in 0..steps {
        // Some keys lie close together, others apart.
        let key = match rng.random_range(0..2) {
            0 => rng.random_range(0..600),
            _ => rng.random_range(0..600u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        match rng.random_range(0..10) {
            0..4 => {
                let put = map.put_u64(key, step).unwrap();
                assert_eq!(
                    put == Put::Replaced,
                    model.insert(key, step).is_some(),
                    "step {step}"
                );
            }
            4 => {
                let is_new = !model.contains_key(&key);
                assert_eq!(map.insert_u64(key, step).unwrap(), is_new, "step {step}");
                model.entry(key).or_insert(step);
            }
            5..8 => {
                let was_there = model.remove(&key).is_some();
                assert_eq!(map.remove_u64(key).unwrap(), was_there, "step {step}");
            }
            _ => assert_eq!(map.get_u64(key).unwrap(), model.get(&key).copied(), "step {step}"),
        }
        if step % 200 == 0 {
            assert_scans(&map, &model, key, 50);
        }
    }
    for key in (0..600).chain(model.keys().copied()) {
        assert_eq!(map.get_u64(key).unwrap(), model.get(&key).copied());
    }
    assert_scans(&map, &model, 0, usize::MAX);
    assert_clean(&pool);
}

/// Many keys in ascending and in no order, more than a map begins with; then none, then some.
pub fn words_grow_and_stay<M: Mapped, T: WordMap<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let n: u64 = if M::COHERENT { 40_000 } else { 6_000 };
    let map: T = open(&pool, guidelines, 3 * n);
    let key = |i: u64| {
        if i < n / 2 {
            i
        } else {
            n / 2 + (i * 7919) % (n / 2)
        }
    };
    for i in 0..n {
        assert!(map.insert_u64(key(i), !key(i)).unwrap(), "{i}");
        if i % 500 == 0 {
            assert_eq!(map.get_u64(key(i / 2)).unwrap(), Some(!key(i / 2)));
        }
    }
    for key in 0..n {
        assert_eq!(map.get_u64(key).unwrap(), Some(!key), "{key}");
    }
    assert_eq!(map.get_u64(n).unwrap(), None);
    if T::IS_ORDERED {
        assert!(
            scanned(&map, 0, usize::MAX)
                .into_iter()
                .eq((0..n).map(|key| (key, !key)))
        );
    }
    assert_clean(&pool);
    for i in 0..n {
        assert!(map.remove_u64(key(i)).unwrap(), "{i}");
    }
    assert_scans(&map, &Words::new(), 0, 9);
    for key in 0..n / 2 {
        assert_eq!(map.get_u64(key).unwrap(), None, "{key}");
        assert_eq!(map.put_u64(key, key).unwrap(), Put::Inserted, "{key}");
    }
    for key in 0..n {
        assert_eq!(map.get_u64(key).unwrap(), (key < n / 2).then_some(key), "{key}");
    }
    assert_clean(&pool);
}

/// Another thread, and a process that opens the pool again, find what one thread wrote.
pub fn words_are_there_for_others<M: Mapped, T: WordMap<M>>(guidelines: Guidelines) {
    let (folder, pool) = pool::<M>(guidelines);
    let n = 500;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let map: T = open(&pool, guidelines, 4 * n);
            (0..n).for_each(|key| assert!(map.insert_u64(key, key).unwrap()));
        });
    });
    {
        let map: T = open(&pool, guidelines, 4 * n);
        for key in 0..n {
            assert_eq!(map.get_u64(key).unwrap(), Some(key));
            assert_eq!(map.put_u64(key, !key).unwrap(), Put::Replaced);
        }
        (0..n)
            .step_by(2)
            .for_each(|key| assert!(map.remove_u64(key).unwrap()));
    }
    drop(pool);
    let pool: Pool<M> = Pool::open(folder.path().join("pool"), &crate::common::options(guidelines)).unwrap();
    let map: T = open(&pool, guidelines, 4 * n);
    for key in 0..n {
        assert_eq!(map.get_u64(key).unwrap(), (key % 2 == 1).then_some(!key));
    }
    assert_clean(&pool);
}

/// Threads churn keys that lie among those of the others; each sees its own in every lookup, and in every scan.
pub fn threads_agree_on_words<M: Mapped, T: WordMap<M>>(guidelines: Guidelines) {
    let seed = seed();
    let (_folder, pool) = pool::<M>(guidelines);
    let per_thread: u64 = if M::COHERENT { 20_000 } else { 3_000 };
    let run = |thread: u64| {
        let map: T = open(&pool, guidelines, THREADS * per_thread);
        let mut rng = StdRng::seed_from_u64(seed + thread);
        let mut own = Words::new();
        for i in 0..per_thread {
            let key = THREADS * rng.random_range(0..per_thread / 4) + thread;
            if rng.random_range(0..3) == 0 {
                assert_eq!(map.remove_u64(key).unwrap(), own.remove(&key).is_some());
            } else {
                let put = map.put_u64(key, i).unwrap();
                assert_eq!(put == Put::Replaced, own.insert(key, i).is_some());
                assert_eq!(map.get_u64(key).unwrap(), Some(i));
            }
            if i % 64 == 0 && T::IS_ORDERED {
                let seen = scanned(&map, key, 60).into_iter();
                let seen: Vec<_> = seen.filter(|(found, _)| found % THREADS == thread).collect();
                let expected = own.range(key..).take(seen.len()).map(|(&k, &v)| (k, v));
                assert!(expected.eq(seen), "{}, from {key}", T::NAME);
            }
        }
        for key in (0..per_thread / 4).map(|n| THREADS * n + thread) {
            assert_eq!(map.get_u64(key).unwrap(), own.get(&key).copied());
        }
        own
    };
    let mut model = Words::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        threads
            .into_iter()
            .for_each(|thread| model.extend(thread.join().unwrap()));
    });
    let map: T = open(&pool, guidelines, THREADS * per_thread);
    assert_scans(&map, &model, 0, usize::MAX);
    assert_clean(&pool);
}

/// Of the threads that insert a key, or remove it, exactly one succeeds in each round; all then see its value.
pub fn one_thread_wins<M: Mapped, T: WordMap<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let (keys, rounds) = (if M::COHERENT { 400 } else { 100 }, 6);
    let barrier = Barrier::new(THREADS as usize);
    let run = |thread: u64| {
        let map: T = open(&pool, guidelines, 2 * keys * rounds * THREADS);
        let mut wins = Vec::new();
        for round in 0..rounds {
            barrier.wait();
            let inserted = (0..keys).filter(|key| {
                let mine = (thread + 1) << 32 | round << 16 | key;
                let won = map.insert_u64(*key, mine).unwrap();
                let found = map.get_u64(*key).unwrap().unwrap();
                assert!(!won || found == mine, "{found:#x} in the place of {mine:#x}");
                assert_eq!(found & 0xffff_ffff, round << 16 | key);
                won
            });
            wins.push(inserted.count() as u64);
            barrier.wait();
            let removed = (0..keys).filter(|key| {
                let won = map.remove_u64(*key).unwrap();
                assert_eq!(map.get_u64(*key).unwrap(), None);
                won
            });
            wins.push(removed.count() as u64);
        }
        wins
    };
    let mut wins = vec![0; 2 * rounds as usize];
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        for thread in threads {
            let own = thread.join().unwrap();
            wins.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
    });
    assert!(wins.iter().all(|sum| *sum == keys), "{}: {wins:?}", T::NAME);
    assert_clean(&pool);
}
