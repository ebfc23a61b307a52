//! Does a job: by supervised processes, by threads of this process, or alone.
//!
//! The process that the user started makes the pool's task list, starts the workers, and in the end makes the output
//! from the results. It does no task. A worker that is killed is started again with the same number; a worker that
//! fails by itself ends the job, as it would fail again.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use cenote::memory::Mapped;
use cenote::store::supervise::{End, Event, Policy, Start, Supervisor};
use cenote::{Options, Pool};
use cenote_mapreduce::{Alone, Job, Joined, Spec, Workload, join, list_of, open, places};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::pool::on_pool;
use crate::role::Role;
use crate::threads::start_all;

/// How long the supervisor waits between two polls of progress.
const POLL: Duration = Duration::from_millis(50);

/// How a job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By processes.
    Processes,
    /// By threads of this process.
    Threads,
    /// By this thread, without a pool.
    Alone,
}

impl Form {
    /// Its name, in a sentence about several.
    pub fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Threads => "threads",
            Self::Alone => "thread alone",
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Order {
    /// The job.
    pub spec: Spec,
    /// How.
    pub form: Form,
    /// By how many.
    pub workers: u32,
    /// In which pool; none for [`Form::Alone`].
    pub pool: Option<PathBuf>,
    /// The job's name there.
    pub name: String,
    /// How many workers shall die.
    pub crashes: u64,
}

/// What was done.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Tasks.
    pub tasks: u64,
    /// From the start of the workers to the last result.
    pub seconds: f64,
    /// Workers started again.
    pub restarts: u32,
}

/// What a worker process gets as its argument.
#[derive(Serialize, Deserialize)]
struct WorkerOrder {
    spec: Spec,
    pool: PathBuf,
    name: String,
    crashes: u64,
}

/// Is called with how many tasks are done, of how many.
pub type Progress<'p> = &'p dyn Fn(u64, u64);

/// Does a job, and writes its output.
pub fn carry_out(order: &Order, output: &mut dyn Write, progress: Progress<'_>) -> Result<Done, Failure> {
    let job = open(&order.spec)?;
    match &order.pool {
        None => alone(&*job, output, progress),
        Some(path) => on_pool!(path, &Options::default(), |pool| {
            in_pool(&pool, order, &*job, output, progress)
        }),
    }
}

/// How much of the input a task should be to take about so long: measured on one task. A block that is to be
/// deduplicated takes longer than that as it is.
pub fn grain_for(spec: &Spec, task_ms: u64) -> Result<u64, Failure> {
    if spec.workload == Workload::Dedup {
        return Ok(spec.grain);
    }
    let job = open(spec)?;
    let data = Alone::new(&*job);
    // The first of all reads the file into the page cache, and what a job keeps; others may be disturbed.
    let mut took = f64::MAX;
    for _ in 0..4 {
        let begun = Instant::now();
        data.run(&*job, 0, 0)?;
        took = took.min(begun.elapsed().as_secs_f64().max(1e-6));
    }
    Ok(((spec.grain as f64 * task_ms as f64 / 1e3 / took) as u64).max(1))
}

fn alone(job: &dyn Job, output: &mut dyn Write, progress: Progress<'_>) -> Result<Done, Failure> {
    let begun = Instant::now();
    let (data, phases) = (Alone::new(job), job.phases());
    let tasks = phases.iter().sum();
    for (done, (phase, task)) in (0..).zip(places(&phases)) {
        progress(done, tasks);
        data.run(job, phase, task)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    job.finish(&data, output)?;
    Ok(Done {
        tasks,
        seconds,
        restarts: 0,
    })
}

fn in_pool<M: Mapped>(
    pool: &Pool<M>,
    order: &Order,
    job: &dyn Job,
    output: &mut dyn Write,
    progress: Progress<'_>,
) -> Result<Done, Failure> {
    let tasks = list_of(pool, &order.name, job)?;
    let begun = Instant::now();
    let restarts = match order.form {
        Form::Threads => {
            by_threads(pool, order, job)?;
            0
        }
        Form::Processes | Form::Alone => by_processes(order, &|| progress(tasks.committed(), tasks.len()))?,
    };
    let seconds = begun.elapsed().as_secs_f64();
    if !tasks.is_done()? {
        return Err(Failure::failed(format!(
            "the workers have ended, and {} of {} tasks are done",
            tasks.committed(),
            tasks.len()
        )));
    }
    job.finish(&Joined::new(pool, &order.name, job)?, output)?;
    Ok(Done {
        tasks: tasks.len(),
        seconds,
        restarts,
    })
}

fn by_threads<M: Mapped>(pool: &Pool<M>, order: &Order, job: &dyn Job) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let work = || join(pool, &order.name, job, 0).map_err(Failure::from);
        for thread in start_all(scope, "worker", (0..order.workers).map(|_| work))? {
            thread
                .join()
                .map_err(|_| Failure::failed("a worker thread panicked"))??;
        }
        Ok(())
    })
}

/// Starts workers, and those again that are killed, until all have ended. How often one was started again.
fn by_processes(order: &Order, progress: &dyn Fn()) -> Result<u32, Failure> {
    let pool = order.pool.clone().unwrap_or_default();
    let told = WorkerOrder {
        spec: order.spec.clone(),
        pool,
        name: order.name.clone(),
        crashes: order.crashes,
    };
    let told = serde_json::to_string(&told).map_err(|error| Failure::failed(error.to_string()))?;
    let policy = Policy {
        restarts_max: order.crashes as u32 + 100,
        wait_first: Duration::from_millis(1),
        wait_most: Duration::from_millis(4),
        ..Policy::default()
    };
    let log = tempfile::tempfile().map_err(Failure::io("a file for what workers say"))?;
    let command = |_: &Start| {
        let mut command = Role::Mapreduce.command([told.clone()]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        match log.try_clone() {
            Ok(log) => command.stderr(log),
            // Then it is told that one failed, and not why.
            Err(_) => command.stderr(Stdio::null()),
        };
        command
    };
    let mut supervisor = Supervisor::new(order.workers, 1, policy, command);
    while !supervisor.is_over() {
        for event in supervisor.poll(POLL) {
            if let Event::Ended {
                worker,
                end: end @ (End::Code(1..) | End::NotStarted(_)),
                ..
            } = event
            {
                return Err(Failure::failed(format!("worker {worker} {end}{}", said(&log))));
            }
        }
        progress();
    }
    Ok(supervisor.fates().iter().map(|fate| fate.restarts).sum())
}

/// The first thing that a worker has said, if there is one.
fn said(mut log: &File) -> String {
    let mut text = String::new();
    let read = log.rewind().and_then(|()| log.read_to_string(&mut text));
    let first = text.lines().next().filter(|_| read.is_ok());
    first.map_or(String::new(), |line| {
        format!(": {}", line.trim_start_matches("cenote: "))
    })
}

/// A worker process's part.
pub fn worker(args: Vec<String>) -> Result<ExitCode, Failure> {
    let told: WorkerOrder = match &args[..] {
        [order] => serde_json::from_str(order).map_err(|error| Failure::misuse(error.to_string()))?,
        _ => return Err(Failure::misuse("a worker is told one thing")),
    };
    let job = open(&told.spec)?;
    on_pool!(&told.pool, &Options::default(), |pool| join(
        &pool,
        &told.name,
        &*job,
        told.crashes
    )?);
    Ok(ExitCode::SUCCESS)
}
