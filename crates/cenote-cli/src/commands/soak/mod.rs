//! `cenote soak`: a long run of real processes, which checks that memory always comes back and nothing gets slower.
//!
//! | file | |
//! |---|---|
//! | `soak` | arguments |
//! | `plan`, `family` | what all processes agree on: phases, maps, keys, sizes |
//! | `supervisor`, `checkpoint` | starts, kills, stops, pauses; what is checked meanwhile |
//! | `worker`, `phases` | a worker process, and what it does in each phase |
//! | `state` | journals beside the pool: what must be there, is there, and nothing else |
//! | `board`, `full` | what is live, by all journals, and whether a refusal was right |
//! | `meter` | how long operations took |
//! | `trend`, `report` | whether figures stay flat; the report at the end |
//!
//! What it shares with `torture` is in `trial/`. What it does, and how to read its curves: `docs/soak.md`.

mod board;
mod checkpoint;
mod family;
mod full;
mod lists;
mod meter;
mod phases;
mod plan;
mod report;
mod state;
mod supervisor;
mod trend;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::complaint::complain;
use crate::failure::Failure;
use crate::output::{Output, count};
use crate::whole_file::Target;
use meter::Counter;
use plan::{Phase, Plan, Plant};
use report::Report;
use supervisor::Supervisor;

/// Checkpoints that a run has at least, however short it is.
const LEAST_CHECKPOINTS: u32 = 4;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// How long to go on, in hours
    #[arg(long, value_name = "H", conflicts_with_all = ["minutes", "seconds"])]
    hours: Option<f64>,
    /// How long to go on, in minutes
    #[arg(long, value_name = "M", conflicts_with = "seconds")]
    minutes: Option<f64>,
    /// How long to go on, in seconds; default a minute
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// The kind of memory; `both` are soaked one after the other, each for the whole time
    #[arg(long, value_enum, default_value_t = MemoryKind::Both)]
    memory: MemoryKind,
    /// The pool's size at first; it grows
    #[arg(long, default_value = "4MiB")]
    size: String,
    /// What it may grow to; the amounts of data follow from it
    #[arg(long, default_value = "512MiB")]
    max: String,
    /// Worker processes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=32))]
    workers: u32,
    /// Seconds between checkpoints
    #[arg(long, default_value_t = 30.0, value_name = "S")]
    interval: f64,
    /// How many workers to kill or stop in a second, on average
    #[arg(long, default_value_t = 0.5, value_name = "KILLS")]
    kills_per_second: f64,
    /// Decides phases and kills, as far as that can be decided; a random one is taken and printed
    #[arg(long)]
    seed: Option<u64>,
    /// Draw the curves to a file; with `both`, the memory's name is added to its own
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Keep the pool and the journals
    #[arg(long)]
    keep: bool,
    /// Plant a fault, to see that it is found
    #[arg(long, hide = true, value_enum)]
    plant: Option<Plant>,
}

/// Which memory to soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MemoryKind {
    /// Caches that are kept coherent.
    Coherent,
    /// Caches that are not (x86-64).
    Noncoherent,
    /// One after the other.
    Both,
}

impl Args {
    fn time(&self) -> Result<Duration, Failure> {
        let hours = self.hours.map(|hours| hours * 3600.0);
        let minutes = self.minutes.map(|minutes| minutes * 60.0);
        let seconds = hours.or(minutes).or(self.seconds).unwrap_or(60.0);
        if (1.0..=1e7).contains(&seconds) {
            Ok(Duration::from_secs_f64(seconds))
        } else {
            Err(Failure::misuse(
                "a run takes a second at least, and 2,777 hours at most",
            ))
        }
    }

    fn check(&self) -> Result<(), Failure> {
        if !(self.kills_per_second > 0.0 && self.kills_per_second <= 100.0) {
            return Err(Failure::misuse(
                "--kills-per-second is a number above 0, at most 100",
            ));
        }
        if !(0.5..=1e5).contains(&self.interval) {
            return Err(Failure::misuse("--interval is 0.5 at least"));
        }
        Ok(())
    }
}

/// Runs it.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    args.check()?;
    let time = args.time()?;
    let kinds = match args.memory {
        MemoryKind::Coherent => vec![cenote::MemoryKind::Coherent],
        MemoryKind::Noncoherent => vec![cenote::MemoryKind::Noncoherent],
        MemoryKind::Both => vec![cenote::MemoryKind::Coherent, cenote::MemoryKind::Noncoherent],
    };
    let seed = args.seed.unwrap_or_else(|| rand::random_range(0..1 << 32));
    let mut is_good = true;
    let targets = kinds.iter().map(|kind| {
        let Some(path) = &args.svg else { return Ok(None) };
        let path = match args.memory {
            MemoryKind::Both => named(path, kind.name()),
            _ => path.clone(),
        };
        Ok(Some((Target::at(&path)?, path)))
    });
    // A target that cannot be written is reported now, not after hours.
    let targets = targets.collect::<Result<Vec<_>, Failure>>()?;
    for (kind, target) in kinds.into_iter().zip(targets) {
        let report = soak(&args, kind, seed, time, out)?;
        out.result(&report, report::text)?;
        if let Some((target, path)) = target {
            let curves = report::svg(&report)?;
            target.write(|to| {
                to.write_all(curves.as_bytes())
                    .map_err(Failure::io(path.display()))
            })?;
            out.note(format!("the curves are in {}", path.display()));
        }
        is_good &= report.reasons.is_empty();
    }
    Ok(if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A file's path with something added to its name.
fn named(path: &Path, name: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut file = format!("{stem}-{name}");
    if let Some(extension) = path.extension() {
        file = format!("{file}.{}", extension.to_string_lossy());
    }
    path.with_file_name(file)
}

fn soak(
    args: &Args,
    kind: cenote::MemoryKind,
    seed: u64,
    time: Duration,
    out: &Output,
) -> Result<Report, Failure> {
    let shm = Path::new("/dev/shm");
    let base = if shm.is_dir() {
        shm.to_owned()
    } else {
        std::env::temp_dir()
    };
    let folder = tempfile::Builder::new().prefix("cenote-soak-").tempdir_in(&base);
    let folder = folder.map_err(Failure::io(base.display()))?;
    let doomed = folder.path().to_owned();
    crate::interrupt::on_interrupt(move || {
        if std::fs::remove_dir_all(&doomed).is_ok() {
            complain!("cenote: interrupted; the pool and the journals are removed");
        }
    });
    let options = cenote::Options {
        size: cenote::parse_size(&args.size)?,
        max: cenote::parse_size(&args.max)?,
        ..cenote::Options::default()
    };
    if options.max < 32 << 20 || options.size > options.max {
        return Err(Failure::misuse(
            "--max is 32MiB at least, and not less than --size",
        ));
    }
    let interval = Duration::from_secs_f64(args.interval).min(time / LEAST_CHECKPOINTS);
    let plan = Plan {
        pool: folder.path().join("pool"),
        folder: folder.path().to_owned(),
        seed,
        workers: args.workers,
        memory: kind,
        plant: args.plant,
        max: options.max,
        began: plan::milliseconds(),
        // Between two checkpoints, each worker goes through all phases about once.
        phase_ms: (interval.as_millis() as u64 / Phase::ALL.len() as u64).max(50),
    };
    out.note(format!(
        "seed {seed}: {} workers on {} memory, a pool of {} at most, {:.0} s, a checkpoint each {:.1} s",
        plan.workers,
        kind.name(),
        crate::output::bytes(plan.max),
        time.as_secs_f64(),
        interval.as_secs_f64()
    ));
    crate::memory::create(kind, &plan.pool, &options)?;
    let mut supervisor = Supervisor::new(&plan, args.kills_per_second)?;
    let start = Instant::now();
    let bar = progress(out, time);
    let mut told = Instant::now();
    supervisor.run(time, interval, |supervisor, left| {
        if told.elapsed() < Duration::from_millis(500) {
            return;
        }
        told = Instant::now();
        bar.set_position(time.saturating_sub(left).as_secs());
        bar.set_message(format!(
            "{} s left, {} writes, {} kills, {} stops, {} refused falsely",
            left.as_secs(),
            count(supervisor.count(Counter::Writes)),
            supervisor.counts.kills,
            supervisor.counts.stops,
            supervisor.count(Counter::FalselyRefused),
        ));
    })?;
    supervisor.finish()?;
    bar.finish_and_clear();
    let mut report = report::of(&plan, supervisor, start.elapsed().as_secs_f64());
    report.kept = args.keep.then(|| folder.keep());
    Ok(report)
}

fn progress(out: &Output, time: Duration) -> ProgressBar {
    let bar = if out.is_watched() {
        ProgressBar::new(time.as_secs())
    } else {
        ProgressBar::hidden()
    };
    let style = ProgressStyle::with_template("{bar:30.cyan/blue} {percent:>3}%  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Runs one of its worker processes.
pub fn worker(args: Vec<String>) -> Result<ExitCode, Failure> {
    let orders = args.first().and_then(|text| serde_json::from_str(text).ok());
    let orders = orders.ok_or_else(|| Failure::misuse("a soak worker is started by `cenote soak` alone"))?;
    Ok(if worker::run(orders) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
