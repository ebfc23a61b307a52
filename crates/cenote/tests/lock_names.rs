//! Names of locks through the public interface: names removed and given again, old handles, waiters; and arrays of
//! locks.

#![allow(clippy::disallowed_types)] // flags of the test's own threads, no words of a pool

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cenote::causes::Structure;
use cenote::locks::LockKind;
use cenote::memory::Mapped;
use cenote::sync::Timeout;
use cenote::{Acquired, Coherent, Error, Noncoherent, Options, Pool};

fn pool<M: Mapped>(folder: &tempfile::TempDir, names: u32) -> Pool<M> {
    let options = Options {
        size: 1 << 20,
        max: 1 << 26,
        names,
        ..Options::default()
    };
    Pool::create(folder.path().join("pool"), &options).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn assert_clean<M: Mapped>(pool: &Pool<M>) {
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

macro_rules! assert_removed {
    ($taken:expr) => {
        assert!(matches!($taken.map(|_| ()), Err(Error::LockRemoved)))
    };
}

fn old_handles_are_refused<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder, 8);
    let (spin, mutex) = (pool.spin_mutex("spin").unwrap(), pool.mutex("mutex").unwrap());
    let (queue, rw) = (pool.queue_mutex("queue").unwrap(), pool.raw_rwlock("rw").unwrap());
    drop((spin.lock().unwrap(), mutex.lock().unwrap()));
    drop((queue.lock().unwrap(), rw.write().unwrap()));
    for name in ["spin", "mutex", "queue", "rw"] {
        pool.remove_lock(name).unwrap();
        assert!(matches!(
            pool.remove_lock(name),
            Err(Error::NoSuch {
                kind: Structure::Lock,
                ..
            })
        ));
    }
    let refused = || {
        assert_removed!(spin.lock());
        assert_removed!(spin.try_lock());
        assert_removed!(mutex.lock());
        assert_removed!(mutex.try_lock());
        assert_removed!(queue.lock());
        assert_removed!(queue.try_lock());
        assert_removed!(queue.lock_for(Duration::from_millis(1)));
        assert_removed!(rw.write());
        assert_removed!(rw.try_write());
        assert_removed!(rw.read());
        assert_removed!(rw.try_read());
    };
    refused();
    // Of the same forms, under other names: the same objects.
    let (spin2, mutex2) = (pool.spin_mutex("a").unwrap(), pool.mutex("b").unwrap());
    let (queue2, rw2) = (pool.queue_mutex("c").unwrap(), pool.raw_rwlock("d").unwrap());
    refused();
    let held = (spin2.lock().unwrap(), mutex2.lock().unwrap());
    let more = (queue2.lock().unwrap(), rw2.write().unwrap());
    assert_eq!(held.0.acquired(), Acquired::Clean);
    // By another thread, as this one would be refused: it has the lock by another handle.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let late = pool.existing_mutex("b").unwrap();
            assert!(late.try_lock().unwrap().is_none());
        });
    });
    drop((held, more));
    drop(queue2.lock().unwrap());
    refused();
    assert_clean(&pool);
}

#[test]
fn old_handles_are_refused_everywhere() {
    old_handles_are_refused::<Coherent>();
    old_handles_are_refused::<Noncoherent>();
}

/// Names are given and removed without end, and an entry serves for all forms, then for something else.
#[test]
fn two_entries_serve_for_ever() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder, 2);
    let before = pool.stat().unwrap().committed_bytes;
    for n in 0..3_000 {
        let name = format!("lock {n}");
        match n % 4 {
            0 => pool.mutex(&name).unwrap().lock().unwrap().remove().unwrap(),
            1 => pool.spin_mutex(&name).unwrap().lock().unwrap().remove().unwrap(),
            2 => pool.queue_mutex(&name).unwrap().lock().unwrap().remove().unwrap(),
            _ => pool.raw_rwlock(&name).unwrap().write().unwrap().remove().unwrap(),
        }
    }
    assert_eq!(pool.stat().unwrap().committed_bytes, before);
    let kept = (pool.mutex("one").unwrap(), pool.queue_mutex("two").unwrap());
    assert!(matches!(pool.mutex("three"), Err(Error::TooMany { .. })));
    pool.remove_lock("one").unwrap();
    let map = pool.map("three").unwrap();
    map.put(b"key", b"value").unwrap();
    assert_removed!(kept.0.lock());
    assert_clean(&pool);
    pool.remove_lock("two").unwrap();
    assert!(matches!(
        pool.remove_lock("three"),
        Err(Error::NoSuch {
            kind: Structure::Lock,
            ..
        })
    ));
    assert_clean(&pool);
}

/// When a lock is removed, all its waiters get an error, also those in the middle of a queue.
fn waiters_are_refused<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder, 8);
    for form in 0..5 {
        let (refused, held) = (AtomicU64::new(0), AtomicBool::new(false));
        let name = format!("lock {form}");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !held.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    let is_removed = |taken: cenote::Result<()>| match taken {
                        Ok(()) => panic!("a waiter gets a lock that is removed"),
                        Err(Error::LockRemoved) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => panic!("{error}"),
                    };
                    // Opened while the name is there: the lock is removed when all wait.
                    match form {
                        0 => is_removed(pool.existing_mutex(&name).unwrap().lock().map(drop)),
                        1 => is_removed(pool.existing_queue_mutex(&name).unwrap().lock().map(drop)),
                        2 => is_removed(pool.existing_spin_mutex(&name).unwrap().lock().map(drop)),
                        3 => is_removed(pool.existing_raw_rwlock(&name).unwrap().read().map(drop)),
                        _ => is_removed(pool.existing_raw_rwlock(&name).unwrap().write().map(drop)),
                    }
                });
            }
            let waiting = || {
                let stat = pool.stat().unwrap();
                let lock = stat.locks.iter().find(|lock| lock.name == name);
                lock.map_or(0, |lock| lock.seen.waiting.len())
            };
            macro_rules! remove {
                ($lock:expr, $take:ident) => {{
                    let lock = $lock.unwrap();
                    let guard = lock.$take().unwrap();
                    held.store(true, Ordering::Release);
                    while waiting() < 4 {
                        std::thread::yield_now();
                    }
                    guard.remove().unwrap();
                }};
            }
            match form {
                0 => remove!(pool.mutex(&name), lock),
                1 => remove!(pool.queue_mutex(&name), lock),
                2 => remove!(pool.spin_mutex(&name), lock),
                _ => remove!(pool.raw_rwlock(&name), write),
            }
        });
        assert_eq!(refused.into_inner(), 4);
    }
    assert_clean(&pool);
}

#[test]
fn waiters_are_refused_everywhere() {
    waiters_are_refused::<Coherent>();
    waiters_are_refused::<Noncoherent>();
}

/// A remover is told nothing of a dead owner, and neither is the next lock's first.
#[test]
fn the_dead_do_not_keep_a_name() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder, 4);
    for round in 0..3 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (queue, mutex) = (pool.queue_mutex("queue").unwrap(), pool.mutex("mutex").unwrap());
                let (one, other) = (queue.lock().unwrap(), mutex.lock().unwrap());
                one.set_note(7);
                other.set_note(7);
                std::mem::forget((one, other));
            });
        });
        if round == 1 {
            pool.recover().unwrap();
        }
        pool.remove_lock_with("queue", Timeout::None).unwrap();
        pool.remove_lock_with("mutex", Timeout::None).unwrap();
        let (queue, mutex) = (pool.queue_mutex("queue").unwrap(), pool.mutex("mutex").unwrap());
        assert_eq!(queue.lock().unwrap().acquired(), Acquired::Clean);
        assert_eq!(mutex.lock().unwrap().acquired(), Acquired::Clean);
    }
    assert_clean(&pool);
}

#[test]
fn a_held_lock_stays() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder, 4);
    let lock = pool.mutex("lock").unwrap();
    let guard = lock.lock().unwrap();
    assert!(matches!(pool.remove_lock("lock"), Err(Error::Deadlock)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let short = Timeout::during(Duration::from_millis(1));
            for timeout in [Timeout::None, short] {
                let removed = pool.remove_lock_with("lock", timeout);
                assert!(matches!(removed, Err(Error::LockHeld { .. })));
            }
        });
    });
    drop(guard);
    drop(lock.lock().unwrap());
}

/// The tokens of a removed lock do not come again under another name of its object.
#[test]
fn tokens_go_on_growing() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder, 1);
    let mut last = 0;
    for _ in 0..5 {
        let guard_of = pool.mutex("lock").unwrap();
        let guard = guard_of.lock().unwrap();
        let token = guard.fencing_token();
        assert!(token > last);
        last = token;
        guard.remove().unwrap();
    }
}

fn arrays<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder, 4);
    let mutexes = pool.mutexes("mutexes", 1_000).unwrap();
    assert_eq!(mutexes.count(), 1_000);
    assert!(matches!(mutexes.at(1_000), Err(Error::OutOfRange { .. })));
    assert!(matches!(
        pool.mutexes("mutexes", 999),
        Err(Error::OtherArray { count: 1_000, .. })
    ));
    assert!(matches!(
        pool.raw_rwlocks("mutexes", 1_000),
        Err(Error::OtherArray {
            kind: LockKind::Mutex,
            ..
        })
    ));
    assert!(matches!(pool.mutex("mutexes"), Err(Error::OtherKind { .. })));
    assert!(matches!(pool.remove_lock("mutexes"), Err(Error::InArray)));
    for count in [0, (1 << 20) + 1] {
        assert!(matches!(
            pool.mutexes("others", count),
            Err(Error::InvalidOption { .. })
        ));
    }
    assert!(matches!(
        pool.existing_raw_rwlocks("others"),
        Err(Error::NoSuch {
            kind: Structure::Lock,
            ..
        })
    ));
    let one = mutexes.at(7).unwrap();
    let guard = one.lock().unwrap();
    assert!(matches!(
        mutexes.at(7).unwrap().lock().map(drop),
        Err(Error::Deadlock)
    ));
    drop(mutexes.at(8).unwrap().lock().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mutexes = pool.existing_mutexes("mutexes").unwrap();
            assert!(mutexes.at(7).unwrap().try_lock().unwrap().is_none());
            // Dies with it.
            let lock = mutexes.at(9).unwrap();
            let guard = lock.lock().unwrap();
            guard.set_note(3);
            std::mem::forget(guard);
        });
    });
    let stat = pool.stat().unwrap();
    let shown: Vec<_> = stat.locks.iter().map(|lock| (&*lock.name, lock.index)).collect();
    assert_eq!(shown, [("mutexes", Some(7)), ("mutexes", Some(9))]);
    assert!(matches!(guard.remove(), Err(Error::InArray)));
    drop(one.lock().unwrap());
    let ninth = mutexes.at(9).unwrap();
    assert!(matches!(
        ninth.lock().unwrap().acquired(),
        Acquired::Recovered { note: 3, .. }
    ));
    let (queues, spins) = (
        pool.queue_mutexes("q", 3).unwrap(),
        pool.spin_mutexes("s", 1).unwrap(),
    );
    let rws = pool.raw_rwlocks("r", 300).unwrap();
    drop((
        queues.at(2).unwrap().lock().unwrap(),
        spins.at(0).unwrap().lock().unwrap(),
    ));
    let (first, last) = (rws.at(0).unwrap(), rws.at(299).unwrap());
    let shared = (first.read().unwrap(), last.write().unwrap());
    drop(shared);
    assert_clean(&pool);
}

#[test]
fn arrays_everywhere() {
    arrays::<Coherent>();
    arrays::<Noncoherent>();
}

/// An array for which there is no room leaves nothing.
#[test]
fn an_array_that_does_not_fit() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder, 4);
    assert!(matches!(pool.mutexes("many", 1 << 20), Err(Error::Full { .. })));
    assert_clean(&pool);
    assert_eq!(pool.mutexes("many", 1 << 10).unwrap().count(), 1 << 10);
}

/// Threads make, take and remove locks under two names, by handles old and new: one at a time under a name.
fn one_at_a_time<M: Mapped>(times: u64) {
    let folder = folder();
    let pool = pool::<M>(&folder, 3);
    let inside = [const { AtomicU64::new(0) }; 2];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (pool, inside) = (&pool, &inside);
            scope.spawn(move || {
                for n in 0..times {
                    let which = (n + thread) as usize % 2;
                    let lock = pool.mutex(["a", "b"][which]).unwrap();
                    for turn in 0..3 {
                        let guard = match lock.lock() {
                            Ok(guard) => guard,
                            Err(Error::LockRemoved) => break,
                            Err(error) => panic!("{error}"),
                        };
                        assert_eq!(guard.acquired(), Acquired::Clean);
                        assert_eq!(inside[which].swap(1, Ordering::Relaxed), 0, "two are inside");
                        inside[which].store(0, Ordering::Relaxed);
                        if turn == (n + thread) % 4 {
                            guard.remove().unwrap();
                        }
                    }
                }
            });
        }
    });
    assert_clean(&pool);
}

#[test]
fn one_at_a_time_under_a_name() {
    one_at_a_time::<Coherent>(2_000);
    one_at_a_time::<Noncoherent>(200);
}
