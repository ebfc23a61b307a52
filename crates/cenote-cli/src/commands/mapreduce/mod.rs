//! `cenote mapreduce`: word count, k-means, matrices, histograms, option prices and a deduplicating archive, by workers
//! that may be killed at any instruction.
//!
//! | file | |
//! |---|---|
//! | `mapreduce` | the command line |
//! | `engine` | a job done by processes, by threads, or alone |

pub mod engine;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use cenote::{Options, parse_size};
use cenote_mapreduce::{Spec, Workload, generate, undedup};
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;
use crate::memory::MemoryArgs;
use crate::output::{Output, bytes, count};
use crate::place::Place;
use crate::whole_file::Target;

use engine::{Form, Order};

pub use engine::worker;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// How often each word occurs in a text
    Wordcount(Run),
    /// Points in clusters, by Lloyd's iterations
    Kmeans(Run),
    /// The product of two matrices
    Matrix(Run),
    /// How often each value of each colour occurs in a BMP or PPM image; of any other file, each byte
    Histogram(Run),
    /// Prices of European options, by the formula of Black and Scholes
    Blackscholes(Run),
    /// An archive in which no content is twice
    Dedup(Run),
    /// Unpack an archive that dedup has made, and verify all of it
    Undedup {
        /// The archive
        archive: PathBuf,
        /// The file to unpack it to; `-` is standard output
        output: PathBuf,
    },
    /// Make an input for a workload
    Generate(Generate),
}

#[derive(clap::Args)]
struct Run {
    /// The input; docs/mapreduce.md has the formats
    input: PathBuf,
    /// Write the result to a file; `-` is standard output, where nothing else is printed then
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    workers: u32,
    /// Workers are threads of this process
    #[arg(long, conflicts_with = "crashes")]
    threads: bool,
    /// One thread, and no pool
    #[arg(long, conflicts_with_all = ["threads", "crashes", "pool", "workers"])]
    alone: bool,
    /// A pool that exists, to work in; default: one in /dev/shm that is removed in the end
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// The job's name in the pool; the name of an unfinished job goes on with that job
    #[arg(long, value_name = "NAME", default_value = "mapreduce", requires = "pool")]
    name: String,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Kill so many workers, evenly spaced, each right before it commits a result
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1000))]
    crashes: u64,
    /// How long a task takes, about; measured on the first one (not for dedup, whose tasks are blocks of 1 MiB)
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    task_ms: u64,
    /// How much of the input a task is, instead: bytes, points, rows or blocks
    #[arg(long, value_name = "N", conflicts_with = "task_ms")]
    grain: Option<u64>,
    /// Clusters of kmeans
    #[arg(long, value_name = "N", default_value_t = 16)]
    clusters: u32,
    /// Iterations of kmeans at most
    #[arg(long, value_name = "N", default_value_t = 10)]
    iterations: u32,
    /// How often blackscholes prices each option
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: u32,
    /// Show progress even if no person seems to watch
    #[arg(long)]
    progress: bool,
}

#[derive(clap::Args)]
struct Generate {
    /// For which workload
    #[arg(value_parser = workload)]
    workload: Workload,
    /// The file to write; `-` is standard output
    output: PathBuf,
    /// About how large
    #[arg(long, default_value = "16MiB")]
    size: String,
    /// What it is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn workload(name: &str) -> Result<Workload, String> {
    let found = Workload::ALL.into_iter().find(|workload| workload.name() == name);
    let names = Workload::ALL.map(Workload::name).join(", ");
    found.ok_or_else(|| format!("workloads are {names}"))
}

/// What came out.
#[derive(Serialize)]
struct Summary {
    workload: &'static str,
    input: PathBuf,
    form: &'static str,
    workers: u32,
    tasks: u64,
    /// From the start of the workers to the last result.
    seconds: f64,
    restarts: u32,
    output_bytes: u64,
    /// CRC-32C of the output: the same for the same input, however it was done.
    checksum: String,
    output: Option<PathBuf>,
}

/// Does a job, or makes an input for one.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let (workload, run) = match args.what {
        What::Wordcount(run) => (Workload::Wordcount, run),
        What::Kmeans(run) => (Workload::Kmeans, run),
        What::Matrix(run) => (Workload::Matrix, run),
        What::Histogram(run) => (Workload::Histogram, run),
        What::Blackscholes(run) => (Workload::Blackscholes, run),
        What::Dedup(run) => (Workload::Dedup, run),
        What::Undedup { archive, output } => {
            let target = Target::at(&output)?.not_over(&archive, "the archive that is read")?;
            let is_quiet = target.is_stdout();
            let len = target.write_and_read(|file| Ok(undedup(&archive, file)?))?;
            if is_quiet {
                return Ok(ExitCode::SUCCESS);
            }
            out.result(&serde_json::json!({ "bytes": len, "output": output }), |_| {
                format!("{} unpacked to {} and verified", bytes(len), output.display())
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        What::Generate(generate) => return make_input(&generate, out),
    };
    do_job(workload, run, out)
}

fn make_input(args: &Generate, out: &Output) -> Result<ExitCode, Failure> {
    let path = &args.output;
    let size = parse_size(&args.size)?;
    let target = Target::at(path)?;
    let is_quiet = target.is_stdout();
    let len = target.write(|to| {
        let mut writer = Summed { to, len: 0, sum: 0 };
        generate(args.workload, size, args.seed, &mut writer)?;
        Ok(writer.len)
    })?;
    if is_quiet {
        return Ok(ExitCode::SUCCESS);
    }
    out.result(
        &serde_json::json!({ "bytes": len, "output": path.to_string_lossy() }),
        |_| {
            format!(
                "{} for {} in {}",
                bytes(len),
                args.workload.name(),
                path.display()
            )
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

fn do_job(workload: Workload, run: Run, out: &Output) -> Result<ExitCode, Failure> {
    let mut spec = Spec {
        clusters: run.clusters,
        iterations: run.iterations,
        rounds: run.rounds,
        ..Spec::new(workload, run.input.clone())
    };
    let target = run
        .output
        .as_deref()
        .map(|output| Target::at(output)?.not_over(&run.input, "the input"))
        .transpose()?;
    let is_quiet = target.as_ref().is_some_and(Target::is_stdout);
    let options = Options::default();
    let place = match (&run.pool, run.alone) {
        (_, true) => None,
        (Some(name), _) => Some(Place::named(name)),
        (None, _) => Some(Place::temporary(
            "cenote-mapreduce-",
            run.memory.kind(),
            &options,
        )?),
    };
    spec.grain = match run.grain {
        Some(grain) => grain,
        None => engine::grain_for(&spec, run.task_ms)?,
    };
    let form = match (run.alone, run.threads) {
        (true, _) => Form::Alone,
        (_, true) => Form::Threads,
        _ => Form::Processes,
    };
    let order = Order {
        spec,
        form,
        workers: if run.alone { 1 } else { run.workers },
        pool: place.as_ref().map(|place| place.path().to_owned()),
        name: run.name,
        crashes: run.crashes,
    };
    let bar = bar(workload.name(), run.progress || out.is_watched());
    let progress = |done, of| {
        bar.set_length(of);
        bar.set_position(done);
    };
    let carry_out = |to: &mut dyn Write| {
        let mut output = Summed { to, len: 0, sum: 0 };
        let done = engine::carry_out(&order, &mut output, &progress)?;
        Ok((done, output.len, output.sum))
    };
    let (done, output_bytes, checksum) = match target {
        Some(target) => target.write(carry_out)?,
        None => carry_out(&mut std::io::sink())?,
    };
    bar.finish_and_clear();
    if is_quiet {
        return Ok(ExitCode::SUCCESS);
    }
    let summary = Summary {
        workload: workload.name(),
        input: run.input,
        form: form.name(),
        workers: order.workers,
        tasks: done.tasks,
        seconds: done.seconds,
        restarts: done.restarts,
        output_bytes,
        checksum: format!("{checksum:08x}"),
        output: run.output,
    };
    out.result(&summary, text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(summary: &Summary) -> String {
    let written = match &summary.output {
        Some(path) => format!("in {}", path.display()),
        None => "written nowhere (--output FILE)".to_owned(),
    };
    format!(
        "{}: {} tasks by {} {} in {:.2} s, {} restarts\n{}, CRC-32C {}, {written}",
        summary.workload,
        count(summary.tasks),
        summary.workers,
        summary.form,
        summary.seconds,
        summary.restarts,
        bytes(summary.output_bytes),
        summary.checksum,
    )
}

fn bar(name: &'static str, is_shown: bool) -> ProgressBar {
    if !is_shown {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(1).with_message(name);
    match ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len} tasks, {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// An output that is counted and summed up on its way.
struct Summed<'w> {
    to: &'w mut dyn Write,
    len: u64,
    sum: u32,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.len += written as u64;
        self.sum = crc32c::crc32c_append(self.sum, &bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}
