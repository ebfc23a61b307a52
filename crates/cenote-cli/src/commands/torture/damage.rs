//! `cenote torture --damage`: this process changes bytes of a pool while others use all that it offers.
//!
//! A run is many rounds. Each begins with a copy of a pool with everything in it; each user has a seed of its own.
//! Users may get errors, and nothing else: none ends by a signal or a panic, none hangs, and neither do `fsck` and
//! `fsck --repair` on what is left. Lost data does not count: a process that may write to a pool may destroy what is in
//! it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use cenote::{Coherent, Delegated, MemoryKind, Noncoherent};
use cenote_damage::aim::Part;
use cenote_damage::child::{Ended, end, tell_faults};
use cenote_damage::live::{Manner, damage, exercise};
use cenote_damage::random::Random;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output::{Output, count};
use crate::role::Role;

/// How long the bytes of one pool change.
const ROUND: Duration = Duration::from_millis(500);
/// A process that takes longer than this hangs.
const HANG: Duration = Duration::from_secs(10);
/// Faults that are shown.
const FAULTS_SHOWN: usize = 20;

/// What a user process gets as its argument.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    pool: PathBuf,
    memory: MemoryKind,
    seed: u64,
    milliseconds: u64,
    /// Where it says how many calls it has made.
    calls: PathBuf,
}

/// What came out.
#[derive(Debug, Default, Serialize)]
struct Report {
    seed: u64,
    memory: &'static str,
    seconds: f64,
    rounds: u64,
    /// Processes that used a damaged pool, and checks of what was left.
    processes: u64,
    /// How many of those ended with an exit status of their own that says that something failed.
    failed: u64,
    calls: u64,
    changes: u64,
    faults: Vec<String>,
}

/// The arguments of `cenote torture` that matter here.
pub struct Settings {
    /// Decides what is changed and called, as far as that can be decided.
    pub seed: u64,
    /// Users at a time.
    pub workers: u32,
    /// When to begin no further round.
    pub time: Duration,
    /// The kind of memory.
    pub memory: MemoryKind,
    /// Where the pools are.
    pub folder: PathBuf,
}

/// Runs it.
pub fn run(settings: &Settings, out: &Output) -> Result<ExitCode, Failure> {
    let sound = settings.folder.join("sound");
    match settings.memory {
        MemoryKind::Coherent => cenote_damage::fill::<Coherent>(&sound),
        MemoryKind::Noncoherent => cenote_damage::fill::<Noncoherent>(&sound),
        MemoryKind::Delegated => cenote_damage::fill::<Delegated>(&sound),
    }?;
    let mut report = Report {
        seed: settings.seed,
        memory: settings.memory.name(),
        ..Report::default()
    };
    let begun = Instant::now();
    while report.rounds == 0 || begun.elapsed() < settings.time {
        round(settings, &sound, &mut report)?;
        report.rounds += 1;
    }
    report.seconds = begun.elapsed().as_secs_f64();
    out.result(&report, |report| text(settings, report))?;
    Ok(match report.faults.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// One pool: used and damaged, then checked.
fn round(settings: &Settings, sound: &Path, report: &mut Report) -> Result<(), Failure> {
    let pool = settings.folder.join("pool");
    std::fs::copy(sound, &pool).map_err(Failure::io(pool.display()))?;
    let seed = settings.seed.wrapping_add(report.rounds);
    let mut random = Random::new(seed);
    let manner = Manner::of(&mut random);
    let calls_of = |user: u32| settings.folder.join(format!("calls-{user}"));
    let mut users = Vec::new();
    for user in 0..settings.workers {
        users.push(start(&Orders {
            pool: pool.clone(),
            memory: settings.memory,
            seed: seed ^ u64::from(user + 1) << 32,
            milliseconds: ROUND.as_millis() as u64,
            calls: calls_of(user),
        })?);
    }
    let changes = damage(&pool, &mut random, &[], manner, Instant::now() + ROUND);
    report.changes += changes.map_err(Failure::io(pool.display()))?;
    for (user, child) in (0..).zip(users) {
        take_down(report, seed, "a user", end(child, HANG));
        let said = calls_of(user);
        let calls = std::fs::read_to_string(&said)
            .ok()
            .and_then(|text| text.parse().ok());
        report.calls += calls.unwrap_or(0);
        let _ = std::fs::remove_file(said);
    }
    for arguments in [&["fsck"][..], &["fsck", "--repair"]] {
        let mut command = Command::new("/proc/self/exe");
        command.args(arguments).arg(&pool);
        take_down(
            report,
            seed,
            &arguments.join(" "),
            end(spawn(&mut command)?, HANG),
        );
    }
    std::fs::remove_file(&pool).map_err(Failure::io(pool.display()))
}

fn start(orders: &Orders) -> Result<Child, Failure> {
    let orders = serde_json::to_string(orders).map_err(|error| Failure::failed(error.to_string()))?;
    spawn(&mut Role::Damage.command([orders]))
}

fn spawn(command: &mut Command) -> Result<Child, Failure> {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    quiet.spawn().map_err(Failure::io("starting another process"))
}

/// Takes down how a process has ended.
fn take_down(report: &mut Report, seed: u64, what: &str, ended: Ended) {
    report.processes += 1;
    match ended {
        Ended::Status(0) => {}
        Ended::Status(1 | 2) => report.failed += 1,
        other if report.faults.len() < FAULTS_SHOWN => {
            report.faults.push(format!("--seed {seed}: {what}: {other}"));
        }
        _ => {}
    }
}

fn text(settings: &Settings, report: &Report) -> String {
    let mut lines = vec![
        format!(
            "{} calls by {} processes while {} bytes and words changed, in {} rounds and {:.0} s",
            count(report.calls),
            count(report.processes),
            count(report.changes),
            report.rounds,
            report.seconds
        ),
        format!(
            "{} processes have failed with an error, {} otherwise",
            report.failed,
            report.faults.len()
        ),
    ];
    lines.extend(report.faults.iter().cloned());
    if !report.faults.is_empty() {
        let kind = match settings.memory {
            MemoryKind::Coherent => String::new(),
            other => format!(" --{}", other.name()),
        };
        lines.push(format!(
            "FAILED; a round again: cenote torture --damage --workers {}{kind} --seconds 1 --seed SEED",
            settings.workers
        ));
    }
    lines.join("\n")
}

/// Runs a user.
pub fn worker(args: &[String]) -> Result<ExitCode, Failure> {
    let orders = args
        .first()
        .and_then(|text| serde_json::from_str::<Orders>(text).ok());
    let orders = orders.ok_or_else(|| {
        Failure::misuse("who uses a damaged pool is started by `cenote torture --damage` alone")
    })?;
    tell_faults();
    let until = Instant::now() + Duration::from_millis(orders.milliseconds);
    let calls = match orders.memory {
        MemoryKind::Coherent => exercise::<Coherent>(&orders.pool, orders.seed, Part::Everything, until),
        MemoryKind::Noncoherent => {
            exercise::<Noncoherent>(&orders.pool, orders.seed, Part::Everything, until)
        }
        MemoryKind::Delegated => exercise::<Delegated>(&orders.pool, orders.seed, Part::Everything, until),
    };
    std::fs::write(&orders.calls, calls.to_string()).map_err(Failure::io(orders.calls.display()))?;
    Ok(ExitCode::SUCCESS)
}
