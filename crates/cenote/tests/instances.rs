//! Processes: forks, deaths, places of dead processes, laggards, guards that outlive what they read.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

use std::process::Command;
use std::time::Duration;

use cenote::pod::format::superblock::HEAP_LOCK;
use cenote::pod::instance::worker::Worker;
use cenote::pod::{lock, reclaim::collect, reclaim::retire};
use cenote::{Coherent, Error, Options, Pool};

fn options() -> Options {
    Options {
        size: 1 << 20,
        max: 1 << 30,
        processes: 4,
        workers: 6,
        ..Options::default()
    }
}

/// Runs `child` in a forked process and returns its exit status; the child must not return.
fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child only runs `child` and ends with `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let code = child();
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
        pid => {
            let mut status = 0;
            // SAFETY: waits for the very child that was made above.
            unsafe { libc::waitpid(pid, &mut status, 0) };
            if libc::WIFEXITED(status) {
                libc::WEXITSTATUS(status)
            } else {
                -libc::WTERMSIG(status)
            }
        }
    }
}

#[test]
fn a_forked_child_is_refused_and_may_open_the_pool_anew() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool = Pool::create(&path, &options()).unwrap();
    let map = pool.map("m").unwrap();
    map.put(b"k", b"parent").unwrap();
    let code = fork(|| {
        let refused = matches!(map.put(b"k", b"child"), Err(Error::Forked))
            && matches!(map.get(b"k").map(drop), Err(Error::Forked))
            && matches!(pool.map("other").map(drop), Err(Error::Forked));
        let Ok(own) = Pool::<Coherent>::open(&path, &options()) else {
            return 2;
        };
        let Ok(mine) = own.map("m") else { return 3 };
        let wrote = mine.put(b"child", b"was here").is_ok();
        drop((mine, own));
        i32::from(!(refused && wrote))
    });
    assert_eq!(code, 0);
    assert_eq!(map.get(b"k").unwrap().as_deref(), Some(&b"parent"[..]));
    assert_eq!(map.get(b"child").unwrap().as_deref(), Some(&b"was here"[..]));
    // The child's copies of our handles were dropped in the child; this process still works.
    map.put(b"k", b"parent again").unwrap();
    assert_eq!(pool.stat().unwrap().processes.len(), 1);
}

#[test]
fn a_child_that_outlives_its_parent_does_not_keep_it_alive() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let survivor: Pool = Pool::create(&path, &options()).unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let code = fork(|| {
        let parent: Pool = match Pool::open(&path, &options()) {
            Ok(pool) => pool,
            Err(_) => return 2,
        };
        // SAFETY: the grandchild only sleeps until it is killed.
        let grandchild = unsafe { libc::fork() };
        if grandchild == 0 {
            std::thread::sleep(std::time::Duration::from_secs(600));
            return 0;
        }
        let _ = std::io::Write::write_all(&mut &writer, &grandchild.to_le_bytes());
        std::mem::forget(parent);
        // SAFETY: ends this very process as kill -9 does.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        3
    });
    assert_eq!(code, -libc::SIGKILL);
    let mut pid = [0; 4];
    std::io::Read::read_exact(&mut reader, &mut pid).unwrap();
    // The grandchild closes what it adopted when it is first scheduled.
    let begun = std::time::Instant::now();
    let mut recovered = 0;
    while recovered == 0 && begun.elapsed().as_secs() < 30 {
        recovered = survivor.recover().unwrap().processes;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // SAFETY: the grandchild is ours, and still there.
    unsafe { libc::kill(i32::from_le_bytes(pid), libc::SIGKILL) };
    assert_eq!(recovered, 1);
}

/// A process that dies with a pool open, at once.
fn die_with_pool_open(path: &std::path::Path) {
    let code = fork(|| {
        let Ok(pool) = Pool::<Coherent>::open(path, &options()) else {
            return 2;
        };
        let Ok(map) = pool.map("m") else { return 3 };
        let _ = map.put(b"written by", b"the dead");
        let guard = map.get(b"written by");
        std::mem::forget(guard);
        // SAFETY: ends this very process as kill -9 does.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        4
    });
    assert_eq!(code, -libc::SIGKILL);
}

#[test]
fn the_dead_leave_their_places_to_the_living() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    drop(Pool::<Coherent>::create(&path, &options()).unwrap());
    // More deaths than places, and nobody to recover them except the processes that come next.
    for _ in 0..20 {
        die_with_pool_open(&path);
    }
    let pool: Pool = Pool::open(&path, &options()).unwrap();
    let report = pool.fsck().unwrap();
    assert!(report.is_clean() && report.other_processes == 0, "{report:#?}");
    assert_eq!(
        pool.map("m").unwrap().get(b"written by").unwrap().as_deref(),
        Some(&b"the dead"[..])
    );
}

#[test]
fn places_are_counted_and_missed_by_name() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let first: Pool = Pool::create(&path, &options()).unwrap();
    let _others: Vec<Pool> = (0..3).map(|_| Pool::open(&path, &options()).unwrap()).collect();
    let error = Pool::<Coherent>::open(&path, &options())
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("process places") && error.contains("--processes"),
        "{error}"
    );
    assert_eq!(first.stat().unwrap().processes.len(), 4);
}

#[test]
fn a_reader_that_stays_is_named_and_what_it_reads_stays() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    let map = pool.map("m").unwrap();
    map.put(b"k", b"as it was read").unwrap();
    std::thread::scope(|scope| {
        let (ready, wait) = std::sync::mpsc::channel::<()>();
        let (done, end) = std::sync::mpsc::channel::<()>();
        let reader = scope.spawn({
            let pool = pool.clone();
            move || {
                let map = pool.map("m").unwrap();
                let value = map.get(b"k").unwrap().unwrap();
                ready.send(()).unwrap();
                end.recv().unwrap();
                assert_eq!(&value[..], b"as it was read");
            }
        });
        wait.recv().unwrap();
        for i in 0..5_000u64 {
            map.put(b"k", format!("version {i}").as_bytes()).unwrap();
        }
        let stat = pool.stat().unwrap();
        // The epoch waits for the reader; it is at most a step behind, and everything since is still retired.
        assert!(stat.retired_objects >= 4_900, "{stat:#?}");
        assert!(stat.retired_bytes >= 4_900 * 32, "{stat:#?}");
        // The figures name it, and what waits for it.
        let held = stat.held_back.as_ref().expect("somebody holds reclamation back");
        assert!(held.waiting.objects >= 4_900, "{stat:#?}");
        assert!(held.waiting.bytes <= stat.retired_bytes, "{stat:#?}");
        assert_eq!(stat.laggards.len(), 1, "{stat:#?}");
        assert_eq!(stat.laggards[0].pid, u64::from(std::process::id()));
        let me = u32::from(pool.worker().unwrap().me()) - 1;
        assert_ne!(stat.laggards[0].worker, me, "{stat:#?}");
        done.send(()).unwrap();
        reader.join().unwrap();
    });
    pool.collect().unwrap();
    let stat = pool.stat().unwrap();
    assert!(stat.retired_objects < 100);
    assert!(stat.laggards.is_empty() && stat.held_back.is_none(), "{stat:#?}");
}

#[test]
fn an_agent_recovers_the_dead_by_itself() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    drop(Pool::<Coherent>::create(&path, &options()).unwrap());
    // The victim opens the pool before the agent's process does, in a process of its own: forking one that has
    // threads would be another test.
    die_with_pool_open(&path);
    let pool: Pool = Pool::open(
        &path,
        &Options {
            background_thread: true,
            ..options()
        },
    )
    .unwrap();
    let before = pool.stat().unwrap().recoveries;
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env("CENOTE_VICTIM_POOL", &path)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    let begun = std::time::Instant::now();
    while pool.stat().unwrap().recoveries == before {
        assert!(begun.elapsed().as_secs() < 30, "the agent does not recover");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The victim's side; does nothing unless it is started as one.
#[test]
fn victim() {
    let Ok(path) = std::env::var("CENOTE_VICTIM_POOL") else {
        return;
    };
    let pool: Pool = Pool::open(path, &options()).unwrap();
    let _map = pool.map("m").unwrap();
    // SAFETY: ends this very process as kill -9 does.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// A monitor's worker never waits for the allocator's lock when it attaches or leaves: a dead worker that only a fence
/// frees may hold it.
#[test]
fn a_worker_that_wrote_nothing_leaves_while_the_allocator_is_locked() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    let worker = pool.worker().unwrap();
    let held = lock::acquire(&worker, HEAP_LOCK).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let pod = worker.pod().clone();
    std::thread::spawn(move || {
        drop(Worker::attach(&pod, false).unwrap());
        tell.send(()).unwrap();
    });
    let has_left = told.recv_timeout(Duration::from_secs(20));
    drop(held);
    assert!(has_left.is_ok(), "it waits for the allocator's lock");
}

/// What the last worker of a place could not free, the next one frees, even if it never writes.
#[test]
fn a_worker_that_only_reads_frees_what_its_place_came_with() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    let reader = pool.worker().unwrap();
    let pin = reader.pin().unwrap();
    let writer = pool.clone();
    let left = std::thread::spawn(move || {
        let map = writer.map("m").unwrap();
        for n in 0..100 {
            map.put_u64(1, n).unwrap();
        }
        writer.worker().unwrap().record()
    });
    let left = left.join().unwrap();
    drop(pin);
    let adopter = Worker::attach(reader.pod(), false).unwrap();
    assert_eq!(adopter.record(), left, "the same place");
    let has_garbage = || {
        retire::span(&adopter, adopter.record())
            .map(|(head, tail)| head != tail)
            .unwrap()
    };
    assert!(has_garbage());
    for _ in 0..8 {
        collect::collect_adopted(&adopter).unwrap();
    }
    assert!(!has_garbage());
}

/// Any version of a retired list works, also a damaged one.
#[test]
fn any_version_of_a_retired_list_can_be_had() {
    for damaged in [u64::MAX, u64::MAX - 1, 1, 1 << 63] {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let pool: Pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
        let reader = pool.worker().unwrap();
        let place = {
            let worker = Worker::attach(reader.pod(), false).unwrap();
            worker.record().list_version().store(worker.mem(), damaged);
            worker.record().aux_object().set(worker.mem(), 4096 | 8);
            worker.record()
        };
        let next = Worker::attach(reader.pod(), false).unwrap();
        assert_eq!(next.record(), place, "the same place");
        drop(next.hold_list().unwrap());
        assert_eq!(
            place.aux_object().get(next.mem()),
            0,
            "version {damaged}: it was not brought into order"
        );
        for _ in 0..3 {
            collect::free_all(&reader).unwrap();
        }
    }
}
