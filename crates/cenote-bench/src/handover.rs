//! The `directory-locks` command: a lock and 4 KiB that it covers, again by the process that had it last, and handed
//! over between two processes.
//!
//! Each handover is forced: the value says whose turn it is, so the processes alternate. The process that has its turn
//! adds 1 to all words. With the C library's mutexes a process copies the value out and back, as it would have to on
//! memory that it must not compute in. The sums are checked: a lost increment ends the run.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use cenote::{Backend, Coherent, Noncoherent, Pool, RwLock};
use clap::Args;
use serde_json::{Value, json};

use crate::pthread::{Pthread, PthreadRw};
use crate::subjects::{Failure, check, temporary};
use crate::table::{Output, Style, median, nanoseconds, ratio, table};

/// Words of the value, of which the first says whose turn it is.
const WORDS: usize = 512;
type Words = [u64; WORDS];

/// What is measured.
const KINDS: [&str; 4] = [
    "cenote, coherent",
    "cenote, noncoherent",
    "pthread, robust",
    "pthread rwlock",
];
const ROBUST: usize = 2;
/// Holds between two readings of the clock.
const GROUP: u64 = 1000;

/// The options of `directory-locks`.
#[derive(Args)]
pub struct Options {
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Holds of each kind a round, by the process that had the lock last.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// Handovers of each kind a round.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u64).range(2..))]
    handovers: u64,
    #[command(flatten)]
    output: Output,
}

/// The options of a process.
#[derive(Args)]
pub struct PartOptions {
    folder: PathBuf,
    kind: usize,
    me: u64,
    turns: u64,
}

/// A value under a lock of any kind.
enum Lock {
    Coherent(RwLock<Words, Coherent>),
    Noncoherent(RwLock<Words, Noncoherent>),
    Pthread(Pthread, Mapped),
    PthreadRw(PthreadRw, Mapped),
}

/// A value in a file.
struct Mapped {
    /// Keeps the value mapped.
    #[allow(clippy::disallowed_types)] // not a pool: what the C library's locks cover here
    _map: memmap2::MmapRaw,
    words: *mut Words,
}

impl Mapped {
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.set_len(size_of::<Words>() as u64)?;
        #[allow(clippy::disallowed_types)] // as above
        let map = memmap2::MmapOptions::new()
            .len(size_of::<Words>())
            .map_raw(&file)?;
        let words = map.as_mut_ptr().cast();
        Ok(Self { _map: map, words })
    }

    /// Copies the value out, has it changed, and copies it back. The caller has the lock.
    fn change(&self, with: impl FnOnce(&mut Words)) {
        // SAFETY: mapped for as long as this lives; nobody else writes while the caller has the lock.
        let mut copy = unsafe { self.words.read_volatile() };
        with(&mut copy);
        // SAFETY: as above; nobody else reads either.
        unsafe { self.words.write_volatile(copy) };
    }
}

fn pool<M: Backend>(folder: &Path) -> Result<Pool<M>, Failure> {
    Ok(Pool::open_or_create(
        folder.join(M::NAME),
        &cenote::Options::default(),
    )?)
}

impl Lock {
    fn open(folder: &Path, kind: usize) -> Result<Self, Failure> {
        let file = |name: &str| folder.join(format!("{name}-{kind}"));
        Ok(match kind {
            0 => Self::Coherent(pool(folder)?.rwlock("value")?),
            1 => Self::Noncoherent(pool(folder)?.rwlock("value")?),
            ROBUST => Self::Pthread(Pthread::open(&file("mutex"))?, Mapped::open(&file("value"))?),
            _ => Self::PthreadRw(PthreadRw::open(&file("mutex"))?, Mapped::open(&file("value"))?),
        })
    }

    /// Has the value changed under the lock.
    #[inline]
    fn with(&self, change: impl FnOnce(&mut Words)) -> Result<(), Failure> {
        match self {
            Self::Coherent(lock) => change(&mut *lock.write()?),
            Self::Noncoherent(lock) => change(&mut *lock.write()?),
            Self::Pthread(lock, value) => {
                check(lock.with(|| value.change(change)), "a pthread mutex refused")?
            }
            Self::PthreadRw(lock, value) => {
                check(lock.write(|| value.change(change)), "a pthread rwlock refused")?
            }
        }
        Ok(())
    }

    /// Nanoseconds for a lock and an unlock with nothing but one word read in between.
    fn again(&self, writes: bool, ops: u64) -> Result<f64, Failure> {
        let begun = Instant::now();
        match (self, writes) {
            (Self::Coherent(lock), true) => repeat(ops, || {
                black_box(lock.write()?[1]);
                Ok(())
            })?,
            (Self::Coherent(lock), false) => repeat(ops, || {
                black_box(lock.read()?[1]);
                Ok(())
            })?,
            (Self::Noncoherent(lock), true) => repeat(ops, || {
                black_box(lock.write()?[1]);
                Ok(())
            })?,
            (Self::Noncoherent(lock), false) => repeat(ops, || {
                black_box(lock.read()?[1]);
                Ok(())
            })?,
            (Self::Pthread(lock, _), _) => {
                repeat(ops, || check(lock.with(|| ()), "a pthread mutex refused"))?
            }
            (Self::PthreadRw(lock, _), true) => {
                repeat(ops, || check(lock.write(|| ()), "a pthread rwlock refused"))?
            }
            (Self::PthreadRw(lock, _), false) => {
                repeat(ops, || check(lock.read(|| ()), "a pthread rwlock refused"))?
            }
        }
        Ok(begun.elapsed().as_nanos() as f64 / ops as f64)
    }

    /// Takes so many turns of two processes that alternate.
    fn take_turns(&self, me: u64, turns: u64) -> Result<(), Failure> {
        let mut left = turns;
        while left > 0 {
            let mut was_mine = false;
            self.with(|words| {
                was_mine = words[0] % 2 == me;
                if was_mine {
                    words.iter_mut().for_each(|word| *word += 1);
                }
            })?;
            left -= u64::from(was_mine);
        }
        Ok(())
    }
}

#[inline(never)]
fn repeat(ops: u64, mut hold: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    (0..ops).try_for_each(|_| hold())
}

/// One of the processes: says that it is ready, waits to be told, takes its turns.
pub fn run_part(options: &PartOptions) -> Result<(), Failure> {
    let lock = Lock::open(&options.folder, options.kind)?;
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    lock.take_turns(options.me, options.turns)?;
    println!("done");
    Ok(())
}

/// Nanoseconds of each kind in each round: again to write, again to read, a handover.
#[derive(Default)]
struct Figures([[Vec<f64>; 3]; KINDS.len()]);

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let figures = measure(options)?;
    options.output.print(
        || figures.json(),
        |style| {
            format!(
                "A lock and 4 KiB under it, ns, medians of {} rounds: taken again by the process that had it last; handed over between two processes, each of \
                 which adds 1 to all words\n\n{}",
                options.rounds,
                figures.text(style)
            )
        },
    );
    Ok(())
}

fn measure(options: &Options) -> Result<Figures, Failure> {
    let directory = temporary("handover", Path::new("/dev/shm"))?;
    let folder = directory.path();
    Pthread::create(&folder.join(format!("mutex-{ROBUST}")), true)?;
    PthreadRw::create(&folder.join("mutex-3"))?;
    let mut figures = Figures::default();
    for round in 0..=options.rounds {
        for kind in 0..KINDS.len() {
            let lock = Lock::open(folder, kind)?;
            let mut again = [true, false].map(|writes| {
                let groups = (0..options.ops.div_ceil(GROUP)).map(|_| lock.again(writes, GROUP));
                groups.collect::<Result<Vec<_>, _>>()
            });
            let mut before = 0;
            lock.with(|words| before = words[WORDS - 1])?;
            let ns = hand_over(folder, kind, options.handovers)?;
            let mut after = 0;
            lock.with(|words| after = words[WORDS - 1])?;
            check(
                after - before == options.handovers / 2 * 2,
                "increments were lost under a lock",
            )?;
            // The first round only warms up.
            if round > 0 {
                for (figures, groups) in figures.0[kind].iter_mut().zip(&mut again) {
                    let groups = std::mem::replace(groups, Ok(Vec::new()))?;
                    figures.push(median(&groups).unwrap_or_default());
                }
                figures.0[kind][2].push(ns);
            }
        }
    }
    Ok(figures)
}

/// Nanoseconds a handover, of so many between two processes.
fn hand_over(folder: &Path, kind: usize, handovers: u64) -> Result<f64, Failure> {
    let mut parts = Vec::new();
    for me in 0..2 {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("handover-part")
            .arg(folder)
            .args([kind.to_string(), me.to_string(), (handovers / 2).to_string()])
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
    for (_, _, lines) in &mut parts {
        let done = lines.next().transpose()?;
        check(done.as_deref() == Some("done"), "a part has failed")?;
    }
    let ns = begun.elapsed().as_nanos() as f64;
    for (mut child, ..) in parts {
        child.wait()?;
    }
    Ok(ns / handovers as f64)
}

impl Figures {
    fn ratio(&self, kind: usize, what: usize) -> Option<f64> {
        let rounds = self.0[kind][what].iter().zip(&self.0[ROBUST][what]);
        median(&rounds.map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
    }

    fn text(&self, style: Style) -> String {
        let rows: Vec<Vec<String>> = (0..KINDS.len())
            .map(|kind| {
                let mut row = vec![KINDS[kind].to_owned()];
                row.extend((0..3).map(|what| nanoseconds(median(&self.0[kind][what]))));
                row.push(ratio(self.ratio(kind, 2)));
                row
            })
            .collect();
        let mut text = String::new();
        let head = [
            "lock",
            "again, to write",
            "again, to read",
            "a handover",
            "to pthread, robust, and copies",
        ];
        table(&mut text, style, 1, &head, &rows);
        text
    }

    fn json(&self) -> Value {
        let kinds: Vec<Value> = KINDS
            .iter()
            .zip(&self.0)
            .map(|(name, [write, read, handover])| {
                let figures = |rounds: &Vec<f64>| json!({ "median_ns": median(rounds), "rounds": rounds });
                json!({ "lock": name, "again_to_write": figures(write), "again_to_read": figures(read), "handover": figures(handover) })
            })
            .collect();
        json!({ "command": "directory-locks", "locks": kinds })
    }
}
