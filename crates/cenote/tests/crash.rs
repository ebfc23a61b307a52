//! Kills a process with `kill -9` at every named crash point, and again during recovery. Checks that a survivor
//! that has the pool open all the time finds everything acknowledged, nothing torn, nothing leaked, and goes on.
//!
//! Run with `cargo test -p cenote --features crash-points --test crash`; it starts itself as the processes that are
//! killed. `CENOTE_CRASH_ONLY=name` limits it to one point. Everything is deterministic except the moment at which the
//! kernel notices a death.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

#[path = "crash/group.rs"]
mod group;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc::channel;

use cenote::index::hash::level::Level;
use cenote::memory::Mapped;
use cenote::pod::instance::crash::Point;
use cenote::{Coherent, Noncoherent, Options, Pool};

#[path = "crash/drops.rs"]
mod drops;
#[path = "crash/objects.rs"]
mod objects;
#[path = "crash/reserves.rs"]
mod reserves;
#[path = "crash/spare.rs"]
mod spare;
#[path = "crash/tasks.rs"]
mod tasks;

/// At which passing of a point the process is killed.
const PASSINGS: [u64; 4] = [1, 2, 7, 61];
/// The same for the victim that works on an ordered map.
const ORDERED_PASSINGS: [u64; 3] = [1, 35, 180];
/// Keys that the victim works on; survivors use others.
const KEYS: u64 = 9_000;
/// Keys of the ordered map that the victim works on.
const ORDERED_KEYS: u64 = 1_800;
/// Marks keys of the ordered map in the journal.
const ORDERED: u64 = 1 << 41;
/// Where a survivor's keys begin.
const SURVIVOR: u64 = 1 << 40;

/// Points that only hosts of a pod pass; `tests/hosts/` kills there.
fn is_of_pods(point: &str) -> bool {
    point == Point::OpenClaimed.name() || point.starts_with("host.") || point.starts_with("monitor.")
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let role = std::env::var("CENOTE_CRASH_ROLE").unwrap_or_default();
    let outcome = match role.as_str() {
        "" => orchestrate(),
        role => play(role, Path::new(&arguments[1]), Path::new(&arguments[2])),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Options {
    Options {
        size: 1 << 20,
        max: 1 << 30,
        ..Options::default()
    }
}

type Outcome = Result<(), String>;

/// The points that these victims pass; `crash/objects.rs`, `crash/drops.rs` and `crash_locks.rs` have the others, and
/// `repairs.rs` those of a repairer.
fn points() -> impl Iterator<Item = &'static str> + Clone {
    let names = Point::ALL.iter().map(|point| point.name());
    names.filter(|name| {
        ![
            "held.", "dlock.", "queue.", "shared.", "condvar.", "rename.", "repair.", "object.", "drop.",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
    })
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

// ---------------------------------------------------------------------------------------------- the victims

fn play(role: &str, pool: &Path, journal: &Path) -> Outcome {
    match role {
        "work coherent" => work::<Coherent>(pool, journal),
        "work noncoherent" => work::<Noncoherent>(pool, journal),
        "order coherent" => order::<Coherent>(pool, journal),
        "order noncoherent" => order::<Noncoherent>(pool, journal),
        "objects coherent" => objects::work::<Coherent>(pool, journal),
        "objects noncoherent" => objects::work::<Noncoherent>(pool, journal),
        "drops coherent" => drops::work::<Coherent>(pool),
        "drops noncoherent" => drops::work::<Noncoherent>(pool),
        "tasks coherent" => tasks::work::<Coherent>(pool, journal),
        "tasks noncoherent" => tasks::work::<Noncoherent>(pool, journal),
        "fill coherent" => reserves::fill(pool),
        "spare coherent" => spare::remove::<Coherent>(pool),
        "spare noncoherent" => spare::remove::<Noncoherent>(pool),
        "group coherent" => group::work::<Coherent>(pool),
        "group noncoherent" => group::work::<Noncoherent>(pool),
        "open coherent" => Pool::<Coherent>::open(pool, &options()).map(drop).map_err(text),
        "open noncoherent" => Pool::<Noncoherent>::open(pool, &options())
            .map(drop)
            .map_err(text),
        other => Err(format!("no such role: {other}")),
    }
}

/// What a value looks like: `version` 0 stands for no value.
fn value(key: u64, version: u64) -> Vec<u8> {
    let len = match version % 64 {
        1 => 70_000,
        2 => 150_000,
        3..6 => 3_000,
        6..10 => 200,
        10..14 => 20,
        _ => 8,
    };
    let word = (key ^ version << 32)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_le_bytes();
    word.iter().copied().cycle().take(len).collect()
}

/// What a journal says: the last acknowledged version of each key; key and version of what was begun and not
/// acknowledged.
type Written = (BTreeMap<u64, u64>, Option<(u64, u64)>);

/// The journal of what was begun and what was acknowledged. Survives its writer, as the page cache does.
struct Journal(File);

impl Journal {
    fn read(path: &Path) -> Result<Written, String> {
        let mut bytes = Vec::new();
        if let Ok(mut file) = File::open(path) {
            file.read_to_end(&mut bytes).map_err(text)?;
        }
        let mut acknowledged = BTreeMap::new();
        let mut begun = None;
        for record in bytes.chunks_exact(24) {
            let word = |n: usize| u64::from_le_bytes(record[8 * n..8 * n + 8].try_into().expect("8 bytes"));
            match word(0) {
                BEGUN => begun = Some((word(1), word(2))),
                _ => {
                    acknowledged.insert(word(1), word(2));
                    begun = None;
                }
            }
        }
        Ok((acknowledged, begun))
    }

    fn write(&mut self, kind: u64, key: u64, version: u64) -> Outcome {
        let mut record = [0; 24];
        for (bytes, word) in record.chunks_exact_mut(8).zip([kind, key, version]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.0.write_all(&record).map_err(text)
    }
}

const BEGUN: u64 = 1;
const ACKNOWLEDGED: u64 = 2;

impl Journal {
    fn open(path: &Path) -> Result<Self, String> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.map(Self).map_err(text)
    }
}

/// The work of a victim on an ordered map: keys that come in no order, so that nodes everywhere are split; long values
/// and short ones over each other; most of it removed and put again.
fn order<M: Mapped>(path: &Path, journal: &Path) -> Outcome {
    let mut journal = Journal::open(journal)?;
    let pool: Pool<M> = Pool::open(path, &options()).map_err(text)?;
    let map = pool.ordered("tree").map_err(text)?;
    for round in 0..3 {
        for n in 0..ORDERED_KEYS {
            let key = n * 1_009 % ORDERED_KEYS;
            let is_put = round != 1 || key.is_multiple_of(8);
            let version = if is_put { round * ORDERED_KEYS + n + 1 } else { 0 };
            journal.write(BEGUN, key | ORDERED, version)?;
            match is_put {
                true => drop(map.put(&key.to_be_bytes(), &value(key, version)).map_err(text)?),
                false => drop(map.remove(&key.to_be_bytes()).map_err(text)?),
            }
            journal.write(ACKNOWLEDGED, key | ORDERED, version)?;
            if n % 5 == 0 {
                // Whether the key is there or not: the new object is freed, or published.
                map.replace(&key.to_be_bytes(), b"another", b"not written")
                    .map_err(text)?;
            }
        }
    }
    // All of it again, so that nodes are merged until the root is a leaf.
    for key in 0..ORDERED_KEYS {
        journal.write(BEGUN, key | ORDERED, 0)?;
        map.remove(&key.to_be_bytes()).map_err(text)?;
        journal.write(ACKNOWLEDGED, key | ORDERED, 0)?;
    }
    Ok(())
}

fn work<M: Mapped>(path: &Path, journal: &Path) -> Outcome {
    let mut journal = Journal::open(journal)?;
    let mut version = 0;
    let mut step = |map: &cenote::Map<M>, key: u64, put: bool| -> Outcome {
        version += 1;
        let now = if put { version } else { 0 };
        journal.write(BEGUN, key, now)?;
        match put {
            true => drop(map.put(&key.to_le_bytes(), &value(key, now)).map_err(text)?),
            false => drop(map.remove(&key.to_le_bytes()).map_err(text)?),
        }
        journal.write(ACKNOWLEDGED, key, now)
    };
    let pool: Pool<M> = Pool::open(path, &options()).map_err(text)?;
    {
        // Grow from nothing; overwrite, so that lists fill and are freed; remove half.
        let map = pool.map("victim").map_err(text)?;
        for key in 0..KEYS {
            step(&map, key, true)?;
            if key % 3 == 0 {
                step(&map, key / 2, true)?;
            }
        }
        for key in (0..KEYS).filter(|key| key % 8 != 0) {
            step(&map, key, false)?;
        }
    }
    if M::COHERENT {
        // Something large comes and goes. After a trim only holes have room for it.
        let map = pool.map("large").map_err(text)?;
        let large = vec![0; 3 << 20];
        map.put(b"large", &large).map_err(text)?;
        map.remove(b"large").map_err(text)?;
        pool.trim().map_err(text)?;
        map.put(b"large", &large).map_err(text)?;
        map.remove(b"large").map_err(text)?;
    }
    // A worker that left has orphaned its blocks; a new one adopts them.
    let map = pool.map("victim").map_err(text)?;
    let another = pool.map("another").map_err(text)?;
    for key in 0..KEYS {
        step(&map, key, true)?;
        if key % 5 == 0 {
            // The key is there: the object is allocated and freed.
            let bytes = key.to_le_bytes();
            map.insert(&bytes, b"not written").map_err(text)?;
        }
    }
    churn(&another)?;
    idle(&pool)
}

/// A thread retires something and then does nothing; its list is taken over.
fn idle<M: Mapped>(pool: &Pool<M>) -> Outcome {
    let (tell, told) = channel();
    let (end, ended) = channel::<()>();
    let its_pool = pool.clone();
    let thread = std::thread::spawn(move || -> Outcome {
        let map = its_pool.map("another").map_err(text)?;
        for _ in 0..20 {
            map.put(&SURVIVOR.to_le_bytes(), b"here for a while")
                .map_err(text)?;
            map.remove(&SURVIVOR.to_le_bytes()).map_err(text)?;
        }
        let _ = tell.send(());
        let _ = ended.recv();
        Ok(())
    });
    let _ = told.recv();
    pool.collect().map_err(text)?;
    drop(end);
    thread.join().map_err(|_| "a thread panicked".to_owned())?
}

/// Keys of one group, few at a time: slots of removed keys are claimed for new ones.
fn churn<M: Mapped>(map: &cenote::Map<M>) -> Outcome {
    let level = Level::new(0, 0);
    let is_in_group = |key: &u64| level.group_of(map.hash_of(&key.to_le_bytes())) == 0;
    for key in (SURVIVOR..).filter(is_in_group).take(100) {
        map.put(&key.to_le_bytes(), b"here for a while").map_err(text)?;
        map.remove(&key.to_le_bytes()).map_err(text)?;
    }
    Ok(())
}

// ----------------------------------------------------------------------------------------------- the survivor

/// The files of a case.
struct Files {
    pool: PathBuf,
    journal: PathBuf,
}

impl Files {
    fn new(folder: &Path) -> Self {
        Self {
            pool: folder.join("pool"),
            journal: folder.join("journal"),
        }
    }

    /// Starts a victim that is killed at a point, if it gets there. Returns whether it was killed.
    fn victim<M: Mapped>(&self, role: &str, point: &str, passing: u64, log: &Path) -> Result<bool, String> {
        let status = self
            .command::<M>(role, log)?
            .env("CENOTE_CRASH", format!("{point}:{passing}"))
            .status()
            .map_err(text)?;
        match (status.success(), status.signal()) {
            (true, _) => Ok(false),
            (false, Some(9)) => Ok(true),
            _ => Err(format!("a victim for {point}:{passing} ended with {status}")),
        }
    }

    /// A process of that role that nobody kills.
    fn bystander<M: Mapped>(&self, role: &str, log: &Path) -> Outcome {
        let status = self.command::<M>(role, log)?.status().map_err(text)?;
        match status.success() {
            true => Ok(()),
            false => Err(format!(
                "a process for {role} that nobody kills ended with {status}"
            )),
        }
    }

    fn command<M: Mapped>(&self, role: &str, log: &Path) -> Result<Command, String> {
        let mut command = Command::new(std::env::current_exe().map_err(text)?);
        command
            .args([&self.pool, &self.journal])
            .env("CENOTE_CRASH_ROLE", format!("{role} {}", M::NAME))
            .env("CENOTE_CRASH_LOG", log);
        Ok(command)
    }

    fn remove(self) {
        let _ = std::fs::remove_file(self.pool);
        let _ = std::fs::remove_file(self.journal);
    }
}

struct Case<'a, M: Mapped> {
    pool: &'a Pool<M>,
    files: &'a Files,
}

impl<M: Mapped> Case<'_, M> {
    fn victim(&self, role: &str, point: &str, passing: u64, log: &Path) -> Result<bool, String> {
        self.files.victim::<M>(role, point, passing, log)
    }

    /// Goes on where the victim ended, and checks everything.
    fn survive(&self) -> Outcome {
        self.survive_with(600)
    }

    /// The same, with so many keys of the survivor's own before anything is recovered by name.
    fn survive_with(&self, keys: u64) -> Outcome {
        let map = self.pool.map("victim").map_err(text)?;
        for key in SURVIVOR..SURVIVOR + keys {
            map.put(
                &key.to_le_bytes(),
                &value(key, if keys > 1_000 { 20 } else { 1 + key % 20 }),
            )
            .map_err(text)?;
        }
        for key in SURVIVOR..SURVIVOR + keys {
            if !map.remove(&key.to_le_bytes()).map_err(text)? {
                return Err(format!("the survivor's key {key:#x} is gone"));
            }
        }
        let ordered = self.pool.ordered("tree").map_err(text)?;
        for key in (SURVIVOR..SURVIVOR + keys / 4).chain(0..ORDERED_KEYS) {
            // Among the victim's keys too, so that a survivor splits and posts what the dead one left.
            let among = [&key.to_be_bytes()[..], b"!"].concat();
            ordered.put(&among, &value(key, 4 + key % 16)).map_err(text)?;
        }
        for key in (SURVIVOR..SURVIVOR + keys / 4).chain(0..ORDERED_KEYS) {
            let among = [&key.to_be_bytes()[..], b"!"].concat();
            if !ordered.remove(&among).map_err(text)? {
                return Err(format!(
                    "the survivor's key {key:#x} is gone from the ordered map"
                ));
            }
        }
        self.pool.recover().map_err(text)?;
        let failures = self.pool.failures();
        if !failures.is_empty() {
            return Err(format!("not recovered: {failures:?}"));
        }
        self.check_journal(&map, &ordered)?;
        self.check_memory()?;
        // Nothing that dead processes left holds memory for ever.
        self.pool.collect().map_err(text)?;
        let retired = self.pool.stat().map_err(text)?.retired_objects;
        if M::COHERENT && retired > 100 {
            Err(format!("{retired} objects stay retired"))
        } else {
            Ok(())
        }
    }

    fn check_journal(&self, map: &cenote::Map<M>, ordered: &cenote::Ordered<M>) -> Outcome {
        let (acknowledged, begun) = Journal::read(&self.files.journal)?;
        for entry in (0..KEYS).chain((0..ORDERED_KEYS).map(|key| key | ORDERED)) {
            let before = acknowledged.get(&entry).copied().unwrap_or(0);
            let key = entry & !ORDERED;
            let found = match entry == key {
                true => map.get(&key.to_le_bytes()).map_err(text)?,
                false => ordered.get(&key.to_be_bytes()).map_err(text)?,
            };
            let is = |version: u64| match (&found, version) {
                (None, 0) => true,
                (Some(found), version) if version != 0 => found[..] == value(key, version)[..],
                _ => false,
            };
            if !is(before) && !begun.is_some_and(|(begun, version)| begun == entry && is(version)) {
                let len = found.map(|found| found.len());
                return Err(format!(
                    "key {entry:#x}: acknowledged version {before}, begun {begun:?}, found {len:?} bytes"
                ));
            }
        }
        Ok(())
    }

    fn check_memory(&self) -> Outcome {
        let report = self.pool.fsck().map_err(text)?;
        if !report.is_clean() || report.other_processes != 0 {
            return Err(format!("not clean: {report:#?}"));
        }
        Ok(())
    }
}

fn run_case<M: Mapped>(folder: &Path, run: impl FnOnce(&Case<'_, M>) -> Outcome) -> Outcome {
    let files = Files::new(folder);
    let pool = Pool::<M>::create(&files.pool, &options()).map_err(text)?;
    let outcome = run(&Case {
        pool: &pool,
        files: &files,
    });
    drop(pool);
    files.remove();
    outcome
}

/// A crash, and three more crashes of its recoverers.
fn kill_recoverers<M: Mapped>(
    case: &Case<'_, M>,
    first: &str,
    second: &str,
    log: &Path,
    kills: &mut u64,
) -> Outcome {
    *kills += u64::from(case.victim("work", first, 2, log)?);
    for passing in [1, 1, 2] {
        *kills += u64::from(case.victim("open", second, passing, log)?);
    }
    case.survive()
}

/// A pool with a place for one process: the process that opens it after the victim's death must take over the victim's
/// place, and whatever it held, before it has a place of its own.
fn run_alone<M: Mapped>(folder: &Path, point: &str, log: &Path) -> Outcome {
    let files = Files::new(folder);
    let alone = Options {
        processes: 1,
        ..options()
    };
    let outcome = (|| {
        drop(Pool::<M>::create(&files.pool, &alone).map_err(text)?);
        if !files.victim::<M>("work", point, 1, log)? {
            return Err("not reached".to_owned());
        }
        let pool = Pool::<M>::open(&files.pool, &alone).map_err(text)?;
        Case {
            pool: &pool,
            files: &files,
        }
        .survive()
    })();
    files.remove();
    outcome
}

// ------------------------------------------------------------------------------------------------- the plan

fn orchestrate() -> Outcome {
    let folder = tempfile::tempdir_in("/dev/shm").map_err(text)?;
    let log = folder.path().join("log");
    let only = std::env::var("CENOTE_CRASH_ONLY").ok();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name) && !is_of_pods(name);
    let mut failures = Vec::new();
    let mut kills = 0;
    for point in points().filter(|name| wanted(name)) {
        if point.starts_with("recover.") {
            continue;
        }
        for passing in PASSINGS {
            let mut reached = false;
            let outcome = run_case::<Coherent>(folder.path(), |case| {
                reached = case.victim("work", point, passing, &log)?;
                case.survive()
            });
            kills += u64::from(reached);
            if let Err(what) = outcome {
                failures.push(format!("{point}:{passing}: {what}"));
            }
            if !reached {
                break;
            }
        }
        if let Err(what) = run_case::<Noncoherent>(folder.path(), |case| {
            kills += u64::from(case.victim("work", point, 1, &log)?);
            case.survive()
        }) {
            failures.push(format!("{point}:1, noncoherent: {what}"));
        }
        println!("{point}: ok so far, {} failures", failures.len());
    }
    // Every point that a write to an ordered map passes.
    for point in points().filter(|name| wanted(name)) {
        for passing in ORDERED_PASSINGS {
            let mut reached = false;
            let outcome = run_case::<Coherent>(folder.path(), |case| {
                reached = case.victim("order", point, passing, &log)?;
                case.survive()
            });
            kills += u64::from(reached);
            if let Err(what) = outcome {
                failures.push(format!("{point}:{passing}, ordered: {what}"));
            }
            if !reached {
                break;
            }
            if let Err(what) = run_case::<Noncoherent>(folder.path(), |case| {
                kills += u64::from(case.victim("order", point, passing, &log)?);
                case.survive()
            }) {
                failures.push(format!("{point}:{passing}, ordered, noncoherent: {what}"));
            }
        }
        println!(
            "{point}: ok so far in the ordered map, {} failures",
            failures.len()
        );
    }
    // Every point that work on a task list passes.
    for point in Point::ALL
        .iter()
        .map(|point| point.name())
        .filter(|name| wanted(name))
    {
        for passing in tasks::PASSINGS {
            for outcome in [
                run_case::<Coherent>(folder.path(), |case| {
                    kills += u64::from(tasks::kill_and_finish(case, point, passing, &log)?);
                    Ok(())
                }),
                run_case::<Noncoherent>(folder.path(), |case| {
                    kills += u64::from(tasks::kill_and_finish(case, point, passing, &log)?);
                    Ok(())
                }),
            ] {
                if let Err(what) = outcome {
                    failures.push(format!("{point}:{passing}, tasks: {what}"));
                }
            }
        }
    }
    objects::all(folder.path(), &log, wanted, &mut kills, &mut failures);
    drops::all(folder.path(), &log, wanted, &mut kills, &mut failures);
    group::all(folder.path(), &log, &wanted, &mut kills, &mut failures);
    reserves::all(folder.path(), &log, &wanted, &mut kills, &mut failures);
    spare::all(folder.path(), &log, &wanted, &mut kills, &mut failures);
    // Every kind of unfinished work, and a second crash at every step of its recovery, and a third.
    let begun = points()
        .filter(|name| !name.starts_with("recover.") && !name.starts_with("group.") && !is_of_pods(name));
    let recovery: Vec<&str> = points().filter(|name| name.starts_with("recover.")).collect();
    for first in begun {
        for second in recovery.iter().filter(|name| wanted(name)) {
            let outcome = match *second == Point::RecoverDrained.name() {
                true => run_case::<Noncoherent>(folder.path(), |case| {
                    kill_recoverers(case, first, second, &log, &mut kills)
                }),
                false => run_case::<Coherent>(folder.path(), |case| {
                    kill_recoverers(case, first, second, &log, &mut kills)
                }),
            };
            if let Err(what) = outcome {
                failures.push(format!("{first}:2 then {second}: {what}"));
            }
        }
    }
    // Points of ordinary work that recovery passes too.
    for (role, first, second) in [
        ("work", "publish.done", "retire.marked"),
        ("work", "publish.done", "retire.pushed"),
        ("work", "publish.intent", "retire.marked"),
        ("order", "publish.secondary", "publish.secondary"),
        ("order", "publish.secondary", "retire.pushed"),
        ("work", "redo.committed", "redo.half-applied"),
        ("work", "resize.claimed", "resize.root"),
        ("work", "resize.replicas", "retire.marked"),
        ("work", "collect.chunk", "collect.chunk"),
        ("work", "slab.cells", "redo.committed"),
        ("work", "resize.allocated", "redo.applied"),
    ] {
        if only.is_some() {
            break;
        }
        if let Err(what) = run_case::<Coherent>(folder.path(), |case| {
            kills += u64::from(case.victim(role, first, 1, &log)?);
            kills += u64::from(case.victim("open", second, 1, &log)?);
            case.survive()
        }) {
            failures.push(format!("{first} then {second} in recovery: {what}"));
        }
    }
    // What a dead linker left must not confuse workers that grow the map further before anybody recovers it.
    for point in [
        "resize.linked",
        "resize.allocated",
        "resize.claimed",
        "resize.root",
        "link.done",
        "attach.claimed",
    ] {
        if !wanted(point) {
            continue;
        }
        if let Err(what) = run_case::<Coherent>(folder.path(), |case| {
            kills += u64::from(case.victim("work", point, 1, &log)?);
            case.survive_with(60_000)
        }) {
            failures.push(format!("{point}:1 with a busy survivor: {what}"));
        }
    }
    for point in [
        "lock.taken",
        "redo.committed",
        "redo.half-applied",
        "publish.done",
        "attach.claimed",
    ] {
        if !wanted(point) {
            continue;
        }
        kills += 1;
        if let Err(what) = run_alone::<Coherent>(folder.path(), point, &log) {
            failures.push(format!("{point}:1 with a place for one process: {what}"));
        }
        kills += 1;
        if let Err(what) = run_alone::<Noncoherent>(folder.path(), point, &log) {
            failures.push(format!(
                "{point}:1 with a place for one process, noncoherent: {what}"
            ));
        }
    }
    let reached: BTreeSet<String> = std::fs::read_to_string(&log)
        .map_err(text)?
        .lines()
        .map(str::to_owned)
        .collect();
    for point in points().filter(|name| wanted(name)) {
        if !reached.contains(point) {
            failures.push(format!("{point} was never reached"));
        }
    }
    let named = points().filter(|point| reached.contains(*point)).count();
    println!("{kills} kills, {named} of {} points reached", points().count());
    let (passed, failed) = (points().count().saturating_sub(failures.len()), failures.len());
    println!("{passed} passed, {failed} failed");
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}
