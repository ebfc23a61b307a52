//! Pools to be damaged, calls on all that they offer, and the oracle that judges what damage does. Shared by tests,
//! fuzz targets and `cenote torture --damage`. `docs/fuzzing.md` describes what runs.
//!
//! | file | |
//! |---|---|
//! | here | a pool with everything in it, and calls of all kinds on one that was damaged |
//! | `places`, `aim` | where a pool can be damaged, and how; parts of it that damage is aimed at |
//! | `content`, `oracle` | what can be read; whether what `fsck` calls clean holds |
//! | `live` | calls on a pool whose bytes change meanwhile, and what changes them |
//! | `ordered` | an ordered map alone, damaged part by part |
//! | `child` | child processes whose signals, panics and hangs are caught |

pub mod aim;
pub mod child;
pub mod content;
pub mod live;
pub mod oracle;
pub mod ordered;
pub mod places;
pub mod random;

use std::path::Path;

use cenote::memory::Mapped;
#[cfg(all(debug_assertions, not(test)))]
use cenote::memory::{Coherent, Delegated, Noncoherent};
use cenote::{Options, Pool, Range, Reader, Result};

/// Calls of all kinds, on all memories. Whatever they need of the library is compiled with this crate, once; programs
/// of tests that have this crate use it, where each would compile it for itself. Only without optimisation do programs
/// share what is generic.
#[cfg(all(debug_assertions, not(test)))]
pub static ALL_CALLS: &[fn(&Path) -> Result<()>] = &[
    fill::<Coherent>,
    fill::<Noncoherent>,
    fill::<Delegated>,
    use_all::<Coherent>,
    use_all::<Noncoherent>,
    use_all::<Delegated>,
    read_all::<Coherent>,
    read_all::<Noncoherent>,
    read_all::<Delegated>,
];

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
pub fn fill<M: Mapped>(path: &Path) -> Result<()> {
    let pool: Pool<M> = Pool::create(path, &options())?;
    let map = pool.map("m")?;
    for i in 0..5_400u64 {
        map.put_u64(i, i)?;
    }
    let large = pool.map("large")?;
    for i in 0..40u64 {
        large.put(format!("key {i}").as_bytes(), &vec![7; (i * i * 60) as usize])?;
    }
    for i in 0..300u64 {
        map.put_u64(i, !i)?;
        map.remove(&(i * 3).to_le_bytes())?;
    }
    let ordered = pool.ordered("ordered")?;
    for i in 0..3_000u64 {
        ordered.put_u64(i * 7919 % 3_000, i)?;
    }
    for i in 0..200u64 {
        let key = format!("a key that begins like others {}", i % 150);
        ordered.put(key.as_bytes(), &vec![7; (i * i) as usize])?;
        ordered.remove(&(i * 3).to_be_bytes())?;
    }
    let tasks = pool.tasks("tasks", &cenote::Plan::phases(vec![60, 9]))?;
    for task in 0..40u64 {
        tasks.commit(task, &vec![7; (task * task) as usize])?;
        if task % 4 == 0 {
            tasks.forget(task)?;
        }
    }
    fill_locks(&pool)?;
    // As a killed process leaves it: nothing is given back.
    std::mem::forget((map, large, ordered, tasks, pool));
    Ok(())
}

/// Locks of all kinds, some held, and a group with members.
fn fill_locks<M: Mapped>(pool: &Pool<M>) -> Result<()> {
    let (mutex, queue, rw) = (
        pool.mutex("mutex")?,
        pool.queue_mutex("queue")?,
        pool.raw_rwlock("rw")?,
    );
    let semaphore = pool.semaphore("semaphore", 3)?;
    let mutexes = pool.mutexes("mutexes", 8)?;
    let (spin, condvar) = (pool.spin_mutex("spin")?, pool.condvar("condvar")?);
    drop(spin.lock()?);
    condvar.notify_all()?;
    std::mem::forget((mutex.lock()?, queue.lock()?, rw.read()?));
    std::mem::forget((semaphore.acquire()?, mutexes.at(3)?.lock().map(drop)?));
    let group = pool.group("group", live::TOKEN)?;
    std::mem::forget((group.join("one")?, group.observe()?));
    group.join("two")?.leave()?;
    std::mem::forget((mutex, queue, rw, semaphore, group));
    Ok(())
}

/// Reads all of a pool that may be damaged, without a place in it. Errors are fine.
pub fn read_all<M: Mapped>(path: &Path) -> Result<()> {
    let reader: Reader<M> = Pool::open_read_only(path, &options())?;
    let _ = (reader.stat(), reader.fsck());
    for name in reader.names()? {
        if let Ok(map) = reader.map(&name) {
            let _ = (map.get(b"key 1"), map.len(), map.iter().count());
        }
        if let Ok(map) = reader.ordered(&name) {
            let _ = (map.get(b"key 1"), map.len());
            let _ = map.scan(Range::ALL, |_, _| true);
            let _ = map.scan_reverse(Range::ALL, |_, _| true);
        }
    }
    Ok(())
}

/// Uses all of a pool that may be damaged. Errors are fine.
pub fn use_all<M: Mapped>(path: &Path) -> Result<()> {
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
    let mut random = random::Random::new(7);
    for _ in 0..15 {
        live::locks(&pool, &mut random);
        live::group(&pool, &mut random);
        live::tasks(&pool, &mut random);
        live::names(&pool, &mut random);
        live::whole(&pool, &mut random);
    }
    let _ = pool.collect();
    let _ = pool.recover();
    let _ = pool.fsck();
    let _ = pool.fsck_and_repair();
    Ok(())
}
