//! Memory becomes free again: whichever worker retired it, whatever held it back, and however full the pool is.

use std::path::Path;
use std::sync::mpsc::channel;

use cenote::{Coherent, Error, Noncoherent, Options, Pool};
use cenote::{Map, Result};

fn options(max: u64) -> Options {
    Options {
        size: 1 << 20,
        max,
        ..Options::default()
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// One thread overwrites one value: two objects are live at a time, so no overwrite may be refused.
fn overwrites_are_never_refused<P: Fn(&Path, u64) -> Pool<M>, M: cenote::memory::Memory>(create: P) {
    for (len, max, count) in [
        (1 << 20, 64 << 20, 300),
        (4096, 16 << 20, 6_000),
        (100 << 10, 24 << 20, 1_000),
    ] {
        let folder = folder();
        let pool = create(&folder.path().join("pool"), max);
        let map = pool.map("m").unwrap();
        let value = vec![1u8; len];
        for n in 0..count {
            if let Err(error) = map.put(b"k", &value) {
                panic!("overwrite {n} of {count} with {len} bytes in {max}: {error}");
            }
        }
        let ordered = pool.ordered("o").unwrap();
        for n in 0..count {
            if let Err(error) = ordered.put(b"k", &value) {
                panic!("overwrite {n} of {count} with {len} bytes in {max}, ordered: {error}");
            }
        }
    }
}

#[test]
fn overwrites_are_never_refused_on_coherent_memory() {
    overwrites_are_never_refused(|path, max| Pool::<Coherent>::create(path, &options(max)).unwrap());
}

#[test]
fn overwrites_are_never_refused_on_incoherent_memory() {
    overwrites_are_never_refused(|path, max| Pool::<Noncoherent>::create(path, &options(max)).unwrap());
}

/// A thread retires much and then does nothing; `then` is called while it lives.
fn beside_an_idle_thread<M: cenote::memory::Memory>(pool: &Pool<M>, then: impl FnOnce()) {
    let (tell, told) = channel();
    let (end, ended) = channel::<()>();
    let its_pool = pool.clone();
    let idle = std::thread::spawn(move || {
        let map = its_pool.map("m").unwrap();
        let value = vec![1u8; 1 << 20];
        for _ in 0..31 {
            map.put(b"its own", &value).unwrap();
        }
        tell.send(()).unwrap();
        let _ = ended.recv();
        drop(map);
    });
    told.recv().unwrap();
    then();
    drop(end);
    idle.join().unwrap();
}

/// How many values of a MiB fit.
fn fill<M: cenote::memory::Memory>(map: &Map<M>) -> Result<u32> {
    let value = vec![2u8; 1 << 20];
    for n in 0..1000u32 {
        match map.put(&n.to_le_bytes(), &value) {
            Ok(_) => {}
            Err(Error::Full { .. }) => return Ok(n),
            Err(error) => return Err(error),
        }
    }
    Ok(1000)
}

fn an_idle_threads_garbage_is_used_by_others<M: cenote::memory::Mapped>() {
    let folder = folder();
    let pool: Pool<M> = Pool::create(folder.path().join("pool"), &options(64 << 20)).unwrap();
    beside_an_idle_thread(&pool, || {
        let fit = fill(&pool.map("m").unwrap()).unwrap();
        // A value of a MiB with its header is an extent of 17 frames: 60 of them fit in 1024, one is the idle thread's,
        // and the map has some frames.
        assert!(fit >= 57, "{fit} values fit in the pool beside one");
    });
    assert!(pool.fsck().unwrap().is_clean());
}

#[test]
fn an_idle_threads_garbage_is_used_by_others_on_coherent_memory() {
    an_idle_threads_garbage_is_used_by_others::<Coherent>();
}

#[test]
fn an_idle_threads_garbage_is_used_by_others_on_incoherent_memory() {
    an_idle_threads_garbage_is_used_by_others::<Noncoherent>();
}

fn collecting_frees_what_an_idle_thread_retired<M: cenote::memory::Mapped>() {
    let folder = folder();
    let pool: Pool<M> = Pool::create(folder.path().join("pool"), &options(256 << 20)).unwrap();
    beside_an_idle_thread(&pool, || {
        pool.collect().unwrap();
        let stat = pool.stat().unwrap();
        assert_eq!((stat.retired_objects, stat.retired_bytes), (0, 0));
    });
}

#[test]
fn collecting_frees_what_an_idle_thread_retired_on_coherent_memory() {
    collecting_frees_what_an_idle_thread_retired::<Coherent>();
}

#[test]
fn collecting_frees_what_an_idle_thread_retired_on_incoherent_memory() {
    collecting_frees_what_an_idle_thread_retired::<Noncoherent>();
}

/// A thread leaves a list of many chunks, as another one reads. When the reader ends, all of it is freed. The chunks of
/// the list are garbage themselves, for which its last chunk has no room.
fn a_long_list_that_was_left_is_freed<M: cenote::memory::Mapped>() {
    let folder = folder();
    let pool = Pool::<M>::create(folder.path().join("pool"), &options(64 << 20)).unwrap();
    let map = pool.map("m").unwrap();
    map.put(b"held", b"value").unwrap();
    let held = map.get(b"held").unwrap().unwrap();
    let its_pool = pool.clone();
    std::thread::spawn(move || {
        let map = its_pool.map("m").unwrap();
        for n in 0..20_000u32 {
            map.put(b"k", &n.to_le_bytes()).unwrap();
        }
        for _ in 0..8 {
            map.put(b"large", &vec![1; 1 << 20]).unwrap();
        }
    })
    .join()
    .unwrap();
    assert!(pool.stat().unwrap().retired_bytes > 7 << 20);
    drop(held);
    // What others free is freed a part at a time; `collect` frees all.
    pool.collect().unwrap();
    let stat = pool.stat().unwrap();
    assert!(stat.retired_bytes < 64 << 10, "{stat:?}");
    assert!(pool.fsck().unwrap().is_clean());
}

#[test]
fn a_long_list_that_was_left_is_freed_on_coherent_memory() {
    a_long_list_that_was_left_is_freed::<Coherent>();
}

#[test]
fn a_long_list_that_was_left_is_freed_on_incoherent_memory() {
    a_long_list_that_was_left_is_freed::<Noncoherent>();
}

/// What was retired before a reader began is freed while it reads, though others have retired since, and though all of
/// it comes together in one list.
#[test]
fn a_reader_holds_back_nothing_that_is_older() {
    let folder = folder();
    let pool: Pool = Pool::create(folder.path().join("pool"), &options(48 << 20)).unwrap();
    let map = pool.map("m").unwrap();
    map.put(b"held", b"value").unwrap();
    let large = vec![1; 1 << 20];
    beside_an_idle_thread(&pool, || {
        // The idle thread's garbage becomes reclaimable, and is not collected.
        for n in 0..600u32 {
            map.put(b"k", &n.to_le_bytes()).unwrap();
        }
        let its_pool = pool.clone();
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let reader = std::thread::spawn(move || {
            let map = its_pool.map("m").unwrap();
            let held = map.get(b"held").unwrap().unwrap();
            tell.send(()).unwrap();
            let _ = ended.recv();
            drop(held);
        });
        told.recv().unwrap();
        for n in 0..600u32 {
            map.put(b"k", &n.to_le_bytes()).unwrap();
        }
        for n in 0..28u32 {
            if let Err(error) = map.put(&n.to_be_bytes(), &large) {
                panic!("value {n}: {error}; {:?}", pool.stat().unwrap());
            }
        }
        drop(end);
        reader.join().unwrap();
    });
}

/// A map that was loaded, and is only read since, keeps no more of its old levels than two passes of a collection
/// leave.
#[test]
fn a_loaded_map_does_not_keep_its_old_levels() {
    let folder = folder();
    let pool: Pool = Pool::create(folder.path().join("pool"), &options(1 << 30)).unwrap();
    let map = pool.map("m").unwrap();
    for n in 0..600_000u64 {
        map.put_u64(n, n).unwrap();
    }
    let stat = pool.stat().unwrap();
    assert!(
        stat.retired_bytes <= stat.committed_bytes / 4,
        "{} of {} bytes are retired",
        stat.retired_bytes,
        stat.committed_bytes
    );
}

/// What a guard held back for long is freed when it ends, by writes and by collections, round after round.
#[test]
fn a_long_retired_list_on_incoherent_memory_comes_back() {
    // Chunks for several flush rounds.
    const OVERWRITES: u64 = 130_000;
    let folder = folder();
    let pool: Pool<Noncoherent> = Pool::create(folder.path().join("pool"), &options(4 << 30)).unwrap();
    let map = pool.map("m").unwrap();
    map.put_u64(1, 1).unwrap();
    let (tell, told) = channel();
    let (end, ended) = channel::<()>();
    let its_pool = pool.clone();
    let reader = std::thread::spawn(move || {
        let map = its_pool.map("m").unwrap();
        let value = map.get(&1u64.to_le_bytes()).unwrap();
        tell.send(()).unwrap();
        let _ = ended.recv();
        drop(value);
    });
    told.recv().unwrap();
    for n in 0..OVERWRITES {
        map.put_u64(1, n).unwrap();
    }
    drop(end);
    reader.join().unwrap();
    for n in 0..20_000 {
        map.put_u64(1, n).unwrap();
    }
    pool.collect().unwrap();
    let left = pool.stat().unwrap().retired_objects;
    assert!(left < 5_000, "{left} objects stay retired");
}
