//! `fsck --repair` beside those who want to use the pool: what they have put is not lost, and they are told who
//! repairs; a repairer that is killed keeps nobody out, one that is stopped keeps everybody out.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cenote::memory::Mapped;
use cenote::pod::format::superblock::REPAIRER;
use cenote::pod::instance::crash::Point;
use cenote::pod::instance::repair;
use cenote::{Coherent, Delegated, Error, HostAgent, Noncoherent, Options, Pool};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Keys that make a look at the pool take a while.
const KEYS: u64 = 60_000;
/// Writers beside the repairs, and times that each opens the pool.
const WRITERS: u64 = 2;
const ROUNDS: u64 = 20;

fn options() -> Options {
    Options {
        size: 8 << 20,
        max: 256 << 20,
        ..Options::default()
    }
}

/// This program again, in a role.
fn start<M: Mapped>(role: &str, pool: &Path, set: &[(&str, String)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "repairs::role", "--nocapture"])
        .env("CENOTE_REPAIRS_ROLE", role)
        .env("CENOTE_REPAIRS_POOL", pool)
        .env("CENOTE_REPAIRS_KIND", M::NAME)
        .envs(set.iter().cloned())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_until_stopped(child: &Child) {
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    let waited = unsafe { libc::waitpid(child.id() as i32, &mut status, libc::WUNTRACED) };
    assert_eq!(waited, child.id() as i32);
    let status = std::process::ExitStatus::from_raw(status);
    assert_eq!(status.stopped_signal(), Some(libc::SIGSTOP), "{status:?}");
}

/// A pool with so many keys, which nobody has open.
fn scene<M: Mapped>(keys: u64, run: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    {
        let pool = Pool::<M>::create(&path, &options()).unwrap();
        let map = pool.map("old").unwrap();
        for key in 0..keys {
            map.put(&key.to_le_bytes(), b"a value of some bytes").unwrap();
        }
    }
    run(&path);
    let report = Pool::<M>::open(&path, &options()).unwrap().fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

/// Whether it is the error of who comes beside a repair.
fn is_kept_out<T>(result: &cenote::Result<T>) -> bool {
    matches!(result, Err(Error::Repairing { .. }))
}

fn writers<M: Mapped>() {
    let seed = crate::common::seed();
    scene::<M>(KEYS, |path| {
        let set = |id: u64| {
            [
                ("CENOTE_REPAIRS_WRITER", id.to_string()),
                ("CENOTE_TEST_SEED", seed.to_string()),
            ]
        };
        let mut writers: Vec<Child> = (0..WRITERS)
            .map(|id| start::<M>("writer", path, &set(id)))
            .collect();
        let (mut repairs, mut refused) = (0, 0);
        while writers
            .iter_mut()
            .any(|writer| writer.try_wait().unwrap().is_none())
        {
            let repaired = Pool::<M>::open(path, &options()).and_then(|pool| pool.fsck_and_repair());
            match repaired {
                Ok(report) => {
                    repairs += 1;
                    assert!(report.problems.is_empty(), "{report:#?}");
                    assert_eq!(report.repaired_bytes, 0, "what was in use was freed: {report:#?}");
                }
                Err(Error::RepairRefused(_) | Error::Repairing { .. } | Error::TooMany { .. }) => {
                    refused += 1
                }
                Err(error) => panic!("{error}"),
            }
        }
        let mut acknowledged: Vec<String> = Vec::new();
        for mut writer in writers {
            assert!(writer.wait().unwrap().success());
            let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
            let put = lines.map_while(Result::ok).filter_map(|line| {
                let (_, key) = line.split_once("has put ")?;
                Some(key.to_owned())
            });
            acknowledged.extend(put);
        }
        println!(
            "{repairs} repairs, {refused} refused, {} puts",
            acknowledged.len()
        );
        let pool = Pool::<M>::open(path, &options()).unwrap();
        let lost: Vec<&String> = acknowledged
            .iter()
            .filter(|key| {
                let (map, key) = key.split_once(' ').unwrap();
                let Ok(map) = pool.existing_map(map) else {
                    return true;
                };
                let found = map.get(key.as_bytes());
                !matches!(&found, Ok(Some(value)) if value[..] == b"put beside repairs"[..])
            })
            .collect();
        assert!(lost.is_empty(), "lost of {}: {lost:?}", acknowledged.len());
        assert_eq!(acknowledged.len() as u64, WRITERS * ROUNDS);
    });
}

#[test]
fn puts_beside_repairs_are_not_lost() {
    writers::<Coherent>();
}

#[test]
fn nor_are_they_on_incoherent_memory() {
    writers::<Noncoherent>();
}

#[test]
fn nor_where_a_server_executes_exchanges() {
    writers::<Delegated>();
}

/// Each of its keys goes into a map of its own number, of which there are a few.
fn write<M: Mapped>(path: &Path) {
    let id: u64 = std::env::var("CENOTE_REPAIRS_WRITER").unwrap().parse().unwrap();
    let mut random = SmallRng::seed_from_u64(crate::common::seed() ^ id);
    for round in 0..ROUNDS {
        // Where nobody has the pool open a repair may begin.
        std::thread::sleep(Duration::from_millis(random.random_range(0..40)));
        loop {
            let map = format!("new-{id}-{}", round % 8);
            let key = format!("key-{round}");
            let put = Pool::<M>::open(path, &options())
                .and_then(|pool| pool.map(&map)?.put(key.as_bytes(), b"put beside repairs"));
            match put {
                Ok(_) => {
                    println!("has put {map} {key}");
                    break;
                }
                Err(Error::Repairing { .. } | Error::TooMany { .. }) => {
                    std::thread::sleep(Duration::from_millis(random.random_range(0..5)));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn threads<M: Mapped>() {
    scene::<M>(100, |path| {
        let pool = Pool::<M>::open(path, &options()).unwrap();
        let worker = pool.worker().unwrap();
        let in_a_thread =
            |run: &(dyn Fn() + Sync)| std::thread::scope(|scope| scope.spawn(run).join().unwrap());
        {
            let alone = repair::begin(&worker).unwrap();
            in_a_thread(&|| assert!(is_kept_out(&pool.map("old"))));
            assert!(is_kept_out(&Pool::<M>::open(path, &options())));
            // Who reads without a place changes nothing.
            let reader = Pool::<M>::open_read_only(path, &options()).unwrap();
            assert_eq!(reader.map("old").unwrap().len().unwrap(), 100);
            drop(alone);
        }
        in_a_thread(&|| assert_eq!(pool.map("old").unwrap().len(), 100));
        drop(Pool::<M>::open(path, &options()).unwrap());
        let (attached, is_attached) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let (pool, other) = (&pool, pool.clone());
            scope.spawn(move || {
                let _worker = other.worker().unwrap();
                attached.send(()).unwrap();
                let _ = ends.recv();
            });
            is_attached.recv().unwrap();
            let refused = pool.fsck_and_repair();
            drop(end);
            assert!(matches!(refused, Err(Error::RepairRefused(_))), "{refused:?}");
        });
        drop(worker);
        assert!(pool.fsck_and_repair().unwrap().is_clean());
    });
}

#[test]
fn another_thread_of_the_process_is_in_the_way_and_is_kept_out() {
    threads::<Coherent>();
    threads::<Noncoherent>();
    threads::<Delegated>();
}

fn points() -> impl Iterator<Item = &'static str> {
    let names = Point::ALL.iter().map(|point| point.name());
    names.filter(|name| name.starts_with("repair."))
}

/// It has done nothing that others must wait for, and the next one repairs.
fn killed<M: Mapped>() {
    scene::<M>(100, |path| {
        for point in points() {
            let mut repairer = start::<M>("repairer", path, &[("CENOTE_CRASH", format!("{point}:1"))]);
            let status = repairer.wait().unwrap();
            assert_eq!(status.signal(), Some(9), "{point} was not passed");
            let pool = Pool::<M>::open(path, &options()).unwrap();
            pool.map("old").unwrap().put(point.as_bytes(), b"").unwrap();
            assert!(pool.fsck_and_repair().unwrap().is_clean(), "{point}");
        }
    });
}

#[test]
fn a_repairer_that_is_killed_keeps_nobody_out() {
    killed::<Coherent>();
    killed::<Noncoherent>();
    killed::<Delegated>();
}

fn stopped<M: Mapped>() {
    scene::<M>(100, |path| {
        for point in points() {
            let mut repairer = start::<M>("repairer", path, &[("CENOTE_STOP", format!("{point}:1"))]);
            wait_until_stopped(&repairer);
            for _ in 0..2 {
                match Pool::<M>::open(path, &options()).map(drop) {
                    Err(Error::Repairing { pid, is_elsewhere }) => {
                        assert_eq!((pid, is_elsewhere), (u64::from(repairer.id()), false), "{point}");
                    }
                    other => panic!("{point}: {other:?}"),
                }
            }
            let reader = Pool::<M>::open_read_only(path, &options()).unwrap();
            assert_eq!(reader.map("old").unwrap().len().unwrap(), 100);
            // SAFETY: a child of this process.
            unsafe { libc::kill(repairer.id() as i32, libc::SIGCONT) };
            assert!(repairer.wait().unwrap().success(), "{point}");
            drop(Pool::<M>::open(path, &options()).unwrap());
        }
    });
}

#[test]
fn a_repairer_that_is_stopped_keeps_everybody_out() {
    stopped::<Coherent>();
    stopped::<Noncoherent>();
}

/// Who has joined when somebody begins to repair is seen, and stays.
#[test]
fn a_process_that_is_stopped_while_it_joins_is_in_the_way() {
    scene::<Coherent>(100, |path| {
        for point in [Point::OpenAlive, Point::AttachClaimed] {
            let pool = Pool::<Coherent>::open(path, &options()).unwrap();
            let mut joiner =
                start::<Coherent>("opener", path, &[("CENOTE_STOP", format!("{}:1", point.name()))]);
            wait_until_stopped(&joiner);
            let refused = pool.fsck_and_repair();
            assert!(matches!(refused, Err(Error::RepairRefused(_))), "{refused:?}");
            // SAFETY: a child of this process.
            unsafe { libc::kill(joiner.id() as i32, libc::SIGCONT) };
            assert!(joiner.wait().unwrap().success());
            assert!(pool.fsck_and_repair().unwrap().is_clean());
        }
    });
}

/// It is refused before it says that it repairs: else all who attach would be kept out until it has counted.
#[test]
fn a_repair_that_is_refused_keeps_nobody_out() {
    scene::<Coherent>(100, |path| {
        let pool = Pool::<Coherent>::open(path, &options()).unwrap();
        let mut repairer = start::<Coherent>(
            "repairer",
            path,
            &[("CENOTE_STOP", format!("{}:1", Point::RepairNamed.name()))],
        );
        // It would be stopped, and never end.
        assert!(!repairer.wait().unwrap().success());
        pool.map("old").unwrap().put(b"key", b"").unwrap();
    });
}

extern "C" fn end_this_thread(_: libc::c_int) {
    // SAFETY: ends the thread that is interrupted.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// The permission by which it kept the background thread still is taken from it.
#[test]
fn a_thread_that_dies_alone_in_fsck_holds_nobody_up() {
    scene::<Coherent>(KEYS, |path| {
        let pool = Pool::<Coherent>::open(path, &options()).unwrap();
        // SAFETY: a handler that calls nothing but the kernel.
        unsafe { libc::signal(libc::SIGUSR1, end_this_thread as *const () as usize) };
        let (says, said) = std::sync::mpsc::channel();
        let other = pool.clone();
        std::mem::forget(std::thread::spawn(move || {
            let _worker = other.worker().unwrap();
            // SAFETY: always right.
            says.send(unsafe { libc::pthread_self() } as usize).unwrap();
            loop {
                other.fsck().unwrap();
            }
        }));
        let victim = said.recv().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: that thread runs until this ends it.
        unsafe { libc::pthread_kill(victim as libc::pthread_t, libc::SIGUSR1) };
        let report = loop {
            // Until its death is seen, it is in the way.
            pool.recover().unwrap();
            match pool.fsck_and_repair() {
                Err(Error::RepairRefused(_)) => std::thread::sleep(Duration::from_millis(1)),
                other => break other.unwrap(),
            }
        };
        assert!(report.is_clean(), "{report:#?}");
    });
}

/// A repairer died, and a host went up after it had counted. Hosts cannot know that it is dead; a command with host 0
/// on its machine can, although it has nothing else to do here.
#[test]
fn a_dead_repairer_is_forgotten_though_a_host_is_up() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    // Lock files stand for machines.
    let on = |host: u32, machine: &str| Options {
        host,
        lock_file: Some(folder.path().join(machine)),
        ..options()
    };
    drop(Pool::<Coherent>::create(&path, &on(0, "x")).unwrap());
    let crash = ("CENOTE_CRASH", format!("{}:1", Point::RepairAlone.name()));
    let locks = (
        "CENOTE_REPAIRS_LOCKS",
        folder.path().join("x").display().to_string(),
    );
    let mut repairer = start::<Coherent>("repairer", &path, &[crash, locks]);
    assert_eq!(repairer.wait().unwrap().signal(), Some(9));
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let mut word = [0; 8];
    file.read_exact_at(&mut word, REPAIRER.offset()).unwrap();
    assert_ne!(word, [0; 8]);
    let agent = |host| HostAgent::<Coherent>::start(&path, &on(host, "y"));
    assert!(is_kept_out(&agent(1)));
    // The host goes up between its agent's look and the repairer's count.
    file.write_all_at(&[0; 8], REPAIRER.offset()).unwrap();
    let crash = ("CENOTE_CRASH", format!("{}:1", Point::HostUp.name()));
    let locks = (
        "CENOTE_REPAIRS_LOCKS",
        folder.path().join("y").display().to_string(),
    );
    assert_eq!(
        start::<Coherent>("agent", &path, &[crash, locks])
            .wait()
            .unwrap()
            .signal(),
        Some(9)
    );
    file.write_all_at(&word, REPAIRER.offset()).unwrap();
    assert!(is_kept_out(&agent(1)) && is_kept_out(&agent(2)));
    let alone = Pool::<Coherent>::open(&path, &on(0, "x"));
    assert!(matches!(alone.map(drop), Err(Error::Host { .. })));
    drop(agent(2).unwrap());
    drop(agent(1).unwrap());
}

/// The other side; does nothing unless it is started as one.
#[test]
fn role() {
    let Ok(role) = std::env::var("CENOTE_REPAIRS_ROLE") else {
        return;
    };
    let path = std::env::var("CENOTE_REPAIRS_POOL").unwrap();
    match std::env::var("CENOTE_REPAIRS_KIND").as_deref() {
        Ok("noncoherent") => play::<Noncoherent>(&role, Path::new(&path)),
        Ok("delegated") => play::<Delegated>(&role, Path::new(&path)),
        _ => play::<Coherent>(&role, Path::new(&path)),
    }
}

fn play<M: Mapped>(role: &str, path: &Path) {
    let its_options = Options {
        lock_file: std::env::var_os("CENOTE_REPAIRS_LOCKS").map(Into::into),
        ..options()
    };
    match role {
        "writer" => write::<M>(path),
        "agent" => {
            let host = Options {
                host: 1,
                ..its_options
            };
            drop(HostAgent::<M>::start(path, &host).unwrap());
        }
        "opener" => drop(Pool::<M>::open(path, &options()).unwrap()),
        _ => {
            let report = Pool::<M>::open(path, &its_options)
                .unwrap()
                .fsck_and_repair()
                .unwrap();
            assert!(report.is_clean(), "{report:#?}");
        }
    }
}
