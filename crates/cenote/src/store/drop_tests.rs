//! What is dropped goes, whatever workers that died have left of it.

use crate::Coherent;
use crate::index::common::guidelines::Guidelines;
use crate::index::dropping::Dropped;
use crate::index::ordered::OrderedMap;
use crate::store::{Options, Pool};

/// The first `kept` keys stay; the leaves of the others are empty and not merged. Long keys: a parent of few children
/// has no room for its neighbour's.
fn empty_leaves_are_freed(prefix: usize, keys: u64, kept: u64) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        size: 1 << 20,
        max: 1 << 28,
        ..Options::default()
    };
    let pool: Pool<Coherent> = Pool::create(folder.path().join("pool"), &options).unwrap();
    let key = |n: u64| [&vec![b'p'; prefix][..], &n.to_be_bytes()].concat();
    let worker = pool.worker().unwrap();
    let map = OrderedMap::open_or_create(worker, "m", Guidelines::SP).unwrap();
    for n in 0..keys {
        map.put(&key(n), b"v").unwrap();
    }
    for n in kept..keys {
        map.remove_without_merging(&key(n)).unwrap();
    }
    let what = format!("{prefix}-byte prefix, {kept} of {keys} keys kept");
    assert_eq!(pool.drop_named("m").unwrap(), Dropped::Freed, "{what}");
    let report = pool.fsck().unwrap();
    assert!(report.is_clean());
    assert_eq!(report.dropped, 0, "{what}");
}

#[test]
fn empty_leaves_that_do_not_fit_into_their_neighbours_are_freed() {
    for (prefix, keys, kept) in [
        (4000, 560, 0),
        (4000, 560, 28),
        (30_000, 280, 0),
        (200, 11_200, 0),
        (0, 11_200, 0),
    ] {
        empty_leaves_are_freed(prefix, keys, kept);
    }
}
