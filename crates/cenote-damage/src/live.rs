//! Calls of all kinds on a pool whose bytes change meanwhile, and what changes them.

use std::fs::File;
use std::ops;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use cenote::memory::Mapped;
use cenote::sync::Timeout;
use cenote::{Pool, Range};

use crate::aim::Part;
use crate::options;
use crate::places::Places;
use crate::random::Random;

/// How long a thread waits for a lock.
const MOMENT: Duration = Duration::from_micros(300);
/// The token of the group.
pub const TOKEN: &[u8] = b"token";

/// Runs calls on a pool until a moment, most of them on one part, and opens it anew now and then. Errors are fine.
/// Returns how many calls there were.
pub fn exercise<M: Mapped>(path: &Path, seed: u64, part: Part, until: Instant) -> u64 {
    let (mut random, mut calls) = (Random::new(seed), 0);
    while Instant::now() < until {
        let Ok(pool) = Pool::<M>::open(path, &options()) else {
            std::thread::sleep(Duration::from_millis(1));
            calls += 1;
            continue;
        };
        let anew = Instant::now() + Duration::from_millis(20 + random.below(400));
        while Instant::now() < until.min(anew) {
            let draw = random.below(16);
            calls += match (part, draw) {
                (Part::Locks, 0..12) => locks(&pool, &mut random),
                (Part::Groups, 0..12) => group(&pool, &mut random),
                (Part::Tasks, 0..12) => tasks(&pool, &mut random),
                (Part::Names, 0..12) => names(&pool, &mut random),
                _ => anything(&pool, &mut random, draw),
            };
        }
    }
    calls
}

fn anything<M: Mapped>(pool: &Pool<M>, random: &mut Random, draw: u64) -> u64 {
    match draw {
        0..5 => hash(pool, random),
        5..9 => ordered(pool, random),
        9 => tasks(pool, random),
        10..13 => locks(pool, random),
        13 => group(pool, random),
        14 => names(pool, random),
        _ => whole(pool, random),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    let sizes = [0, 8, 20, 100, 600, 3_000, 16_000, 100_000];
    let size = sizes[(random.below(8) * random.below(8) / 7) as usize];
    vec![random.draw() as u8; size]
}

fn hash<M: Mapped>(pool: &Pool<M>, random: &mut Random) -> u64 {
    let name = ["m", "large", "new"][random.below(3) as usize];
    let Ok(map) = pool.map(name) else { return 1 };
    for _ in 0..20 {
        let n = random.below(6_000);
        let key = format!("key {}", n % 90);
        match random.below(9) {
            0 => drop(map.get_u64(n)),
            1 => drop(
                map.get(key.as_bytes())
                    .map(|found| found.map(|value| value.to_vec())),
            ),
            2 => drop(map.put_u64(n, n)),
            3 => drop(map.put(key.as_bytes(), &value(random))),
            4 => drop(map.remove(&n.to_le_bytes())),
            5 => drop(map.insert(&n.to_le_bytes(), b"x")),
            6 => drop(map.replace(key.as_bytes(), b"x", &value(random))),
            7 => drop(map.get_many_u64(&[n, n + 1, n + 2, n + 3], |_, _| {})),
            _ => drop(map.remove(key.as_bytes())),
        }
    }
    if random.below(40) == 0 {
        let _ = (map.for_each(|_, _| {}), map.len());
    }
    20
}

fn ordered<M: Mapped>(pool: &Pool<M>, random: &mut Random) -> u64 {
    let name = ["ordered", "ordered", "new ordered"][random.below(3) as usize];
    let Ok(map) = pool.ordered(name) else { return 1 };
    for _ in 0..20 {
        let n = random.below(3_300);
        let key = format!("a key that begins like others {}", n % 150);
        let (from, to) = (n.to_be_bytes(), (n + 50).to_be_bytes());
        let range = Range {
            from: &from,
            to: Some(&to),
        };
        match random.below(10) {
            0 => drop(map.get_u64(n)),
            1 => drop(
                map.get(key.as_bytes())
                    .map(|found| found.map(|value| value.to_vec())),
            ),
            2 => drop(map.put_u64(n, n)),
            3 => drop(map.put(key.as_bytes(), &value(random))),
            4 => drop(map.remove(&from)),
            5 => drop(map.count(range)),
            6 => drop(map.scan(range, |_, _| true)),
            7 => drop(map.scan_reverse(range, |_, _| true)),
            8 => drop((map.successor(&from), map.predecessor(&to))),
            _ => drop(map.remove(key.as_bytes())),
        }
    }
    if random.below(40) == 0 {
        let first = random.below(3_000);
        let pairs = (first..first + 100).map(|n| (n.to_be_bytes(), n.to_be_bytes()));
        let _ = (map.put_all(pairs), map.first(), map.last(), map.len());
        let _ = map.for_each(|_, _| {});
    }
    20
}

pub(crate) fn tasks<M: Mapped>(pool: &Pool<M>, random: &mut Random) -> u64 {
    let Ok(tasks) = pool.existing_tasks("tasks") else {
        return 1;
    };
    for _ in 0..4 {
        let task = random.below(72);
        let _ = tasks.take(0);
        let _ = tasks
            .result(task)
            .map(|result| result.map(|bytes| bytes.to_vec()));
        let _ = tasks.commit(task, &value(random));
        let _ = (tasks.forget(task), tasks.is_done(), tasks.committed());
    }
    24
}

pub(crate) fn locks<M: Mapped>(pool: &Pool<M>, random: &mut Random) -> u64 {
    let timeout = || Timeout::during(MOMENT);
    match random.below(9) {
        0 => drop(
            pool.mutex("mutex")
                .map(|lock| lock.lock_with(timeout()).map(drop)),
        ),
        1 => drop(
            pool.spin_mutex("spin")
                .map(|lock| lock.lock_with(timeout()).map(drop)),
        ),
        2 => drop(
            pool.queue_mutex("queue")
                .map(|lock| lock.lock_with(timeout()).map(drop)),
        ),
        3 => drop(
            pool.raw_rwlock("rw")
                .map(|lock| lock.write_with(timeout()).map(drop)),
        ),
        4 => drop(
            pool.raw_rwlock("rw")
                .map(|lock| lock.read_with(timeout()).map(drop)),
        ),
        5 => drop(
            pool.semaphore("semaphore", 3)
                .map(|lock| lock.acquire_with(timeout()).map(drop)),
        ),
        6 => {
            if let (Ok(condvar), Ok(lock)) = (pool.condvar("condvar"), pool.mutex("mutex")) {
                let _ = (condvar.notify_one(), condvar.notify_all());
                if let Ok(Some(guard)) = lock.lock_with(Timeout::None) {
                    let _ = condvar.wait_with(guard, timeout()).map(drop);
                }
            }
        }
        7 => drop(pool.mutexes("mutexes", 8).map(|locks| {
            locks
                .at(random.below(9) as u32)
                .map(|lock| lock.lock_with(timeout()).map(drop))
        })),
        _ => {
            // A thread that waits while another holds it.
            let Ok(lock) = pool.mutex("mutex") else { return 1 };
            let guard = lock.lock_with(timeout());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    drop(
                        pool.mutex("mutex")
                            .map(|lock| lock.lock_with(timeout()).map(drop)),
                    )
                });
                scope.spawn(|| {
                    drop(
                        pool.queue_mutex("queue")
                            .map(|lock| lock.lock_with(timeout()).map(drop)),
                    )
                });
            });
            drop(guard);
        }
    }
    if random.below(200) == 0 {
        let name = ["mutex", "spin", "queue", "rw", "semaphore", "condvar"][random.below(6) as usize];
        let _ = pool.remove_lock_with(name, timeout());
    }
    3
}

pub(crate) fn group<M: Mapped>(pool: &Pool<M>, random: &mut Random) -> u64 {
    let Ok(group) = pool.group("group", TOKEN) else {
        return 1;
    };
    let _ = group.members();
    if let Ok(mut lease) = group.join(&format!("member {}", random.below(5))) {
        let _ = (lease.try_next(), lease.try_next());
        let _ = lease.next(Some(MOMENT));
        if random.below(3) > 0 {
            let _ = lease.leave();
        }
    }
    if let Ok(mut lease) = group.observe() {
        while let Ok(Some(_)) = lease.try_next() {}
    }
    8
}

/// Names that are there, as what they are and as what they are not, and names that are not there.
pub(crate) fn names<M: Mapped>(pool: &Pool<M>, random: &mut Random) -> u64 {
    let known = pool.names().unwrap_or_default();
    let fresh = format!("name {}", random.below(6));
    let name = match known.get(random.below(2 * known.len() as u64) as usize) {
        Some(name) => name,
        None => &fresh,
    };
    match random.below(12) {
        0 => drop(pool.map(name)),
        1 => drop(pool.existing_map(name)),
        2 => drop(pool.ordered(name)),
        3 => drop(pool.existing_ordered(name)),
        4 => drop(pool.mutex(name)),
        5 => drop(pool.existing_raw_rwlock(name)),
        6 => drop(pool.existing_tasks(name)),
        7 => drop(pool.existing_group(name, TOKEN)),
        8 => drop(pool.mutexes(name, 3)),
        9 | 10 => drop(pool.remove_lock_with(&fresh, Timeout::during(MOMENT))),
        _ => drop(pool.stat()),
    }
    2
}

pub(crate) fn whole<M: Mapped>(pool: &Pool<M>, random: &mut Random) -> u64 {
    match random.below(24) {
        0 => match random.below(2) {
            0 => drop(pool.fsck_and_repair()),
            _ => drop(pool.fsck()),
        },
        1 => drop(pool.trim()),
        2..5 => drop(pool.stat()),
        5..8 => drop(pool.names()),
        8..12 => drop(pool.collect()),
        12..16 => drop(pool.recover()),
        16 => {
            // Another thread comes, writes and goes.
            std::thread::scope(|scope| {
                scope
                    .spawn(|| drop(pool.map("m").map(|map| map.put(b"t", b"t"))))
                    .join()
            })
            .ok();
        }
        _ => drop(pool.failures()),
    }
    1
}

/// How a pool is damaged while others use it.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Changes, about, a millisecond.
    pub rate: u64,
    /// Of a hundred changes so many are taken back at once.
    pub undone: u64,
}

impl Manner {
    /// That of a seed: few or many changes, that stay or do not.
    pub fn of(random: &mut Random) -> Self {
        Self {
            rate: [1, 1, 3, 20][random.below(4) as usize],
            undone: [0, 50, 90, 100][random.below(4) as usize],
        }
    }
}

/// Changes bytes of a pool's file until a moment, most of them in some parts if there are any. Returns how often.
pub fn damage(
    path: &Path,
    random: &mut Random,
    aim: &[ops::Range<u64>],
    manner: Manner,
    until: Instant,
) -> std::io::Result<u64> {
    let file = File::options().read(true).write(true).open(path)?;
    let places = Places::new(file.metadata()?.len()).aimed(aim);
    let read = |at: u64, len: usize| {
        let mut bytes = vec![0; len];
        let _ = file.read_exact_at(&mut bytes, at);
        bytes
    };
    let word = |at: u64| u64::from_le_bytes(read(at, 8).try_into().unwrap_or_default());
    let mut count = 0;
    while Instant::now() < until {
        for _ in 0..manner.rate {
            let change = places.change(random, word);
            let before = read(change.at, change.bytes.len());
            file.write_all_at(&change.bytes, change.at)?;
            count += 1;
            if random.below(100) < manner.undone {
                (0..random.below(3_000)).for_each(|_| std::hint::spin_loop());
                file.write_all_at(&before, change.at)?;
            }
        }
        std::thread::sleep(Duration::from_micros(500 + random.below(1_000)));
    }
    Ok(count)
}
