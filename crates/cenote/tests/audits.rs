//! `fsck` of a pool that others write to: what it reports as wrong, and not as uncertain, is wrong; and it does not
//! make writes fail.

use std::time::{Duration, Instant};

use cenote::memory::{LocalWord, Mapped};
use cenote::{Coherent, FsckReport, Noncoherent, Options, Pool, Result};

fn options() -> Options {
    Options {
        size: 8 << 20,
        max: 64 << 20,
        processes: 8,
        ..Options::default()
    }
}

/// Runs `fsck` on a pool in a loop while threads, each of which has the pool open, write.
fn polls<M: Mapped>(time: Duration, write: impl Fn(&Pool<M>, u64) + Sync, read_only: bool) -> u32 {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    drop(Pool::<M>::create(&path, &options()).unwrap());
    let (is_over, mut polls) = (LocalWord::new(0), 0);
    std::thread::scope(|scope| {
        for id in 0..2 {
            let (path, is_over, write) = (&path, &is_over, &write);
            scope.spawn(move || {
                let pool = Pool::<M>::open(path, &options()).unwrap();
                let mut n = id;
                while is_over.load() == 0 {
                    write(&pool, n);
                    n += 2;
                }
            });
        }
        let until = Instant::now() + time;
        let looked = std::panic::catch_unwind(|| {
            let mut polls = 0;
            let check = |report: Result<FsckReport>| {
                let report = report.unwrap();
                assert!(report.is_clean() || report.is_uncertain, "{report:?}");
            };
            while Instant::now() < until {
                match read_only {
                    true => check(Pool::<M>::open_read_only(&path, &options()).unwrap().fsck()),
                    false => check(Pool::<M>::open(&path, &options()).unwrap().fsck()),
                }
                polls += 1;
            }
            polls
        });
        is_over.store(1);
        polls = looked.unwrap_or_else(|thrown| std::panic::resume_unwind(thrown));
    });
    let pool = Pool::<M>::open(&path, &options()).unwrap();
    assert!(pool.fsck().unwrap().is_clean());
    polls
}

const MOMENT: Duration = Duration::from_millis(1_500);

/// Each pass kept all that was retired during it, and all that had been retired before made the next pass longer: puts
/// failed.
#[test]
fn a_look_does_not_fill_the_pool() {
    let put = |pool: &Pool, n: u64| {
        let map = pool.map("m").unwrap();
        for _ in 0..1_000 {
            map.put(&(n % 2).to_le_bytes(), b"value").unwrap();
        }
    };
    assert!(polls::<Coherent>(MOMENT, put, false) > 0);
}

#[test]
fn large_values_that_come_and_go_are_not_leaked() {
    fn put<M: Mapped>(pool: &Pool<M>, n: u64) {
        let map = pool.map("m").unwrap();
        // A pool this small may be full for a moment.
        let _ = map.put(&(n % 8).to_le_bytes(), &vec![7; (n * 7_919 % 1_500_000) as usize]);
        if n % 16 < 2 {
            let _ = pool.trim();
        }
    }
    for read_only in [false, true] {
        assert!(polls::<Coherent>(MOMENT, put, read_only) > 0);
    }
    assert!(polls::<Noncoherent>(MOMENT, put, false) > 0);
}

/// Objects of new keys come from magazines: nothing that others see of a worker but its record's last operation tells
/// of them.
#[test]
fn keys_that_come_and_go_are_counted_by_who_is_alone() {
    fn phase<M: Mapped>(pool: &Pool<M>, n: u64) {
        let map = pool.map("m").unwrap();
        let keys = (0..2_000).map(|key| (n % 2) << 32 | key);
        // Of all keys each is put once, and then each is removed.
        for key in keys {
            let _ = match n / 2 % 2 {
                0 => map.put(&key.to_le_bytes(), b"some value").map(|_| true),
                _ => map.remove(&key.to_le_bytes()),
            };
        }
    }
    for read_only in [false, true] {
        assert!(polls::<Coherent>(MOMENT, phase, read_only) > 0);
    }
    assert!(polls::<Noncoherent>(MOMENT, phase, false) > 0);
}

/// Threads of the process that looks are others, too.
#[test]
fn threads_of_the_same_process_are_no_damage() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::<Coherent>::create(folder.path().join("pool"), &options()).unwrap();
    let is_over = LocalWord::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let map = pool.map("m").unwrap();
            let mut n: u64 = 0;
            while is_over.load() == 0 {
                let key = (n % 2_000).to_le_bytes();
                match n / 2_000 % 2 {
                    0 => drop(map.put(&key, b"some value").unwrap()),
                    _ => drop(map.remove(&key).unwrap()),
                }
                n += 1;
            }
        });
        let until = Instant::now() + MOMENT;
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while Instant::now() < until {
                let report = pool.fsck().unwrap();
                assert!(report.is_clean() || report.is_uncertain, "{report:?}");
            }
        }));
        is_over.store(1);
        looked.unwrap_or_else(|thrown| std::panic::resume_unwind(thrown));
    });
    assert!(pool.fsck().unwrap().is_clean());
}

#[test]
fn members_come_and_go_beside_one_who_only_reads() {
    fn join<M: Mapped>(pool: &Pool<M>, n: u64) {
        let group = pool.group("g", b"token").unwrap();
        for n in n..n + 20 {
            // The group may have no room for a moment.
            if let Ok(mut member) = group.join(&format!("member {}", n % 5)) {
                while let Ok(Some(_)) = member.try_next() {}
                let _ = member.leave();
            }
        }
    }
    assert!(polls::<Coherent>(MOMENT, join, true) > 0);
    assert!(polls::<Noncoherent>(MOMENT, join, true) > 0);
}
