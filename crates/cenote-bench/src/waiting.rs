//! The `waiting` command: locks that many want, held for so long that all others wait.
//!
//! Some threads, or processes, take one lock in turn, hold it for a time in which they sleep, and let it go. Measured
//! is how many holds there are in a second, how long the longest wait was beside the mean one, and how much of a
//! processor all of them took together, from their first wish to their last hold. Cenote's locks stand beside the C
//! library's robust process-shared mutex; all kinds take turns within a round, ratios are taken within a round.
//!
//! `--idle` measures what it costs to wait only: one holds the lock all the time.

use crate::pthread::Pthread;
use crate::subjects::{Failure, check, temporary};
use crate::table::{Output, Style, median, ratio, table};
use crate::threads::start_all;
use cenote::Pool;
use clap::Args;
use rustix::time::ClockId;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is measured. The last one is what the others are compared with.
pub const KINDS: [&str; 4] = [
    "cenote mutex",
    "cenote queue",
    "cenote rw, write",
    "pthread, robust, shared",
];
/// Its place.
pub const ROBUST: usize = KINDS.len() - 1;

/// The options of `waiting`.
#[derive(Args)]
pub struct Options {
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How many want the lock.
    #[arg(long, value_delimiter = ',', default_value = "4,8,16,32", value_parser = clap::value_parser!(u32).range(1..=128))]
    parties: Vec<u32>,
    /// Microseconds of a hold.
    #[arg(long, value_delimiter = ',', default_value = "50,200,1000")]
    holds: Vec<u64>,
    /// Processes of one thread each, instead of threads of one process.
    #[arg(long)]
    processes: bool,
    /// Milliseconds of each measurement.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    ms: u64,
    /// What it costs to wait, while one holds the lock all the time.
    #[arg(long)]
    idle: bool,
    #[command(flatten)]
    output: Output,
}

/// The options of a process.
#[derive(Args)]
pub struct PartOptions {
    folder: PathBuf,
    kind: usize,
    hold_us: u64,
    threads: u32,
    ms: u64,
}

/// What came of one measurement.
#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub struct Seen {
    /// Times that somebody had the lock.
    pub holds: u64,
    /// Of all waits together, and of the longest.
    waited_ns: u64,
    longest_ns: u64,
    /// On processors, of all together.
    pub cpu_ns: u64,
    /// Of the one that had the fewest.
    fewest: u64,
}

impl Seen {
    fn and(self, other: Self) -> Self {
        Self {
            holds: self.holds + other.holds,
            waited_ns: self.waited_ns + other.waited_ns,
            longest_ns: self.longest_ns.max(other.longest_ns),
            cpu_ns: self.cpu_ns + other.cpu_ns,
            fewest: self.fewest.min(other.fewest),
        }
    }

    /// The longest wait beside the mean one.
    pub fn longest_over_mean(self) -> f64 {
        self.longest_ns as f64 * self.holds as f64 / (self.waited_ns as f64).max(1.0)
    }
}

enum Lock {
    Mutex(cenote::Mutex),
    Queue(cenote::QueueMutex),
    Write(cenote::RawRwLock),
    Pthread(Pthread),
}

impl Lock {
    fn open(pool: &Pool, folder: &Path, kind: usize) -> Result<Self, Failure> {
        Ok(match kind {
            0 => Self::Mutex(pool.mutex("mutex")?),
            1 => Self::Queue(pool.queue_mutex("queue")?),
            2 => Self::Write(pool.raw_rwlock("rw")?),
            _ => Self::Pthread(Pthread::open(&folder.join("pthread"))?),
        })
    }

    fn with(&self, inside: impl FnOnce()) -> Result<(), Failure> {
        match self {
            Self::Mutex(lock) => {
                let _guard = lock.lock()?;
                inside();
            }
            Self::Queue(lock) => {
                let _guard = lock.lock()?;
                inside();
            }
            Self::Write(lock) => {
                let _guard = lock.write()?;
                inside();
            }
            Self::Pthread(lock) => return check(lock.with(inside), "a pthread mutex refused"),
        }
        Ok(())
    }

    /// Takes it in turn for so long.
    fn during(&self, hold: Duration, time: Duration) -> Result<Seen, Failure> {
        let mut seen = Seen::default();
        let (begun, before) = (Instant::now(), cpu(ClockId::ThreadCPUTime));
        while begun.elapsed() < time {
            let asked = Instant::now();
            self.with(|| {
                let waited = asked.elapsed().as_nanos() as u64;
                seen.holds += 1;
                seen.waited_ns += waited;
                seen.longest_ns = seen.longest_ns.max(waited);
                std::thread::sleep(hold);
            })?;
        }
        seen.fewest = seen.holds;
        seen.cpu_ns = cpu(ClockId::ThreadCPUTime) - before;
        Ok(seen)
    }
}

/// Time on a processor, of the process or of this thread.
fn cpu(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The threads of one process.
fn threads(
    folder: &Path,
    kind: usize,
    hold: Duration,
    threads: u32,
    time: Duration,
) -> Result<Seen, Failure> {
    let pool = Pool::open(folder.join("pool"), &cenote::Options::default())?;
    let start = std::sync::Barrier::new(threads as usize + 1);
    let one = || -> Result<Seen, Failure> {
        let lock = Lock::open(&pool, folder, kind);
        start.wait();
        lock?.during(hold, time)
    };
    std::thread::scope(|scope| {
        let threads = start_all(scope, (0..threads).map(|_| one))?;
        start.wait();
        let mut seen = Seen {
            fewest: u64::MAX,
            ..Seen::default()
        };
        for thread in threads {
            let of = thread
                .join()
                .map_err(|_| Failure::Broken("a thread panicked".to_owned()))?;
            seen = seen.and(of?);
        }
        Ok(seen)
    })
}

/// One of the processes: says that it is ready, waits to be told, and says what came of it.
pub fn run_part(options: &PartOptions) -> Result<(), Failure> {
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    let (hold, time) = (
        Duration::from_micros(options.hold_us),
        Duration::from_millis(options.ms),
    );
    let seen = threads(&options.folder, options.kind, hold, options.threads, time)?;
    println!("{}", serde_json::to_string(&seen)?);
    Ok(())
}

/// Processes, of so many threads each.
fn processes(
    folder: &Path,
    kind: usize,
    hold_us: u64,
    count: u32,
    each: u32,
    ms: u64,
) -> Result<Seen, Failure> {
    let program = std::env::current_exe()?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let mut child = Command::new(&program)
            .arg("waiting-part")
            .arg(folder)
            .args([
                kind.to_string(),
                hold_us.to_string(),
                each.to_string(),
                ms.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Broken("a part has no pipes".to_owned()));
        };
        parts.push((child, input, BufReader::new(output).lines()));
    }
    for (_, _, lines) in &mut parts {
        check(lines.next().is_some(), "a part is not ready")?;
    }
    for (_, input, _) in &mut parts {
        writeln!(input, "go")?;
    }
    let mut seen = Seen {
        fewest: u64::MAX,
        ..Seen::default()
    };
    for (_, _, lines) in &mut parts {
        let line = lines.next().transpose()?.unwrap_or_default();
        seen = seen.and(serde_json::from_str(&line)?);
    }
    for (mut child, ..) in parts {
        child.wait()?;
    }
    Ok(seen)
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let directory = temporary("waiting", Path::new("/dev/shm"))?;
    let folder = directory.path();
    let _pool: Pool = Pool::create(folder.join("pool"), &cenote::Options::default())?;
    Pthread::create(&folder.join("pthread"), true)?;
    if options.idle {
        return idle(folder, options);
    }
    let mut rows = Vec::new();
    for &hold in &options.holds {
        for &parties in &options.parties {
            let mut seen: [Vec<Seen>; KINDS.len()] = Default::default();
            for _ in 0..options.rounds {
                for (kind, seen) in seen.iter_mut().enumerate() {
                    let (count, each) = if options.processes {
                        (parties, 1)
                    } else {
                        (1, parties)
                    };
                    seen.push(processes(folder, kind, hold, count, each, options.ms)?);
                }
            }
            rows.push(Row { hold, parties, seen });
        }
    }
    options.output.print(
        || json!({ "command": "waiting", "by": by(options), "ms": options.ms, "rows": rows.iter().map(Row::json).collect::<Vec<_>>() }),
        |style| text(&rows, options, style),
    );
    Ok(())
}

fn by(options: &Options) -> &'static str {
    if options.processes { "processes" } else { "threads" }
}

/// A hold, how many want the lock, and what was seen in each round, by kind.
struct Row {
    hold: u64,
    parties: u32,
    seen: [Vec<Seen>; KINDS.len()],
}

impl Row {
    fn of(&self, kind: usize, figure: impl Fn(Seen) -> f64) -> f64 {
        let figures: Vec<f64> = self.seen[kind].iter().map(|&seen| figure(seen)).collect();
        median(&figures).unwrap_or_default()
    }

    fn to_robust(&self, kind: usize, figure: impl Fn(Seen) -> f64) -> Option<f64> {
        let rounds = self.seen[kind].iter().zip(&self.seen[ROBUST]);
        median(
            &rounds
                .map(|(&ours, &theirs)| figure(ours) / figure(theirs))
                .collect::<Vec<_>>(),
        )
    }

    fn json(&self) -> Value {
        let kinds: Vec<Value> = KINDS
            .iter()
            .zip(&self.seen)
            .map(|(kind, rounds)| json!({ "lock": kind, "rounds": rounds }))
            .collect();
        json!({ "hold_us": self.hold, "parties": self.parties, "locks": kinds })
    }
}

fn text(rows: &[Row], options: &Options, style: Style) -> String {
    let mut lines = Vec::new();
    for row in rows {
        for (kind, name) in KINDS.iter().enumerate() {
            let per_second = |seen: Seen| seen.holds as f64 * 1e3 / options.ms as f64;
            let cpu = |seen: Seen| seen.cpu_ns as f64 / (options.ms as f64 * 1e4);
            lines.push(vec![
                row.hold.to_string(),
                row.parties.to_string(),
                (*name).to_owned(),
                format!("{:.0}", row.of(kind, per_second)),
                ratio(row.to_robust(kind, per_second)),
                format!("{:.1}", row.of(kind, |seen| seen.longest_ns as f64 / 1e6)),
                format!("{:.1}", row.of(kind, Seen::longest_over_mean)),
                ratio(row.to_robust(kind, Seen::longest_over_mean)),
                format!("{:.1}", row.of(kind, cpu)),
                ratio(row.to_robust(kind, cpu)),
                format!("{:.0}", row.of(kind, |seen| seen.fewest as f64)),
            ]);
        }
    }
    let head = [
        "hold us",
        by(options),
        "lock",
        "holds/s",
        "to robust",
        "longest ms",
        "to mean",
        "to robust",
        "CPU %",
        "to robust",
        "fewest",
    ];
    let mut text = format!(
        "holds of one lock, in which the holder sleeps, medians of {} rounds of {} ms; the longest wait, also to the mean one; the fewest holds that \
         one had; ratios to the robust pthread mutex\n\n",
        options.rounds, options.ms
    );
    table(&mut text, style, 3, &head, &lines);
    text
}

/// What those take who wait while one holds the lock all the time.
fn idle(folder: &Path, options: &Options) -> Result<(), Failure> {
    let pool = Pool::open(folder.join("pool"), &cenote::Options::default())?;
    let time = Duration::from_millis(options.ms);
    let mut rows = Vec::new();
    for &parties in &options.parties {
        for (kind, name) in KINDS.iter().enumerate() {
            let mut shares = Vec::new();
            for _ in 0..options.rounds {
                let lock = Lock::open(&pool, folder, kind)?;
                let (mut share, mut not_started) = (0.0, None);
                std::thread::scope(|scope| {
                    lock.with(|| {
                        let wait = || Lock::open(&pool, folder, kind).and_then(|lock| lock.with(|| ()));
                        if let Err(error) = start_all(scope, (0..parties).map(|_| wait)) {
                            not_started = Some(error);
                            return;
                        }
                        std::thread::sleep(Duration::from_millis(200));
                        let before = cpu(ClockId::ProcessCPUTime);
                        std::thread::sleep(time);
                        share =
                            (cpu(ClockId::ProcessCPUTime) - before) as f64 / time.as_nanos() as f64 * 100.0;
                    })
                })?;
                if let Some(error) = not_started {
                    return Err(error);
                }
                shares.push(share);
            }
            rows.push((parties, *name, median(&shares).unwrap_or_default(), shares));
        }
    }
    let lines = |rows: &[(u32, &str, f64, Vec<f64>)]| -> Vec<Vec<String>> {
        let line = |row: &(u32, &str, f64, Vec<f64>)| {
            vec![row.0.to_string(), row.1.to_owned(), format!("{:.3}", row.2)]
        };
        rows.iter().map(line).collect()
    };
    options.output.print(
        || json!({ "command": "waiting", "idle": rows.iter().map(|row| json!({ "parties": row.0, "lock": row.1, "cpu_percent": row.3 })).collect::<Vec<_>>() }),
        |style| {
            let mut text = "what threads take of a processor that wait for a lock that one holds all the time\n\n".to_owned();
            table(&mut text, style, 2, &["threads", "lock", "CPU %"], &lines(&rows));
            text
        },
    );
    Ok(())
}
