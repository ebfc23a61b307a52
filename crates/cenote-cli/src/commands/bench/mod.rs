//! `cenote bench`: runs the YCSB workloads by threads and processes, on a temporary pool or on a given one.

mod cluster;
mod heat;
mod near;
pub mod plan;
mod report;
mod share;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, ExitCode, Stdio};

use cenote::{MemoryKind, Options, kind_of};
use cenote_ycsb::Workload;
use serde::{Deserialize, Serialize};

use self::plan::{Form, Measured, Plan, ValueSize};
pub use self::share::{SAMPLE, histogram};
use crate::collection::CollectionKind;
use crate::failure::Failure;
use crate::memory::MemoryArgs;
use crate::output::Output;
use crate::place::Place;
use crate::pool::{PoolArg, TokenArg};
use crate::role::Role;
use crate::threads::not_started;

/// Operations of a batch, at most.
const BATCH_MAX: u64 = 4 << 20;

/// Arguments.
///
/// The records are loaded first; that is the workload `load`. Workload E scans; on a map that has no order it reads the
/// next pairs of a walk of the whole map. Workload F replaces a value only if it is still the one that was read.
#[derive(clap::Args)]
pub struct Args {
    /// The pool; its map is left with the records in it [default: a pool in /dev/shm that is removed at the end]
    pool: Option<String>,
    /// The kind of the map
    #[arg(long, value_enum, default_value_t = BenchMap::Hash)]
    map: BenchMap,
    /// The map's name
    #[arg(long, default_value = "bench")]
    name: String,
    /// A to F, load, or all
    #[arg(long, default_value = "all", value_parser = workloads)]
    workload: Workloads,
    /// Records to load, as in 500k or 2M
    #[arg(long, value_name = "N", default_value = "1M", value_parser = number)]
    records: u64,
    /// Operations of all threads together [default: as many as records]
    #[arg(long, value_name = "N", value_parser = number)]
    ops: Option<u64>,
    /// Bytes of values: 8, 1KiB, or from and to as in 8-100
    #[arg(long, value_name = "SIZE", default_value = "8")]
    value_size: ValueSize,
    /// Threads of each process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=512))]
    threads: u64,
    /// Processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    processes: u64,
    /// Keys that are looked up in one call, so that their cache misses overlap; operations of a batch, with --map near
    /// [default: 1, and there 65536]
    #[arg(long, value_name = "N", value_parser = batch)]
    batch: Option<u64>,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Which of the paper's guidelines to follow
    #[arg(long, value_enum, default_value_t = Form::P3)]
    guidelines: Form,
    /// Count operations on memory, which makes everything slower
    #[arg(long)]
    count: bool,
    /// Everything random is drawn from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    token: TokenArg,
    #[command(flatten)]
    near: near::NearArgs,
}

/// A kind of map that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BenchMap {
    /// Hash maps
    Hash,
    /// Ordered maps
    Ordered,
    /// Object stores: a read views an object where it is, a write makes and seals one
    Objects,
    /// Near-memory maps: batches are executed by modules, which this process has for the benchmark alone
    Near,
}

impl Args {
    /// The kind of a map in a pool or a cluster.
    fn kind_of_map(&self) -> Result<CollectionKind, Failure> {
        if self.near.is_given() {
            return Err(Failure::misuse(
                "--modules, --nodes, --simulated, --alpha and --static go with --map near",
            ));
        }
        match self.map {
            BenchMap::Hash => Ok(CollectionKind::Hash),
            BenchMap::Ordered => Ok(CollectionKind::Ordered),
            BenchMap::Objects => Ok(CollectionKind::Objects),
            BenchMap::Near => Err(Failure::misuse("a near-memory map is in no pool and no cluster")),
        }
    }

    fn batch(&self) -> usize {
        self.batch.unwrap_or(1) as usize
    }
}

/// What is run after the load; a type of its own, because clap takes a `Vec` for a repeated option.
#[derive(Clone, Debug)]
struct Workloads(Vec<Workload>);

fn workloads(text: &str) -> Result<Workloads, String> {
    use Workload::{A, B, C, D, E, F};
    Ok(Workloads(match text.to_ascii_lowercase().as_str() {
        // Those that insert come last, as YCSB recommends.
        "all" => vec![A, B, C, F, D, E],
        "load" => Vec::new(),
        _ => vec![text.parse().map_err(|error| format!("{error}; or all"))?],
    }))
}

/// A number such as `1000`, `500k`, `2M` or `1G`; at least 1.
pub fn number(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        _ => return Err("numbers end in k, M or G, if in anything".to_owned()),
    };
    let number = digits
        .replace('_', "")
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor));
    number
        .filter(|number| (1..=1 << 40).contains(number))
        .ok_or("a whole number from 1 to 2^40 is wanted".to_owned())
}

/// Operations of a batch.
fn batch(text: &str) -> Result<u64, String> {
    match number(text)? {
        number @ ..=BATCH_MAX => Ok(number),
        _ => Err(format!("at most {BATCH_MAX}")),
    }
}

fn place(args: &Args) -> Result<Place, Failure> {
    if let Some(name) = &args.pool {
        if args.memory.kind() != MemoryKind::Coherent {
            return Err(Failure::misuse(
                "a pool has the kind of memory that it was created with; leave out --noncoherent and --delegated",
            ));
        }
        return Ok(Place::named(name));
    }
    let options = Options {
        size: 64 << 20,
        processes: (args.processes + 8).max(128) as u32,
        workers: (args.processes * (args.threads + 2) + 8).max(256) as u32,
        ..Options::default()
    };
    Place::temporary("cenote-bench-", args.memory.kind(), &options)
}

/// Measures.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    if args.map == BenchMap::Near {
        return near::run(&args, out);
    }
    let map = args.kind_of_map()?;
    let named = args.pool.clone().map(|pool| PoolArg { pool });
    if let Some(cluster) = named.and_then(|pool| pool.cluster(&args.token)) {
        return cluster::run(&cluster, args, out);
    }
    let mut workloads = args.workload.0.clone();
    if map == CollectionKind::Objects {
        if workloads == [Workload::E] {
            return Err(Failure::misuse(
                "workload E scans, and objects are listed by prefix alone: add --map ordered",
            ));
        }
        workloads.retain(|workload| *workload != Workload::E);
    }
    let place = place(&args)?;
    let kind = kind_of(place.path())?.name();
    let mut plan = Plan {
        pool: place.path().to_owned(),
        map,
        batch: args.batch(),
        name: args.name,
        workload: String::new(),
        records: args.records,
        operations: args.ops.unwrap_or(args.records),
        value_size: args.value_size,
        form: args.guidelines,
        count: args.count,
        seed: args.seed,
        threads: args.threads,
        first_worker: 0,
        workers: args.threads * args.processes,
    };
    for (n, workload) in [Workload::Load].into_iter().chain(workloads).enumerate() {
        plan.workload = workload.name().to_owned();
        let measured = if args.processes == 1 {
            share::run(&plan, || ())?
        } else {
            by_processes(&plan, args.processes)?
        };
        let report = report::report(&plan, kind, args.processes, &measured)?;
        if n == 0 && !out.json {
            out.line(report.head())?;
        }
        out.result(&report, report::Report::text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A worker process. Its standard input stays open while it shall run; when this is dropped, it ends.
struct Worker {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    fn start(plan: &Plan) -> Result<Self, Failure> {
        let plan = serde_json::to_string(plan).map_err(|error| Failure::failed(error.to_string()))?;
        let mut command = Role::Bench.command([plan]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::io("starting a worker process"))?;
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| Failure::failed("a worker process has no standard output"))?;
        Ok(Self {
            child,
            stdout: BufReader::new(stdout),
        })
    }

    /// The next line that it prints.
    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.stdout
            .read_line(&mut line)
            .map_err(Failure::io("reading from a worker process"))?;
        if let Ok(Complaint { error }) = serde_json::from_str(&line) {
            return Err(Failure::Failed(error));
        }
        if line.ends_with('\n') {
            return Ok(line);
        }
        let status = self
            .child
            .wait()
            .map_err(Failure::io("waiting for a worker process"))?;
        Err(Failure::failed(format!(
            "a worker process ended too early, with {status}"
        )))
    }
}

fn by_processes(plan: &Plan, processes: u64) -> Result<Measured, Failure> {
    let mut workers = Vec::new();
    for process in 0..processes {
        workers.push(Worker::start(&Plan {
            first_worker: process * plan.threads,
            ..plan.clone()
        })?);
    }
    for worker in &mut workers {
        worker.line()?;
    }
    for worker in &mut workers {
        if let Some(stdin) = &mut worker.child.stdin {
            stdin
                .write_all(b"go\n")
                .map_err(Failure::io("starting the worker processes"))?;
        }
    }
    let mut all = Measured::default();
    for worker in &mut workers {
        let line = worker.line()?;
        all.add(serde_json::from_str(&line).map_err(|error| {
            Failure::failed(format!(
                "a worker process answered something else than figures: {error}"
            ))
        })?);
    }
    Ok(all)
}

/// What a worker process prints instead of anything else if something is wrong.
#[derive(Serialize, Deserialize)]
struct Complaint {
    error: String,
}

/// A worker process: prints `ready`, waits for `go`, runs its share and prints what it measured.
pub fn worker(args: Vec<String>) -> Result<ExitCode, Failure> {
    let [plan] = &args[..] else {
        return Err(Failure::misuse("a bench worker is told one plan"));
    };
    let plan: Plan = serde_json::from_str(plan).map_err(|error| Failure::misuse(error.to_string()))?;
    let out = Output::new(true);
    let mut unwatched = None;
    let measured = share::run(&plan, || {
        let told = out.line("ready");
        if told.is_err() || !matches!(std::io::stdin().read_line(&mut String::new()), Ok(1..)) {
            std::process::exit(1);
        }
        // The parent's end of the pipe closes when it is gone; then the figures are not wanted.
        let watch = || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(1);
        };
        let watching = std::thread::Builder::new().name("parent".to_owned()).spawn(watch);
        unwatched = watching.err().map(|error| not_started("parent", &error));
    });
    let measured = match unwatched {
        Some(failure) => Err(failure),
        None => measured,
    };
    match measured {
        Ok(measured) => out.json_line(&measured)?,
        Err(failure) => out.json_line(&Complaint {
            error: failure.to_string(),
        })?,
    }
    Ok(ExitCode::SUCCESS)
}
