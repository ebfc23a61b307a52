//! A pool to be damaged, and the use of all that it offers; shared by the damage test and the fuzz target.

#![allow(dead_code, reason = "not all who share these files damage everything")]

pub mod child;
pub mod content;
pub mod live;
pub mod oracle;
pub mod ordered;
pub mod places;
pub mod random;

use std::path::Path;

use cenote::{Options, Pool};

/// Small tables, so that damage hits something.
pub fn options() -> Options {
    Options {
        size: 1 << 20,
        max: 64 << 20,
        processes: 8,
        workers: 8,
        names: 24,
        ..Options::default()
    }
}

/// A pool with everything in it: several sizes, a map on the move, retired objects, a worker that died.
pub fn fill<M: cenote::memory::Mapped>(path: &Path) {
    let pool: Pool<M> = Pool::create(path, &options()).unwrap();
    let map = pool.map("m").unwrap();
    for i in 0..5_400u64 {
        map.put_u64(i, i).unwrap();
    }
    let large = pool.map("large").unwrap();
    for i in 0..40u64 {
        large
            .put(format!("key {i}").as_bytes(), &vec![7; (i * i * 60) as usize])
            .unwrap();
    }
    for i in 0..300u64 {
        map.put_u64(i, !i).unwrap();
        map.remove(&(i * 3).to_le_bytes()).unwrap();
    }
    let ordered = pool.ordered("ordered").unwrap();
    for i in 0..3_000u64 {
        ordered.put_u64(i * 7919 % 3_000, i).unwrap();
    }
    for i in 0..200u64 {
        let key = format!("a key that begins like others {}", i % 150);
        ordered.put(key.as_bytes(), &vec![7; (i * i) as usize]).unwrap();
        ordered.remove(&(i * 3).to_be_bytes()).unwrap();
    }
    let tasks = pool.tasks("tasks", &cenote::Plan::phases(vec![60, 9])).unwrap();
    for task in 0..40u64 {
        tasks.commit(task, &vec![7; (task * task) as usize]).unwrap();
        if task % 4 == 0 {
            tasks.forget(task).unwrap();
        }
    }
    fill_locks(&pool);
    // As a killed process leaves it: nothing is given back.
    std::mem::forget((map, large, ordered, tasks, pool));
}

/// Locks of all kinds, some held, and a group with members.
fn fill_locks<M: cenote::memory::Mapped>(pool: &Pool<M>) {
    let (mutex, queue, rw) = (
        pool.mutex("mutex").unwrap(),
        pool.queue_mutex("queue").unwrap(),
        pool.rwlock("rw").unwrap(),
    );
    let semaphore = pool.semaphore("semaphore", 3).unwrap();
    let mutexes = pool.mutexes("mutexes", 8).unwrap();
    let (spin, condvar) = (pool.spin_mutex("spin").unwrap(), pool.condvar("condvar").unwrap());
    drop(spin.lock().unwrap());
    condvar.notify_all().unwrap();
    std::mem::forget((mutex.lock().unwrap(), queue.lock().unwrap(), rw.read().unwrap()));
    std::mem::forget((semaphore.acquire().unwrap(), mutexes.at(3).unwrap().lock().map(drop).unwrap()));
    let group = pool.group("group", live::TOKEN).unwrap();
    std::mem::forget((group.join("one").unwrap(), group.observe().unwrap()));
    group.join("two").unwrap().leave().unwrap();
    std::mem::forget((mutex, queue, rw, semaphore, group));
}

/// Uses all of a pool that may be damaged. Errors are fine.
pub fn use_all<M: cenote::memory::Mapped>(path: &Path) -> cenote::Result<()> {
    let pool: Pool<M> = Pool::open(path, &options())?;
    let _ = pool.stat();
    for name in ["m", "large", "new"] {
        let Ok(map) = pool.map(name) else { continue };
        for i in 0..2_000u64 {
            let _ = map.get_u64(i);
            let _ = map.get(format!("key {}", i % 50).as_bytes());
            let _ = map.put_u64(i * 7, i);
            let _ = map.put(
                format!("key {}", i % 90).as_bytes(),
                &vec![1; (i % 3_000) as usize],
            );
            let _ = map.remove(&(i * 5).to_le_bytes());
            let _ = map.insert(&i.to_le_bytes(), b"x");
            let _ = map.replace(&i.to_le_bytes(), b"x", b"y");
        }
        let _ = map.put(b"big", &vec![1; 300_000]);
        let _ = map.get_many_u64(&(0..100).collect::<Vec<_>>(), |_, _| {});
        let _ = map.for_each(|_, _| {});
        let _ = map.len();
    }
    if let Ok(tasks) = pool.existing_tasks("tasks") {
        for task in 0..tasks.len().min(100) {
            let _ = tasks.take(0);
            let _ = tasks.result(task).map(|result| result.map(|bytes| bytes.len()));
            let _ = tasks.commit(task, b"another");
            let _ = tasks.forget(task / 2);
        }
        let _ = (tasks.is_done(), tasks.committed());
    }
    for name in ["ordered", "m", "new ordered"] {
        let Ok(map) = pool.ordered(name) else { continue };
        for i in 0..2_000u64 {
            let key = format!("a key that begins like others {}", i % 150);
            let (from, to) = (i.to_be_bytes(), (i + 100).to_be_bytes());
            let range = cenote::Range {
                from: &from,
                to: Some(&to),
            };
            let _ = map.get_u64(i);
            let _ = map.get(key.as_bytes());
            let _ = map.put_u64(i * 7, i);
            let _ = map.put(key.as_bytes(), &vec![1; (i % 3_000) as usize]);
            let _ = map.remove(&(i * 5).to_be_bytes());
            let _ = map.replace(key.as_bytes(), b"x", b"y");
            let _ = map.count(range);
            let _ = map.scan_reverse(range, |_, _| true);
            let _ = (map.successor(&from), map.predecessor(&to));
        }
        let _ = map.put_all((0..500u64).map(|n| (n.to_be_bytes(), n.to_be_bytes())));
        let _ = (map.first(), map.last(), map.len());
        let _ = map.for_each(|_, _| {});
    }
    let _ = pool.collect();
    let _ = pool.recover();
    let _ = pool.fsck(false);
    let _ = pool.fsck(true);
    Ok(())
}
