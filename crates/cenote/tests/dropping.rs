//! Maps, object stores and task lists that are dropped by their names, while others use them.

#![allow(clippy::disallowed_types)] // flags of the test's own threads, no words of a pool

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cenote::causes::Structure;
use cenote::memory::Mapped;
use cenote::objects::ObjectSettings;
use cenote::{Committed, Dropped, Error, NextTask, Options, Plan, Pool, Range};

fn pool<M: Mapped>(folder: &tempfile::TempDir) -> Pool<M> {
    let options = Options {
        size: 1 << 20,
        max: 1 << 28,
        names: 8,
        ..Options::default()
    };
    Pool::create(folder.path().join("pool"), &options).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// Bytes that something refers to. Nothing is wrong with the pool.
fn reachable<M: Mapped>(pool: &Pool<M>) -> u64 {
    pool.collect().unwrap();
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
    report.reachable_bytes
}

/// Threads keep lists of what they retire; else all that was reachable since is free.
fn assert_is_back<M: Mapped>(pool: &Pool<M>, before: u64) {
    let now = reachable(pool);
    assert!(
        now <= before + (24 << 10),
        "{before} bytes, and {now} after all was dropped"
    );
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Keys so that each map has levels, chains, and nodes of several heights.
const KEYS: u64 = 30_000;

fn all_memory_comes_back<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let before = reachable(&pool);
    for round in 0..3 {
        let (map, ordered) = (pool.map("map").unwrap(), pool.ordered("ordered").unwrap());
        let objects = pool.objects("objects", &ObjectSettings::default()).unwrap();
        let tasks = pool.tasks("tasks", &Plan::phases(vec![KEYS, 10])).unwrap();
        for n in 0..KEYS {
            let long = vec![n as u8; 1 + n as usize % 300];
            map.put(&key(n), if n % 2 == 0 { &long[..] } else { &long[..1] })
                .unwrap();
            ordered.put(&key(n * 7919 % KEYS), &long).unwrap();
            if n < KEYS / 30 {
                assert!(objects.insert(&key(n), &long).unwrap());
            }
            if n % 5 > 0 {
                tasks
                    .commit(n, if n == 7 { &[7; 1 << 20] } else { &long[..] })
                    .unwrap();
                assert!(n % 5 > 1 || tasks.forget(n).unwrap());
            }
        }
        assert!(reachable(&pool) > before + KEYS * 100);
        // Handles that are open do not keep it.
        for name in ["map", "ordered", "objects", "tasks"] {
            assert_eq!(pool.drop_named(name).unwrap(), Dropped::Freed, "{name} {round}");
        }
        assert_eq!(pool.names().unwrap(), [""; 0]);
        assert_is_back(&pool, before);
    }
}

fn what_never_had_anything_is_dropped<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let before = reachable(&pool);
    // More often than there are places in the directory.
    for _ in 0..20 {
        pool.map("map").unwrap();
        pool.ordered("ordered").unwrap();
        pool.objects("objects", &ObjectSettings::default()).unwrap();
        pool.tasks("tasks", &Plan::single(3)).unwrap();
        for name in ["map", "ordered", "objects", "tasks"] {
            assert_eq!(pool.drop_named(name).unwrap(), Dropped::Freed, "{name}");
        }
    }
    assert_is_back(&pool, before);
}

fn other_handles_fail_and_new_ones_do_not<M: Mapped>() {
    macro_rules! assert_dropped {
        ($($outcome:expr),* $(,)?) => { $(assert!(matches!($outcome.map(drop), Err(Error::Dropped)));)* };
    }
    let folder = folder();
    let pool = pool::<M>(&folder);
    let (map, ordered) = (pool.map("map").unwrap(), pool.ordered("ordered").unwrap());
    let objects = pool.objects("objects", &ObjectSettings::default()).unwrap();
    map.put(b"key", b"old").unwrap();
    ordered.put(b"key", b"old").unwrap();
    objects.insert(b"key", b"old").unwrap();
    let plan = Plan::phases(vec![1, 1]);
    let tasks = pool.tasks("tasks", &plan).unwrap();
    assert_eq!(tasks.next().unwrap(), NextTask::Task(0));
    let other: Pool<M> = Pool::open(folder.path().join("pool"), &Options::default()).unwrap();
    let refused = || {
        assert_dropped!(
            map.get(b"key"),
            map.get_u64(1),
            map.put(b"key", b"x"),
            map.insert(b"k", b"x")
        );
        assert_dropped!(
            map.remove(b"key"),
            map.for_each(|_, _| ()),
            map.get_copied(b"key")
        );
        assert_dropped!(
            ordered.get(b"key"),
            ordered.get_u64(1),
            ordered.put(b"key", b"x"),
            ordered.first()
        );
        assert_dropped!(
            ordered.remove(b"key"),
            ordered.last(),
            ordered.step(Range::ALL, |_, _| ())
        );
        assert_dropped!(
            objects.get(b"key"),
            objects.insert(b"k", b"x"),
            objects.delete(b"key")
        );
        assert_dropped!(
            objects.list(b"", |_| std::ops::ControlFlow::Continue(())),
            objects.stat(b"key")
        );
        assert_dropped!(
            objects.wait(b"none", Duration::from_millis(1)),
            objects.put(b"key", b"x")
        );
        assert_dropped!(
            tasks.next(),
            tasks.commit(0, b"x"),
            tasks.result(0),
            tasks.forget(0)
        );
        assert_dropped!(
            tasks.is_done(),
            tasks.is_phase_done(0),
            tasks.has_result(0),
            tasks.wait_all(None)
        );
        assert_dropped!(tasks.run(|_| Ok::<_, Error>(Vec::new())));
        let counts = (map.len(), ordered.len(), objects.bytes(), tasks.committed());
        assert_eq!(counts, (0, 0, 0, 0));
    };
    for name in ["map", "ordered", "objects", "tasks"] {
        assert_eq!(other.drop_named(name).unwrap(), Dropped::Freed);
        let kind = Structure::Droppable;
        assert!(matches!(other.drop_named(name), Err(Error::NoSuch { kind: found, .. }) if found == kind));
    }
    refused();
    // Perhaps in the same place.
    let (map2, ordered2) = (pool.map("map").unwrap(), pool.ordered("ordered").unwrap());
    let objects2 = pool.objects("objects", &ObjectSettings::default()).unwrap();
    let tasks2 = pool.tasks("tasks", &plan).unwrap();
    assert_eq!(tasks2.commit(0, b"new").unwrap(), Committed::First);
    assert_eq!(map2.get(b"key").unwrap().as_deref(), None);
    map2.put(b"key", b"new").unwrap();
    ordered2.put(b"key", b"new").unwrap();
    objects2.insert(b"key", b"new").unwrap();
    refused();
    assert_eq!(map2.get(b"key").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(ordered2.get(b"key").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(objects2.get(b"key").unwrap().as_deref(), Some(&b"new"[..]));
    // Another one is dropped: handles on these look, and go on.
    pool.map("third").unwrap();
    let _ = pool.drop_named("third").unwrap();
    assert_eq!(map2.get(b"key").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(ordered2.len(), 1);
    reachable(&pool);
}

fn others_are_not_dropped<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    pool.mutex("lock").unwrap();
    assert!(matches!(pool.drop_named("lock"), Err(Error::OtherKind { .. })));
    assert!(matches!(pool.drop_named(""), Err(Error::InvalidName { .. })));
}

fn a_view_outlives_its_store<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let before = reachable(&pool);
    let objects = pool.objects("objects", &ObjectSettings::default()).unwrap();
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
    objects.insert(b"viewed", &bytes).unwrap();
    objects.insert(b"other", &bytes).unwrap();
    let view = objects.get(b"viewed").unwrap().unwrap();
    let writer = objects
        .create(b"unsealed", 1000, &Default::default())
        .unwrap()
        .unwrap();
    assert_eq!(pool.drop_named("objects").unwrap(), Dropped::InUse);
    assert_eq!(pool.stat().unwrap().dropped, 1);
    assert_eq!(pool.fsck().unwrap().dropped, 1);
    assert!(reachable(&pool) > before);
    assert_eq!(*view, bytes);
    assert!(matches!(writer.seal(), Err(Error::Dropped)));
    assert!(reachable(&pool) > before);
    assert_eq!(*view, bytes);
    drop(view);
    assert_is_back(&pool, before);
    assert_eq!(pool.stat().unwrap().dropped, 0);
}

fn what_was_in_use_comes_back_with_the_next_drop<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let objects = pool.objects("objects", &ObjectSettings::default()).unwrap();
    objects.insert(b"viewed", &[1; 100_000]).unwrap();
    let view = objects.get(b"viewed").unwrap().unwrap();
    assert_eq!(pool.drop_named("objects").unwrap(), Dropped::InUse);
    drop(view);
    assert_eq!(pool.stat().unwrap().dropped, 1);
    pool.map("map").unwrap();
    assert_eq!(pool.drop_named("map").unwrap(), Dropped::Freed);
    assert_eq!(pool.stat().unwrap().dropped, 0);
}

fn a_value_outlives_its_map<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let before = reachable(&pool);
    let map = pool.map("map").unwrap();
    map.put(b"key", b"value").unwrap();
    let value = map.get(b"key").unwrap().unwrap();
    std::thread::scope(|scope| {
        scope
            .spawn(|| assert_eq!(pool.drop_named("map").unwrap(), Dropped::InUse))
            .join()
            .unwrap();
    });
    assert_eq!(&*value, b"value");
    drop(value);
    assert!(matches!(map.get(b"key"), Err(Error::Dropped)));
    assert_is_back(&pool, before);
}

/// Threads write, read and drop, all at once; each finds what it has written itself until it is told that the map is
/// gone.
fn maps_come_and_go<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let before = reachable(&pool);
    let (ends, drops) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (pool, ends) = (pool.clone(), &ends);
            scope.spawn(move || {
                let mut n = thread << 32;
                while !ends.load(Ordering::Relaxed) {
                    let mut used = || -> cenote::Result<()> {
                        let (map, ordered) = (pool.map("map")?, pool.ordered("ordered")?);
                        let objects = pool.objects("objects", &ObjectSettings::default())?;
                        loop {
                            n += 1;
                            map.put(&key(n), &key(n))?;
                            ordered.put(&key(n), &key(n))?;
                            objects.insert(&key(n), &key(n))?;
                            assert_eq!(map.get(&key(n))?.as_deref(), Some(&key(n)[..]));
                            assert_eq!(ordered.get(&key(n))?.as_deref(), Some(&key(n)[..]));
                            assert_eq!(objects.get(&key(n))?.as_deref(), Some(&key(n)[..]));
                            if ends.load(Ordering::Relaxed) {
                                return Ok(());
                            }
                        }
                    };
                    match used() {
                        Ok(()) | Err(Error::Dropped | Error::TooMany { .. }) => {}
                        other => other.unwrap(),
                    }
                }
            });
        }
        // For a while, and until some were dropped, however busy the machine is.
        let began = Instant::now();
        let least = || drops.load(Ordering::Relaxed) > 6;
        while began.elapsed() < Duration::from_secs(1)
            || !least() && began.elapsed() < Duration::from_secs(60)
        {
            for name in ["map", "ordered", "objects"] {
                match pool.drop_named(name) {
                    Ok(_) => drop(drops.fetch_add(1, Ordering::Relaxed)),
                    Err(Error::NoSuch { .. }) => {}
                    other => panic!("{name}: {other:?}"),
                }
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert!(drops.load(Ordering::Relaxed) > 6);
    for name in pool.names().unwrap() {
        assert_eq!(pool.drop_named(&name).unwrap(), Dropped::Freed);
    }
    assert_is_back(&pool, before);
}

fn readers_without_a_place_are_told<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    pool.map("map").unwrap().put(b"key", b"value").unwrap();
    pool.ordered("ordered").unwrap().put(b"key", b"value").unwrap();
    let reader = Pool::<M>::open_read_only(folder.path().join("pool"), &Options::default()).unwrap();
    let (map, ordered) = (reader.map("map").unwrap(), reader.ordered("ordered").unwrap());
    assert_eq!(map.get(b"key").unwrap().unwrap(), b"value");
    for name in ["map", "ordered"] {
        let _ = pool.drop_named(name).unwrap();
    }
    pool.map("ordered").unwrap();
    assert!(matches!(map.get(b"key"), Err(Error::Dropped)));
    assert!(matches!(ordered.get(b"key"), Err(Error::Dropped)));
    assert!(matches!(reader.map("map"), Err(Error::NoSuch { .. })));
}

/// Who waits for readers has claimed what it drops: nobody else looks at that, and `fsck` says that it is not certain.
fn fsck_calls_nothing_a_leak_that_is_claimed<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let map = pool.map("pinned").unwrap();
    map.put(b"key", b"value").unwrap();
    let (dropped, tasks) = (
        pool.map("map").unwrap(),
        pool.tasks("tasks", &Plan::single(100)).unwrap(),
    );
    for n in 0..100 {
        dropped.put(&key(n), &[7; 300]).unwrap();
        assert_eq!(tasks.commit(n, &[7; 300]).unwrap(), Committed::First);
    }
    reachable(&pool);
    for name in ["map", "tasks"] {
        let value = map.get(b"key").unwrap().unwrap();
        std::thread::scope(|scope| {
            let dropper = scope.spawn(|| pool.drop_named(name).unwrap());
            while pool.names().unwrap().iter().any(|other| other == name) {
                std::thread::yield_now();
            }
            while !dropper.is_finished() {
                let report = pool.fsck().unwrap();
                assert!(report.is_clean() || report.is_uncertain, "{name}: {report:#?}");
            }
            assert_eq!(dropper.join().unwrap(), Dropped::InUse, "{name}");
        });
        drop(value);
        reachable(&pool);
    }
}

/// The background thread takes apart what was dropped; a repair of the same process is alone all the same.
fn a_repair_frees_nothing_that_is_being_taken_apart<M: Mapped>() {
    let folder = folder();
    let options = Options {
        size: 1 << 20,
        max: 1 << 28,
        background_thread: true,
        ..Options::default()
    };
    let pool: Pool<M> = Pool::create(folder.path().join("pool"), &options).unwrap();
    for name in ["map", "tasks"] {
        let (dropped, ended) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        std::thread::scope(|scope| {
            let (pool, has_value) = (&pool, dropped.0);
            scope.spawn(move || {
                let pinned = pool.map("pinned").unwrap();
                pinned.put(b"key", b"value").unwrap();
                let (map, tasks) = (
                    pool.map("map").unwrap(),
                    pool.tasks("tasks", &Plan::single(KEYS)).unwrap(),
                );
                for n in 0..KEYS {
                    match name {
                        "map" => drop(map.put(&key(n), &[7; 100]).unwrap()),
                        _ => drop(tasks.commit(n, &[7; 100]).unwrap()),
                    }
                }
                let value = pinned.get(b"key").unwrap();
                has_value.send(()).unwrap();
                ended.1.recv().unwrap();
                drop(value);
            });
            dropped.1.recv().unwrap();
            assert_eq!(pool.drop_named(name).unwrap(), Dropped::InUse, "{name}");
            ended.0.send(()).unwrap();
        });
        let begun = Instant::now();
        loop {
            let report = pool.fsck_and_repair().unwrap();
            assert!(
                report.is_clean() && report.repaired_bytes == 0,
                "{name}: {report:#?}"
            );
            if report.dropped == 0 {
                break;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{name} stays: {report:#?}"
            );
        }
    }
}

on_both! {
    all_memory_comes_back,
    what_never_had_anything_is_dropped,
    other_handles_fail_and_new_ones_do_not,
    others_are_not_dropped,
    a_view_outlives_its_store,
    what_was_in_use_comes_back_with_the_next_drop,
    a_value_outlives_its_map,
    maps_come_and_go,
    readers_without_a_place_are_told,
    fsck_calls_nothing_a_leak_that_is_claimed,
    a_repair_frees_nothing_that_is_being_taken_apart,
}
