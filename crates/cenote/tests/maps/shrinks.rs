//! Maps from which most keys are removed, or all, and put again: nodes are merged.

use std::collections::BTreeMap;

use cenote::memory::Mapped;
use cenote::{Guidelines, Put, Range};

use crate::common::{assert_clean, pool};
use crate::order::Sorted;
use crate::subject::{Pair, scanned, scanned_back};

/// Most keys go, and come again, twice.
pub fn shrinks_and_grows_again<M: Mapped, T: Sorted<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = &*T::open(&pool, "m").unwrap();
    let n: u64 = if M::COHERENT { 50_000 } else { 8_000 };
    let key = |i: u64| (i * 7919) % n;
    let nodes = || pool.fsck().unwrap().maps[0].nodes;
    for round in 0..2 {
        for i in 0..n {
            map.put_u64(key(i), i + round).unwrap();
        }
        let full = nodes();
        let stays = |key: u64| key.is_multiple_of(50);
        for i in (0..n).filter(|i| !stays(key(*i))) {
            assert!(map.remove(&key(i).to_be_bytes()).unwrap());
            if i % 512 == 0 {
                assert_eq!(map.get_u64(0).unwrap(), Some(round));
                let from = key(i).to_be_bytes();
                let next = (key(i)..n).find(|key| map.get_u64(*key).unwrap().is_some());
                let found = map.successor(&from).unwrap().map(|(key, _)| key);
                assert_eq!(found, next.map(|key| key.to_be_bytes().to_vec()));
            }
        }
        assert_clean(&pool);
        let thin = nodes();
        assert!(thin < full / 4, "{thin} nodes of {full}");
        let left: Vec<_> = (0..n)
            .filter(|key| stays(*key))
            .map(|key| key.to_be_bytes().to_vec())
            .collect();
        let found = |pairs: Vec<Pair>| pairs.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(found(scanned(map, Range::ALL, usize::MAX)), left);
        let mut back = found(scanned_back(map, Range::ALL, usize::MAX));
        back.reverse();
        assert_eq!(back, left);
    }
}

/// Threads fill and empty interleaved ranges of keys; each sees its own keys in every scan, both ways.
pub fn threads_shrink<M: Mapped, T: Sorted<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let n: u64 = if M::COHERENT { 6_000 } else { 1_000 };
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let pool = &pool;
            scope.spawn(move || {
                let map = &*T::open(pool, "m").unwrap();
                let key = |i: u64| 3 * (i * 7919 % n) + thread;
                for round in 0..4 {
                    let mut own = BTreeMap::new();
                    for i in 0..n {
                        assert_eq!(map.put_u64(key(i), round).unwrap(), Put::Inserted);
                        own.insert(key(i), round);
                    }
                    for i in 0..n {
                        assert!(map.remove(&key(i).to_be_bytes()).unwrap());
                        own.remove(&key(i));
                        if i % 64 == 0 {
                            let from = key(i).to_be_bytes();
                            let mine = |pairs: Vec<Pair>| -> Vec<u64> {
                                let keys = pairs
                                    .into_iter()
                                    .map(|(key, _)| u64::from_be_bytes(key.try_into().unwrap()));
                                keys.filter(|key| key % 3 == thread).collect()
                            };
                            let above = Range {
                                from: &from,
                                to: None,
                            };
                            let expected: Vec<_> = own.range(key(i)..).map(|(key, _)| *key).collect();
                            assert_eq!(mine(scanned(map, above, usize::MAX)), expected);
                            let below = Range {
                                from: &[],
                                to: Some(&from),
                            };
                            let expected: Vec<_> = own.range(..key(i)).rev().map(|(key, _)| *key).collect();
                            assert_eq!(mine(scanned_back(map, below, usize::MAX)), expected);
                        }
                    }
                }
            });
        }
    });
    assert_clean(&pool);
    let map = &*T::open(&pool, "m").unwrap();
    assert_eq!(
        (map.len(), map.first().unwrap(), map.last().unwrap()),
        (0, None, None)
    );
}
