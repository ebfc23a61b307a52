//! What only ordered maps have: neighbours, ranges, leaves and levels.

use std::collections::BTreeSet;
use std::ops::Deref;

use cenote::index::ordered::{LEAF_MAX, OrderedMap};
use cenote::memory::Mapped;
use cenote::{Guidelines, Range};

use crate::common::{Model, assert_clean, pool};
use crate::subject::{Pair, TestMap, scanned, scanned_back};

/// An ordered map of a store.
pub trait Sorted<M: Mapped>: TestMap<M> + Deref<Target = OrderedMap<M>> {}

impl<M: Mapped, T: TestMap<M> + Deref<Target = OrderedMap<M>>> Sorted<M> for T {}

/// An empty map, one key, and the neighbours before and after it.
pub fn neighbours_of_one_key<M: Mapped, T: Sorted<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = T::open(&pool, "m").unwrap();
    let mut model = Model::new();
    map.assert_same(&model, b"k", None);
    map.put(b"k", b"v").unwrap();
    model.insert(b"k".to_vec(), b"v".to_vec());
    for from in [&b""[..], b"j", b"k", b"k\0", b"l"] {
        for to in [None, Some(&b""[..]), Some(b"k"), Some(b"k\0")] {
            map.assert_same(&model, from, to);
        }
    }
    map.remove(b"k").unwrap();
    map.assert_same(&Model::new(), b"k", None);
    assert_clean(&pool);
}

/// Keys in random order make levels of nodes; they are read back and removed.
pub fn scattered_keys_make_levels<M: Mapped, T: Sorted<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = &*T::open(&pool, "m").unwrap();
    let n = 12_000;
    for i in 0..n {
        map.put_u64(i * 7919 % n, i).unwrap();
    }
    let report = pool.fsck().unwrap().maps[0].clone();
    assert!(
        report.levels >= 3 && report.nodes > n / LEAF_MAX as u64,
        "{report:?}"
    );
    assert_eq!(map.count(Range::ALL).unwrap(), n);
    let mut back = n;
    map.scan_reverse(Range::ALL, |key, _| {
        back -= 1;
        assert_eq!(key, back.to_be_bytes());
        true
    })
    .unwrap();
    assert_eq!(back, 0);
    for i in 0..n {
        assert!(map.remove(&(i * 7919 % n).to_be_bytes()).unwrap());
    }
    assert_eq!(
        (
            map.count(Range::ALL).unwrap(),
            map.first().unwrap(),
            map.last().unwrap()
        ),
        (0, None, None)
    );
    assert_clean(&pool);
}

/// Separators as long as keys: pages that take frames of their own.
pub fn keys_that_begin_alike<M: Mapped, T: Sorted<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = &*T::open(&pool, "m").unwrap();
    let mut model = Model::new();
    for n in 0..400u32 {
        let mut key = vec![7; 20_000];
        key.extend_from_slice(&(n.wrapping_mul(2_654_435_761)).to_be_bytes());
        map.put(&key, &n.to_le_bytes()).unwrap();
        model.insert(key, n.to_le_bytes().to_vec());
    }
    assert!(scanned(map, Range::ALL, usize::MAX).into_iter().eq(model.clone()));
    for (key, value) in &model {
        assert_eq!(map.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    assert_eq!(scanned_back(map, Range::ALL, usize::MAX).len(), model.len());
    assert_clean(&pool);
    let before = pool.fsck().unwrap().maps[0].nodes;
    for key in model.keys() {
        assert!(map.remove(key).unwrap());
    }
    assert_clean(&pool);
    let after = pool.fsck().unwrap().maps[0].nodes;
    assert!(after < before / 4, "{after} nodes of {before}");
}

/// Pairs put together: after, between and over others, in order and not.
pub fn many_at_once<M: Mapped, T: Sorted<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = &*T::open(&pool, "m").unwrap();
    let mut model = Model::new();
    let pair = |n: u64, value: u64| (n.to_be_bytes().to_vec(), value.to_le_bytes().to_vec());
    let mut check = |pairs: Vec<Pair>| {
        let expected = pairs.iter().filter(|(key, _)| !model.contains_key(key));
        let expected = expected.map(|(key, _)| key).collect::<BTreeSet<_>>().len();
        assert_eq!(map.put_all(pairs.clone()).unwrap(), expected as u64);
        model.extend(pairs);
        assert!(scanned(map, Range::ALL, usize::MAX).into_iter().eq(model.clone()));
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
    let nodes = pool.fsck().unwrap().maps[0].nodes;
    let (_folder, pool) = crate::common::pool::<M>(guidelines);
    let map = &*T::open(&pool, "m").unwrap();
    assert_eq!(map.put_all((0..5000u64).map(|n| pair(n, n))).unwrap(), 5000);
    let ascending = pool.fsck().unwrap().maps[0].nodes;
    assert!(ascending < 5000 / 28 + 20 && nodes > 0, "{ascending} nodes");
    assert_clean(&pool);
}

/// Keys that come in ascending order leave full leaves.
pub fn ascending_keys_fill_leaves<M: Mapped, T: Sorted<M>>(guidelines: Guidelines) {
    let (_folder, pool) = pool::<M>(guidelines);
    let map = &*T::open(&pool, "m").unwrap();
    let n = 5_000;
    for i in 0..n {
        map.put_u64(i, i).unwrap();
    }
    let report = pool.fsck().unwrap().maps[0].clone();
    let least = n / LEAF_MAX as u64;
    assert!(report.nodes < least + least / 8, "{report:?}");
    assert_eq!(map.count(Range::ALL).unwrap(), n);
    assert_clean(&pool);
}
