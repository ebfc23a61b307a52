//! Ordered maps used as queues: keys are removed at one end and inserted at the other, or at the same end. Nodes go
//! with their keys, on all levels.

use cenote::memory::Mapped;
use cenote::{Coherent, MapReport, Noncoherent, Options, Ordered, Pool};

fn pool<M: Mapped>(folder: &std::path::Path) -> Pool<M> {
    let options = Options {
        size: 1 << 20,
        max: 1 << 30,
        ..Options::default()
    };
    Pool::create(folder.join("pool"), &options).unwrap()
}

fn report<M: Mapped>(pool: &Pool<M>) -> MapReport {
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
    report.maps.into_iter().next().unwrap()
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Removes the greatest or the least key until the map is empty.
fn pop_all<M: Mapped>(map: &Ordered<M>, is_last: bool) -> u64 {
    for n in 0.. {
        let end = if is_last { map.last() } else { map.first() };
        let Some((key, _)) = end.unwrap() else {
            return n;
        };
        assert!(map.remove(&key).unwrap());
    }
    unreachable!()
}

/// Keys in an order that leaves nodes of all sizes; then all of them are removed, from one end.
fn fill_and_pop<M: Mapped>(step: u64, is_last: bool) {
    const KEYS: u64 = 60_000;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = pool::<M>(folder.path());
    let map = pool.ordered("queue").unwrap();
    for n in 0..KEYS {
        map.put(&key(n * step % KEYS), &key(n)).unwrap();
    }
    let full = report(&pool);
    assert!(full.levels >= 3, "{full:?}");
    assert_eq!(pop_all(&map, is_last), KEYS);
    let empty = report(&pool);
    assert_eq!((empty.keys, empty.nodes, empty.levels), (0, 1, 1), "{empty:?}");
    map.put(b"again", b"and again").unwrap();
    assert_eq!(map.first().unwrap(), map.last().unwrap());
}

#[test]
fn nothing_is_left_of_a_map_that_is_emptied_from_its_end() {
    fill_and_pop::<Coherent>(1, true);
    fill_and_pop::<Coherent>(7_919, true);
    fill_and_pop::<Noncoherent>(7_919, true);
}

#[test]
fn nothing_is_left_of_a_map_that_is_emptied_from_its_beginning() {
    fill_and_pop::<Coherent>(1, false);
    fill_and_pop::<Coherent>(59_999, false);
    fill_and_pop::<Noncoherent>(7_919, false);
}

#[test]
fn a_moving_range_has_as_many_nodes_as_it_needs() {
    const LEN: u64 = 5_000;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = pool::<Coherent>(folder.path());
    let map = pool.ordered("range").unwrap();
    for n in 0..LEN {
        map.put(&key(n), &key(n)).unwrap();
    }
    for n in 0..40 * LEN {
        map.put(&key(LEN + n), &key(n)).unwrap();
        let (first, _) = map.first().unwrap().unwrap();
        assert_eq!(first, key(n));
        map.remove(&first).unwrap();
        if n % (8 * LEN) == 0 {
            let now = report(&pool);
            assert!(now.nodes < LEN / 12 && now.levels <= 3, "{now:?}");
        }
    }
    assert_eq!(pop_all(&map, true), LEN);
    assert_eq!(report(&pool).nodes, 1);
}

/// As many threads as keys at an end: nodes that they leave unmerged, later threads merge.
#[test]
fn queues_of_several_threads_leave_nothing() {
    const KEYS: u64 = 20_000;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = pool::<Coherent>(folder.path());
    for n in 0..KEYS {
        pool.ordered("queue").unwrap().put(&key(n), b"").unwrap();
    }
    let popped: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let pool = &pool;
                scope.spawn(move || {
                    let map = pool.ordered("queue").unwrap();
                    let mut popped = 0;
                    while let Some((key, _)) = if n % 2 == 0 { map.first() } else { map.last() }.unwrap() {
                        popped += u64::from(map.remove(&key).unwrap());
                    }
                    popped
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(popped, KEYS);
    let left = report(&pool);
    assert!(left.keys == 0 && left.nodes < 8, "{left:?}");
}
