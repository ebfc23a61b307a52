//! `cenote torture`: kills workers again and again, and checks that nothing is lost, torn, leaked or blocked.
//!
//! | file | |
//! |---|---|
//! | `torture` | arguments, the report |
//! | `supervisor` | starts, kills, restarts, watches |
//! | `worker`, `owned`, `shared` | a worker process and its operations |
//! | `content` | keys, and what their values are like |
//! | `latency` | how long operations took, which outlives a worker as its journal does |
//! | `cluster`, `client` | a cluster whose clients and memory nodes are killed |
//! | `damage` | a process that changes bytes of a pool while others use it |
//! | `state`, `verdict` | journals beside the pool: what must be there, is there, and nothing else |
//!
//! What it shares with `soak` is in `trial/`.

pub mod client;
mod cluster;
mod content;
pub mod damage;
mod latency;
mod owned;
mod plan;
mod shared;
mod state;
mod supervisor;
mod verdict;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cenote::memory::LocalWord;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::collection::CollectionKind;
use crate::complaint::complain;
use crate::failure::Failure;
use crate::output::{Output, bytes, count};
use crate::trial::fault::{Fault, Kind};

use plan::{Plan, Plant};
use supervisor::Supervisor;
use verdict::Verdict;

/// An operation of a survivor that took longer is worth a warning.
const WARN_STALL_MS: f64 = 50.0;
/// An operation of a survivor that took longer counts as blocked.
const MOST_STALL_MS: f64 = 1000.0;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Worker processes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    workers: u32,
    /// How long to go on
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Decides operations and kills, as far as that can be decided; a random one is taken and printed
    #[arg(long)]
    seed: Option<u64>,
    /// How many workers to kill in a second, on average
    #[arg(long, default_value_t = 4.0, value_name = "KILLS")]
    kills_per_second: f64,
    /// Where to create the pool; default a temporary file in /dev/shm
    #[arg(long, value_name = "FILE")]
    pool: Option<PathBuf>,
    /// The pool's size at first; it grows
    #[arg(long, default_value = "1MiB")]
    size: String,
    #[command(flatten)]
    memory: crate::memory::MemoryArgs,
    /// What is tortured
    #[arg(long, value_enum, default_value_t = CollectionKind::Hash)]
    map: CollectionKind,
    /// Kill no worker: change bytes of a pool with everything in it while the workers use it, many times. They may get
    /// errors; none ends by a signal or hangs
    #[arg(long, conflicts_with_all = ["kills_per_second", "pool", "size", "map", "keep", "plant"])]
    damage: bool,
    /// Torture a cluster that is started for it: kill and stop its clients (--workers) and memory nodes, and check that
    /// what clients saw is linearizable
    #[arg(long, conflicts_with_all = ["damage", "pool", "size", "map", "keep", "plant"])]
    cluster: bool,
    /// Memory nodes of the cluster
    #[arg(long, value_name = "N", requires = "cluster", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=64))]
    nodes: u8,
    /// Copies that the cluster keeps of everything
    #[arg(long, value_name = "R", requires = "cluster", default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=8))]
    replicas: u8,
    /// Keep the pool and the journals
    #[arg(long)]
    keep: bool,
    /// Plant a fault, to see that it is found
    #[arg(long, hide = true, value_enum)]
    plant: Option<Plant>,
}

/// What came out.
#[derive(Debug, Serialize)]
struct Report {
    seed: u64,
    workers: u32,
    memory: &'static str,
    map: &'static str,
    seconds: f64,
    kills: u64,
    restarts: u64,
    stops: u64,
    recoveries: u64,
    acknowledged: u64,
    in_flight: u64,
    reads: u64,
    operations_per_second: f64,
    lost: usize,
    torn: usize,
    leaked_bytes: u64,
    problems: Vec<String>,
    max_survivor_stall_ms: f64,
    /// What the longest operation was, and how long it may have waited for a processor.
    max_survivor_stall: Stall,
    p50_us: f64,
    p999_us: f64,
    pool_bytes: u64,
    reachable_bytes: u64,
    faults: Vec<Fault>,
    kept: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Stall {
    operation: &'static str,
    waited_for_cpu_ms: f64,
    /// What the host of a virtual machine took from all its processors meanwhile, in steps of 10 ms.
    stolen_by_host_ms: f64,
    /// The longest of all when the time waited for a processor is not counted.
    max_without_waiting_for_cpu_ms: f64,
}

impl Report {
    fn is_clean(&self) -> bool {
        self.faults.is_empty() && self.leaked_bytes == 0 && self.problems.is_empty()
    }
}

/// Runs it.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    if !(args.kills_per_second > 0.0 && args.kills_per_second <= 1000.0) {
        return Err(Failure::misuse(
            "--kills-per-second is a number above 0, at most 1000",
        ));
    }
    let size = cenote::parse_size(&args.size)?;
    let seed = args.seed.unwrap_or_else(|| rand::random_range(0..1 << 32));
    let shm = Path::new("/dev/shm");
    let base = if shm.is_dir() {
        shm.to_owned()
    } else {
        std::env::temp_dir()
    };
    let folder = tempfile::Builder::new()
        .prefix("cenote-torture-")
        .tempdir_in(&base);
    let folder = folder.map_err(Failure::io(base.display()))?;
    if args.damage {
        return run_damage(&args, seed, folder.path(), out);
    }
    if args.cluster {
        return run_cluster(&args, seed, folder.path(), out);
    }
    let plan = Plan {
        pool: args.pool.clone().unwrap_or_else(|| folder.path().join("pool")),
        folder: folder.path().to_owned(),
        seed,
        workers: args.workers,
        memory: args.memory.kind(),
        map: args.map,
        plant: args.plant,
    };
    if !out.json {
        let kind = plan.memory.name();
        out.line(format!(
            "seed {seed}: {} workers with {} on {kind} memory, {} kills a second, {} seconds",
            plan.workers,
            plan.map.noun(),
            args.kills_per_second,
            args.seconds
        ))?;
    }
    let (doomed_folder, doomed_pool) = (plan.folder.clone(), plan.pool.clone());
    // Before the pool is ours, a file of that name is not.
    let is_ours = Arc::<LocalWord>::default();
    let theirs = is_ours.clone();
    crate::interrupt::on_interrupt(move || {
        if theirs.load() != 0 {
            let _ = std::fs::remove_file(doomed_pool);
        }
        let _ = std::fs::remove_dir_all(doomed_folder);
        complain!("cenote: interrupted; the pool and the journals are removed");
    });
    let options = cenote::Options {
        size,
        max: 4 << 30,
        ..cenote::Options::default()
    };
    crate::memory::create(plan.memory, &plan.pool, &options)?;
    is_ours.store(1);
    let created = Created {
        pool: plan.pool.clone(),
    };
    let mut report = torture(&args, &plan, out)?;
    if args.keep || !report.is_clean() {
        report.kept = Some(folder.keep());
        std::mem::forget(created);
    }
    out.result(&report, text)?;
    Ok(if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs it on a cluster.
fn run_cluster(args: &Args, seed: u64, folder: &Path, out: &Output) -> Result<ExitCode, Failure> {
    if args.memory.kind() != cenote::MemoryKind::Coherent {
        return Err(Failure::misuse(
            "a cluster's memory is that of its nodes: leave out --noncoherent and --delegated",
        ));
    }
    if args.nodes < args.replicas {
        return Err(Failure::misuse("--nodes must be --replicas or more"));
    }
    let settings = cluster::Settings {
        seed,
        clients: args.workers,
        nodes: args.nodes,
        replicas: args.replicas,
        time: Duration::from_secs(args.seconds),
        per_second: args.kills_per_second,
        folder: folder.to_owned(),
    };
    cluster::run(&settings, out)
}

/// Runs it with damage instead of kills.
fn run_damage(args: &Args, seed: u64, folder: &Path, out: &Output) -> Result<ExitCode, Failure> {
    let settings = damage::Settings {
        seed,
        workers: args.workers,
        time: Duration::from_secs(args.seconds),
        memory: args.memory.kind(),
        folder: folder.to_owned(),
    };
    if !out.json {
        out.line(format!(
            "seed {seed}: {} workers use pools of {} memory while their bytes change, {} seconds",
            settings.workers,
            settings.memory.name(),
            args.seconds
        ))?;
    }
    let doomed = folder.to_owned();
    crate::interrupt::on_interrupt(move || {
        let _ = std::fs::remove_dir_all(doomed);
        complain!("cenote: interrupted; the pools are removed");
    });
    damage::run(&settings, out)
}

/// The pool's file, removed in the end.
struct Created {
    pool: PathBuf,
}

impl Drop for Created {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.pool);
    }
}

fn torture(args: &Args, plan: &Plan, out: &Output) -> Result<Report, Failure> {
    let bar = if out.is_watched() {
        ProgressBar::new(args.seconds * 10)
    } else {
        ProgressBar::hidden()
    };
    let style = ProgressStyle::with_template("{bar:30.cyan/blue} {percent:>3}%  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut supervisor = Supervisor::new(plan, args.kills_per_second)?;
    let start = Instant::now();
    supervisor.run(Duration::from_secs(args.seconds), |counts| {
        let tenths = start.elapsed().as_millis() as u64 / 100;
        if tenths != bar.position() {
            bar.set_position(tenths);
            bar.set_message(format!("{} kills, {} restarts", counts.kills, counts.restarts));
        }
    })?;
    let seconds = start.elapsed().as_secs_f64();
    supervisor.finish()?;
    bar.finish_and_clear();
    let measures = supervisor.measures();
    let Verdict {
        faults,
        fsck,
        recoveries,
        acknowledged,
    } = match plan.memory {
        cenote::MemoryKind::Coherent => verdict::reach::<cenote::Coherent>(plan, measures.in_flight()),
        cenote::MemoryKind::Noncoherent => verdict::reach::<cenote::Noncoherent>(plan, measures.in_flight()),
        cenote::MemoryKind::Delegated => verdict::reach::<cenote::Delegated>(plan, measures.in_flight()),
    };
    let mut all = std::mem::take(&mut supervisor.faults);
    all.extend(faults);
    let fsck = fsck.unwrap_or_default();
    let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    let stall = milliseconds(measures.longest_running());
    if stall > MOST_STALL_MS {
        let mut fault = Fault::problem(format!(
            "an operation of a survivor was held up for {stall:.0} ms"
        ));
        fault.found_by = "the supervisor".to_owned();
        all.push(fault);
    }
    let of_kind = |kind| all.iter().filter(|fault| fault.kind == kind).count();
    let problems = all
        .iter()
        .filter(|fault| fault.kind == Kind::Problem)
        .map(|fault| fault.text.clone());
    Ok(Report {
        seed: plan.seed,
        workers: plan.workers,
        memory: plan.memory.name(),
        map: plan.map.name(),
        seconds,
        kills: supervisor.counts.kills,
        restarts: supervisor.counts.restarts,
        stops: supervisor.counts.stops,
        recoveries,
        acknowledged,
        in_flight: measures.in_flight(),
        reads: measures.reads(),
        operations_per_second: (acknowledged + measures.reads()) as f64 / seconds,
        lost: of_kind(Kind::Lost),
        torn: of_kind(Kind::Torn),
        leaked_bytes: fsck.leaked_bytes,
        problems: problems
            .chain(fsck.problems.iter().map(|problem| format!("fsck: {problem}")))
            .collect(),
        max_survivor_stall_ms: milliseconds(measures.longest()),
        max_survivor_stall: Stall {
            operation: measures.longest_kind(),
            waited_for_cpu_ms: milliseconds(measures.longest_waited()),
            stolen_by_host_ms: milliseconds(measures.longest_stolen()),
            max_without_waiting_for_cpu_ms: stall,
        },
        p50_us: measures.quantile(0.5) as f64 / 1e3,
        p999_us: measures.quantile(0.999) as f64 / 1e3,
        pool_bytes: fsck.committed_bytes,
        reachable_bytes: fsck.reachable_bytes,
        faults: all,
        kept: None,
    })
}

fn text(report: &Report) -> String {
    let mut lines = vec![
        format!(
            "{} kills, {} restarts and {} stops in {:.0} s; {} dead processes recovered, {} operations in flight",
            report.kills, report.restarts, report.stops, report.seconds, report.recoveries, report.in_flight
        ),
        format!(
            "{} acknowledged writes and {} checked reads, {} a second",
            count(report.acknowledged),
            count(report.reads),
            count(report.operations_per_second as u64)
        ),
        format!(
            "the pool grew to {}, {} in use",
            bytes(report.pool_bytes),
            bytes(report.reachable_bytes)
        ),
        format!(
            "operations: half within {:.1} us, 99.9 % within {:.1} us",
            report.p50_us, report.p999_us
        ),
        format!(
            "longest of a survivor: {:.1} ms, a {} ({:.1} ms of it without a processor, {:.0} ms stolen by the host; without such waits {:.1} ms)",
            report.max_survivor_stall_ms,
            report.max_survivor_stall.operation,
            report.max_survivor_stall.waited_for_cpu_ms,
            report.max_survivor_stall.stolen_by_host_ms,
            report.max_survivor_stall.max_without_waiting_for_cpu_ms
        ),
        format!(
            "lost {}, torn {}, leaked {}, problems {}",
            report.lost,
            report.torn,
            bytes(report.leaked_bytes),
            report.problems.len()
        ),
    ];
    if report.max_survivor_stall_ms > WARN_STALL_MS {
        lines.push(format!(
            "warning: a survivor was held up for more than {WARN_STALL_MS} ms"
        ));
    }
    for fault in report.faults.iter().take(10) {
        lines.push(format!("{:?} ({}): {}", fault.kind, fault.found_by, fault.text));
    }
    for problem in report
        .problems
        .iter()
        .filter(|text| text.starts_with("fsck"))
        .take(10)
    {
        lines.push(problem.clone());
    }
    if let Some(kept) = &report.kept {
        lines.push(format!("pool and journals are kept in {}", kept.display()));
    }
    if !report.is_clean() {
        let kind = match report.memory {
            "coherent" => String::new(),
            other => format!(" --{other}"),
        };
        lines.push(format!(
            "FAILED; again: cenote torture --workers {} --seconds {:.0} --seed {} --map {}{kind}",
            report.workers,
            report.seconds.ceil(),
            report.seed,
            report.map
        ));
    }
    lines.join("\n")
}

/// Runs one of its worker processes.
pub fn worker(args: Vec<String>) -> Result<ExitCode, Failure> {
    let orders = args.first().and_then(|text| serde_json::from_str(text).ok());
    let orders =
        orders.ok_or_else(|| Failure::misuse("a torture worker is started by `cenote torture` alone"))?;
    Ok(if worker::run(orders) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
