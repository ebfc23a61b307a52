//! How far a lookup in an ordered map moves right where parents do not know nodes: counted in sync loads, one for each
//! step.

use cenote::memory::{Counting, Counts, Mapped};
use cenote::pod::format::class::TABLE;
use cenote::{Coherent, Error, Guidelines, Noncoherent, Options, Pool};

/// The most loads of a lookup: three levels, and some nodes that are not posted yet.
const LOADS_MAX: u64 = 32;

fn options(max: u64) -> Options {
    Options {
        size: max.min(16 << 20),
        max,
        guidelines: Guidelines::P3,
        ..Options::default()
    }
}

fn loads<R>(work: impl FnOnce() -> R) -> (R, u64) {
    Counts::reset();
    let result = work();
    (result, Counts::current().sync_loads)
}

/// In the end a pool has room for leaves, and none for their parents' pages. That must not turn the tree into a list.
fn a_full_pool_keeps_its_trees<M: Mapped>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool<Counting<M>> = Pool::create(&path, &options(8 << 20)).unwrap();
    let map = pool.ordered("a").unwrap();
    let full = |from: u64| {
        let refused = (from..).find_map(|n| map.put_u64(n, n).err().map(|error| (n, error)));
        let (n, error) = refused.unwrap();
        assert!(matches!(error, Error::Full { .. }), "{error}");
        n
    };
    let end = full(0);
    // As a handle of another process.
    let other: Pool<Counting<M>> = Pool::open(&path, &options(8 << 20)).unwrap();
    let read = other.ordered("a").unwrap();
    let check = |keys: &mut dyn Iterator<Item = u64>| {
        for key in keys {
            let (found, loads) = loads(|| read.get_u64(key).unwrap());
            assert_eq!(found, Some(key));
            assert!(loads <= LOADS_MAX, "{loads} sync loads for key {key} of {end}");
        }
    };
    check(&mut (0..end).step_by(7));
    // Leaf pages come free all over their blocks.
    for key in (0..end).filter(|key| key / 28 % 2 == 1) {
        assert!(map.remove(&key.to_be_bytes()).unwrap());
    }
    let last = full(end);
    check(&mut (end..last).step_by(7));
}

#[test]
fn a_full_pool_keeps_its_trees_on_coherent_memory() {
    a_full_pool_keeps_its_trees::<Coherent>();
}

#[test]
fn a_full_pool_keeps_its_trees_on_incoherent_memory() {
    a_full_pool_keeps_its_trees::<Noncoherent>();
}

/// The same with handles that write one key each, as processes might: none of them knows what the others could not
/// post. The pool is full except for objects of up to 640 bytes: leaves, and no parent's page.
fn while_others_write<M: Mapped>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool<Counting<M>> = Pool::create(&path, &options(8 << 20)).unwrap();
    let map = pool.ordered("a").unwrap();
    let first = 1_u64 << 32;
    for n in first..first + 28 * 90 {
        map.put_u64(n, n).unwrap();
    }
    drop(map);
    let values = pool.map("values").unwrap();
    let small: Vec<(usize, String)> = [64, 256, 320, 384, 448, 512, 576, 640]
        .into_iter()
        .flat_map(|size| (0..300_000 / size).map(move |n| (size, format!("{size} {n}"))))
        .collect();
    for (size, key) in &small {
        values.put(key.as_bytes(), &vec![1; size - 40]).unwrap();
    }
    for class in TABLE.iter().rev().filter(|class| class.size > 40) {
        let value = vec![1; class.size as usize - 40];
        let put = |n: &u32| {
            values
                .put(format!("{}, {n}", class.size).as_bytes(), &value)
                .is_err()
        };
        (0..).filter(put).take(3).for_each(drop);
    }
    for (_, key) in small.iter().filter(|(_, key)| !key.ends_with('0')) {
        values.remove(key.as_bytes()).unwrap();
    }
    for _ in 0..6 {
        pool.collect().unwrap();
    }
    let refused = (1..)
        .find(|n| pool.ordered("a").unwrap().put_u64(first - n, *n).is_err())
        .unwrap();
    assert!(refused > 1);
    let other: Pool<Counting<M>> = Pool::open(&path, &options(8 << 20)).unwrap();
    let read = other.ordered("a").unwrap();
    for n in 1..refused {
        let (found, loads) = loads(|| read.get_u64(first - n).unwrap());
        assert_eq!(found, Some(n));
        assert!(loads <= LOADS_MAX, "{loads} sync loads for key {n} of {refused}");
    }
    assert!(pool.fsck().unwrap().is_clean());
}

#[test]
fn while_others_write_on_coherent_memory() {
    while_others_write::<Coherent>();
}

#[test]
fn while_others_write_on_incoherent_memory() {
    while_others_write::<Noncoherent>();
}

const STREAMS: u64 = 16;

/// One process appends to sixteen streams, another reads the end of each in turn, as a reader of queues does. The
/// cached path to each end is out of date each time. With `is_in_step` it reads one end twice, so that detours have the
/// period of their counter.
fn ends_of_streams(is_pinned: bool, is_in_step: bool) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let writer: Pool<Counting<Noncoherent>> = Pool::create(&path, &options(1 << 31)).unwrap();
    let written = writer.ordered("streams").unwrap();
    let key = |stream: u64, n: u64| stream << 32 | n;
    let mut end = 8_000;
    for stream in 0..STREAMS {
        (0..end).for_each(|n| assert!(written.put_u64(key(stream, n), n).is_ok()));
    }
    let reader: Pool<Counting<Noncoherent>> = Pool::open(&path, &options(1 << 31)).unwrap();
    let read = reader.ordered("streams").unwrap();
    let worker = reader.worker().unwrap();
    let _pin = is_pinned.then(|| worker.pin().unwrap());
    for round in 0..300 {
        for stream in 0..STREAMS {
            (end..end + 28).for_each(|n| assert!(written.put_u64(key(stream, n), n).is_ok()));
        }
        end += 28;
        for stream in is_in_step.then_some(0).into_iter().chain(0..STREAMS) {
            let (found, loads) = loads(|| read.get_u64(key(stream, end - 1)).unwrap());
            assert_eq!(found, Some(end - 1));
            assert!(
                loads <= LOADS_MAX,
                "{loads} sync loads in round {round}, stream {stream}"
            );
        }
    }
}

#[test]
fn ends_of_streams_that_another_process_appends_to() {
    ends_of_streams(false, false);
}

#[test]
fn ends_of_streams_under_a_pin() {
    ends_of_streams(true, false);
}

#[test]
fn ends_of_streams_under_a_pin_in_step() {
    ends_of_streams(true, true);
}
