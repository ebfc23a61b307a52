//! Locks through the public interface: exclusion among threads, what successors are told, refusals, timeouts, forks.
//! Deaths of processes at named points are in `crash_locks.rs`.

#![allow(clippy::disallowed_types)] // counters of the test's own threads, no words of a pool

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cenote::causes::Structure;
use cenote::memory::{Counting, Counts, Mapped};
use cenote::sync::Timeout;
use cenote::{Acquired, Coherent, Error, Noncoherent, Options, Pool};

const SHORT: Duration = Duration::from_millis(2);

fn pool<M: Mapped>(folder: &tempfile::TempDir) -> Pool<M> {
    let options = Options {
        size: 1 << 20,
        max: 1 << 24,
        ..Options::default()
    };
    Pool::create(folder.path().join("pool"), &options).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// Runs `add` on four threads, so many times each; two threads inside at once would lose counts.
fn count<M: Mapped>(times: u64, add: impl Fn(&Pool<M>, u64, &dyn Fn()) + Sync) {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let (counter, inside) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                add(&pool, times, &|| {
                    assert_eq!(inside.swap(1, Ordering::Relaxed), 0, "two are inside");
                    let before = counter.load(Ordering::Relaxed);
                    counter.store(before + 1, Ordering::Relaxed);
                    inside.store(0, Ordering::Relaxed);
                });
            });
        }
    });
    assert_eq!(counter.into_inner(), 4 * times);
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

fn mutex<M: Mapped>(pool: &Pool<M>, times: u64, inside: &dyn Fn()) {
    let lock = pool.mutex("lock").unwrap();
    for n in 0..times {
        // Some give up and come again.
        let guard = loop {
            let timeout = if n % 3 == 0 {
                Timeout::Polls(70)
            } else {
                Timeout::Forever
            };
            if let Some(guard) = lock.lock_with(timeout).unwrap() {
                break guard;
            }
        };
        assert_eq!(guard.acquired(), Acquired::Clean);
        inside();
    }
}

fn spin<M: Mapped>(pool: &Pool<M>, times: u64, inside: &dyn Fn()) {
    let lock = pool.spin_mutex("lock").unwrap();
    for _ in 0..times {
        let guard = lock.lock().unwrap();
        assert_eq!(guard.acquired(), Acquired::Clean);
        inside();
    }
}

fn queue<M: Mapped>(pool: &Pool<M>, times: u64, inside: &dyn Fn()) {
    let lock = pool.queue_mutex("lock").unwrap();
    for n in 0..times {
        // Some give up and come again.
        let guard = loop {
            let timeout = if n % 3 == 0 {
                Timeout::Polls(70)
            } else {
                Timeout::Forever
            };
            if let Some(guard) = lock.lock_with(timeout).unwrap() {
                break guard;
            }
        };
        assert_eq!(guard.acquired(), Acquired::Clean);
        inside();
    }
}

fn write<M: Mapped>(pool: &Pool<M>, times: u64, inside: &dyn Fn()) {
    let lock = pool.raw_rwlock("lock").unwrap();
    for n in 0..times {
        if n % 4 == 1 {
            drop(lock.read().unwrap());
        }
        let guard = lock.write().unwrap();
        assert_eq!(guard.acquired(), Acquired::Clean);
        inside();
    }
}

#[test]
fn one_at_a_time() {
    count::<Coherent>(4_000, spin);
    count::<Coherent>(4_000, mutex);
    count::<Coherent>(4_000, queue);
    count::<Coherent>(2_000, write);
    count::<Noncoherent>(400, spin);
    count::<Noncoherent>(400, mutex);
    count::<Noncoherent>(400, queue);
    count::<Noncoherent>(200, write);
}

/// A thread that ends while it holds a guard leaves its place, and so its lock, as a dead thread does.
fn dies_with<M: Mapped>(pool: &Pool<M>, take: impl FnOnce(&Pool<M>) + Send) {
    let pool = pool.clone();
    std::thread::scope(|scope| scope.spawn(move || take(&pool)).join().unwrap());
}

fn assert_recovered(acquired: Acquired, expected: u64) {
    let Acquired::Recovered { note, .. } = acquired else {
        panic!("the successor was told {acquired:?}");
    };
    assert_eq!(note, expected);
}

fn successors_are_told<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let (spin, queue, rw) = (
        pool.spin_mutex("spin").unwrap(),
        pool.queue_mutex("queue").unwrap(),
        pool.raw_rwlock("rw").unwrap(),
    );
    let mutex = pool.mutex("mutex").unwrap();
    for _ in 0..3 {
        dies_with(&pool, |pool| {
            let lock = pool.spin_mutex("spin").unwrap();
            let guard = lock.lock().unwrap();
            guard.set_note(7);
            std::mem::forget(guard);
        });
        assert_recovered(spin.lock().unwrap().acquired(), 7);
        assert_eq!(spin.lock().unwrap().acquired(), Acquired::Clean);

        dies_with(&pool, |pool| {
            let lock = pool.mutex("mutex").unwrap();
            let guard = lock.lock().unwrap();
            guard.set_note(6);
            std::mem::forget(guard);
        });
        assert_recovered(mutex.lock().unwrap().acquired(), 6);
        assert_eq!(mutex.lock().unwrap().acquired(), Acquired::Clean);

        dies_with(&pool, |pool| {
            let lock = pool.queue_mutex("queue").unwrap();
            let guard = lock.lock().unwrap();
            guard.set_note(8);
            std::mem::forget(guard);
        });
        // A successor that dies before it has done anything passes the note on.
        dies_with(&pool, |pool| {
            let lock = pool.queue_mutex("queue").unwrap();
            let guard = lock.lock().unwrap();
            assert_recovered(guard.acquired(), 8);
            std::mem::forget(guard);
        });
        assert_recovered(queue.try_lock().unwrap().unwrap().acquired(), 8);
        assert_eq!(queue.lock().unwrap().acquired(), Acquired::Clean);

        dies_with(&pool, |pool| {
            let lock = pool.raw_rwlock("rw").unwrap();
            let guard = lock.write().unwrap();
            guard.set_note(9);
            std::mem::forget(guard);
        });
        // Readers are told until a writer has unlocked.
        assert_recovered(rw.read().unwrap().acquired(), 9);
        assert_recovered(rw.read().unwrap().acquired(), 9);
        dies_with(&pool, |pool| {
            std::mem::forget(pool.raw_rwlock("rw").unwrap().read().unwrap());
        });
        assert_recovered(rw.write().unwrap().acquired(), 9);
        assert_eq!(rw.read().unwrap().acquired(), Acquired::Clean);
    }
    let locks = pool.stat().unwrap().locks;
    assert!(
        locks
            .iter()
            .all(|lock| lock.seen.owner.is_none() && lock.seen.note == 0),
        "{locks:?}"
    );
    assert!(pool.fsck().unwrap().is_clean());
}

#[test]
fn successors_are_told_and_of_what() {
    successors_are_told::<Coherent>();
    successors_are_told::<Noncoherent>();
}

#[test]
fn a_panic_is_told_as_a_death() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder);
    let (spin, queue, rw) = (
        pool.spin_mutex("spin").unwrap(),
        pool.queue_mutex("queue").unwrap(),
        pool.raw_rwlock("rw").unwrap(),
    );
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let (a, b, c) = (spin.lock().unwrap(), queue.lock().unwrap(), rw.write().unwrap());
        a.set_note(1);
        b.set_note(2);
        c.set_note(3);
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(panicked.is_err());
    assert_recovered(spin.lock().unwrap().acquired(), 1);
    assert_recovered(queue.lock().unwrap().acquired(), 2);
    assert_recovered(rw.write().unwrap().acquired(), 3);
    assert_eq!(spin.lock().unwrap().acquired(), Acquired::Clean);
    assert_eq!(queue.lock().unwrap().acquired(), Acquired::Clean);
    assert_eq!(rw.write().unwrap().acquired(), Acquired::Clean);
}

#[test]
fn a_panic_in_a_queue_is_told_to_who_waits() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder);
    std::thread::scope(|scope| {
        let waiter = {
            let queue = pool.queue_mutex("queue").unwrap();
            let guard = queue.lock().unwrap();
            let waiter = scope.spawn(|| {
                let queue = pool.queue_mutex("queue").unwrap();
                let guard = queue.lock().unwrap();
                guard.acquired()
            });
            while pool.stat().unwrap().locks[0].seen.waiting.is_empty() {
                std::thread::yield_now();
            }
            let panicked = catch_unwind(AssertUnwindSafe(move || {
                let _guard = guard;
                std::panic::resume_unwind(Box::new("on purpose"));
            }));
            assert!(panicked.is_err());
            waiter
        };
        assert_recovered(waiter.join().unwrap(), 0);
    });
}

#[test]
fn waiting_for_oneself_and_for_too_many_is_refused() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder);
    let spin = pool.spin_mutex("spin").unwrap();
    let guard = spin.lock().unwrap();
    assert!(matches!(spin.lock(), Err(Error::Deadlock)));
    assert!(matches!(
        pool.spin_mutex("spin").unwrap().try_lock(),
        Err(Error::Deadlock)
    ));
    drop(guard);
    let queue = pool.queue_mutex("queue").unwrap();
    let guard = queue.lock().unwrap();
    assert!(matches!(queue.lock_for(SHORT), Err(Error::Deadlock)));
    drop(guard);
    let rw = pool.raw_rwlock("rw").unwrap();
    let guard = rw.read().unwrap();
    assert!(matches!(rw.write(), Err(Error::Deadlock)));
    assert!(matches!(rw.read(), Err(Error::Deadlock)));
    drop(guard);
    drop(rw.write().unwrap());

    let locks: Vec<_> = (0..9)
        .map(|n| pool.mutex(&format!("lock {n}")).unwrap())
        .collect();
    let guards: Vec<_> = locks[..8].iter().map(|lock| lock.lock().unwrap()).collect();
    assert!(matches!(locks[8].lock(), Err(Error::TooManyLocks { limit: 8 })));
    drop(guards);
    drop(locks[8].lock().unwrap());
}

#[test]
fn the_impatient_get_nothing_and_leave_nothing() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder);
    let (spin, queue, rw) = (
        pool.spin_mutex("spin").unwrap(),
        pool.queue_mutex("queue").unwrap(),
        pool.raw_rwlock("rw").unwrap(),
    );
    let guards = (spin.lock().unwrap(), queue.lock().unwrap(), rw.read().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (spin, queue, rw) = (
                pool.spin_mutex("spin").unwrap(),
                pool.queue_mutex("queue").unwrap(),
                pool.raw_rwlock("rw").unwrap(),
            );
            for _ in 0..20 {
                assert!(spin.try_lock().unwrap().is_none());
                assert!(spin.lock_for(SHORT).unwrap().is_none());
                assert!(queue.try_lock().unwrap().is_none());
                assert!(queue.lock_for(SHORT).unwrap().is_none());
                assert!(rw.try_write().unwrap().is_none());
                assert!(rw.write_for(SHORT).unwrap().is_none());
                assert!(rw.try_read().unwrap().is_some());
            }
        });
    });
    drop(guards);
    assert_eq!(spin.try_lock().unwrap().unwrap().acquired(), Acquired::Clean);
    assert_eq!(queue.try_lock().unwrap().unwrap().acquired(), Acquired::Clean);
    assert_eq!(rw.try_write().unwrap().unwrap().acquired(), Acquired::Clean);
    // A writer keeps readers out, and nobody else's lock is touched.
    let guard = rw.write().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(pool.raw_rwlock("rw").unwrap().read_for(SHORT).unwrap().is_none()));
    });
    drop(guard);
    assert!(rw.try_read().unwrap().is_some());
}

#[test]
fn names_have_one_form() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder);
    pool.spin_mutex("spin").unwrap();
    pool.map("map").unwrap();
    assert!(matches!(pool.queue_mutex("spin"), Err(Error::OtherKind { .. })));
    assert!(matches!(pool.raw_rwlock("map"), Err(Error::OtherKind { .. })));
    assert!(matches!(pool.map("spin"), Err(Error::OtherKind { .. })));
    assert!(matches!(
        pool.existing_spin_mutex("none"),
        Err(Error::NoSuch {
            kind: Structure::Lock,
            ..
        })
    ));
}

#[test]
fn stat_says_who_holds_and_who_waits() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder);
    let queue = pool.queue_mutex("queue").unwrap();
    let guard = queue.lock().unwrap();
    guard.set_note(42);
    std::thread::scope(|scope| {
        scope.spawn(|| drop(pool.queue_mutex("queue").unwrap().lock().unwrap()));
        while pool.stat().unwrap().locks[0].seen.waiting.is_empty() {
            std::thread::yield_now();
        }
        let seen = pool.stat().unwrap().locks.remove(0).seen;
        assert_eq!(seen.waiting.len(), 1);
        assert_eq!(seen.note, 42);
        assert!(seen.owner.is_some_and(|owner| owner.is_alive));
        drop(guard);
    });
    assert!(pool.stat().unwrap().locks[0].seen.owner.is_none());
}

#[test]
fn a_forked_child_is_refused_and_unlocks_nothing() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder);
    let spin = pool.spin_mutex("spin").unwrap();
    let queue = pool.queue_mutex("queue").unwrap();
    let (a, b) = (spin.lock().unwrap(), queue.lock().unwrap());
    // SAFETY: the child calls this library, which allocates at most in error paths that are not taken, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused =
            matches!(spin.lock(), Err(Error::Forked)) && matches!(queue.try_lock(), Err(Error::Forked));
        drop((a, b));
        // SAFETY: ends the child without destructors.
        unsafe { libc::_exit(if refused { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: a child of ours and a place for its status.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    let owners = pool.stat().unwrap().locks.into_iter().map(|lock| lock.seen.owner);
    assert!(
        owners
            .into_iter()
            .all(|owner| owner.is_some_and(|owner| owner.is_alive))
    );
    drop((a, b));
}

/// The second use of a lock by a handle costs what the documentation states: loads, stores and compare-exchanges of
/// sync words.
#[test]
fn a_lock_that_nobody_has_costs_one_exchange() {
    let folder = folder();
    let pool = pool::<Counting<Noncoherent>>(&folder);
    let (spin, mutex, queue, rw) = (
        pool.spin_mutex("spin").unwrap(),
        pool.mutex("mutex").unwrap(),
        pool.queue_mutex("queue").unwrap(),
        pool.raw_rwlock("rw").unwrap(),
    );
    let counted = |run: &dyn Fn()| {
        run();
        Counts::reset();
        run();
        let counts = Counts::current();
        // A line is a round trip, as a load is.
        (
            counts.sync_loads + counts.line_fetches,
            counts.sync_stores,
            counts.exchanges,
        )
    };
    assert_eq!(counted(&|| drop(spin.lock().unwrap())), (0, 1, 1));
    assert_eq!(counted(&|| drop(mutex.lock().unwrap())), (1, 1, 1));
    assert_eq!(counted(&|| drop(queue.lock().unwrap())), (2, 3, 1));
    // If another thread had it last, one more load, of that thread's slot.
    let after_another = |run: &dyn Fn()| {
        std::thread::scope(|scope| {
            scope.spawn(|| drop(pool.queue_mutex("queue").unwrap().lock().unwrap()));
        });
        Counts::reset();
        run();
        Counts::current()
    };
    let counts = after_another(&|| drop(queue.lock().unwrap()));
    assert_eq!(
        (counts.sync_loads, counts.line_fetches, counts.exchanges),
        (2, 1, 1)
    );
    assert_eq!(counted(&|| drop(rw.read().unwrap())), (3, 2, 0));
    // The bits of all places are in four words.
    assert_eq!(counted(&|| drop(rw.write().unwrap())), (5, 1, 1));
}

/// A waiter that gives up gets its slot back, also if it waited behind others, for nine locks.
#[test]
fn time_outs_use_up_no_slots() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder);
    let (begun, done) = (std::sync::Barrier::new(4), std::sync::Barrier::new(3));
    std::thread::scope(|scope| {
        let names = |half: usize| (6 * half..6 * half + 6).map(|n| format!("lock {n}"));
        for half in 0..2 {
            let (pool, begun, done) = (&pool, &begun, &done);
            scope.spawn(move || {
                let locks: Vec<_> = names(half).map(|name| pool.queue_mutex(&name).unwrap()).collect();
                let held: Vec<_> = locks.iter().map(|lock| lock.lock().unwrap()).collect();
                begun.wait();
                done.wait();
                drop(held);
            });
        }
        // A waiter behind the one that gives up.
        let (pool, begun) = (&pool, &begun);
        scope.spawn(move || {
            begun.wait();
            let lock = pool.queue_mutex("lock 3").unwrap();
            drop(lock.lock().unwrap());
        });
        begun.wait();
        for name in names(0).chain(names(1)) {
            let lock = pool.queue_mutex(&name).unwrap();
            assert!(lock.lock_for(SHORT).unwrap().is_none());
        }
        let mine = pool.queue_mutex("mine").unwrap();
        drop(mine.lock().unwrap());
        let worker = pool.worker().unwrap();
        let left = (0..8).filter(|&n| {
            let slot =
                cenote::pod::format::lock_slots::Slot::new(worker.geometry(), u32::from(worker.me()) - 1, n);
            let stand = cenote::pod::format::lock_slots::Turn(slot.turn().load(worker.mem())).state();
            stand != cenote::pod::format::lock_slots::SlotState::Rest
        });
        // The waiter behind may not have run yet.
        assert!(left.count() <= 1);
        done.wait();
    });
}

#[test]
fn fencing_tokens_grow() {
    let folder = folder();
    let pool = pool::<Coherent>(&folder);
    let (mutex, rw) = (pool.mutex("mutex").unwrap(), pool.raw_rwlock("rw").unwrap());
    let mut last = 0;
    for _ in 0..3 {
        let guard = mutex.lock().unwrap();
        let token = guard.fencing_token();
        assert!(token > last);
        drop(guard);
        dies_with(&pool, |pool| {
            let lock = pool.mutex("mutex").unwrap();
            let guard = lock.lock().unwrap();
            assert!(guard.fencing_token() > token);
            std::mem::forget(guard);
        });
        last = token + 1;
    }
    let drawn = rw.write().unwrap().fencing_token();
    assert_eq!(rw.read().unwrap().fencing_token(), drawn);
    assert!(rw.write().unwrap().fencing_token() > drawn);
}
