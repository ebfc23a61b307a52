//! The `host-detection` command: how soon a host that has failed is known, fenced and recovered, and whether one that
//! lives is ever taken for failed.
//!
//! Hosts are processes of this machine: an agent and a worker that writes without pause. Each round starts a host, lets
//! it work, and kills it (all its processes at once) or stops it; another process, which is a host of its own, reads
//! the host's state in the pool again and again and notes when it is suspected, when its generation has moved, and when
//! nothing of it is left in the process table. Times are from just before the first signal. A monitor fences by
//! killing.
//!
//! With `--soak` nobody fails: hosts work, and as many threads as there are processors, or as asked for, compute. What
//! is reported is how often a host was suspected, and the longest silence of each that the observer saw.
//!
//! The parts are this program with a hidden subcommand; each ends when its standard input does.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use cenote::hosts::{Event, MonitorHandler};
use cenote::memory::Memory;
use cenote::pod::format::host_entry::{HostPhase, HostRecord};
use cenote::{Coherent, HostAgent, MonitorOptions, Pool};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::subjects::{Failure, check, temporary};
use crate::table::{Output, Style, median, table};

/// The host that observes, the monitor's, and the one that fails.
const OBSERVER: u32 = 1;
const MONITOR: u32 = 2;
const VICTIM: u32 = 3;
/// Between two polls of the observer.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// What does not come in this time does not come.
const LONG: Duration = Duration::from_secs(60);

/// The options of `host-detection`.
#[derive(Args)]
pub struct Options {
    /// Rounds for each way to fail.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Fails nobody, and looks for so many seconds whether anybody is suspected.
    #[arg(long, value_name = "SECONDS")]
    soak: Option<u64>,
    /// Threads that compute meanwhile; with `--soak` as many as there are processors by default, else none.
    #[arg(long, value_name = "THREADS")]
    load: Option<usize>,
    #[command(flatten)]
    output: Output,
}

/// The options of a part.
#[derive(Args)]
pub struct PartOptions {
    /// `agent`, `monitor`, `worker` or `load`.
    role: String,
    pool: PathBuf,
    host: u32,
}

/// Milliseconds from a failure in each round.
#[derive(Default)]
struct Times {
    suspected: Vec<f64>,
    moved: Vec<f64>,
    recovered: Vec<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let threads = options.load.unwrap_or(match options.soak {
        Some(_) => std::thread::available_parallelism()?.get(),
        None => 0,
    });
    let bench = Bench::new(threads)?;
    match options.soak {
        Some(seconds) => soak(&bench, Duration::from_secs(seconds), threads, options.output),
        None => fail(&bench, options.rounds, threads, options.output),
    }
}

fn fail(bench: &Bench, rounds: u32, threads: usize, output: Output) -> Result<(), Failure> {
    let mut ways = [
        ("killed", Signal::KILL, Times::default()),
        ("stopped", Signal::STOP, Times::default()),
    ];
    for _ in 0..rounds {
        for (_, signal, times) in &mut ways {
            bench.fail_once(*signal, times)?;
        }
    }
    let rows = ways.iter().flat_map(|(way, _, times)| {
        let steps = [
            ("suspected", &times.suspected),
            ("fenced, generation moved", &times.moved),
            ("recovered", &times.recovered),
        ];
        steps.map(|(step, times)| (*way, step, times))
    });
    let rows: Vec<(&str, &str, &Vec<f64>)> = rows.collect();
    output.print(
        || {
            let of = |(way, step, times): &(&str, &str, &Vec<f64>)| -> Value {
                json!({ "host": way, "until": step, "median_ms": median(times), "rounds_ms": times })
            };
            json!({ "command": "host-detection", "rounds": rounds, "load_threads": threads, "times": rows.iter().map(of).collect::<Vec<_>>() })
        },
        |style| {
            let mut text = format!(
                "Milliseconds from the failure of a host; {rounds} rounds; {threads} threads compute meanwhile\n\n"
            );
            let cells: Vec<Vec<String>> = rows
                .iter()
                .map(|(way, step, times)| {
                    let figures = [quantile(times, 0.5), quantile(times, 0.99), quantile(times, 1.0)];
                    let figures = figures.map(|figure| format!("{figure:.1}"));
                    [(*way).to_owned(), (*step).to_owned()]
                        .into_iter()
                        .chain(figures)
                        .collect()
                })
                .collect();
            table(&mut text, style, 2, &["host", "until", "median", "p99", "most"], &cells);
            text
        },
    );
    Ok(())
}

/// The figure below which this part of them lies.
fn quantile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (part * sorted.len() as f64).ceil() as usize;
    sorted
        .get(index.saturating_sub(1))
        .or(sorted.last())
        .copied()
        .unwrap_or(f64::NAN)
}

fn soak(bench: &Bench, time: Duration, threads: usize, output: Output) -> Result<(), Failure> {
    let hosts = [VICTIM, VICTIM + 1];
    let mut parts = Vec::new();
    for host in hosts {
        parts.push(bench.host(host)?);
    }
    let watched: Vec<u32> = hosts.into_iter().chain([MONITOR]).collect();
    let worker = bench.pool.worker()?;
    let mut silences = vec![(0u64, Instant::now(), Duration::ZERO); watched.len()];
    let begun = Instant::now();
    while begun.elapsed() < time {
        for (&host, (heartbeat, since, longest)) in watched.iter().zip(&mut silences) {
            let now = HostRecord::new(worker.geometry(), host)
                .heartbeat()
                .load(worker.mem());
            if now != *heartbeat {
                *heartbeat = now;
                *since = Instant::now();
            }
            *longest = (*longest).max(since.elapsed());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let mut suspected = 0;
    for &host in &watched {
        let state = HostRecord::new(worker.geometry(), host).read(worker.mem())?;
        suspected += u32::from(state.generation != 0 || state.phase != HostPhase::Up);
    }
    drop(parts);
    let longest: Vec<f64> = silences
        .iter()
        .map(|(_, _, longest)| longest.as_secs_f64() * 1e3)
        .collect();
    output.print(
        || {
            json!({
                "command": "host-detection", "seconds": time.as_secs(), "load_threads": threads, "hosts": watched, "suspected": suspected,
                "longest_silence_ms": longest,
            })
        },
        |_: Style| {
            format!(
                "{} s, {threads} threads computing, {} hosts: {suspected} suspected; longest silence seen of each: {} ms\n",
                time.as_secs(),
                watched.len(),
                longest.iter().map(|ms| format!("{ms:.1}")).collect::<Vec<_>>().join(", ")
            )
        },
    );
    check(suspected == 0, "a host that lived was taken for failed")
}

/// A pool, its observer, a monitor, and what computes.
struct Bench {
    pool: Pool,
    path: PathBuf,
    _agent: HostAgent,
    _monitor: Part,
    _load: Vec<Part>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(threads: usize) -> Result<Self, Failure> {
        let folder = temporary("hosts", Path::new("/dev/shm"))?;
        let path = folder.path().join("pool");
        drop(Pool::<Coherent>::create(&path, &options(0))?);
        let agent = HostAgent::start(&path, &options(OBSERVER))?;
        let pool = Pool::open(&path, &options(OBSERVER))?;
        let monitor = Part::start("monitor", &path, MONITOR)?;
        let load = (0..threads).map(|_| Part::start("load", &path, 0));
        let load = load.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            pool,
            path,
            _agent: agent,
            _monitor: monitor,
            _load: load,
            _folder: folder,
        })
    }

    /// The agent and a worker of a host.
    fn host(&self, host: u32) -> Result<[Part; 2], Failure> {
        Ok([
            Part::start("agent", &self.path, host)?,
            Part::start("worker", &self.path, host)?,
        ])
    }

    fn fail_once(&self, signal: Signal, times: &mut Times) -> Result<(), Failure> {
        let parts = self.host(VICTIM)?;
        let worker = self.pool.worker()?;
        let record = HostRecord::new(worker.geometry(), VICTIM);
        let generation = record.read(worker.mem())?.generation;
        // Not always at the same moment after a heartbeat.
        std::thread::sleep(Duration::from_micros(
            20_000 + u64::from(generation) * 613 % 8_000,
        ));
        let begun = Instant::now();
        for part in &parts {
            part.signal(signal);
        }
        let until = |what: &str, is_so: &dyn Fn() -> Result<bool, Failure>| {
            while !is_so()? {
                check(begun.elapsed() < LONG, what)?;
                std::thread::sleep(POLL_INTERVAL);
            }
            Ok::<f64, Failure>(begun.elapsed().as_secs_f64() * 1e3)
        };
        let state = || -> Result<_, Failure> { Ok(record.read(worker.mem())?) };
        times
            .suspected
            .push(until("a host that failed was not suspected", &|| {
                let state = state()?;
                Ok(state.phase == HostPhase::Fencing || state.generation != generation)
            })?);
        times.moved.push(until("a host that failed was not fenced", &|| {
            Ok(state()?.generation != generation)
        })?);
        times
            .recovered
            .push(until("a host that failed was not recovered", &|| {
                let mut entries = self.entries(worker.mem(), worker.geometry());
                Ok(entries.all(|host| host != VICTIM))
            })?);
        Ok(())
    }

    /// The hosts of all places that are not free.
    fn entries<'a, M: Memory>(
        &self,
        mem: &'a M,
        geometry: &'a cenote::pod::format::geometry::Geometry,
    ) -> impl Iterator<Item = u32> + 'a {
        use cenote::pod::format::record::{Phase, ProcessRecord, State};
        (0..geometry.parameters.processes)
            .map(move |index| State::decode(ProcessRecord::new(geometry, index).state().load(mem)))
            .filter(|state| state.phase != Phase::Free)
            .map(|state| state.process)
    }
}

fn options(host: u32) -> cenote::Options {
    cenote::Options {
        size: 64 << 20,
        max: 1 << 30,
        processes: 32,
        workers: 64,
        hosts: 8,
        host,
        ..cenote::Options::default()
    }
}

/// A process of a host.
struct Part {
    child: Child,
    input: Option<ChildStdin>,
    _output: BufReader<ChildStdout>,
}

impl Part {
    /// Starts it, and waits until it is at work.
    fn start(role: &str, pool: &Path, host: u32) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["host-part", role])
            .arg(pool)
            .arg(host.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Broken("a part has no pipes".to_owned()));
        };
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        check(line == "ready\n", "a part has ended too early")?;
        Ok(Self {
            child,
            input: Some(input),
            _output: output,
        })
    }

    fn signal(&self, signal: Signal) {
        // A child of ours that nobody has waited for; it may have ended.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.input.take());
        self.signal(Signal::KILL);
        // There is nothing to do about one that cannot be waited for.
        let _ = self.child.wait();
    }
}

fn ready() -> Result<(), Failure> {
    let mut output = std::io::stdout();
    writeln!(output, "ready")?;
    Ok(output.flush()?)
}

/// A monitor that ends when this says so, and of whose events nobody hears.
struct Until<F>(F);

impl<F: Fn() -> bool> MonitorHandler for Until<F> {
    fn is_over(&self) -> bool {
        (self.0)()
    }

    fn on_event(&self, _: &Event) {}
}

/// The hidden subcommand: a part, until its standard input ends.
pub fn run_part(part: &PartOptions) -> Result<(), Failure> {
    let (tell, told) = channel::<()>();
    let watch = move || {
        // An error is an end too.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(tell);
    };
    std::thread::Builder::new()
        .name("parent".to_owned())
        .spawn(watch)?;
    let goes_on = || {
        matches!(
            told.recv_timeout(Duration::ZERO),
            Err(RecvTimeoutError::Timeout) | Ok(())
        )
    };
    match part.role.as_str() {
        "agent" => {
            let _agent = HostAgent::<Coherent>::start(&part.pool, &options(part.host))?;
            ready()?;
            let _ = told.recv();
        }
        "monitor" => {
            let agent = HostAgent::<Coherent>::start(&part.pool, &options(part.host))?;
            ready()?;
            agent.watch(&MonitorOptions::default(), &Until(|| !goes_on()))?;
        }
        "worker" => {
            let pool: Pool = Pool::open(&part.pool, &options(part.host))?;
            let map = pool.map("work")?;
            let mut number = 0u64;
            ready()?;
            while goes_on() {
                for _ in 0..1000 {
                    number += 1;
                    map.put_u64((u64::from(part.host) << 32) | (number % 10_000), number)?;
                }
            }
        }
        _ => {
            ready()?;
            let mut number = 1u64;
            while goes_on() {
                for _ in 0..1_000_000 {
                    number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
            }
        }
    }
    Ok(())
}
