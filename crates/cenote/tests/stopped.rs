//! `fsck` beside a process that is stopped in the middle of something: that is no damage, and no leak.

#![allow(clippy::disallowed_types)] // a number of the test's own, no word of a pool

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

use cenote::memory::Mapped;
use cenote::{Coherent, FsckReport, LockWait, Noncoherent, Options, Pool};

/// Where a writer is stopped: of a level of a map that is retired, of an operation, of an object.
const POINTS: &[&str] = &[
    "resize.linked:1",
    "resize.frozen:9",
    "resize.claimed:1",
    "resize.root:1",
    "resize.replicas:1",
    "retire.marked:1",
    "retire.pushed:9",
    "publish.done:1",
    "publish.done:9",
    "publish.counted:9",
    "alloc.new:9",
    "alloc.taken:9",
    "link.done:1",
    "collect.decided:1",
];
/// Where it has the allocator's lock, which only who reads without a place does not wait for. That one does not know
/// what is so.
const LOCKED: &[&str] = &["redo.committed:9", "redo.half-applied:9", "redo.applied:9"];

fn options() -> Options {
    Options {
        size: 8 << 20,
        max: 256 << 20,
        ..Options::default()
    }
}

/// This program again, which writes until it is stopped, or joins a group and leaves it.
fn start<M: Mapped>(pool: &Path, point: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stopped::role", "--nocapture"])
        .env("CENOTE_STOPPED_POOL", pool)
        .env("CENOTE_STOPPED_KIND", M::NAME)
        .env("CENOTE_STOP", point)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Whether it was stopped; else it has ended.
pub fn wait_until_stopped(child: &Child) -> bool {
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    let waited = unsafe { libc::waitpid(child.id() as i32, &mut status, libc::WUNTRACED) };
    assert_eq!(waited, child.id() as i32);
    let status = std::process::ExitStatus::from_raw(status);
    assert!(
        status.success() || status.stopped_signal() == Some(libc::SIGSTOP),
        "{status:?}"
    );
    !status.success()
}

/// Stops a writer at each point and looks; at least so many were passed.
fn at_each<M: Mapped>(points: &[&str], least: usize, look: impl Fn(&Path, &str)) {
    let mut passed = 0;
    for point in points {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("pool");
        drop(Pool::<M>::create(&path, &options()).unwrap());
        let mut writer = start::<M>(&path, point);
        if !wait_until_stopped(&writer) {
            continue;
        }
        passed += 1;
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| look(&path, point)));
        writer.kill().unwrap();
        writer.wait().unwrap();
        looked.unwrap_or_else(|thrown| std::panic::resume_unwind(thrown));
        let report = Pool::<M>::open(&path, &options()).unwrap().fsck().unwrap();
        assert!(report.is_clean(), "{point}: {report:#?}");
    }
    assert!(passed >= least, "{passed} of {points:?}");
}

fn read<M: Mapped>(path: &Path) -> FsckReport {
    Pool::<M>::open_read_only(path, &options())
        .unwrap()
        .fsck()
        .unwrap()
}

fn no_damage<M: Mapped>() {
    at_each::<M>(POINTS, POINTS.len() - 2, |path, point| {
        let report = Pool::<M>::open(path, &options()).unwrap().fsck().unwrap();
        assert!(report.is_clean(), "{point}: {report:#?}");
        let report = read::<M>(path);
        assert!(report.is_clean(), "{point}, read only: {report:#?}");
    });
    at_each::<M>(LOCKED, LOCKED.len(), |path, point| {
        let report = read::<M>(path);
        assert!(
            report.is_clean() || report.is_uncertain,
            "{point}, read only: {report:#?}"
        );
    });
}

#[test]
fn a_stopped_writer_is_no_damage() {
    no_damage::<Coherent>();
}

#[test]
fn nor_is_one_on_incoherent_memory() {
    no_damage::<Noncoherent>();
}

/// The writer that is stopped, and what was said of it.
static HOLDER: AtomicI32 = AtomicI32::new(0);
static TOLD: Mutex<Vec<LockWait>> = Mutex::new(Vec::new());

/// Writes down who keeps whom waiting, and has it go on.
fn told(wait: &LockWait) {
    TOLD.lock().unwrap().push(*wait);
    // SAFETY: a child of this process.
    unsafe { libc::kill(HOLDER.load(Ordering::SeqCst), libc::SIGCONT) };
}

/// Without being told `fsck` would wait for ever.
#[test]
fn who_waits_for_a_stopped_holder_of_the_allocators_lock_is_told() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    drop(Pool::<Coherent>::create(&path, &options()).unwrap());
    let mut writer = start::<Coherent>(&path, "redo.applied:9");
    assert!(wait_until_stopped(&writer));
    HOLDER.store(writer.id() as i32, Ordering::SeqCst);
    let options = Options {
        on_lock_wait: Some(told),
        ..options()
    };
    let pool = Pool::<Coherent>::open(&path, &options).unwrap();
    let report = pool.fsck().unwrap();
    assert!(report.is_clean() || report.is_uncertain, "{report:#?}");
    let told = TOLD.lock().unwrap().clone();
    assert!(!told.is_empty());
    for wait in told {
        assert_eq!(
            (wait.lock, wait.holder.pid, wait.holder.host),
            ("the allocator's lock", u64::from(writer.id()), 0)
        );
    }
    assert!(writer.wait().unwrap().success());
    assert!(pool.fsck().unwrap().is_clean());
}

/// A group whose lock somebody has who is stopped is not checked, and that is said.
fn held_group<M: Mapped>() {
    at_each::<M>(
        &["group.locked:3", "group.committed:3", "group.member:3"],
        3,
        |path, point| {
            let reports = [
                Pool::<M>::open(path, &options()).unwrap().fsck().unwrap(),
                read::<M>(path),
            ];
            for report in reports {
                assert!(report.is_clean(), "{point}: {report:#?}");
                let [what] = &report.unchecked[..] else {
                    panic!("{point}: {:?}", report.unchecked)
                };
                assert!(what.contains("\"g\"") && what.contains("has its lock"), "{what}");
            }
        },
    );
}

#[test]
fn a_group_whose_holder_is_stopped_is_not_checked() {
    held_group::<Coherent>();
    held_group::<Noncoherent>();
}

/// The other side; does nothing unless it is started as one.
#[test]
fn role() {
    let Ok(path) = std::env::var("CENOTE_STOPPED_POOL") else {
        return;
    };
    match std::env::var("CENOTE_STOPPED_KIND").as_deref() {
        Ok("noncoherent") => write::<Noncoherent>(Path::new(&path)),
        _ => write::<Coherent>(Path::new(&path)),
    }
}

/// A map that grows, with keys that are changed and removed.
fn write<M: Mapped>(path: &Path) {
    let pool = Pool::<M>::open(path, &options()).unwrap();
    if std::env::var("CENOTE_STOP").unwrap().starts_with("group.") {
        let group = pool.group("g", b"token").unwrap();
        for _ in 0..9 {
            group.join("member").unwrap().leave().unwrap();
        }
        return;
    }
    let map = pool.map("m").unwrap();
    for n in 0..40_000_u64 {
        map.put(&n.to_le_bytes(), b"a value that is in an object")
            .unwrap();
        if n % 3 == 0 {
            map.put(&(n / 2).to_le_bytes(), b"another such value").unwrap();
        }
        if n % 7 == 0 {
            map.remove(&(n / 3).to_le_bytes()).unwrap();
        }
        if n % 1_000 == 0 {
            map.put(b"large", &vec![1; 200_000]).unwrap();
        }
    }
}
