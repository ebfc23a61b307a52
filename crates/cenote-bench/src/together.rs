//! The `together` command: several processes on one store, Cenote's ordered map beside LMDB and redb.
//!
//! Each store is filled by one process, which then closes it. Some parts ([`crate::parts`]) open it and keep it open,
//! and all stores stay there for the whole run. In a round every store takes its turn, and of it one process alone and
//! all at once, in turns:
//!
//! 1. **insert**: each inserts its own share of new keys, a fixed number, one put a transaction: so all stores grow
//!    alike, whatever their speed;
//! 2. **update**: writes existing keys for a fixed time, uniformly chosen, with a new value each;
//! 3. **get**: reads the same way. The forms of a store differ in its read transactions.
//!
//! A store that one process alone may have open is measured so, and its row for several says why it is empty. Every
//! value read is checked. Reported are medians over the rounds; a ratio is taken within a round before its median is.

use crate::hash::value_of;
use crate::parts::{Part, Work, answer, repeat, serve, together, unknown};
use crate::progress::tell;
use crate::report::{Report, Round, Row};
use crate::subjects::lmdb::Lmdb;
use crate::subjects::ordered::Tree;
use crate::subjects::redb::Redb;
use crate::subjects::{Failure, Session, Shared, absent, check, temporary};
use crate::table::{Output, Style};
use cenote_ycsb::{Chooser, Spec, Workload, key_of_record};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Records that are filled in at a time.
const FILLED_AT_ONCE: u64 = 1 << 16;
/// Operations of each kind whose keys are drawn beforehand; they are repeated.
const DRAWN: u64 = 1_000_000;

/// The options of `together`.
#[derive(Args)]
pub struct Options {
    /// Processes that have each store open.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    processes: u64,
    /// Records in each store before the first round, such as 1000000 or 10M.
    #[arg(long, default_value = "1M", value_parser = crate::table::count)]
    records: u64,
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// New keys that each process inserts in a measurement.
    #[arg(long, default_value = "20k", value_parser = crate::table::count)]
    inserts: u64,
    /// Milliseconds of each measurement of updates and of gets.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    ms: u64,
    /// The seed from which the keys are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the stores whose name or form contains one of these words.
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// The options of a part.
#[derive(Args)]
pub struct PartOptions {
    /// Which of the stores.
    store: usize,
    directory: PathBuf,
    records: u64,
    ms: u64,
    seed: u64,
    /// Which part it is.
    part: u64,
}

/// A store, and the code that measures it.
struct Store {
    name: &'static str,
    form: &'static str,
    fill: fn(&Path, u64) -> Result<(), Failure>,
    serve: fn(&PartOptions) -> Result<(), Failure>,
}

impl Store {
    const fn of<S: Shared>() -> Self {
        Self {
            name: S::NAME,
            form: S::FORM,
            fill: fill::<S>,
            serve: serve_store::<S>,
        }
    }
}

const STORES: [Store; 5] = [
    Store::of::<Tree<cenote::Coherent>>(),
    Store::of::<Lmdb<false>>(),
    Store::of::<Lmdb<true>>(),
    Store::of::<Redb<false>>(),
    Store::of::<Redb<true>>(),
];

/// What was measured.
pub struct Figures {
    /// Of one process at a time.
    pub one: Report,
    /// Of all at once.
    pub all: Report,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let figures = measure(options)?;
    options
        .output
        .print(|| figures.json(), |style| figures.text(style));
    Ok(())
}

/// Measures with processes of this program.
pub fn measure(options: &Options) -> Result<Figures, Failure> {
    let program = std::env::current_exe()?;
    let started = Instant::now();
    let mut opened: Vec<(usize, Opened)> = Vec::new();
    for (n, store) in STORES.iter().enumerate() {
        if crate::hash::is_chosen(&options.only, store.name, store.form) {
            tell(&format!("filling {}, {}", store.name, store.form));
            opened.push((n, Opened::new(&program, n, options)?));
        }
    }
    check(!opened.is_empty(), "no store has such a name or form")?;
    let stores = opened.len();
    for round in 0..options.rounds as usize {
        for step in 0..stores {
            let (n, opened) = &mut opened[(round + step) % stores];
            let Store { name, form, .. } = &STORES[*n];
            tell(&format!(
                "round {} of {}: {name}, {form}",
                round + 1,
                options.rounds
            ));
            opened.round(round, options.inserts)?;
        }
    }
    tell("");
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for (n, opened) in opened {
        let row = |missing, rounds| Row {
            name: STORES[n].name,
            form: STORES[n].form,
            missing,
            rounds,
        };
        one.push(row(None, opened.one));
        all.push(row(opened.alone, opened.all));
        opened.parts.into_iter().try_for_each(Part::end)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let report = |processes: u64, rows| Report {
        command: "together",
        choice: "uniform",
        setting: match processes {
            1 => "one process of those that have the store open".to_owned(),
            processes => format!("{processes} processes on one store"),
        },
        loading: "inserts of new keys into a store of so many records, a put a transaction",
        records: options.records,
        rounds: options.rounds,
        operations: DRAWN,
        batch: 1,
        seed: options.seed,
        seconds,
        rows,
    };
    Ok(Figures {
        one: report(1, one),
        all: report(options.processes, all),
    })
}

impl Figures {
    /// The tables.
    pub fn text(&self, style: Style) -> String {
        format!("{}\n{}", self.all.text(style), self.one.text(style))
    }

    /// Everything, with each round's figures.
    pub fn json(&self) -> Value {
        json!({ "command": "together", "all": self.all.json(), "one": self.one.json() })
    }
}

/// Where a round keeps a figure.
type Place = fn(&mut Round) -> &mut Option<f64>;

/// A store that is there, and its parts.
struct Opened {
    parts: Vec<Part>,
    /// Why there is one part only, if there is.
    alone: Option<String>,
    /// The first key that nobody has inserted.
    next: u64,
    one: Vec<Round>,
    all: Vec<Round>,
}

impl Opened {
    /// Fills a store and has the parts open it. Then its directory is removed, so that nothing is left behind however
    /// the run ends.
    fn new(program: &Path, store: usize, options: &Options) -> Result<Self, Failure> {
        let directory = temporary("together", Path::new("/dev/shm"))?;
        (STORES[store].fill)(directory.path(), options.records)?;
        let mut opened = Self {
            parts: Vec::new(),
            alone: None,
            next: options.records,
            one: Vec::new(),
            all: Vec::new(),
        };
        for part in 0..options.processes {
            let mut child = Part::start(
                program,
                [
                    "part-together".as_ref(),
                    store.to_string().as_ref(),
                    directory.path().as_os_str(),
                    options.records.to_string().as_ref(),
                    options.ms.to_string().as_ref(),
                    options.seed.to_string().as_ref(),
                    part.to_string().as_ref(),
                ],
            )?;
            match child.hear()?.as_str() {
                "open" => opened.parts.push(child),
                reason => {
                    opened.alone = Some(reason.to_owned());
                    child.end()?;
                    break;
                }
            }
        }
        check(!opened.parts.is_empty(), "a store cannot be opened")?;
        directory.close()?;
        Ok(opened)
    }

    /// One round: one part alone and all, each first in every other round.
    fn round(&mut self, round: usize, inserts: u64) -> Result<(), Failure> {
        let alone = round / 2 % self.parts.len();
        let (mut one, mut all) = (Round::default(), Round::default());
        let figures: [(&str, Place); 3] = [
            ("insert", |round| &mut round.load),
            ("update", |round| &mut round.update),
            ("get", |round| &mut round.get),
        ];
        for (kind, figure) in figures {
            for step in [round, round + 1] {
                let (parts, into) = match step % 2 {
                    0 => (&mut self.parts[alone..=alone], &mut one),
                    _ if self.alone.is_some() => continue,
                    _ => (&mut self.parts[..], &mut all),
                };
                let from = self.next;
                if kind == "insert" {
                    self.next += inserts * parts.len() as u64;
                }
                let rate = together(parts, |n| match kind {
                    "insert" => format!("{kind} {} {inserts}", from + inserts * n as u64),
                    _ => kind.to_owned(),
                })?;
                *figure(into) = Some(rate);
            }
        }
        self.one.push(one);
        if self.alone.is_none() {
            self.all.push(all);
        }
        Ok(())
    }
}

/// Makes a store of so many records.
fn fill<S: Shared>(directory: &Path, records: u64) -> Result<(), Failure> {
    let mut store = S::create_in(directory)?;
    let mut session = store.session()?;
    for from in (0..records).step_by(FILLED_AT_ONCE as usize) {
        let some: Vec<(u64, u64)> = (from..records.min(from + FILLED_AT_ONCE))
            .map(key_of_record)
            .map(|key| (key, value_of(key, 0)))
            .collect();
        session.fill(&some)?;
    }
    Ok(())
}

/// The hidden subcommand: a part, until its standard input ends.
pub fn run_part(options: &PartOptions) -> Result<(), Failure> {
    match STORES.get(options.store) {
        Some(store) => (store.serve)(options),
        None => Err(unknown(&options.store.to_string())),
    }
}

fn serve_store<S: Shared>(options: &PartOptions) -> Result<(), Failure> {
    let mut store = match S::open_in(&options.directory) {
        Err(Failure::Missing(reason)) => return answer(&reason),
        other => other?,
    };
    let keys = |lane: u64| {
        let spec = Spec {
            operations: DRAWN,
            chooser: Chooser::Uniform,
            seed: options
                .seed
                .wrapping_mul(128)
                .wrapping_add(2 * options.part + lane),
            ..Spec::new(Workload::C, options.records)
        };
        spec.stream()
            .map(|operation| key_of_record(operation.record))
            .collect()
    };
    let mut work = Operations {
        session: store.session()?,
        gets: keys(0),
        updates: keys(1),
        inserts: Vec::new(),
        version: 0,
        time: Duration::from_millis(options.ms),
    };
    answer("open")?;
    serve(&mut work)
}

/// What a part works with.
struct Operations<S> {
    session: S,
    gets: Vec<u64>,
    updates: Vec<u64>,
    /// Keys to insert next.
    inserts: Vec<u64>,
    /// The version of the last value that was written.
    version: u64,
    time: Duration,
}

impl<S: Session> Work for Operations<S> {
    fn prepare(&mut self, task: &str) -> Result<(), Failure> {
        let mut words = task.split(' ');
        if words.next() != Some("insert") {
            return self.repeated(task, self.time / 10).map(drop);
        }
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        match (number(), number()) {
            (Some(from), Some(count)) => {
                self.inserts = (from..from + count).map(key_of_record).collect();
                Ok(())
            }
            _ => Err(unknown(task)),
        }
    }

    fn run(&mut self, task: &str) -> Result<(u64, u128), Failure> {
        if self.inserts.is_empty() {
            return self.repeated(task, self.time);
        }
        let keys = std::mem::take(&mut self.inserts);
        let start = Instant::now();
        insert_all(&mut self.session, &keys)?;
        Ok((keys.len() as u64, start.elapsed().as_nanos()))
    }
}

impl<S: Session> Operations<S> {
    /// Does operations for some time.
    fn repeated(&mut self, kind: &str, time: Duration) -> Result<(u64, u128), Failure> {
        let Self { session, version, .. } = self;
        match kind {
            "update" => repeat(time, &self.updates, |keys| put_all(session, version, keys)),
            "get" => repeat(time, &self.gets, |keys| get_all(session, keys)),
            _ => Err(unknown(kind)),
        }
    }
}

#[inline(never)]
fn insert_all<S: Session>(session: &mut S, keys: &[u64]) -> Result<(), Failure> {
    keys.iter()
        .try_for_each(|&key| session.insert(key, value_of(key, 0)))
}

#[inline(never)]
fn put_all<S: Session>(session: &mut S, version: &mut u64, keys: &[u64]) -> Result<u64, Failure> {
    for &key in keys {
        *version += 1;
        session.put(key, value_of(key, *version))?;
    }
    Ok(0)
}

/// Reads keys; 0 if all values are versions of theirs.
#[inline(never)]
fn get_all<S: Session>(session: &mut S, keys: &[u64]) -> Result<u64, Failure> {
    let mut wrong = 0;
    for &key in keys {
        let Some(value) = session.get(key)? else {
            return Err(absent(key));
        };
        wrong |= value.wrapping_sub(value_of(key, 0)) >> 32;
    }
    Ok(wrong)
}
