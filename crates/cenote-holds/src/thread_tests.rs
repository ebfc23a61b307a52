//! Holds of threads: again, by several workers, after a thread's end, after a fork.

use std::time::{Duration, Instant};

use cenote::{Options, Pool};

use super::*;
use crate::deadline::Deadline;
use crate::pool::Which;

struct Scene {
    _folder: tempfile::TempDir,
    pool: Arc<OpenPool>,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::create(folder.path().join("pool"), &Options::default()).unwrap();
    Scene {
        pool: OpenPool::new(pool).unwrap(),
        _folder: folder,
    }
}

impl Scene {
    fn lock(&self, name: &str) -> Arc<Lock> {
        Arc::new(Lock::new(self.pool.clone(), Which::Named(name.to_owned())))
    }
}

fn take(number: u64, lock: &Arc<Lock>, access: Access, wait: Wait) -> Result<Acquired, Refusal> {
    with(|thread| thread.acquire(number, || lock.clone(), access, wait))
}

fn release(number: u64) -> Result<(), Refusal> {
    with(|thread| thread.release(number))
}

fn refused(result: Result<Acquired, Refusal>) -> std::ffi::c_int {
    result.unwrap_err().errno()
}

#[test]
fn a_thread_may_read_again_and_nothing_else() {
    let scene = scene();
    let lock = scene.lock("a");
    for _ in 0..2 {
        take(1, &lock, Access::Read, Wait::Forever).unwrap();
    }
    assert_eq!(
        refused(take(1, &lock, Access::Write, Wait::Forever)),
        libc::EDEADLK
    );
    assert_eq!(refused(take(1, &lock, Access::Write, Wait::No)), libc::EBUSY);
    release(1).unwrap();
    assert!(with(|thread| Ok(thread.holds(1))).unwrap());
    release(1).unwrap();
    assert_eq!(release(1).unwrap_err().errno(), libc::EPERM);
    take(1, &lock, Access::Write, Wait::Forever).unwrap();
    assert_eq!(
        refused(take(1, &lock, Access::Read, Wait::Forever)),
        libc::EDEADLK
    );
    assert_eq!(refused(take(1, &lock, Access::Read, Wait::No)), libc::EBUSY);
    release(1).unwrap();
}

#[test]
fn a_thread_holds_more_locks_than_one_worker_can() {
    let scene = scene();
    let locks: Vec<_> = (0..100).map(|n| scene.lock(&format!("{n}"))).collect();
    for round in 0..3 {
        for (number, lock) in (0..).zip(&locks) {
            let access = [Access::Read, Access::Write][(round + number as usize) % 2];
            assert_eq!(
                take(number, lock, access, Wait::Forever).unwrap(),
                Acquired::Clean
            );
        }
        // Others are kept out by each of them.
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                (0..)
                    .zip(&locks)
                    .filter(|(n, lock)| take(*n, lock, Access::Write, Wait::No).is_ok())
                    .count()
            });
            assert_eq!(other.join().unwrap(), 0);
        });
        for number in 0..100 {
            release(number).unwrap();
        }
    }
}

#[test]
fn the_end_of_a_thread_is_told_until_somebody_mends() {
    let scene = scene();
    let lock = scene.lock("a");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            take(1, &lock, Access::Write, Wait::Forever).unwrap();
            with(|thread| thread.note(1, 42)).unwrap();
        });
    });
    let told = |acquired| matches!(acquired, Ok(Acquired::Recovered { note: 42, .. }));
    assert!(told(take(1, &lock, Access::Read, Wait::Forever)));
    assert!(with(|thread| thread.mend(1)).is_err());
    release(1).unwrap();
    for _ in 0..2 {
        assert!(told(take(1, &lock, Access::Write, Wait::Forever)));
        assert!(told(with(|thread| thread.acquired(1))));
        release(1).unwrap();
    }
    assert!(told(take(1, &lock, Access::Write, Wait::Forever)));
    with(|thread| thread.mend(1)).unwrap();
    assert!(with(|thread| thread.mend(1)).is_err());
    release(1).unwrap();
    let clean = take(1, &lock, Access::Write, Wait::Forever).unwrap();
    assert_eq!(clean, Acquired::Clean);
    release(1).unwrap();
}

#[test]
fn waits_end_at_their_moment() {
    let scene = scene();
    let lock = scene.lock("a");
    take(1, &lock, Access::Write, Wait::Forever).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (clock, access) in [
                (libc::CLOCK_REALTIME, Access::Read),
                (libc::CLOCK_MONOTONIC, Access::Write),
            ] {
                let mut now = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                // SAFETY: fills in a structure of ours.
                unsafe { libc::clock_gettime(clock, &mut now) };
                let start = Instant::now();
                for late in [0, 1] {
                    let at = libc::timespec {
                        tv_sec: now.tv_sec + late,
                        tv_nsec: now.tv_nsec,
                    };
                    let wait = Wait::Until(Deadline::new(clock, &at).unwrap());
                    assert_eq!(refused(take(1, &lock, access, wait)), libc::ETIMEDOUT);
                }
                assert!(start.elapsed() >= Duration::from_millis(999));
            }
        });
    });
    release(1).unwrap();
}

#[test]
fn closed_locks_are_forgotten_and_their_pool_is_closed() {
    let scene = scene();
    let lock = scene.lock("a");
    let weak = Arc::downgrade(&scene.pool);
    take(1, &lock, Access::Read, Wait::Forever).unwrap();
    release(1).unwrap();
    lock.close();
    drop(lock);
    let Scene { _folder, pool } = scene;
    drop(pool);
    let other = self::scene();
    let next = other.lock("b");
    take(2, &next, Access::Read, Wait::Forever).unwrap();
    assert!(weak.upgrade().is_none());
    release(2).unwrap();
}
