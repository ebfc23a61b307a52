//! The `applications` command: the two applications of crate `cenote-locked` over each kind of lock, by several
//! processes.
//!
//! - **YCSB A, B, C** on a hash table with a lock for each bucket, of which the first 4 KiB travel with a directory
//!   lock. Values have 96 bytes at most. Every value read is checked, and the updates are counted in the values: a lost
//!   one ends the run.
//! - **TPC-C** on a store with one lock for everything, of TPC-C's size with 1 and with 10 warehouses, and a small one.
//!   The orders entered must be those that the processes counted, and all conditions of consistency must hold at the
//!   end.
//!
//! On memory without coherence a directory lock writes all that it covers back when it goes to another process. So it
//! is measured on the table and on the small store, and not on stores of hundreds of megabytes.
//!
//! All kinds of locks take turns within a round, and each turn is one of new processes. Ratios are taken within a
//! round, to pthread's reader-writer lock, before their median is.
//!
//! With `--kill`, workers on the small store are killed again and again beside one that goes on; then the conditions
//! must hold. See [`kill`].
//!
//! | file | concept |
//! |---|---|
//! | `locks`, `area` | kinds of locks, and what they cover |
//! | `table` | YCSB |
//! | `tpcc` | TPC-C |
//! | `kill` | workers that are killed |

mod area;
mod kill;
mod locks;
mod table;
mod tpcc;

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::parts::{Part, answer};
use crate::progress::tell;
use crate::subjects::{Failure, check, temporary};
use crate::table::{Output, Style, median, rate, ratio, table as print_table};
use locks::Kind;
use table::Table;
use tpcc::Tpcc;

/// The options of `applications`.
#[derive(Args)]
pub struct Options {
    /// Processes that work at a time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    processes: u32,
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Milliseconds of each measurement.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    ms: u64,
    /// Records of the table, such as 10000 or 10k.
    #[arg(long, default_value = "10k", value_parser = table::records)]
    records: u64,
    /// The seed from which everything is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the cases or kinds of locks whose name contains one of these words.
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// Kills so many workers of the small store, two at a time, on each kind of lock that survives its owner, and
    /// measures nothing.
    #[arg(long, value_name = "COUNT")]
    kill: Option<u32>,
    #[command(flatten)]
    output: Output,
}

/// The options of a process.
#[derive(Args)]
pub struct PartOptions {
    folder: PathBuf,
    /// The case by its number.
    case: usize,
    /// The kind of lock by its word.
    kind: String,
    /// Milliseconds; 0: until it is killed.
    ms: u64,
    records: u64,
    seed: u64,
    worker: u64,
    workers: u64,
}

/// What an application has done in one turn of a process: operations, those of them that the application counts too,
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    operations: u64,
    counted: u64,
    ns: u64,
}

/// What is measured.
#[derive(Clone, Copy)]
enum Case {
    Ycsb(cenote_ycsb::Workload),
    Tpcc(cenote_locked::tpcc::Scale),
}

/// All cases.
const CASES: [(&str, Case); 6] = [
    ("YCSB A", Case::Ycsb(cenote_ycsb::Workload::A)),
    ("YCSB B", Case::Ycsb(cenote_ycsb::Workload::B)),
    ("YCSB C", Case::Ycsb(cenote_ycsb::Workload::C)),
    ("TPC-C, small", Case::Tpcc(tpcc::SMALL)),
    (
        "TPC-C, 1 warehouse",
        Case::Tpcc(cenote_locked::tpcc::Scale::standard(1)),
    ),
    (
        "TPC-C, 10 warehouses",
        Case::Tpcc(cenote_locked::tpcc::Scale::standard(10)),
    ),
];

/// An application over a kind of lock, in one process.
trait Application {
    /// How much of what is counted is in it by now.
    fn counted(&self) -> Result<u64, Failure>;

    /// Reads all of it, so that this process has it mapped.
    fn map(&self) -> Result<(), Failure>;

    /// Works for a time.
    fn work(&self, time: Duration, share: Share) -> Result<Done, Failure>;

    /// Fails unless all that must hold of it holds.
    fn check(&self) -> Result<(), Failure>;
}

/// Which worker of how many, and what it draws from.
#[derive(Clone, Copy, Debug)]
struct Share {
    seed: u64,
    worker: u64,
    workers: u64,
}

impl Case {
    /// Whether a kind of lock is measured in this case.
    fn takes(self, kind: Kind) -> bool {
        match self {
            Self::Tpcc(scale) if kind == Kind::Noncoherent => scale == tpcc::SMALL,
            _ => true,
        }
    }

    /// Opens the application, which is made and filled if `makes`.
    fn open(
        self,
        (folder, kind): (&Path, Kind),
        (records, seed): (u64, u64),
        makes: bool,
    ) -> Result<Box<dyn Application>, Failure> {
        Ok(match self {
            Self::Ycsb(workload) => Box::new(Table::open(folder, kind, (workload, records), makes)?),
            Self::Tpcc(scale) => Box::new(Tpcc::open(folder, kind, scale, makes.then_some(seed))?),
        })
    }
}

/// One of the processes: opens, says that it is ready, waits to be told, works, says what it has done.
pub fn run_part(options: &PartOptions) -> Result<(), Failure> {
    let unknown = || Failure::Broken("a part was started for what is not known".to_owned());
    let (_, case) = CASES.get(options.case).ok_or_else(unknown)?;
    let kind = Kind::of_word(&options.kind).ok_or_else(unknown)?;
    let share = Share {
        seed: options.seed,
        worker: options.worker,
        workers: options.workers,
    };
    let application = case.open((&options.folder, kind), (options.records, options.seed), false)?;
    application.map()?;
    answer("ready")?;
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line)? == 0 {
        return Ok(());
    }
    let time = match options.ms {
        0 => Duration::MAX,
        ms => Duration::from_millis(ms),
    };
    if options.ms == 0 {
        // The process that would kill it may end first.
        std::thread::spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            std::process::exit(1);
        });
    }
    let done = application.work(time, share)?;
    answer(&format!("{} {} {}", done.operations, done.ns, done.counted))
}

/// Starts a process.
fn start(
    folder: &Path,
    (case, kind): (usize, Kind),
    options: &Options,
    (ms, share): (u64, Share),
) -> Result<Part, Failure> {
    let numbers = [ms, options.records, share.seed, share.worker, share.workers];
    let arguments = [
        "application-part".to_owned(),
        folder.display().to_string(),
        case.to_string(),
    ]
    .into_iter()
    .chain([kind.word().to_owned()])
    .chain(numbers.map(|number| number.to_string()));
    Part::start(&std::env::current_exe()?, arguments)
}

/// Operations a second of all processes in one turn.
fn turn(folder: &Path, (case, kind): (usize, Kind), options: &Options, round: u32) -> Result<Turn, Failure> {
    let workers = u64::from(options.processes);
    let mut parts = Vec::new();
    for worker in 0..workers {
        let share = Share {
            seed: options.seed + 1 + u64::from(round),
            worker,
            workers,
        };
        parts.push(start(folder, (case, kind), options, (options.ms, share))?);
    }
    parts.iter_mut().try_for_each(Part::is_ready)?;
    for part in &mut parts {
        part.say("go")?;
    }
    let mut turn = Turn::default();
    for mut part in parts {
        let said = part.hear()?;
        let numbers: Vec<u64> = said.split(' ').map_while(|number| number.parse().ok()).collect();
        let [operations, ns, counted] = numbers[..] else {
            return Err(Failure::Broken(format!("a part answered \"{said}\"")));
        };
        turn.per_second += operations as f64 * 1e9 / ns.max(1) as f64;
        turn.counted += counted;
        part.end()?;
    }
    Ok(turn)
}

/// What a turn came to.
#[derive(Default)]
struct Turn {
    per_second: f64,
    counted: u64,
}

/// What was measured of a kind of lock in a case.
struct Figures {
    case: &'static str,
    kind: Kind,
    per_second: Vec<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    if let Some(kills) = options.kill {
        return kill::run(options, kills);
    }
    let figures = measure(options)?;
    check(!figures.is_empty(), "no case or kind of lock has such a name")?;
    options.output.print(
        || json_of(&figures),
        |style| {
            format!(
                "Operations or transactions a second by {} processes, medians of {} rounds of {} ms\n\n{}",
                options.processes,
                options.rounds,
                options.ms,
                text_of(&figures, style)
            )
        },
    );
    Ok(())
}

fn is_wanted(options: &Options, case: &str, kind: Kind) -> bool {
    let matches = |word: &String| case.contains(word.as_str()) || kind.name().contains(word.as_str());
    options.only.is_empty() || options.only.iter().any(matches)
}

fn measure(options: &Options) -> Result<Vec<Figures>, Failure> {
    let mut all = Vec::new();
    for (n, (name, case)) in CASES.into_iter().enumerate() {
        // A store of 10 warehouses has more than a gigabyte for each kind of lock: one case at a time is there.
        let directory = temporary("applications", Path::new("/dev/shm"))?;
        let kinds = Kind::ALL
            .into_iter()
            .filter(|kind| case.takes(*kind) && is_wanted(options, name, *kind));
        let mut figures: Vec<Figures> = kinds
            .map(|kind| Figures {
                case: name,
                kind,
                per_second: Vec::new(),
            })
            .collect();
        for of in &figures {
            tell(&format!("{name}, {}: filling", of.kind.name()));
            drop(case.open((directory.path(), of.kind), (options.records, options.seed), true)?);
        }
        for round in 0..=options.rounds {
            for of in &mut figures {
                tell(&format!("{name}, {}: round {round}", of.kind.name()));
                let per_second = checked_turn(directory.path(), (n, case, of.kind), options, round)?;
                // The first round only warms up.
                if round > 0 {
                    of.per_second.push(per_second);
                }
            }
        }
        for of in &figures {
            tell(&format!("{name}, {}: checking", of.kind.name()));
            case.open(
                (directory.path(), of.kind),
                (options.records, options.seed),
                false,
            )?
            .check()?;
        }
        all.extend(figures);
    }
    tell("");
    Ok(all)
}

/// A turn after which what the application counts has grown by what the processes say.
fn checked_turn(
    folder: &Path,
    (n, case, kind): (usize, Case, Kind),
    options: &Options,
    round: u32,
) -> Result<f64, Failure> {
    let counted = || {
        case.open((folder, kind), (options.records, options.seed), false)?
            .counted()
    };
    let before = counted()?;
    let turn = turn(folder, (n, kind), options, round)?;
    let grown = counted()?.wrapping_sub(before);
    match grown == turn.counted {
        true => Ok(turn.per_second),
        false => Err(Failure::Broken(format!(
            "{}: the processes have counted {} updates or orders, and {grown} are there",
            kind.name(),
            turn.counted
        ))),
    }
}

/// A kind's figure over that of pthread's reader-writer lock in the same round.
fn ratio_of(of: &Figures, all: &[Figures]) -> Option<f64> {
    let base = all
        .iter()
        .find(|base| base.case == of.case && base.kind == Kind::PthreadRw)?;
    let rounds = of.per_second.iter().zip(&base.per_second);
    median(&rounds.map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
}

fn text_of(figures: &[Figures], style: Style) -> String {
    let rows: Vec<Vec<String>> = figures
        .iter()
        .map(|of| {
            vec![
                of.case.to_owned(),
                of.kind.name().to_owned(),
                rate(median(&of.per_second)),
                ratio(ratio_of(of, figures)),
            ]
        })
        .collect();
    let mut text = String::new();
    let head = ["application", "lock", "a second", "to pthread rwlock"];
    print_table(&mut text, style, 2, &head, &rows);
    text
}

fn json_of(figures: &[Figures]) -> Value {
    let rows: Vec<Value> = figures
        .iter()
        .map(|of| {
            json!({
                "application": of.case,
                "lock": of.kind.name(),
                "median_per_second": median(&of.per_second),
                "to_pthread_rwlock": ratio_of(of, figures),
                "rounds": of.per_second,
            })
        })
        .collect();
    json!({ "command": "applications", "rows": rows })
}
