//! Semaphores and condition variables between processes that are killed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cenote::{Acquired, Error, Options, Pool};

fn pool() -> (tempfile::TempDir, Pool) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::create(folder.path().join("pool"), &Options::default()).unwrap();
    (folder, pool)
}

/// This program again.
struct Other(Child);

impl Other {
    fn start(role: &str, pool: &Path) -> Self {
        Self(
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "waiting::role", "--nocapture"])
                .env("CENOTE_WAITING_ROLE", role)
                .env("CENOTE_WAITING_POOL", pool)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    /// Waits until it has printed a line that begins so.
    fn says(&mut self, what: &str) -> String {
        let mut lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        loop {
            let line = lines.next().expect("it ended").unwrap();
            if let Some(at) = line.find(what) {
                return line[at..].to_owned();
            }
        }
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn role() {
    let Ok(role) = std::env::var("CENOTE_WAITING_ROLE") else {
        return;
    };
    let pool: Pool = Pool::open(std::env::var("CENOTE_WAITING_POOL").unwrap(), &Options::default()).unwrap();
    match role.as_str() {
        "holder" | "silent holder" => {
            let semaphore = pool.semaphore("s", 2).unwrap();
            let permit = semaphore.acquire().unwrap();
            if role == "holder" {
                permit.set_note(700 + u64::from(permit.number()));
            }
            println!("holds {}", permit.number());
            std::thread::park();
        }
        "waiter" => {
            let (mutex, condvar) = (pool.mutex("m").unwrap(), pool.condvar("c").unwrap());
            let map = pool.map("words").unwrap();
            let guard = mutex.lock().unwrap();
            println!("waits");
            let guard = condvar
                .wait_while(guard, || map.get(b"go").unwrap().is_none())
                .unwrap();
            println!("went on");
            drop(guard);
            std::thread::park();
        }
        other => panic!("no such role: {other}"),
    }
    std::io::stdout().flush().unwrap();
}

#[test]
fn permits_of_the_dead_are_had_again_with_their_notes() {
    let (folder, pool) = pool();
    let path = folder.path().join("pool");
    let semaphore = pool.semaphore("s", 2).unwrap();
    let mut holders = [Other::start("holder", &path), Other::start("holder", &path)];
    let mut numbers = holders.each_mut().map(|holder| holder.says("holds "));
    numbers.sort();
    assert_eq!(numbers, ["holds 0", "holds 1"]);
    assert!(semaphore.try_acquire().unwrap().is_none());
    assert!(
        semaphore
            .acquire_for(Duration::from_millis(20))
            .unwrap()
            .is_none()
    );
    for holder in holders {
        holder.kill();
        // Sleeps at most on the death slots of both.
        let permit = semaphore.acquire().unwrap();
        let note = match permit.acquired() {
            Acquired::Recovered { note, .. } => note,
            Acquired::Clean => 0,
        };
        assert_eq!(note, 700 + u64::from(permit.number()));
        std::mem::forget(permit);
    }
    assert!(semaphore.try_acquire().unwrap().is_none());
}

#[test]
fn a_new_semaphore_knows_no_notes_of_the_one_before() {
    let (folder, pool) = pool();
    let path = folder.path().join("pool");
    pool.semaphore("s", 2).unwrap();
    for role in ["holder", "silent holder"] {
        let mut holders = [(); 2].map(|()| Other::start(role, &path));
        for holder in &mut holders {
            holder.says("holds ");
        }
        holders.into_iter().for_each(Other::kill);
        if role == "holder" {
            pool.remove_lock("s").unwrap();
        }
    }
    let semaphore = pool.semaphore("s", 2).unwrap();
    for _ in 0..2 {
        let permit = semaphore.acquire().unwrap();
        assert!(matches!(permit.acquired(), Acquired::Recovered { note: 0, .. }));
        std::mem::forget(permit);
    }
}

#[test]
fn a_thread_has_as_many_permits_as_there_are() {
    let (_folder, pool) = pool();
    let semaphore = pool.semaphore("s", 3).unwrap();
    let permits: Vec<_> = (0..3).map(|_| semaphore.acquire().unwrap()).collect();
    let mut numbers: Vec<u32> = permits.iter().map(|permit| permit.number()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2]);
    assert!(semaphore.try_acquire().unwrap().is_none());
    drop(permits);
    assert_eq!(semaphore.acquire().unwrap().acquired(), Acquired::Clean);
    assert!(matches!(
        pool.semaphore("s", 4),
        Err(Error::Permits { has: 3, asked: 4, .. })
    ));
    assert!(matches!(pool.semaphore("t", 0), Err(Error::PermitsAsked { .. })));
    assert!(matches!(pool.mutex("s"), Err(Error::OtherKind { .. })));
    pool.remove_lock("s").unwrap();
    assert!(matches!(semaphore.acquire(), Err(Error::LockRemoved)));
    assert_eq!(pool.semaphore("s", 4).unwrap().permits(), 4);
    assert!(pool.fsck().unwrap().is_clean());
}

#[test]
fn those_who_wait_are_woken_though_some_of_them_die() {
    let (folder, pool) = pool();
    let path = folder.path().join("pool");
    let (mutex, condvar) = (pool.mutex("m").unwrap(), pool.condvar("c").unwrap());
    let mut waiters: Vec<Other> = (0..4).map(|_| Other::start("waiter", &path)).collect();
    for waiter in &mut waiters {
        waiter.says("waits");
    }
    waiters.remove(1).kill();
    let guard = mutex.lock().unwrap();
    pool.map("words").unwrap().put(b"go", b"").unwrap();
    // Each of them is notified, one after the other; one notification may be lost with the dead waiter.
    for _ in 0..3 {
        condvar.notify_one().unwrap();
    }
    drop(guard);
    for waiter in &mut waiters {
        waiter.says("went on");
    }
}

#[test]
fn a_wait_ends_with_its_time_and_with_removal() {
    let (_folder, pool) = pool();
    let (mutex, condvar) = (pool.mutex("m").unwrap(), pool.condvar("c").unwrap());
    let waited = condvar
        .wait_for(mutex.lock().unwrap(), Duration::from_millis(20))
        .unwrap();
    assert!(waited.has_timed_out);
    assert!(matches!(mutex.try_lock(), Err(Error::Deadlock)));
    drop(waited);
    let other = pool.clone();
    let waiter = std::thread::spawn(move || {
        let (mutex, condvar) = (other.mutex("m").unwrap(), other.condvar("c").unwrap());
        let guard = mutex.lock().unwrap();
        condvar.wait(guard).map(drop)
    });
    // Once it waits, the mutex is free, and its slot says that it waits.
    let waits = || {
        let locks = pool.stat().unwrap().locks;
        locks.iter().any(|lock| !lock.seen.waiting.is_empty())
    };
    while !waits() {
        std::thread::yield_now();
    }
    pool.remove_lock("c").unwrap();
    assert!(matches!(waiter.join().unwrap(), Err(Error::LockRemoved)));
    assert!(mutex.try_lock().unwrap().is_some());
}
