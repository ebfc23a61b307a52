//! `cenote replay`: replays a trace of a cache against a map, and verifies every value that it reads.
//!
//! Requests are read and dealt to threads a few million at a time, then replayed; the clock stands still while the next
//! ones are read. A key belongs to one thread, so that its requests keep their order.

mod batch;
mod content;
mod report;
mod thread;

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use cenote::memory::Memory;
use cenote::{MemoryKind, Options, Pool, kind_of};
use cenote_ycsb::trace::{Action, Record};

use self::batch::{Batch, Deal};
use self::report::{Frame, Report};
use self::thread::{Outcome, Tally, Task};
use super::bench::histogram;
use crate::failure::Failure;
use crate::map::{AnyMap, MapKind};
use crate::output::Output;
use crate::place::Place;
use crate::pool::on_pool;
use crate::recorded::{Trace, TraceArg};
use crate::threads::start_all;

/// The kind of memory that a temporary pool is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MemoryArg {
    /// Memory whose sharers' caches are kept coherent
    Coherent,
    /// Memory whose sharers' caches are not
    Noncoherent,
    /// The same, and one process executes the atomic exchanges of all
    Delegated,
}

/// Arguments.
///
/// Nothing is loaded first: a get of a key that was not written yet is a miss. Keys and values have the recorded sizes
/// and made-up content; what a get reads must be a value that was written for its key, or the replay fails.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    trace: TraceArg,
    /// The kind of the map
    #[arg(long, value_enum, default_value_t = MapKind::Hash)]
    map: MapKind,
    /// The map's name
    #[arg(long, default_value = "replay")]
    name: String,
    /// Threads; each has its share of the keys
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=512))]
    threads: u64,
    /// The pool; its map is left with the pairs in it [default: a pool in /dev/shm that is removed at the end]
    #[arg(long)]
    pool: Option<String>,
    /// What the temporary pool is made for [default: coherent]
    #[arg(long, value_enum, conflicts_with = "pool")]
    memory: Option<MemoryArg>,
    /// The most that the temporary pool may grow to [default: 1TiB; what /dev/shm holds]
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "pool")]
    max: Option<u64>,
    /// Set a key of the recorded value size after each miss, as users of a look-aside cache do. A full pool ends that,
    /// not the replay
    #[arg(long)]
    fill: bool,
    /// Cut values to so many bytes
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = value_max)]
    value_max: u32,
}

fn size(text: &str) -> Result<u64, String> {
    cenote::parse_size(text).map_err(|error| error.to_string())
}

fn value_max(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?)
        .ok()
        .filter(|&size| size <= 1 << 30)
        .ok_or("values here have at most 1GiB".to_owned())
}

/// Replays.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    // What is wrong with the trace's name or format should not make a pool.
    let mut trace = args.trace.open()?;
    let mut place = match &args.pool {
        Some(name) => Place::named(name),
        None => {
            let defaults = Options::default();
            let max = args.max.unwrap_or(defaults.max);
            let options = Options {
                size: max.min(64 << 20),
                workers: (args.threads + 10).max(256) as u32,
                max,
                ..defaults
            };
            let kind = match args.memory {
                None | Some(MemoryArg::Coherent) => MemoryKind::Coherent,
                Some(MemoryArg::Noncoherent) => MemoryKind::Noncoherent,
                Some(MemoryArg::Delegated) => MemoryKind::Delegated,
            };
            Place::temporary("cenote-replay-", kind, &options)?
        }
    };
    let path = place.path().to_owned();
    let memory = kind_of(&path)?.name();
    trace.watch(out);
    let report = on_pool!(&path, &Options::default(), |pool| {
        place.unlink();
        replay(&pool, &args, memory, trace, out)?
    });
    out.result(&report, Report::text)?;
    Ok(ExitCode::SUCCESS)
}

fn replay<M: Memory>(
    pool: &Pool<M>,
    args: &Args,
    memory: &'static str,
    mut trace: Trace,
    out: &Output,
) -> Result<Report, Failure> {
    let task = Task {
        name: args.name.clone(),
        kind: args.map,
        fill: args.fill,
    };
    let mut deal = Deal::new(args.threads as usize, args.value_max);
    let replayed = by_threads(pool, &task, args.threads, |lanes| {
        feed(&mut trace, &mut deal, lanes, out)
    });
    trace.progress().finish_and_clear();
    let (seconds, outcomes) = replayed?;
    let mut tally = Tally::default();
    let mut times = Action::ALL
        .iter()
        .map(|_| histogram())
        .collect::<Result<Vec<_>, _>>()?;
    for outcome in outcomes {
        tally.add(&outcome.tally);
        for (all, own) in times.iter_mut().zip(&outcome.times) {
            all.add(own)
                .map_err(|error| Failure::failed(format!("the latencies do not add up: {error}")))?;
        }
    }
    let map = AnyMap::existing(pool, &args.name)?;
    let frame = Frame {
        file: args.trace.name(),
        format: args.trace.format()?.name(),
        map: match map {
            AnyMap::Hash(_) => MapKind::Hash,
            AnyMap::Ordered(_) => MapKind::Ordered,
        },
        memory,
        threads: args.threads,
        seconds: seconds.as_secs_f64(),
        cut_values: deal.cut,
        bad_records: trace.bad(),
        keys: map.len(),
    };
    Ok(Report::new(frame, &tally, &times))
}

/// A thread from outside.
struct Lane {
    work: Sender<Batch>,
    done: Receiver<Batch>,
}

/// Starts threads, waits until they are ready, has them fed, and waits for them to end. A thread's failure counts more
/// than that of the feeding, which ends when a thread does.
fn by_threads<M: Memory, T>(
    pool: &Pool<M>,
    task: &Task,
    threads: u64,
    feed: impl FnOnce(&[Lane]) -> Result<T, Failure>,
) -> Result<(T, Vec<Outcome>), Failure> {
    std::thread::scope(|scope| {
        let (lanes, works): (Vec<_>, Vec<_>) = (0..threads)
            .map(|_| {
                let (work, batches) = channel();
                let (finished, done) = channel();
                let run = move || thread::run(pool, task, batches, finished);
                (Lane { work, done }, run)
            })
            .unzip();
        let threads = start_all(scope, "replay", works)?;
        let fed = match lanes.iter().try_for_each(|lane| lane.done.recv().map(|_| ())) {
            Ok(()) => feed(&lanes),
            Err(_) => Err(gone()),
        };
        // Threads end when no more batches can come.
        drop(lanes);
        let mut outcomes = Vec::new();
        let mut failure = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(outcome)) => outcomes.push(outcome),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => failure = Some(Failure::failed("a thread of the replay panicked")),
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None => fed.map(|fed| (fed, outcomes)),
        }
    })
}

fn gone() -> Failure {
    Failure::failed("a thread of the replay ended too early")
}

/// Reads the trace and has it replayed; how long the replaying took.
fn feed(trace: &mut Trace, deal: &mut Deal, lanes: &[Lane], out: &Output) -> Result<Duration, Failure> {
    let mut record = Record::default();
    let mut running = Duration::ZERO;
    let mut more = true;
    while more {
        while !deal.is_full() {
            more = trace.next(&mut record, out)?;
            if !more {
                break;
            }
            if let Err(why) = deal.add(&record, trace.read()) {
                trace.refuse(&why, out)?;
            }
        }
        let batches = deal.batches();
        let begin = Instant::now();
        for (lane, batch) in lanes.iter().zip(batches.iter_mut()) {
            lane.work.send(std::mem::take(batch)).map_err(|_| gone())?;
        }
        for (lane, batch) in lanes.iter().zip(batches) {
            *batch = lane.done.recv().map_err(|_| gone())?;
        }
        running += begin.elapsed();
        trace.progress().set_position(trace.read());
    }
    Ok(running)
}
