//! Hash maps from which most keys are removed: slots are reused, levels become smaller, and their memory becomes
//! free.

use cenote::{Coherent, Map, Noncoherent, Options, Pool};

fn pool<M: cenote::memory::Mapped>(folder: &std::path::Path, max: u64) -> Pool<M> {
    let options = Options {
        size: 1 << 20,
        max,
        ..Options::default()
    };
    Pool::create(folder.join("pool"), &options).unwrap()
}

/// Keys all over the hash, none twice.
fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

fn order<M: cenote::memory::Mapped>(map: &Map<M>) -> u32 {
    map.oldest_level().unwrap().unwrap().order
}

/// In a full pool, the blocks of removed objects are empty and not freed yet: a smaller level takes their place.
fn fill_all_and_empty<M: cenote::memory::Mapped>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = pool::<M>(folder.path(), 16 << 20);
    let map = pool.map("m").unwrap();
    let mut keys = 0;
    while map.put(&key(keys), &keys.to_le_bytes()).is_ok() {
        keys += 1;
    }
    let full = order(&map);
    for n in 0..keys {
        assert!(map.remove(&key(n)).unwrap(), "key {n}");
    }
    pool.collect().unwrap();
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
    assert!(
        full >= 2 && order(&map) <= 1,
        "order {full}, then {}",
        order(&map)
    );
    assert!(report.reachable_bytes < 512 << 10, "{}", report.reachable_bytes);
}

#[test]
fn a_map_that_filled_its_pool_becomes_small() {
    fill_all_and_empty::<Coherent>();
    fill_all_and_empty::<Noncoherent>();
}

fn fill_and_empty<M: cenote::memory::Mapped>() {
    const KEYS: u64 = 100_000;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = pool::<M>(folder.path(), 1 << 30);
    let map = pool.map("m").unwrap();
    for n in 0..KEYS {
        map.put(&key(n), &n.to_le_bytes()).unwrap();
    }
    let (full, reachable) = (order(&map), pool.fsck().unwrap().reachable_bytes);
    for n in 0..KEYS {
        assert!(map.remove(&key(n)).unwrap(), "key {n}");
        if n % 64 == 0 {
            assert_eq!(map.get(&key(n)).unwrap().as_deref(), None);
            let still = n + 1 + n % 97;
            let found = map.get(&key(still)).unwrap().as_deref().map(<[u8]>::to_vec);
            assert_eq!(found, (still < KEYS).then(|| still.to_le_bytes().to_vec()));
        }
    }
    assert!(map.is_empty());
    pool.collect().unwrap();
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
    // Two levels if a move is under way: frames, and what a map of no keys has besides.
    assert!(
        full >= 5 && order(&map) <= 1,
        "order {full}, then {}",
        order(&map)
    );
    assert!(
        report.reachable_bytes < 512 << 10 && reachable > 4 << 20,
        "{reachable} bytes, then {}",
        report.reachable_bytes
    );
    // It grows again.
    for n in 0..KEYS {
        map.put(&key(n), &n.to_le_bytes()).unwrap();
    }
    assert_eq!(map.len(), KEYS);
    assert!(pool.fsck().unwrap().is_clean());
}

#[test]
fn a_map_that_is_emptied_gives_its_levels_back() {
    fill_and_empty::<Coherent>();
    fill_and_empty::<Noncoherent>();
}

/// Keys that are new every time, few of which are there at a time: no move and no chain, except by chance.
fn churn<M: cenote::memory::Mapped>() {
    const LIVE: u64 = 1_000;
    const CHURN: u64 = 200_000;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = pool::<M>(folder.path(), 1 << 30);
    let map = pool.map("m").unwrap();
    let mut first = None;
    for n in 0..CHURN {
        map.put(&key(n), &n.to_le_bytes()).unwrap();
        if n == 0 {
            first = map.oldest_level().unwrap();
        }
        if n >= LIVE {
            assert!(map.remove(&key(n - LIVE)).unwrap(), "key {}", n - LIVE);
        }
    }
    assert_eq!(map.len(), LIVE);
    for n in CHURN - LIVE..CHURN {
        assert_eq!(map.get(&key(n)).unwrap().as_deref(), Some(&n.to_le_bytes()[..]));
    }
    let level = map.oldest_level().unwrap().unwrap();
    let audit = map.audit(|_| {}, |problem| panic!("{problem}")).unwrap();
    assert_eq!((audit.keys, audit.levels, level.order), (LIVE, 1, 0));
    assert!(audit.lines * 64 <= level.groups, "{audit:?}");
    assert_eq!(first, Some(level), "it has moved");
    assert!(pool.fsck().unwrap().is_clean());
}

#[test]
fn slots_of_removed_keys_are_used_again_without_a_move() {
    churn::<Coherent>();
    churn::<Noncoherent>();
}

/// A reservation stays until it is lowered.
#[test]
fn a_reservation_is_kept_until_it_is_lowered() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = pool::<Coherent>(folder.path(), 1 << 30);
    let map = pool.map("m").unwrap();
    map.reserve(20_000).unwrap();
    let reserved = order(&map);
    let cycle = |rounds: u64| {
        for n in 0..rounds {
            map.put(&key(n), b"value").unwrap();
            assert!(map.remove(&key(n)).unwrap());
        }
    };
    cycle(5_000);
    assert_eq!(order(&map), reserved);
    map.reserve(0).unwrap();
    cycle(10_000);
    assert_eq!(order(&map), 0);
}

/// A level is linked, nothing is moved yet, and another map fills the pool to the last byte: every key can be removed,
/// although the copies need chain lines in the next level too.
fn full_while_moving<M: cenote::memory::Mapped>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = pool::<M>(folder.path(), 4 << 20);
    let (map, other) = (pool.map("m").unwrap(), pool.map("other").unwrap());
    map.reserve(1).unwrap();
    let level = map.oldest_level().unwrap().unwrap();
    let mut keys = Vec::new();
    // All in the last group: its chain makes the map move, and it is the last one to be moved.
    let in_last_group = |n: &u64| level.group_of(map.hash_of(&key(*n))) == level.groups - 1;
    for n in (0..).filter(in_last_group) {
        map.put(&key(n), &n.to_le_bytes()).unwrap();
        keys.push(n);
        if level.next().load(map.worker().mem()) != 0 {
            break;
        }
    }
    let mut n = 0;
    for len in [100_000, 10_000, 1_000, 200, 40, 24, 8] {
        let mut refused = 0;
        while refused < 20 {
            refused = if other.put(&key(n), &vec![7; len]).is_ok() {
                0
            } else {
                refused + 1
            };
            n += 1;
        }
    }
    for n in &keys {
        let mut removed = map.remove(&key(*n));
        // The retired list may be full as well, and on incoherent memory its objects are not reclaimable at once.
        for _ in 0..100 {
            if M::COHERENT || removed.is_ok() {
                break;
            }
            pool.collect().unwrap();
            removed = map.remove(&key(*n));
        }
        assert!(matches!(removed, Ok(true)), "key {n}: {removed:?}");
    }
    assert!(map.is_empty() && keys.len() > 60, "{} keys", keys.len());
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn a_full_pool_can_be_deleted_from_while_a_map_moves() {
    full_while_moving::<Coherent>();
    full_while_moving::<Noncoherent>();
}
