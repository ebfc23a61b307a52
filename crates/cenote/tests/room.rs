//! Writes that find the pool full: what they wait for, and what makes room.

use std::path::Path;
use std::time::Duration;

use cenote::memory::Mapped;
use cenote::pod::format::class::TABLE;
use cenote::{Map, Noncoherent, Options, Pool};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// A pool that may have so many MiB.
fn small_pool<M: Mapped>(folder: &Path, mib: u64) -> Pool<M> {
    let options = Options {
        size: 1 << 20,
        max: mib << 20,
        ..Options::default()
    };
    Pool::create(folder.join("pool"), &options).unwrap()
}

/// A value that takes so many frames of 64 KiB.
fn frames(count: usize) -> Vec<u8> {
    vec![7; (count << 16) - 300]
}

/// Runs `body` while another thread holds a value of a map, for some time.
fn while_held<M: Mapped>(pool: &Pool<M>, key: &'static [u8], body: impl FnOnce()) {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let map = pool.map("m").unwrap();
            let held = map.get(key).unwrap().unwrap();
            tell.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(150));
            drop(held);
        });
        told.recv().unwrap();
        body();
    });
}

#[test]
fn garbage_beside_what_is_free_is_waited_for() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = small_pool(folder.path(), 16);
    let map = pool.map("m").unwrap();
    for size in [5, 1] {
        let mut n = 0;
        while map.put(format!("{size}, {n}").as_bytes(), &frames(size)).is_ok() {
            n += 1;
        }
    }
    map.remove(b"5, 3").unwrap();
    for _ in 0..4 {
        pool.collect().unwrap();
    }
    while_held(&pool, b"5, 9", || {
        map.remove(b"5, 4").unwrap();
        // Five of the ten frames are free, five wait for the reader.
        map.put(b"ten", &frames(10)).unwrap();
    });
}

#[test]
fn blocks_that_a_write_takes_and_leaves_are_no_progress() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        size: 1 << 20,
        max: 8 << 20,
        ..Options::default()
    };
    for free in 0..4 {
        let path = folder.path().join(format!("{free}"));
        let pool: Pool = Pool::create(&path, &options).unwrap();
        let (map, log) = (pool.map("m").unwrap(), pool.ordered("log").unwrap());
        for n in 0..40 {
            log.put(format!("key number {n:04}").as_bytes(), &[3; 200])
                .unwrap();
        }
        for n in 0..free {
            map.put(format!("free {n}").as_bytes(), &frames(1)).unwrap();
        }
        map.put(b"five", &frames(5)).unwrap();
        let mut n = 0;
        while map.put(format!("one {n}").as_bytes(), &frames(1)).is_ok() {
            n += 1;
        }
        for n in 0..free {
            map.remove(format!("free {n}").as_bytes()).unwrap();
        }
        for _ in 0..4 {
            pool.collect().unwrap();
        }
        while_held(&pool, b"one 1", || {
            map.remove(b"five").unwrap();
            for n in 0..4 {
                let _ = log.put(format!("key number 002{n}, another").as_bytes(), &[3; 200]);
            }
            // A worker without blocks needs one for the record and one for the page.
            let put = || {
                let log = pool.ordered("log").unwrap();
                log.put(b"key number 0005, another", &[3; 200]).unwrap();
            };
            std::thread::scope(|scope| scope.spawn(put).join()).unwrap();
        });
        std::fs::remove_file(&path).unwrap();
    }
}

/// Frees everything that can be freed.
fn quiesce<M: Mapped>(pool: &Pool<M>) {
    for _ in 0..6 {
        pool.collect().unwrap();
    }
}

#[test]
fn garbage_beside_a_hole_is_waited_for() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = small_pool(folder.path(), 24);
    let map = pool.map("m").unwrap();
    for size in [7, 1] {
        let mut n = 0;
        while map.put(format!("{size}, {n}").as_bytes(), &frames(size)).is_ok() {
            n += 1;
        }
    }
    for n in 2..=11 {
        map.remove(format!("7, {n}").as_bytes()).unwrap();
    }
    quiesce(&pool);
    assert!(pool.trim().unwrap().newly_given_back_bytes > 0);
    while_held(&pool, b"7, 30", || {
        for n in 12..=15 {
            map.remove(format!("7, {n}").as_bytes()).unwrap();
        }
        // Larger than what is free, and than the hole.
        map.put(b"large", &frames(98)).unwrap();
    });
}

/// A block of seven objects, of which some wait for a reader and the others are free: an extent of its size fits once
/// the reader has ended. The test finds by trying which objects lie together in a block.
fn what_empties_a_block_is_waited_for<M: Mapped>(free: usize) {
    let mut fitted = 0;
    for first in 70..77 {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let pool: Pool<M> = small_pool(folder.path(), 16);
        let map = pool.map("m").unwrap();
        for (name, value) in [("key", &[1; 30_000][..]), ("one", &frames(1))] {
            let mut n = 0;
            while map.put(format!("{name} {n}").as_bytes(), value).is_ok() {
                n += 1;
            }
        }
        let keys: Vec<_> = (first..first + 7).map(|n| format!("key {n}")).collect();
        for key in &keys[..free] {
            map.remove(key.as_bytes()).unwrap();
        }
        quiesce(&pool);
        let mut fits_while_held = false;
        while_held(&pool, b"key 1", || {
            for key in &keys[free..] {
                map.remove(key.as_bytes()).unwrap();
            }
            fits_while_held = map.put(b"large", &frames(4)).is_ok();
        });
        quiesce(&pool);
        let fits = fits_while_held || map.put(b"large", &frames(4)).is_ok();
        assert_eq!(
            fits_while_held, fits,
            "objects from {first} on, {free} of them free"
        );
        fitted += u32::from(fits);
    }
    assert!(fitted > 0, "no seven objects were a block");
}

#[test]
fn a_block_that_waits_as_a_whole_is_waited_for() {
    what_empties_a_block_is_waited_for::<cenote::Coherent>(0);
    what_empties_a_block_is_waited_for::<Noncoherent>(0);
}

#[test]
fn the_last_object_of_a_block_is_waited_for() {
    what_empties_a_block_is_waited_for::<cenote::Coherent>(6);
    what_empties_a_block_is_waited_for::<Noncoherent>(6);
}

/// Blocks of small objects of idle workers do not keep others from writing.
#[test]
fn what_idle_workers_have_reserved_is_withdrawn() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = small_pool(folder.path(), 32);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let pool = &pool;
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let (end, ended) = std::sync::mpsc::channel::<()>();
                let tell = tell.clone();
                scope.spawn(move || {
                    let map = pool.map("m").unwrap();
                    let put_and_remove = |class: usize| {
                        let key = format!("{thread} {class}");
                        let value = vec![1; TABLE[class].size as usize - 40];
                        map.put(key.as_bytes(), &value).unwrap();
                        assert!(map.remove(key.as_bytes()).unwrap());
                    };
                    // Eight times five MiB, if each had a block of each class to itself.
                    (3..TABLE.len()).for_each(put_and_remove);
                    tell.send(()).unwrap();
                    let _ = ended.recv();
                    // It goes on with what there is.
                    (3..TABLE.len()).step_by(5).for_each(put_and_remove);
                });
                told.recv().unwrap();
                end
            })
            .collect();
        let map = pool.map("m").unwrap();
        let mut n = 0u64;
        while map.put(&n.to_le_bytes(), &frames(2)).is_ok() {
            n += 1;
        }
        assert!(n > 230, "{n} values of two frames in 512 frames");
        for n in 0..40u64 {
            assert!(map.remove(&n.to_le_bytes()).unwrap());
        }
        drop(threads);
    });
    quiesce(&pool);
    assert!(pool.fsck().unwrap().is_clean());
}

/// All keys of an ordered map can be removed in a pool that other values fill, whatever merges that begins.
fn a_full_pool_can_be_emptied<M: Mapped>(keys: u64, filling: usize, seed: u64) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool<M> = small_pool(folder.path(), 4);
    let (map, log) = (pool.map("m").unwrap(), pool.ordered("log").unwrap());
    let mut order: Vec<u64> = (0..keys).collect();
    order.shuffle(&mut StdRng::seed_from_u64(seed));
    for &n in &order {
        log.put_u64(n, n).unwrap();
    }
    let mut n = 0u64;
    while map.put(&n.to_le_bytes(), &vec![1; filling]).is_ok() {
        n += 1;
    }
    order.shuffle(&mut StdRng::seed_from_u64(seed + 1));
    for n in order {
        let removed = log.remove(&n.to_be_bytes());
        assert!(
            matches!(removed, Ok(true)),
            "{keys} keys, values of {filling}, seed {seed}: key {n}: {removed:?}"
        );
    }
    quiesce(&pool);
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn ordered_keys_can_be_removed_from_a_full_pool() {
    for (seed, keys) in (1..).zip([300, 1000, 1000]) {
        for filling in [8, 100, 1000] {
            a_full_pool_can_be_emptied::<cenote::Coherent>(keys, filling, seed);
            a_full_pool_can_be_emptied::<Noncoherent>(keys, filling, seed);
        }
    }
}

/// Fills a pool until no class has an object left; returns the keys.
fn fill_every_class<M: Mapped>(map: &Map<M>) -> Vec<String> {
    let mut keys = Vec::new();
    for round in 0..3 {
        for class in TABLE.iter().rev().filter(|class| class.size > 40) {
            let value = vec![1; class.size as usize - 40];
            let (mut n, mut refused) = (0, 0);
            while refused < 3 {
                let key = format!("{}, {round}, {n}", class.size);
                match map.put(key.as_bytes(), &value) {
                    Ok(_) => keys.push(key),
                    Err(_) => refused += 1,
                }
                n += 1;
            }
        }
    }
    keys
}

/// A worker that was idle while others filled the pool, and took over its list with the chunks, can remove keys. So can
/// a process that opens the pool then.
fn an_idle_worker_can_remove_keys<M: Mapped>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool<M> = small_pool(folder.path(), 8);
    let map = pool.map("m").unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let its_pool = pool.clone();
    let idle = std::thread::spawn(move || {
        let map = its_pool.map("m").unwrap();
        for n in 0..300u64 {
            map.put(&n.to_le_bytes(), b"of the idle one").unwrap();
            map.put(&n.to_le_bytes(), b"again").unwrap();
        }
        tell.send(()).unwrap();
        let _ = ended.recv();
        for n in 0..300u64 {
            let removed = map.remove(&n.to_le_bytes());
            assert!(matches!(removed, Ok(true)), "key {n}: {removed:?}");
        }
    });
    told.recv().unwrap();
    let mut keys = fill_every_class(&map);
    quiesce(&pool);
    fill_every_class(&map);
    drop(end);
    idle.join().unwrap();
    fill_every_class(&map);
    drop((map, pool));
    let pool = Pool::<M>::open(folder.path().join("pool"), &Options::default()).unwrap();
    let map = pool.map("m").unwrap();
    keys.shuffle(&mut StdRng::seed_from_u64(1));
    for key in keys.iter().take(200) {
        let removed = map.remove(key.as_bytes());
        assert!(matches!(removed, Ok(true)), "{key:?}: {removed:?}");
    }
    quiesce(&pool);
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn an_idle_worker_can_remove_keys_of_a_full_pool() {
    an_idle_worker_can_remove_keys::<cenote::Coherent>();
    an_idle_worker_can_remove_keys::<Noncoherent>();
}

/// A remove in a full pool may copy a page into a larger object. An update of one of its keys then needs no more than
/// the page's own size.
fn a_padded_page_shrinks<M: Mapped>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool<M> = small_pool(folder.path(), 8);
    let (map, log) = (pool.map("m").unwrap(), pool.ordered("log").unwrap());
    for n in 0..19 {
        log.put_u64(n, n).unwrap();
    }
    fill_every_class(&map);
    quiesce(&pool);
    fill_every_class(&map);
    // It may be refused; the object that it needs is not, afterwards.
    let _ = log.put_u64(5, 5);
    assert!(map.remove(b"32768, 0, 100").unwrap());
    quiesce(&pool);
    assert!(log.remove(&3u64.to_be_bytes()).unwrap());
    quiesce(&pool);
    // There is one object of the page's own size: the page before it was padded.
    log.put_u64(5, 1005).unwrap();
}

#[test]
fn a_page_that_a_remove_has_padded_shrinks() {
    a_padded_page_shrinks::<cenote::Coherent>();
    a_padded_page_shrinks::<Noncoherent>();
}

/// Fills a pool with values of a chunk's size and larger ones, until none is left.
fn fill_with_chunks<M: Mapped>(map: &Map<M>, who: &str) {
    for size in [32_768, 4_096, 1_024] {
        let (mut n, mut refused) = (0, 0);
        while refused < 3 {
            let key = format!("{who}, {size}, {n}");
            refused += u32::from(map.put(key.as_bytes(), &vec![1; size - 40]).is_err());
            n += 1;
        }
    }
}

/// Workers remove keys, fill the pool and collect in random turns, and take over each other's lists meanwhile: each can
/// remove keys at its turn.
fn workers_in_turn_can_remove_keys<M: Mapped>(seed: u64) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool<M> = small_pool(folder.path(), 8);
    let mut random = StdRng::seed_from_u64(seed);
    std::thread::scope(|scope| {
        let pool = &pool;
        let workers: Vec<_> = (0..3u64)
            .map(|me| {
                let (ask, asked) = std::sync::mpsc::channel::<(u32, u32)>();
                let (tell, told) = std::sync::mpsc::channel();
                scope.spawn(move || {
                    let map = pool.map("m").unwrap();
                    let key = |n: u64| (me << 32 | n).to_le_bytes();
                    for n in 0..600 {
                        map.put(&key(n), b"a value").unwrap();
                    }
                    let mut keys = 0..600;
                    tell.send(()).unwrap();
                    for (turn, what) in asked {
                        match what {
                            0 => fill_with_chunks(&map, &format!("{me}, {turn}")),
                            1 => drop(pool.collect().unwrap()),
                            count => keys.by_ref().take(count as usize).for_each(|n| {
                                let removed = map.remove(&key(n));
                                assert!(
                                    matches!(removed, Ok(true)),
                                    "seed {seed}, worker {me}, turn {turn}: {removed:?}"
                                );
                            }),
                        }
                        tell.send(()).unwrap();
                    }
                });
                told.recv().unwrap();
                (ask, told)
            })
            .collect();
        for turn in 0..60 {
            let (ask, told) = &workers[random.random_range(0..workers.len())];
            let what = match turn {
                0..3 => 0,
                _ => [0, 0, 1, 2, 6, 20][random.random_range(0..6)],
            };
            ask.send((turn, what)).unwrap();
            told.recv().unwrap();
        }
        drop(workers);
    });
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "seed {seed}: {report:?}");
}

#[test]
fn workers_of_a_full_pool_can_remove_keys_in_turn() {
    for seed in 1..=4 {
        workers_in_turn_can_remove_keys::<cenote::Coherent>(seed);
        workers_in_turn_can_remove_keys::<Noncoherent>(seed);
    }
}
