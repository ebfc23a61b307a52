//! Deaths: of processes with several threads, and of threads alone, while others watch.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cenote::{Coherent, Noncoherent, Options, Pool};

fn options() -> Options {
    Options {
        size: 4 << 20,
        max: 1 << 30,
        ..Options::default()
    }
}

/// Ends the calling thread at once: no destructor runs, and nobody in the process is told.
fn die_alone() -> ! {
    // SAFETY: ends this very thread. What it had on its stack is leaked.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the thread has ended")
}

/// Waits until something is so, which must happen.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread that dies while it holds a value, and so a pin.
fn lose_a_thread<M: cenote::memory::Mapped>(pool: &Pool<M>) {
    let (holds, held) = std::sync::mpsc::channel();
    let pool = pool.clone();
    let thread = std::thread::spawn(move || {
        let map = pool.map("m").unwrap();
        map.put(b"written by", b"the dead").unwrap();
        let value = map.get(b"written by").unwrap();
        holds.send(()).unwrap();
        let _ = &value;
        die_alone()
    });
    held.recv().unwrap();
    // It is never joined: a thread that ends so cannot be.
    std::mem::forget(thread);
}

fn a_thread_that_dies_alone<M: cenote::memory::Mapped>(recover: impl Fn(&Pool<M>)) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool<M> = Pool::create(folder.path().join("pool"), &options()).unwrap();
    let map = pool.map("m").unwrap();
    let before = pool.stat().unwrap().workers;
    for _ in 0..5 {
        lose_a_thread(&pool);
    }
    eventually("its recovery", || {
        recover(&pool);
        pool.stat().unwrap().workers == before
    });
    assert_eq!(map.get(b"written by").unwrap().as_deref(), Some(&b"the dead"[..]));
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn a_thread_that_dies_alone_is_recovered_while_its_process_lives() {
    a_thread_that_dies_alone::<Coherent>(|pool| {
        pool.recover().unwrap();
    });
}

#[test]
fn so_it_is_on_incoherent_memory() {
    a_thread_that_dies_alone::<Noncoherent>(|pool| {
        pool.recover().unwrap();
    });
}

#[test]
fn a_thread_of_another_process_that_dies_alone_is_recovered_too() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool = Pool::create(&path, &options()).unwrap();
    let _map = pool.map("m").unwrap();
    let mut child = start("lose a thread", &path);
    eventually("the thread's worker", || pool.stat().unwrap().workers == 2);
    eventually("its recovery", || {
        pool.recover().unwrap();
        pool.stat().unwrap().workers == 1
    });
    assert_eq!(pool.stat().unwrap().processes.len(), 2, "its process lives");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn all_threads_of_a_killed_process_are_recovered() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool = Pool::create(&path, &options()).unwrap();
    for _ in 0..20 {
        let mut child = start("many threads", &path);
        eventually("its threads", || pool.stat().unwrap().workers >= 5);
        child.kill().unwrap();
        // Some of them may still run.
        pool.recover().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        pool.recover().unwrap();
        let stat = pool.stat().unwrap();
        assert_eq!((stat.workers, stat.processes.len()), (1, 1));
        // The next worker need not walk through what the dead left: how long it writes depends on how long a scan of
        // that takes.
        pool.collect().unwrap();
    }
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

/// This program again, as a process that is going to die.
fn start(role: &str, pool: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "deaths::role", "--nocapture"])
        .env("CENOTE_DEATHS_ROLE", role)
        .env("CENOTE_DEATHS_POOL", pool)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The other side; does nothing unless it is started as one.
#[test]
fn role() {
    let Ok(role) = std::env::var("CENOTE_DEATHS_ROLE") else {
        return;
    };
    let path = std::env::var("CENOTE_DEATHS_POOL").unwrap();
    let pool: Pool = Pool::open(path, &options()).unwrap();
    match role.as_str() {
        "lose a thread" => {
            lose_a_thread(&pool);
            std::thread::park();
        }
        "many threads" => {
            for n in 0..5u64 {
                let pool = pool.clone();
                std::thread::spawn(move || {
                    let map = pool.map("m").unwrap();
                    for version in 0.. {
                        map.put_u64(n, version).unwrap();
                    }
                });
            }
            std::thread::park();
        }
        other => panic!("no such role: {other}"),
    }
}
