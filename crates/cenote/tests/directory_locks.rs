//! Directory locks by real processes, on pools of all kinds: nothing that was written under the lock is lost, processes
//! that are killed hold nobody up, and their successors are told.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cenote::{Acquired, Backend, Coherent, Delegated, Error, Noncoherent, Options, Pool};

/// Words of the value: more than a page.
const WORDS: usize = 1024;
/// Increments of each process.
const INCREMENTS: u64 = 3000;
/// Increments beside threads that die.
#[cfg(feature = "crash-points")]
const SOME: u64 = 200;
/// A wait that nothing should take.
const LONG: Duration = Duration::from_secs(20);

type Value = [u64; WORDS];

fn options() -> Options {
    Options {
        size: 8 << 20,
        max: 64 << 20,
        ..Options::default()
    }
}

/// This program again, in a role; killed if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start<M: Backend>(role: &str, pool: &Path, set: &[(&str, String)]) -> Running {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "directory_locks::role", "--nocapture"])
        .env("CENOTE_LOCKS_ROLE", role)
        .env("CENOTE_LOCKS_POOL", pool)
        .env("CENOTE_LOCKS_KIND", M::NAME)
        .envs(set.iter().cloned())
        .stdout(Stdio::null())
        .spawn();
    Running(child.unwrap())
}

fn scene<M: Backend>(run: impl FnOnce(&Path, &Pool<M>)) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::<M>::create(&path, &options()).unwrap();
    run(&path, &pool);
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

/// All words of a value are the same: no change is seen in parts.
fn is_whole(value: &Value) -> bool {
    value.iter().all(|word| *word == value[0])
}

fn increment<M: Backend>(pool: &Pool<M>, times: u64) {
    let lock = pool.rwlock::<Value>("value").unwrap();
    for n in 0..times {
        if n % 4 == 0 {
            assert!(is_whole(&lock.read().unwrap()));
        }
        let mut value = lock.write().unwrap();
        assert!(is_whole(&value));
        value.iter_mut().for_each(|word| *word += 1);
    }
}

fn counts<M: Backend>() {
    scene::<M>(|path, pool| {
        let mut others = [(); 2].map(|()| start::<M>("increment", path, &[]));
        std::thread::scope(|scope| {
            scope.spawn(|| increment(pool, INCREMENTS));
            increment(pool, INCREMENTS);
        });
        for other in &mut others {
            assert!(other.0.wait().unwrap().success());
        }
        let lock = pool.rwlock::<Value>("value").unwrap();
        let value = lock.read().unwrap();
        assert!(is_whole(&value));
        assert_eq!((value[0], value.acquired()), (4 * INCREMENTS, Acquired::Clean));
    });
}

#[test]
fn processes_and_threads_count_together() {
    counts::<Coherent>();
    counts::<Noncoherent>();
    counts::<Delegated>();
}

fn dies_writing<M: Backend>() {
    scene::<M>(|path, pool| {
        let lock = pool.rwlock::<Value>("value").unwrap();
        let mut victim = start::<M>("die writing", path, &[]);
        assert_eq!(victim.0.wait().unwrap().signal(), Some(9));
        // Readers are told too, and nobody is told any more once a writer has unlocked.
        let told = |acquired| matches!(acquired, Acquired::Recovered { note: 17, .. });
        assert!(told(lock.read_for(LONG).unwrap().unwrap().acquired()));
        let mut value = lock.write_for(LONG).unwrap().unwrap();
        assert!(told(value.acquired()));
        // What it was told stays, although it says by now what it is doing itself.
        value.set_note(18);
        assert!(told(value.acquired()));
        value.fill(3);
        drop(value);
        assert_eq!(lock.write().unwrap().acquired(), Acquired::Clean);
        assert!(is_whole(&lock.read().unwrap()));
    });
}

#[test]
fn the_successor_of_a_process_that_died_writing_is_told() {
    dies_writing::<Coherent>();
    dies_writing::<Noncoherent>();
    dies_writing::<Delegated>();
}

/// Processes that are killed anywhere, again and again, and one that goes on.
fn killed_anywhere<M: Backend>() {
    scene::<M>(|path, pool| {
        let lock = pool.rwlock::<Value>("value").unwrap();
        let mut last = 0;
        for round in 0..30 {
            let mut victim = start::<M>("increment for ever", path, &[]);
            let begun = Instant::now();
            let life = Duration::from_micros(20_000 + 1_700 * round);
            while begun.elapsed() < life {
                let mut value = lock.write_for(LONG).unwrap().expect("held up");
                match value.acquired() {
                    Acquired::Clean => assert!(is_whole(&value) && value[0] >= last),
                    Acquired::Recovered { .. } => value.fill(last),
                }
                value.iter_mut().for_each(|word| *word += 1);
                last = value[0];
            }
            victim.0.kill().unwrap();
            victim.0.wait().unwrap();
        }
        let mut value = lock.write_for(LONG).unwrap().expect("held up");
        if value.acquired() != Acquired::Clean {
            value.fill(last);
        }
        assert!(is_whole(&value) && value[0] >= last);
    });
}

#[test]
fn processes_that_are_killed_hold_nobody_up() {
    killed_anywhere::<Coherent>();
    killed_anywhere::<Noncoherent>();
}

#[cfg(feature = "crash-points")]
fn at_crash_points<M: Backend>() {
    scene::<M>(|path, pool| {
        let lock = pool.rwlock::<Value>("value").unwrap();
        let points = ["decided", "written", "changed", "not-notified", "held"];
        for point in points.iter().filter(|point| !M::COHERENT || **point == "held") {
            for nth in 1..4 {
                // What is kept here is asked for, so that entries change.
                let mut victim = start::<M>(
                    "increment for ever",
                    path,
                    &[("CENOTE_CRASH", format!("dlock.{point}:{nth}"))],
                );
                while victim.0.try_wait().unwrap().is_none() {
                    let mut value = lock.write_for(LONG).unwrap().expect("held up");
                    value.fill(1);
                }
                assert_eq!(
                    victim.0.wait().unwrap().signal(),
                    Some(9),
                    "{point} was not passed"
                );
                drop(lock.write_for(LONG).unwrap().expect("held up"));
            }
        }
    });
}

#[test]
#[cfg(feature = "crash-points")]
fn a_crash_at_any_point_leaves_the_lock_to_the_others() {
    at_crash_points::<Coherent>();
    at_crash_points::<Noncoherent>();
    at_crash_points::<Delegated>();
}

/// A thread dies alone at a crash point, in the middle of asking or of closing; the other threads of its process, and
/// other processes, go on.
#[cfg(feature = "crash-points")]
fn ends_at_crash_points<M: Backend>() {
    for point in ["decided", "written", "changed", "not-notified", "held"] {
        for nth in 1..3 {
            scene::<M>(|path, pool| {
                let lock = pool.rwlock::<Value>("value").unwrap();
                let mut other = start::<M>(
                    "a thread ends",
                    path,
                    &[("CENOTE_END", format!("dlock.{point}:{nth}"))],
                );
                for _ in 0..SOME {
                    let mut value = lock.write_for(LONG).unwrap().expect("held up");
                    let next = value[0] + 1;
                    value.fill(next);
                }
                assert!(other.0.wait().unwrap().success(), "{point}:{nth}");
                let value = lock.read_for(LONG).unwrap().expect("held up");
                // That of the dead thread may not have happened.
                assert!(
                    is_whole(&value) && (2 * SOME..=2 * SOME + 1).contains(&value[0]),
                    "{point}:{nth}: {}",
                    value[0]
                );
            });
        }
    }
}

#[test]
#[cfg(feature = "crash-points")]
fn a_thread_that_dies_alone_anywhere_leaves_the_lock_to_the_others() {
    ends_at_crash_points::<Noncoherent>();
}

#[test]
fn regions_larger_than_any_pool_are_refused() {
    scene::<Coherent>(|_, pool| {
        for lens in [vec![u64::MAX], vec![1 << 63, 1 << 63], vec![(1 << 40) + 1]] {
            let builder = lens
                .iter()
                .fold(pool.regions_builder("large"), |builder, len| builder.region(*len));
            assert!(matches!(
                builder.open().map(drop),
                Err(Error::InvalidOption { .. })
            ));
        }
        assert!(matches!(
            pool.regions_builder("large").region(1 << 39).open().map(drop),
            Err(Error::Full { .. })
        ));
        drop(pool.regions_builder("large").region(8).open().unwrap());
    });
}

/// A thread that keeps the lock for ever, as it has died alone.
fn die_with_lock<M: Backend>(pool: &Pool<M>) {
    let (other, (says, said)) = (pool.clone(), std::sync::mpsc::channel());
    std::mem::forget(std::thread::spawn(move || {
        let lock = other.rwlock::<Value>("value").unwrap();
        let guard = lock.write().unwrap();
        says.send(()).unwrap();
        // SAFETY: ends this thread alone, as nothing else does.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        drop(guard);
    }));
    said.recv().unwrap();
}

#[test]
fn a_thread_that_dies_alone_with_the_lock_is_forgotten() {
    fn check<M: Backend>() {
        scene::<M>(|_, pool| {
            let lock = pool.rwlock::<Value>("value").unwrap();
            die_with_lock(pool);
            let value = lock.write_for(LONG).unwrap().expect("held up");
            assert!(matches!(value.acquired(), Acquired::Recovered { .. }));
            drop(value);
            pool.recover().unwrap();
        });
    }
    check::<Coherent>();
    check::<Noncoherent>();
}

/// The reference is still good: so nobody else may have the lock, although the thread that locked has nothing left to
/// do.
#[test]
fn a_thread_that_has_leaked_its_guard_keeps_the_lock() {
    fn check<M: Backend>() {
        scene::<M>(|_, pool| {
            let (other, (gives, given)) = (pool.clone(), std::sync::mpsc::channel::<&'static mut Value>());
            std::thread::spawn(move || {
                let lock = Box::leak(Box::new(other.rwlock::<Value>("value").unwrap()));
                let guard = Box::leak(Box::new(lock.write().unwrap()));
                gives.send(&mut **guard).unwrap();
            });
            let value = given.recv().unwrap();
            // The thread has come to its end, or is about to.
            std::thread::sleep(Duration::from_millis(100));
            let lock = pool.rwlock::<Value>("value").unwrap();
            assert!(lock.write_for(Duration::from_millis(200)).unwrap().is_none());
            value[0] += 1;
        });
    }
    check::<Coherent>();
    check::<Noncoherent>();
}

/// Neither a reader in the parent nor the next owner finds what a forked child wrote.
#[test]
fn a_forked_child_does_not_write_by_its_parents_guard() {
    fn check<M: Backend>() {
        scene::<M>(|path, pool| {
            let mut forks = start::<M>("fork", path, &[]);
            assert!(forks.0.wait().unwrap().success());
            let lock = pool.rwlock::<Value>("value").unwrap();
            assert_eq!(lock.read().unwrap()[0], 5);
        });
    }
    check::<Coherent>();
    check::<Noncoherent>();
}

fn write_in_a_child<M: Backend>(pool: &Pool<M>) {
    let lock = pool.rwlock::<Value>("value").unwrap();
    let mut guard = lock.write().unwrap();
    guard[0] = 5;
    // SAFETY: the child tries to write, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let wrote = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| guard[0] = 99));
        // SAFETY: no destructor of the parent's runs.
        unsafe { libc::_exit(i32::from(wrote.is_ok())) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid, and the child is this process's.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child wrote");
}

/// A thread panics while it writes, and dies alone while it closes the lock: the next owner of the same process is
/// told.
#[test]
#[cfg(feature = "crash-points")]
fn a_panic_is_told_of_although_the_thread_dies_while_it_closes() {
    scene::<Noncoherent>(|path, _| {
        let mut role = start::<Noncoherent>(
            "panic and die closing",
            path,
            &[("CENOTE_END", "lock.taken:4".to_owned())],
        );
        assert!(role.0.wait().unwrap().success());
    });
}

#[cfg(feature = "crash-points")]
fn panic_and_die_closing<M: Backend>(pool: &Pool<M>) {
    let other = pool.clone();
    let closing = std::thread::Builder::new()
        .name("ends".to_owned())
        .spawn(move || {
            let lock = other.rwlock::<Value>("value").unwrap();
            let panics = std::panic::AssertUnwindSafe(|| {
                let mut guard = lock.write().unwrap();
                guard[0] = 7;
                guard.set_note(42);
                panic!("half changed");
            });
            assert!(std::panic::catch_unwind(panics).is_err());
            drop(lock);
            // It did not come to the point of its end in there.
            std::process::exit(3);
        });
    // A thread that ends alone cannot be joined.
    std::mem::forget(closing.unwrap());
    std::thread::sleep(Duration::from_millis(500));
    let lock = pool.rwlock::<Value>("value").unwrap();
    let guard = lock.write_for(LONG).unwrap().expect("held up");
    assert!(
        matches!(guard.acquired(), Acquired::Recovered { note: 42, .. }),
        "{:?}",
        guard.acquired()
    );
}

/// A guard that was forgotten, and not its handle, keeps no thread from ending: the handle gives up what it had.
#[test]
fn a_thread_that_has_forgotten_a_guard_ends() {
    fn check<M: Backend>() {
        scene::<M>(|_, pool| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let lock = pool.rwlock::<Value>("value").unwrap();
                    std::mem::forget(lock.read().unwrap());
                });
            });
        });
    }
    check::<Coherent>();
    check::<Noncoherent>();
}

/// The planted fault that this shows. Without the process's agent, which is another thread.
#[test]
#[cfg(feature = "mutants")]
fn a_cohort_that_does_not_look_for_its_dead_waits_for_them() {
    use cenote::mutant::{Mutant, choose};
    use cenote::sync::Timeout;
    use cenote::sync::directory::DirectoryLock;

    fn open(pool: &Pool<Noncoherent>) -> DirectoryLock<Noncoherent> {
        DirectoryLock::open_or_create(pool.worker().unwrap(), "value", 2, &[8]).unwrap()
    }

    scene::<Noncoherent>(|_, pool| {
        let lock = open(pool);
        let other = pool.clone();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let lock = open(&other);
            let guard = lock.write().unwrap();
            tell.send(()).unwrap();
            // SAFETY: ends this thread alone, as nothing else does.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            drop(guard);
        });
        // A thread that asks for the lock before the fault is planted may find the dead thread.
        told.recv().unwrap();
        choose(Some(Mutant::DirectoryLoneDeathIgnored));
        let refused = lock
            .write_with(Timeout::during(Duration::from_secs(1)))
            .unwrap()
            .is_none();
        choose(None);
        assert!(refused);
        drop(lock.write_with(Timeout::during(LONG)).unwrap().expect("held up"));
        pool.recover().unwrap();
    });
}

/// An agent is told which of many locks other processes ask for, and its process gives up those alone. Without the
/// agent's own thread, and its scans.
#[test]
fn an_agent_is_told_which_lock_is_asked_for() {
    use cenote::sync::Timeout;
    use cenote::sync::directory::DirectoryLock;
    use cenote::sync::directory::downconvert::Downconverter;

    const LOCKS: usize = 200;

    fn open(pool: &Pool<Noncoherent>, n: usize) -> DirectoryLock<Noncoherent> {
        DirectoryLock::open_or_create(pool.worker().unwrap(), &format!("value {n}"), 2, &[8]).unwrap()
    }

    /// The locks that another process gets once the agent has answered.
    fn asked_for(locks: &[usize]) -> Vec<usize> {
        let mut got = Vec::new();
        scene::<Noncoherent>(|path, pool| {
            let worker = pool.worker().unwrap();
            let agent = Downconverter::new(&worker);
            let mine: Vec<_> = (0..LOCKS).map(|n| open(pool, n)).collect();
            for lock in &mine {
                drop(lock.write().unwrap());
            }
            assert!(!agent.answer(&worker));
            let other = Pool::<Noncoherent>::open(path, &options()).unwrap();
            let theirs: Vec<_> = (0..LOCKS).map(|n| open(&other, n)).collect();
            for &n in locks {
                assert!(theirs[n].write_with(Timeout::None).unwrap().is_none());
            }
            agent.answer(&worker);
            assert!(!agent.answer(&worker));
            for &n in locks {
                got.extend(theirs[n].write_with(Timeout::None).unwrap().map(|_| n));
            }
            drop((theirs, mine));
        });
        got
    }

    let some = [0, 7, 8, 199];
    assert_eq!(asked_for(&some), some);
    assert_eq!(asked_for(&[]), []);
    #[cfg(feature = "mutants")]
    {
        use cenote::mutant::{Mutant, choose};
        choose(Some(Mutant::DirectoryAskedNotMarked));
        let got = asked_for(&some);
        choose(None);
        assert_eq!(got, []);
    }
}

/// However many threads of a process take turns, none of them waiting, one of the next 64 unlocks sees that another
/// process asks. Without the agent.
#[test]
fn threads_that_never_wait_see_that_another_process_asks() {
    use cenote::sync::Timeout;
    use cenote::sync::directory::DirectoryLock;

    /// Whether the lock is the other process's after 64 holds at most.
    fn is_given_up() -> bool {
        let mut got = false;
        scene::<Noncoherent>(|path, pool| {
            let open = |pool: &Pool<Noncoherent>| {
                DirectoryLock::open_or_create(pool.worker().unwrap(), "value", 2, &[8]).unwrap()
            };
            let mine: Vec<_> = (0..8).map(|_| open(pool)).collect();
            let other = Pool::<Noncoherent>::open(path, &options()).unwrap();
            let theirs = open(&other);
            drop(mine[0].write().unwrap());
            assert!(theirs.write_with(Timeout::None).unwrap().is_none());
            let is_mine = |n: &usize| mine[n % mine.len()].write_with(Timeout::None).unwrap().is_some();
            let holds = (0..1000).take_while(is_mine).count();
            got = holds <= 64 && theirs.write_with(Timeout::None).unwrap().is_some();
        });
        got
    }

    assert!(is_given_up());
    #[cfg(feature = "mutants")]
    {
        use cenote::mutant::{Mutant, choose};
        choose(Some(Mutant::DirectoryAskedUnseen));
        let got = is_given_up();
        choose(None);
        assert!(!got);
    }
}

#[test]
fn misuse_is_an_error() {
    fn check<M: Backend>() {
        scene::<M>(|_, pool| {
            let lock = pool.rwlock::<u64>("value").unwrap();
            let guard = lock.read().unwrap();
            assert!(matches!(lock.write().map(drop), Err(Error::Deadlock)));
            let again = pool.rwlock::<u64>("value").unwrap();
            assert!(matches!(again.try_write().map(drop), Err(Error::Deadlock)));
            drop(guard);
            assert!(matches!(
                pool.rwlock::<[u64; 2]>("value").map(drop),
                Err(Error::OtherValueSize { has: 8, asked: 16 })
            ));
            assert!(matches!(
                pool.existing_rwlock::<u64>("other").map(drop),
                Err(Error::NoSuch { .. })
            ));
            // The message says what it is.
            let refused = pool.raw_rwlock("value").map(drop).unwrap_err().to_string();
            assert!(refused.contains("is a directory lock"), "{refused}");
            drop(pool.mutex("mutex").unwrap());
            let refused = pool.rwlock::<u64>("mutex").map(drop).unwrap_err().to_string();
            assert!(refused.contains("is a mutex"), "{refused}");
            assert!(matches!(
                pool.map("value").map(drop),
                Err(Error::OtherKind { .. })
            ));
            for nodes in [0, 41, 255] {
                let made = pool.regions_builder("bad").nodes(nodes).open();
                assert!(matches!(made.map(drop), Err(Error::InvalidOption { .. })));
            }
            let regions = pool
                .regions_builder("many")
                .region(0)
                .region(100)
                .region(5000)
                .open()
                .unwrap();
            let mut guard = regions.write().unwrap();
            guard.region_mut(2)[4999] = 7;
            assert_eq!(
                (
                    guard.region(0).len(),
                    guard.region(1).len(),
                    guard.region(2)[4999]
                ),
                (0, 100, 7)
            );
        });
    }
    check::<Coherent>();
    check::<Noncoherent>();
}

/// A lock for one process at a time, on memory where that matters.
#[test]
fn a_lock_whose_nodes_are_all_used_refuses_and_is_free_again_once_one_is_closed() {
    scene::<Noncoherent>(|path, pool| {
        let open = |pool: &Pool<Noncoherent>| pool.regions_builder("one").nodes(1).region(8).open().unwrap();
        let other = Pool::<Noncoherent>::open(path, &options()).unwrap();
        let (first, second) = (open(pool), open(&other));
        drop(first.write().unwrap());
        let refused = second.try_write();
        assert!(matches!(refused.map(drop), Err(Error::TooManyNodes { limit: 1 })));
        drop(first);
        drop(second.write().unwrap());
    });
}

/// The other side; does nothing unless it is started as one.
#[test]
fn role() {
    let Ok(role) = std::env::var("CENOTE_LOCKS_ROLE") else {
        return;
    };
    let path = std::env::var("CENOTE_LOCKS_POOL").unwrap();
    match std::env::var("CENOTE_LOCKS_KIND").as_deref() {
        Ok("noncoherent") => play::<Noncoherent>(&role, Path::new(&path)),
        Ok("delegated") => play::<Delegated>(&role, Path::new(&path)),
        _ => play::<Coherent>(&role, Path::new(&path)),
    }
}

fn play<M: Backend>(role: &str, path: &Path) {
    let pool = Pool::<M>::open(path, &options()).unwrap();
    match role {
        "increment" => increment(&pool, INCREMENTS),
        "fork" => write_in_a_child(&pool),
        #[cfg(feature = "crash-points")]
        "panic and die closing" => panic_and_die_closing(&pool),
        #[cfg(feature = "crash-points")]
        "a thread ends" => {
            let (its_pool, (says, said)) = (pool.clone(), std::sync::mpsc::channel::<()>());
            let ends = std::thread::Builder::new().name("ends".to_owned());
            std::mem::forget(ends.spawn(move || {
                let _says = says;
                let lock = its_pool.rwlock::<Value>("value").unwrap();
                let mut value = lock.write().unwrap();
                let next = value[0] + 1;
                value.fill(next);
                drop(value);
                drop(lock);
            }));
            // If it does not die, it says so by its end.
            let _ = said.recv_timeout(Duration::from_millis(200));
            let lock = pool.rwlock::<Value>("value").unwrap();
            for _ in 0..SOME {
                let mut value = lock.write_for(LONG).unwrap().expect("held up");
                let next = value[0] + 1;
                value.fill(next);
            }
        }
        "increment for ever" => {
            let lock = pool.rwlock::<Value>("value").unwrap();
            loop {
                let mut value = lock.write().unwrap();
                let next = value[0] + 1;
                value.fill(next);
            }
        }
        _ => {
            let lock = pool.rwlock::<Value>("value").unwrap();
            let mut value = lock.write().unwrap();
            value.set_note(17);
            value[..WORDS / 2].fill(1);
            // SAFETY: ends this process alone.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }
}
