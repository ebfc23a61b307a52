//! Kills processes with `kill -9` at every named step of taking, holding, leaving and recovering locks, and again in
//! the process that succeeds them. Checks that a survivor gets every lock, is told what it must be told, and finds no
//! slot taken for ever.
//!
//! Run with `cargo test -p cenote --features crash-points --test crash_locks`; it starts itself as the processes that
//! are killed. `CENOTE_CRASH_ONLY=name` limits it to one point. A victim has three threads, which meet at the locks.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use cenote::causes::Structure;
use cenote::memory::Mapped;
use cenote::pod::format::lock_slots::{SLOTS, Slot, SlotState, Turn};
use cenote::pod::instance::crash::Point;
use cenote::sync::Timeout;
use cenote::{Acquired, Coherent, Error, Noncoherent, Options, Pool};

/// At which passing of a point the process is killed.
const PASSINGS: [u64; 3] = [1, 6, 40];
/// Threads of a victim.
const THREADS: u64 = 3;
/// More cases for a point that no victim has reached.
const MORE: u32 = 200;
/// Operations of each.
const OPERATIONS: u64 = 120;
/// The locks: a spin lock, a queue lock, a reader-writer lock, a mutex.
const LOCKS: usize = 4;
/// Permits of the semaphore.
const PERMITS: u32 = 2;
/// Long enough for others to fall asleep.
const SHORT: Duration = Duration::from_micros(50);
/// Longer than any victim needs.
const LONG: Duration = Duration::from_secs(20);

type Outcome = Result<(), String>;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
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
        max: 1 << 26,
        ..Options::default()
    }
}

// ---------------------------------------------------------------------------------------------- the journal

const GRANTED: u8 = 1;
const NOTING: u8 = 2;
const RELEASED: u8 = 3;
const KILLED: u8 = 4;

/// What happened to locks, in one order for all. Survives its writers, as the page cache does.
struct Journal(File);

impl Journal {
    fn open(path: &Path) -> Result<Self, String> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.map(Self).map_err(text)
    }

    fn write(&mut self, kind: u8, lock: usize, told: bool, note: u64) -> Outcome {
        let mut record = [0; 16];
        record[..3].copy_from_slice(&[kind, lock as u8, u8::from(told)]);
        record[8..].copy_from_slice(&note.to_le_bytes());
        self.0.write_all(&record).map_err(text)
    }
}

/// What the next exclusive owner of a lock must and may be told.
#[derive(Default)]
struct State {
    is_owned: bool,
    must: bool,
    may: bool,
    notes: BTreeSet<u64>,
}

impl State {
    fn granted(&mut self, lock: usize, told: bool, note: u64) -> Outcome {
        let Self { must, may, notes, .. } = self;
        let is_wrong = match told {
            true => !*may || !notes.contains(&note),
            false => *must,
        };
        if is_wrong {
            return Err(format!(
                "lock {lock}: its next owner was told: {told}, note {note}; it must be: {must}, may be: {may}, notes {notes:?}"
            ));
        }
        *self = Self {
            is_owned: true,
            may: self.may,
            notes: [if told { note } else { 0 }].into(),
            ..Self::default()
        };
        Ok(())
    }
}

fn states(journal: &Path) -> Result<[State; LOCKS], String> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(journal) {
        file.read_to_end(&mut bytes).map_err(text)?;
    }
    let mut states: [State; LOCKS] = Default::default();
    for record in bytes.chunks_exact(16) {
        let note = u64::from_le_bytes(record[8..].try_into().map_err(text)?);
        let lock = usize::from(record[1]);
        let state = &mut states[lock];
        match record[0] {
            GRANTED => state.granted(lock, record[2] != 0, note)?,
            NOTING => drop(state.notes.insert(note)),
            RELEASED => {
                state.is_owned = false;
                state.notes.insert(0);
            }
            _ => states.iter_mut().for_each(|state| {
                state.must |= state.is_owned;
                // A worker that died waiting, or while it unlocked, may count as the lock's owner.
                state.may = true;
                state.is_owned = false;
                state.notes.insert(0);
            }),
        }
    }
    Ok(states)
}

fn told(acquired: Acquired) -> (bool, u64) {
    match acquired {
        Acquired::Clean => (false, 0),
        Acquired::Recovered { note, .. } => (true, note),
    }
}

// ---------------------------------------------------------------------------------------------- the victims

fn play(role: &str, pool: &Path, journal: &Path) -> Outcome {
    match role {
        "work coherent" => work::<Coherent>(pool, journal),
        "work noncoherent" => work::<Noncoherent>(pool, journal),
        "open coherent" => Pool::<Coherent>::open(pool, &options()).map(drop).map_err(text),
        "open noncoherent" => Pool::<Noncoherent>::open(pool, &options())
            .map(drop)
            .map_err(text),
        other => Err(format!("no such role: {other}")),
    }
}

fn work<M: Mapped>(path: &Path, journal: &Path) -> Outcome {
    let pool: Pool<M> = Pool::open(path, &options()).map_err(text)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let pool = &pool;
                scope.spawn(move || one(pool, journal, thread))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a thread of a victim panicked".to_owned()))
        })
    })
}

/// One thread of a victim: locks in turn, some with a short timeout, some two at a time.
fn one<M: Mapped>(pool: &Pool<M>, journal: &Path, thread: u64) -> Outcome {
    let mut journal = Journal::open(journal)?;
    let spin = pool.spin_mutex("spin").map_err(text)?;
    let queue = pool.queue_mutex("queue").map_err(text)?;
    let rw = pool.raw_rwlock("rw").map_err(text)?;
    let mutex = pool.mutex("mutex").map_err(text)?;
    macro_rules! hold {
        ($lock:expr, $taken:expr, $note:expr, $inside:block) => {
            if let Some(guard) = $taken.map_err(text)? {
                let (was_told, note) = told(guard.acquired());
                journal.write(GRANTED, $lock, was_told, note)?;
                if $note % 3 != 0 {
                    journal.write(NOTING, $lock, false, $note)?;
                    guard.set_note($note);
                }
                $inside
                journal.write(RELEASED, $lock, false, 0)?;
                drop(guard);
            }
        };
    }
    for n in 0..OPERATIONS {
        let note = 1 + thread + 8 * n;
        let timeout = match (n + thread) % 3 {
            0 => Timeout::during(SHORT),
            1 => Timeout::during(LONG),
            _ => Timeout::during(2 * SHORT),
        };
        hold!(0, spin.lock_with(timeout), note, {
            if n % 4 == 0 {
                hold!(1, queue.lock_with(timeout), note, {
                    std::thread::yield_now();
                });
            }
        });
        // For so long that others give up, some of them with a waiter behind.
        hold!(1, queue.lock_with(timeout), note, {
            std::thread::sleep(SHORT);
        });
        drop(rw.read_with(timeout).map_err(text)?);
        hold!(2, rw.write_with(timeout), note, {});
        names(pool, thread + n)?;
        wait_for_others(pool, n)?;
        // A thread that relocks at once is quicker than a waiter that is woken, until the waiter says *handoff*.
        for _ in 0..3 {
            hold!(3, mutex.lock_with(timeout), note, {
                std::thread::sleep(SHORT);
            });
        }
    }
    Ok(())
}

/// Holds a permit for a moment, and waits for a moment on the condition variable, or notifies it.
fn wait_for_others<M: Mapped>(pool: &Pool<M>, n: u64) -> Outcome {
    let semaphore = pool.semaphore("permits", PERMITS).map_err(text)?;
    let permit = semaphore.acquire().map_err(text)?;
    permit.set_note(n);
    let (mutex, condvar) = (
        pool.mutex("waited").map_err(text)?,
        pool.condvar("condvar").map_err(text)?,
    );
    let guard = mutex.lock().map_err(text)?;
    match n % 3 {
        0 => condvar.notify_one().map_err(text)?,
        _ => drop(condvar.wait_for(guard, SHORT).map_err(text)?),
    }
    Ok(())
}

/// Makes a lock of some form under one of two names, takes it, and removes it, unless others have removed it, or made
/// one of another form.
fn names<M: Mapped>(pool: &Pool<M>, n: u64) -> Outcome {
    let name = format!("short-lived {}", n % 2);
    macro_rules! remove {
        ($lock:expr) => {
            match $lock.and_then(|lock| {
                lock.lock_with(Timeout::Polls(80))?
                    .map_or(Ok(()), |held| held.remove())
            }) {
                Ok(()) | Err(Error::LockRemoved | Error::OtherKind { .. }) => Ok(()),
                Err(error) => Err(text(error)),
            }
        };
    }
    match n / 2 % 3 {
        0 => remove!(pool.spin_mutex(&name)),
        1 => remove!(pool.queue_mutex(&name)),
        _ => remove!(pool.mutex(&name)),
    }
}

// ----------------------------------------------------------------------------------------------- the survivor

struct Case<'a, M: Mapped> {
    pool: &'a Pool<M>,
    path: PathBuf,
    journal: PathBuf,
    log: &'a Path,
}

impl<M: Mapped> Case<'_, M> {
    /// Starts a victim that is killed at a point, if it gets there. Returns whether it was killed.
    fn victim(&self, role: &str, point: &str, passing: u64) -> Result<bool, String> {
        let status = Command::new(std::env::current_exe().map_err(text)?)
            .args([&self.path, &self.journal])
            .env("CENOTE_CRASH_ROLE", format!("{role} {}", M::NAME))
            .env("CENOTE_CRASH", format!("{point}:{passing}"))
            .env("CENOTE_CRASH_LOG", self.log)
            .status()
            .map_err(text)?;
        Journal::open(&self.journal)?.write(KILLED, 0, false, 0)?;
        match (status.success(), status.signal()) {
            (true, _) => Ok(false),
            (false, Some(9)) => Ok(true),
            _ => Err(format!("a victim for {point}:{passing} ended with {status}")),
        }
    }

    /// Takes every lock, with or without a recovery before.
    fn survive(&self, recover: bool) -> Outcome {
        // Whatever died, all permits can be acquired, and the mutex of the condition variable.
        let semaphore = self.pool.semaphore("permits", PERMITS).map_err(text)?;
        for n in 0..PERMITS {
            match semaphore.acquire_for(LONG).map_err(text)? {
                Some(permit) => std::mem::forget(permit),
                None => return Err(format!("only {n} permits can be had")),
            }
        }
        let waited = self.pool.mutex("waited").map_err(text)?;
        if waited.lock_for(LONG).map_err(text)?.is_none() {
            return Err("the mutex behind the condition variable cannot be had".to_owned());
        }
        if recover {
            self.pool.recover().map_err(text)?;
        }
        let mut states = states(&self.journal)?;
        let spin = self.pool.spin_mutex("spin").map_err(text)?;
        let queue = self.pool.queue_mutex("queue").map_err(text)?;
        let rw = self.pool.raw_rwlock("rw").map_err(text)?;
        let mutex = self.pool.mutex("mutex").map_err(text)?;
        for round in 0..2 {
            let mut check = |lock: usize, acquired: Option<Acquired>| -> Outcome {
                let acquired = acquired.ok_or(format!("lock {lock} is lost"))?;
                let (was_told, note) = told(acquired);
                match round {
                    0 => states[lock].granted(lock, was_told, note),
                    _ if was_told => Err(format!("lock {lock} is told of after an unlock")),
                    _ => Ok(()),
                }
            };
            let held = spin.lock_for(LONG).map_err(text)?;
            check(0, held.as_ref().map(|held| held.acquired()))?;
            let second = queue.lock_for(LONG).map_err(text)?;
            check(1, second.as_ref().map(|held| held.acquired()))?;
            let third = rw.write_for(LONG).map_err(text)?;
            check(2, third.as_ref().map(|held| held.acquired()))?;
            let fourth = mutex.lock_for(LONG).map_err(text)?;
            check(3, fourth.as_ref().map(|held| held.acquired()))?;
        }
        drop(rw.read().map_err(text)?);
        self.pool.recover().map_err(text)?;
        for name in ["short-lived 0", "short-lived 1"] {
            match self.pool.remove_lock_with(name, Timeout::during(LONG)) {
                Ok(())
                | Err(Error::NoSuch {
                    kind: Structure::Lock,
                    ..
                }) => {}
                Err(error) => return Err(text(error)),
            }
            // One of each form, which reuses what was left.
            drop(self.pool.spin_mutex(name).map_err(text)?.lock().map_err(text)?);
            self.pool.remove_lock(name).map_err(text)?;
            drop(self.pool.queue_mutex(name).map_err(text)?.lock().map_err(text)?);
            self.pool.remove_lock(name).map_err(text)?;
            drop(self.pool.mutex(name).map_err(text)?.lock().map_err(text)?);
        }
        let worker = self.pool.worker().map_err(text)?;
        for place in 0..worker.pod().workers_high() {
            for n in 0..SLOTS {
                let slot = Slot::new(worker.geometry(), place, n);
                let stand = Turn(slot.turn().load(worker.mem())).state();
                if stand != SlotState::Rest {
                    return Err(format!("slot {n} of worker {place} is {stand:?} for ever"));
                }
            }
        }
        let report = self.pool.fsck().map_err(text)?;
        match report.is_clean() {
            true => Ok(()),
            false => Err(format!("not clean: {report:#?}")),
        }
    }
}

fn run_case<M: Mapped>(folder: &Path, log: &Path, run: impl FnOnce(&Case<'_, M>) -> Outcome) -> Outcome {
    let path = folder.join("pool");
    let journal = folder.join("journal");
    let pool = Pool::<M>::create(&path, &options()).map_err(text)?;
    let outcome = run(&Case {
        pool: &pool,
        path: path.clone(),
        journal: journal.clone(),
        log,
    });
    drop(pool);
    let _ = std::fs::remove_file(path);
    let _ = std::fs::remove_file(journal);
    outcome
}

/// Points that these victims pass; `crash.rs` has the others.
fn points() -> impl Iterator<Item = &'static str> {
    let names = Point::ALL.iter().map(|point| point.name());
    names.filter(|name| {
        ["held.", "queue.", "shared.", "condvar.", "rename."]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    })
}

fn orchestrate() -> Outcome {
    let folder = tempfile::tempdir_in("/dev/shm").map_err(text)?;
    let (folder, log) = (folder.path(), folder.path().join("log"));
    let only = std::env::var("CENOTE_CRASH_ONLY").ok();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let (mut failures, mut kills) = (Vec::new(), 0);
    for point in points().filter(|name| wanted(name)) {
        for passing in PASSINGS {
            for recover in [false, true] {
                let outcome = run_case::<Coherent>(folder, &log, |case| {
                    kills += u64::from(case.victim("work", point, passing)?);
                    case.survive(recover)
                });
                failures.extend(outcome.err().map(|what| format!("{point}:{passing}: {what}")));
            }
        }
        let outcome = run_case::<Noncoherent>(folder, &log, |case| {
            kills += u64::from(case.victim("work", point, 3)?);
            case.survive(false)
        });
        failures.extend(outcome.err().map(|what| format!("{point}, noncoherent: {what}")));
        // The successor of the dead owner dies too, and its successor.
        for second in [
            "held.seized",
            "held.taken",
            "queue.passed",
            "queue.half-passed",
            "queue.joined",
            "queue.ended",
            "recover.held",
            "recover.claimed",
        ] {
            let role = match second {
                "queue.ended" | "recover.held" | "recover.claimed" => "open",
                _ => "work",
            };
            let outcome = run_case::<Coherent>(folder, &log, |case| {
                kills += u64::from(case.victim("work", point, 5)?);
                for passing in [1, 1, 2] {
                    kills += u64::from(case.victim(role, second, passing)?);
                }
                case.survive(false)
            });
            failures.extend(
                outcome
                    .err()
                    .map(|what| format!("{point}:5, then {second}: {what}")),
            );
        }
        println!("{point}: ok so far, {} failures", failures.len());
    }
    let is_reached = |point: &str| -> Result<bool, String> {
        let reached = std::fs::read_to_string(&log).map_err(text)?;
        Ok(reached.lines().any(|line| line == point))
    };
    for point in points().filter(|name| wanted(name)) {
        // Some take three threads that meet within microseconds.
        for _ in 0..MORE {
            if is_reached(point)? {
                break;
            }
            let outcome = run_case::<Coherent>(folder, &log, |case| {
                kills += u64::from(case.victim("work", point, 1)?);
                case.survive(false)
            });
            failures.extend(outcome.err().map(|what| format!("{point}, once more: {what}")));
        }
        if !is_reached(point)? {
            failures.push(format!("{point} was never reached"));
        }
    }
    println!("{kills} kills, {} failures", failures.len());
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}
