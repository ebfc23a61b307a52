//! Recovery that meets damage, or is stopped: workers that have nothing to do with it go on, and what could not be done
//! is reported.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cenote::group::EventKind;
use cenote::memory::Mapped;
use cenote::memory::{Published, Unpublished};
use cenote::pod::names::directory;
use cenote::{Coherent, Noncoherent, Options, Pool};

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of a pool of this test, which uses it in this way.
    unsafe { Published::at(at, len) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of a pool of this test, which uses it in this way.
    unsafe { Unpublished::at(at, len) }
}

const TOKEN: &[u8] = b"token";
/// Longer than anything here takes.
const LONG: Option<Duration> = Some(Duration::from_secs(60));
/// Words of a group's header.
const MAGIC_AT: u64 = 0;
const MEMBERS_AT: u64 = 8;

fn options() -> Options {
    Options {
        size: 4 << 20,
        max: 1 << 30,
        ..Options::default()
    }
}

fn scene<M: Mapped>(run: impl FnOnce(&Pool<M>, &Path)) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool<M> = Pool::create(&path, &options()).unwrap();
    run(&pool, &path);
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

/// This program again, in a role.
fn start<M: Mapped>(role: &str, pool: &Path, set: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "unrecovered::role", "--nocapture"])
        .env("CENOTE_UNRECOVERED_ROLE", role)
        .env("CENOTE_UNRECOVERED_POOL", pool)
        .env("CENOTE_UNRECOVERED_KIND", M::NAME)
        .envs(set.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// So many processes join both groups, and are killed.
fn lose_members<M: Mapped>(count: usize, pool: &Pool<M>, path: &Path) {
    let group = pool.group("sound", TOKEN).unwrap();
    let mut victims: Vec<Child> = (0..count).map(|_| start::<M>("victim", path, &[])).collect();
    while group.members().unwrap().len() < count {
        let has_ended = |victim: &mut Child| victim.try_wait().unwrap().is_some();
        assert!(!victims.iter_mut().any(has_ended), "a victim has ended");
        std::thread::sleep(Duration::from_millis(1));
    }
    for victim in &mut victims {
        victim.kill().unwrap();
        victim.wait().unwrap();
    }
}

/// Changes a word of the group that is to be damaged. Returns what it was.
fn set_word<M: Mapped>(pool: &Pool<M>, word: u64, value: u64) -> u64 {
    let worker = pool.worker().unwrap();
    let at = directory::find(&*worker, "damaged").unwrap().unwrap().offset + word;
    let mem = worker.mem();
    mem.invalidate(at, 8);
    let before = published(at, 8).read_word(mem);
    unpublished(at, 8).write_word(mem, value);
    mem.write_back(at, 8);
    mem.fence();
    before
}

fn a_damaged_group<M: Mapped>(word: u64) {
    scene::<M>(|pool, path| {
        pool.map("m").unwrap().put(b"key", b"value").unwrap();
        let mut sound = pool.group("sound", TOKEN).unwrap().observe().unwrap();
        pool.group("damaged", TOKEN).unwrap();
        lose_members(1, pool, path);
        let before = set_word(pool, word, 0);

        // A process that opens the pool recovers the dead, and can use the pool.
        let other: Pool<M> = Pool::open(path, &options()).unwrap();
        let map = other.map("m").unwrap();
        assert_eq!(map.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        map.put(b"key", b"value").unwrap();
        let stat = other.stat().unwrap();
        assert!(stat.processes.iter().all(|process| process.is_alive), "{stat:#?}");
        // The other group gets the events.
        let told =
            std::iter::from_fn(|| sound.next(LONG).unwrap()).find(|event| event.kind == EventKind::Died);
        assert!(told.is_some());

        // The damage is reported.
        assert_eq!(stat.damaged.len(), 1, "{stat:#?}");
        assert_eq!(
            (stat.damaged[0].what.as_str(), stat.failures.len()),
            ("\"damaged\"", 1)
        );
        assert!(stat.recent[0].done.contains(&"failed"), "{stat:#?}");
        let report = other.fsck().unwrap();
        assert!(
            report.problems.iter().any(|problem| problem.contains("group")),
            "{report:#?}"
        );
        set_word(pool, word, before);
    });
}

#[test]
fn a_damaged_group_keeps_nobody_from_the_rest() {
    a_damaged_group::<Coherent>(MAGIC_AT);
    a_damaged_group::<Coherent>(MEMBERS_AT);
}

#[test]
fn nor_does_it_on_incoherent_memory() {
    a_damaged_group::<Noncoherent>(MAGIC_AT);
}

#[test]
fn all_of_the_dead_are_recovered_at_once_although_each_was_in_it() {
    scene::<Coherent>(|pool, path| {
        pool.group("sound", TOKEN).unwrap();
        pool.group("damaged", TOKEN).unwrap();
        lose_members(3, pool, path);
        let before = set_word(pool, MAGIC_AT, 0);
        let recovered = pool.recover().unwrap();
        assert_eq!((recovered.processes, recovered.failed), (3, 3), "{recovered:?}");
        assert_eq!(
            pool.failures().len(),
            1,
            "one damage is said once: {:?}",
            pool.failures()
        );
        set_word(pool, MAGIC_AT, before);
    });
}

/// A recoverer that is stopped with its claim lives: nobody else may recover that record. But members that wait get the
/// event of the death.
fn a_stopped_recoverer<M: Mapped>() {
    scene::<M>(|pool, path| {
        let mut member = pool.group("sound", TOKEN).unwrap().observe().unwrap();
        pool.group("damaged", TOKEN).unwrap();
        lose_members(1, pool, path);
        let mut recoverer = start::<M>("recoverer", path, &[("CENOTE_STOP", "recover.claimed:1")]);
        wait_until_stopped(&recoverer);
        let told =
            std::iter::from_fn(|| member.next(LONG).unwrap()).find(|event| event.kind == EventKind::Died);
        assert!(told.is_some(), "nobody is told of the death");
        // SAFETY: a child of this process.
        unsafe { libc::kill(recoverer.id() as i32, libc::SIGCONT) };
        assert!(recoverer.wait().unwrap().success());
        drop(member);
    });
}

#[test]
fn a_stopped_recoverer_holds_no_notification_back() {
    a_stopped_recoverer::<Coherent>();
}

fn wait_until_stopped(child: &Child) {
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    let waited = unsafe { libc::waitpid(child.id() as i32, &mut status, libc::WUNTRACED) };
    assert_eq!(waited, child.id() as i32);
    let status = std::process::ExitStatus::from_raw(status);
    assert_eq!(status.stopped_signal(), Some(libc::SIGSTOP), "{status:?}");
}

/// The other side; does nothing unless it is started as one.
#[test]
fn role() {
    let Ok(role) = std::env::var("CENOTE_UNRECOVERED_ROLE") else {
        return;
    };
    let path = std::env::var("CENOTE_UNRECOVERED_POOL").unwrap();
    match std::env::var("CENOTE_UNRECOVERED_KIND").as_deref() {
        Ok("noncoherent") => play::<Noncoherent>(&role, Path::new(&path)),
        _ => play::<Coherent>(&role, Path::new(&path)),
    }
}

fn play<M: Mapped>(role: &str, path: &Path) {
    let pool: Pool<M> = Pool::open(path, &options()).unwrap();
    if role == "victim" {
        let name = std::process::id().to_string();
        let _first = pool.group("damaged", TOKEN).unwrap().join(&name).unwrap();
        let _second = pool.group("sound", TOKEN).unwrap().join(&name).unwrap();
        std::thread::sleep(Duration::from_secs(600));
    }
    pool.recover().unwrap();
}
