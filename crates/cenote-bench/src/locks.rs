//! The `locks` command: what it costs that a lock survives its owner.
//!
//! Each of the pool's locks stands beside the plain one of its kind, over the same memory contract, and beside the C
//! library's process-shared mutexes, robust and not, its reader-writer lock, and `parking_lot`. Measured is a pair of
//! lock and unlock with one increment of a shared counter between: by one thread; by two threads of one process; by two
//! processes. All kinds take turns; a ratio is taken within a round before its median is. The counters are checked: a
//! lost increment ends the run.
//!
//! The processes are this program once more with a hidden subcommand, which waits for a line before it begins.

use crate::pthread::{Pthread, PthreadRw};
use crate::subjects::{Failure, check, temporary};
use crate::table::{Output, Style, median, nanoseconds, ratio, table};
use crate::threads::start_all;
use cenote::index::baseline::arena::Arena;
use cenote::memory::SyncWord;
use cenote::pod::Worker;
use cenote::sync::plain::{Node, PlainQueue, PlainSpin};
use cenote::{Coherent, Pool};
use clap::Args;
use serde_json::{Value, json};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What is measured, and the kind that it is compared with.
const KINDS: [(&str, Option<usize>); 12] = [
    ("plain test-and-set", None),
    ("cenote spin", Some(0)),
    ("plain MCS", None),
    ("cenote queue", Some(2)),
    ("pthread, robust, shared", None),
    ("pthread, shared", None),
    ("parking_lot", None),
    ("cenote rw, write", Some(10)),
    ("cenote rw, read", Some(11)),
    ("cenote mutex", Some(0)),
    ("pthread rwlock, write", None),
    ("pthread rwlock, read", None),
];
/// Those that one process alone can use.
const PRIVATE: [usize; 1] = [6];
/// Those under which nothing can be counted.
const SHARED: [usize; 2] = [8, 11];
const ROBUST: usize = 4;
const PTHREAD_RW: usize = 10;
/// Pairs between two readings of the clock.
const GROUP: u64 = 10_000;
/// The same where two do it at once.
const STRETCH: u64 = 200;
const MAGIC: u64 = 0x6c6f_636b_7331;

/// By whom: one thread, two threads, two processes.
const BY: [&str; 3] = ["alone", "two threads", "two processes"];

/// The options of `locks`.
#[derive(Args)]
pub struct Options {
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Pairs of each kind a round, of one thread alone.
    #[arg(long, default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// Milliseconds of each measurement with two threads or processes.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    ms: u64,
    #[command(flatten)]
    output: Output,
}

/// The options of a process.
#[derive(Args)]
pub struct PartOptions {
    folder: PathBuf,
    kind: usize,
    ms: u64,
}

/// Nanoseconds a pair in each round, of each of [`KINDS`], by each of [`BY`].
#[derive(Default)]
struct Figures([[Vec<f64>; BY.len()]; KINDS.len()]);

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let figures = measure(&std::env::current_exe()?, options)?;
    options.output.print(
        || figures.json(),
        |style| {
            format!(
                "ns a pair of lock and unlock with an increment between, medians of {} rounds; ratios to the plain lock of \
                 the kind, and to the robust pthread mutex\n\n{}",
                options.rounds,
                figures.text(style)
            )
        },
    );
    Ok(())
}

/// One of the processes: says that it is ready, waits to be told, and says how long it took.
pub fn run_part(options: &PartOptions) -> Result<(), Failure> {
    let pool = Pool::open(options.folder.join("pool"), &cenote::Options::default())?;
    let lock = Lock::open(&pool, &options.folder, options.kind)?;
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    println!("{}", lock.pairs_during(Duration::from_millis(options.ms))?);
    Ok(())
}

/// A lock of any kind, as a thread has it, and the counter that it guards.
struct Lock {
    counter: SyncWord,
    worker: Rc<Worker<Coherent>>,
    of: Kind,
}

enum Kind {
    PlainSpin(PlainSpin),
    PlainQueue(PlainQueue, Node),
    Spin(cenote::SpinMutex),
    Mutex(cenote::Mutex),
    Queue(cenote::QueueMutex),
    Pthread(Pthread),
    PthreadWrite(PthreadRw),
    PthreadRead(PthreadRw),
    Parking(&'static parking_lot::Mutex<()>),
    Write(cenote::RawRwLock),
    Read(cenote::RawRwLock),
}

static PARKING: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

fn arena(worker: &Rc<Worker<Coherent>>) -> Result<Arena<Coherent>, Failure> {
    Ok(Arena::open_or_create(worker.clone(), "plain", MAGIC, 1 << 20)?)
}

fn mutex_file(folder: &Path, kind: usize) -> PathBuf {
    folder.join(format!("mutex-{kind}"))
}

impl Lock {
    fn open(pool: &Pool, folder: &Path, kind: usize) -> Result<Self, Failure> {
        let worker = pool.worker()?;
        let arena = arena(&worker)?;
        let of = match kind {
            0 => Kind::PlainSpin(PlainSpin(arena.root(0))),
            1 => Kind::Spin(pool.spin_mutex("spin")?),
            2 => Kind::PlainQueue(PlainQueue(arena.root(1)), Node(arena.take(64)?)),
            3 => Kind::Queue(pool.queue_mutex("queue")?),
            ROBUST | 5 => Kind::Pthread(Pthread::open(&mutex_file(folder, kind))?),
            6 => Kind::Parking(&PARKING),
            7 => Kind::Write(pool.raw_rwlock("rw")?),
            8 => Kind::Read(pool.raw_rwlock("rw")?),
            9 => Kind::Mutex(pool.mutex("mutex")?),
            10 => Kind::PthreadWrite(PthreadRw::open(&mutex_file(folder, PTHREAD_RW))?),
            _ => Kind::PthreadRead(PthreadRw::open(&mutex_file(folder, PTHREAD_RW))?),
        };
        Ok(Self {
            counter: arena.root(2),
            worker,
            of,
        })
    }

    /// How many pairs there are in a time.
    fn pairs_during(&self, time: Duration) -> Result<u64, Failure> {
        let begun = Instant::now();
        let mut pairs = 0;
        while begun.elapsed() < time {
            self.pairs(STRETCH)?;
            pairs += STRETCH;
        }
        Ok(pairs)
    }

    /// Nanoseconds for so many pairs.
    fn pairs(&self, ops: u64) -> Result<f64, Failure> {
        let mem = self.worker.mem();
        let add = || self.counter.store(mem, self.counter.load(mem) + 1);
        let begun = Instant::now();
        match &self.of {
            Kind::PlainSpin(lock) => repeat(ops, || {
                lock.lock(mem);
                add();
                lock.unlock(mem);
                Ok(())
            }),
            Kind::PlainQueue(lock, node) => repeat(ops, || {
                lock.lock(mem, *node);
                add();
                lock.unlock(mem, *node);
                Ok(())
            }),
            Kind::Spin(lock) => repeat(ops, || {
                let _guard = lock.lock()?;
                add();
                Ok(())
            }),
            Kind::Mutex(lock) => repeat(ops, || {
                let _guard = lock.lock()?;
                add();
                Ok(())
            }),
            Kind::Queue(lock) => repeat(ops, || {
                let _guard = lock.lock()?;
                add();
                Ok(())
            }),
            Kind::Pthread(lock) => repeat(ops, || check(lock.with(add), "a pthread mutex refused")),
            Kind::PthreadWrite(lock) => repeat(ops, || check(lock.write(add), "a pthread rwlock refused")),
            Kind::PthreadRead(lock) => repeat(ops, || {
                let look = || {
                    black_box(self.counter.load(mem));
                };
                check(lock.read(look), "a pthread rwlock refused")
            }),
            Kind::Parking(lock) => repeat(ops, || {
                let _guard = lock.lock();
                add();
                Ok(())
            }),
            Kind::Write(lock) => repeat(ops, || {
                let _guard = lock.write()?;
                add();
                Ok(())
            }),
            Kind::Read(lock) => repeat(ops, || {
                let _guard = lock.read()?;
                black_box(self.counter.load(mem));
                Ok(())
            }),
        }?;
        Ok(begun.elapsed().as_nanos() as f64)
    }
}

/// A function of its own for each kind, so that none's registers and places hang on what the others need.
#[inline(never)]
fn repeat(ops: u64, mut pair: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    (0..ops).try_for_each(|_| pair())
}

fn measure(program: &Path, options: &Options) -> Result<Figures, Failure> {
    let directory = temporary("locks", Path::new("/dev/shm"))?;
    let folder = directory.path();
    let pool: Pool = Pool::create(folder.join("pool"), &cenote::Options::default())?;
    for kind in [ROBUST, 5] {
        Pthread::create(&mutex_file(folder, kind), kind == ROBUST)?;
    }
    PthreadRw::create(&mutex_file(folder, PTHREAD_RW))?;
    let worker = pool.worker()?;
    let counter = arena(&worker)?.root(2);
    let locks = (0..KINDS.len())
        .map(|kind| Lock::open(&pool, folder, kind))
        .collect::<Result<Vec<_>, _>>()?;
    let mut figures = Figures::default();
    for round in 0..=options.rounds {
        let mut alone: [Vec<f64>; KINDS.len()] = Default::default();
        for _ in 0..options.ops.div_ceil(GROUP) {
            for (lock, groups) in locks.iter().zip(&mut alone) {
                groups.push(lock.pairs(GROUP)? / GROUP as f64);
            }
        }
        for (kind, groups) in alone.iter().enumerate() {
            let mut both = |by: usize, ns: f64| {
                // The first round only warms up.
                if round > 0 {
                    figures.0[kind][by].push(ns);
                }
            };
            both(0, median(groups).unwrap_or_default());
            for by in [1, 2] {
                if by == 2 && PRIVATE.contains(&kind) {
                    continue;
                }
                let before = counter.load(worker.mem());
                let time = Duration::from_millis(options.ms);
                let (pairs, ns) = match by {
                    1 => threads(&pool, folder, kind, time)?,
                    _ => processes(program, folder, kind, time)?,
                };
                let counted = counter.load(worker.mem()) - before;
                check(
                    SHARED.contains(&kind) || counted == pairs,
                    "increments were lost under a lock",
                )?;
                both(by, ns / pairs as f64);
            }
        }
    }
    Ok(figures)
}

/// The pairs of two threads, and the time from when they are told to begin until both have done.
fn threads(pool: &Pool, folder: &Path, kind: usize, time: Duration) -> Result<(u64, f64), Failure> {
    let start = Barrier::new(3);
    let one = || -> Result<u64, Failure> {
        let lock = Lock::open(pool, folder, kind);
        start.wait();
        lock?.pairs_during(time)
    };
    std::thread::scope(|scope| {
        let threads = start_all(scope, [one, one])?;
        start.wait();
        let begun = Instant::now();
        let mut pairs = 0;
        for thread in threads {
            match thread.join() {
                Ok(done) => pairs += done?,
                Err(_) => return Err(Failure::Broken("a thread panicked".to_owned())),
            }
        }
        Ok((pairs, begun.elapsed().as_nanos() as f64))
    })
}

/// The same of two processes.
fn processes(program: &Path, folder: &Path, kind: usize, time: Duration) -> Result<(u64, f64), Failure> {
    let mut parts = Vec::new();
    for _ in 0..2 {
        let mut child = Command::new(program)
            .arg("lock-part")
            .arg(folder)
            .args([kind.to_string(), time.as_millis().to_string()])
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
    let begun = Instant::now();
    for (_, input, _) in &mut parts {
        writeln!(input, "go")?;
    }
    let mut pairs = 0;
    for (_, _, lines) in &mut parts {
        pairs += lines.next().transpose()?.unwrap_or_default().parse::<u64>()?;
    }
    let ns = begun.elapsed().as_nanos() as f64;
    for (mut child, ..) in parts {
        child.wait()?;
    }
    Ok((pairs, ns))
}

impl Figures {
    /// The median ratio of a kind to another within rounds.
    fn ratio(&self, kind: usize, to: usize, by: usize) -> Option<f64> {
        let rounds = self.0[kind][by].iter().zip(&self.0[to][by]);
        median(&rounds.map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
    }

    fn text(&self, style: Style) -> String {
        let rows: Vec<Vec<String>> = KINDS
            .iter()
            .enumerate()
            .map(|(kind, (name, plain))| {
                let mut row = vec![(*name).to_owned()];
                for by in 0..BY.len() {
                    row.push(nanoseconds(median(&self.0[kind][by])));
                    row.push(ratio(plain.and_then(|plain| self.ratio(kind, plain, by))));
                }
                row.push(ratio(self.ratio(kind, ROBUST, 0)));
                row
            })
            .collect();
        let mut text = String::new();
        let head = [
            "lock",
            "alone",
            "to plain",
            "2 threads",
            "to plain",
            "2 processes",
            "to plain",
            "alone, to robust",
        ];
        table(&mut text, style, 1, &head, &rows);
        text
    }

    fn json(&self) -> Value {
        let kinds: Vec<Value> = KINDS
            .iter()
            .zip(&self.0)
            .map(|((name, _), by)| {
                let figures: Vec<Value> = BY
                    .iter()
                    .zip(by)
                    .map(|(by, rounds)| json!({ "by": by, "median_ns": median(rounds), "rounds": rounds }))
                    .collect();
                json!({ "lock": name, "pairs": figures })
            })
            .collect();
        json!({ "command": "locks", "locks": kinds })
    }
}
