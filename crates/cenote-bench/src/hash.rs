//! The `hash` command: every subject through the same phases with the same keys, round by round.
//!
//! A round takes each subject in turn (each round starts with another one) and does, on a store that starts empty:
//!
//! 1. **load**: inserts the records in load order. Slow stores time only a sample, spread evenly over the sizes that
//!    the store passes through, and are filled in between untimed;
//! 2. **get**: reads keys one by one, zipfian with theta 0.99 over all records;
//! 3. **get_many**: the same keys in batches, for those that have such a call;
//! 4. **update**: writes existing keys, zipfian too.
//!
//! Keys are drawn before the clock starts. Every value read is added up and compared with what must come out, so that
//! nothing is optimised away and no subject is fast by being wrong. Each timed read and write phase is preceded by a
//! short untimed run of the same kind. What is reported are medians over the rounds; a ratio is taken in each round,
//! between figures measured seconds apart, before its median is.

use crate::progress::{Progress, tell};
use crate::report::{Report, Round, Row};
use crate::subjects::cenote::Cenote;
use crate::subjects::dashmap::Dash;
use crate::subjects::lmdb::Lmdb;
use crate::subjects::redis::Redis;
use crate::subjects::scc::{Index, Map};
use crate::subjects::{Failure, Session, Subject, absent, check};
use crate::table::Output;
use cenote_ycsb::{Chooser, Spec, Workload, key_of_record};
use clap::Args;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

/// The options of `hash`.
#[derive(Args)]
pub struct Options {
    /// Records in each store, such as 1000000 or 10M.
    #[arg(long, default_value = "1M", value_parser = crate::table::count)]
    records: u64,
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Reads and updates a round; slow stores do fewer.
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// Keys in a batched get.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=4096))]
    batch: u64,
    /// The seed from which all keys are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the subjects whose name or form contains one of these words.
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// Also the other hashers and maps, which are slower than those shown without this.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: Output,
}

impl Options {
    /// The printing of what was measured.
    pub(crate) fn output(&self) -> Output {
        self.output
    }
}

/// A subject and the code that measures it.
pub(crate) struct Entry {
    name: &'static str,
    form: &'static str,
    /// Measured without `--all`.
    shown: bool,
    measure: fn(&Plan, &Progress) -> Result<Round, Failure>,
}

impl Entry {
    /// A subject, and whether it is measured without `--all`.
    pub(crate) fn of<S: Subject>(shown: bool) -> Self {
        Self {
            name: S::NAME,
            form: S::FORM,
            shown,
            measure: measure::<S>,
        }
    }

    fn chosen(&self, options: &Options) -> bool {
        if options.only.is_empty() {
            return self.shown || options.all;
        }
        is_chosen(&options.only, self.name, self.form)
    }
}

/// Whether a name or a form contains one of some words, or there are none.
pub(crate) fn is_chosen(only: &[String], name: &str, form: &str) -> bool {
    let name = format!("{name} {form}").to_lowercase();
    only.is_empty() || only.iter().any(|word| name.contains(&word.to_lowercase()))
}

/// Everything that can be measured. Ratios are taken of the subject named [`crate::report::OURS`].
fn entries() -> Vec<Entry> {
    vec![
        Entry::of::<Cenote<::cenote::Coherent>>(true),
        Entry::of::<Cenote<::cenote::Coherent, true>>(true),
        Entry::of::<Cenote<::cenote::Noncoherent>>(false),
        Entry::of::<Dash<foldhash::fast::RandomState>>(false),
        Entry::of::<Dash<ahash::RandomState>>(false),
        Entry::of::<Dash<rustc_hash::FxBuildHasher>>(true),
        Entry::of::<Dash<std::hash::RandomState>>(false),
        Entry::of::<Index<foldhash::fast::RandomState>>(false),
        Entry::of::<Index<ahash::RandomState>>(false),
        Entry::of::<Index<rustc_hash::FxBuildHasher>>(true),
        Entry::of::<Index<std::hash::RandomState>>(false),
        Entry::of::<Map<rustc_hash::FxBuildHasher>>(false),
        Entry::of::<Lmdb<false>>(true),
        Entry::of::<Lmdb<true>>(true),
        Entry::of::<Redis>(true),
    ]
}

/// The operations that every subject gets, made once.
pub(crate) struct Plan {
    /// Keys and values in load order.
    records: Vec<(u64, u64)>,
    /// Keys to read.
    gets: Vec<u64>,
    /// Keys to write, with values.
    updates: Vec<(u64, u64)>,
    batch: usize,
    /// Of the keys to read, so many are where a scan begins.
    scans: usize,
}

/// Stretches of a load, each with its timed part.
const STEPS: usize = 20;
/// Keys that a scan reads.
const SCANNED: usize = 50;

/// The value of a key after its `version`th update; version 0 is loaded.
pub const fn value_of(key: u64, version: u64) -> u64 {
    key.rotate_left(32).wrapping_add(version)
}

impl Plan {
    fn new(options: &Options) -> Self {
        Self::chosen_by(options, Chooser::Zipfian)
    }

    /// With keys that are chosen in some way.
    pub(crate) fn chosen_by(options: &Options, chooser: Chooser) -> Self {
        let spec = Spec {
            operations: options.ops,
            chooser,
            ..Spec::new(Workload::C, options.records)
        };
        let keys = |seed| {
            let spec = Spec { seed, ..spec.clone() };
            spec.stream().map(|operation| key_of_record(operation.record))
        };
        Self {
            records: (0..options.records)
                .map(key_of_record)
                .map(|key| (key, value_of(key, 0)))
                .collect(),
            gets: keys(options.seed).collect(),
            updates: (1..)
                .zip(keys(options.seed.wrapping_add(1)))
                .map(|(version, key)| (key, value_of(key, version)))
                .collect(),
            batch: options.batch as usize,
            scans: (options.ops / 40) as usize,
        }
    }
}

/// Measures every chosen subject and prints the report.
pub fn run(options: &Options) -> Result<(), Failure> {
    let report = report(options)?;
    options.output.print(|| report.json(), |style| report.text(style));
    Ok(())
}

/// Measures every chosen subject.
pub fn report(options: &Options) -> Result<Report, Failure> {
    report_of("hash", "zipfian 0.99", entries(), options, &Plan::new(options))
}

/// Measures the chosen ones of some subjects.
pub(crate) fn report_of(
    command: &'static str,
    choice: &'static str,
    entries: Vec<Entry>,
    options: &Options,
    plan: &Plan,
) -> Result<Report, Failure> {
    let mut rows: Vec<Row> = Vec::new();
    let mut chosen: Vec<Entry> = Vec::new();
    for entry in entries.into_iter().filter(|entry| entry.chosen(options)) {
        rows.push(Row {
            name: entry.name,
            form: entry.form,
            missing: None,
            rounds: Vec::new(),
        });
        chosen.push(entry);
    }
    if chosen.is_empty() {
        let text = format!("nothing to measure is named {}\n", options.only.join(" or "));
        clap::Error::raw(clap::error::ErrorKind::InvalidValue, text).exit();
    }
    let started = Instant::now();
    for round in 0..options.rounds as usize {
        for step in 0..chosen.len() {
            let turn = (round + step) % chosen.len();
            if rows[turn].missing.is_some() {
                continue;
            }
            let entry = &chosen[turn];
            let progress = Progress::new(format!(
                "round {} of {}: {}, {}: ",
                round + 1,
                options.rounds,
                entry.name,
                entry.form
            ));
            match (entry.measure)(plan, &progress) {
                Ok(figures) => rows[turn].rounds.push(figures),
                Err(Failure::Missing(text)) => rows[turn].missing = Some(text),
                Err(Failure::Broken(text)) => {
                    return Err(Failure::Broken(format!(
                        "{} ({}): {text}",
                        entry.name, entry.form
                    )));
                }
            }
        }
    }
    tell("");
    Ok(Report {
        command,
        choice,
        setting: "one thread".to_owned(),
        loading: "into an empty map",
        records: options.records,
        rounds: options.rounds,
        operations: options.ops,
        batch: options.batch,
        seed: options.seed,
        seconds: started.elapsed().as_secs_f64(),
        rows,
    })
}

/// One round of one subject.
fn measure<S: Subject>(plan: &Plan, progress: &Progress) -> Result<Round, Failure> {
    let limits = S::LIMITS;
    let gets = &plan.gets[..plan.gets.len().min(limits.gets)];
    let updates = &plan.updates[..plan.updates.len().min(limits.updates)];
    let warm_gets = &gets[..gets.len().min(100_000) / 2];
    let warm_updates = &updates[..updates.len().min(100_000) / 10];

    let mut subject = S::create()?;
    let mut session = subject.session()?;
    let load = load_all(&mut session, &plan.records, limits.inserts, progress)?;
    drop(session);
    progress.tell("accounting");
    let bytes = subject.bytes()?;

    progress.tell("get");
    let mut session = subject.session()?;
    let expected = gets
        .iter()
        .fold(0u64, |sum, &key| sum.wrapping_add(value_of(key, 0)));
    get_all(&mut session, warm_gets)?;
    let mut sum = 0;
    let get = per_second(gets.len(), || {
        sum = get_all(&mut session, gets)?;
        Ok(())
    })?;
    check(sum == expected, "a get returned a wrong value")?;

    let mut get_many = None;
    if S::BATCHES {
        get_many_all(&mut session, warm_gets, plan.batch)?;
        let rate = per_second(gets.len(), || {
            sum = get_many_all(&mut session, gets, plan.batch)?;
            Ok(())
        })?;
        check(sum == expected, "a batched get returned a wrong value")?;
        get_many = Some(rate);
    }

    let mut scan = None;
    if S::SCANS {
        progress.tell("scan");
        let from = &gets[..gets.len().min(plan.scans)];
        scan_all(&mut session, &from[..from.len() / 10])?;
        scan = Some(per_second(from.len(), || scan_all(&mut session, from))?);
    }

    progress.tell("update");
    put_all(&mut session, warm_updates)?;
    let update = per_second(updates.len(), || put_all(&mut session, updates))?;
    let last: HashMap<u64, u64> = updates.iter().copied().collect();
    for &(key, _) in updates.iter().rev().take(1_000) {
        check(
            session.get(key)? == last.get(&key).copied(),
            "an update is not there",
        )?;
    }
    drop(session);

    let bytes_per_record = bytes.map(|bytes| bytes as f64 / plan.records.len() as f64);
    Ok(Round {
        load: Some(load),
        get: Some(get),
        get_many,
        update: Some(update),
        scan,
        bytes_per_record,
    })
}

fn per_second(operations: usize, work: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    let start = Instant::now();
    work()?;
    Ok(operations as f64 / start.elapsed().as_secs_f64())
}

/// Inserts a second over the whole load, of which at most `timed_max` are timed: some at each of several sizes.
fn load_all<S: Session>(
    session: &mut S,
    records: &[(u64, u64)],
    timed_max: usize,
    progress: &Progress,
) -> Result<f64, Failure> {
    let timed_max = timed_max.min(records.len());
    let steps = STEPS.min(timed_max);
    let mut timed_count = 0;
    let mut seconds = 0.0;
    for (step, stretch) in records.chunks(records.len().div_ceil(steps)).enumerate() {
        progress.tell(&format!("load, {} %", 100 * step / steps));
        let (timed, rest) = stretch.split_at(stretch.len().min(timed_max.div_ceil(steps)));
        let start = Instant::now();
        insert_all(session, timed)?;
        seconds += start.elapsed().as_secs_f64();
        timed_count += timed.len();
        if !rest.is_empty() {
            session.fill(rest)?;
        }
    }
    Ok(timed_count as f64 / seconds)
}

#[inline(never)]
fn insert_all<S: Session>(session: &mut S, records: &[(u64, u64)]) -> Result<(), Failure> {
    records
        .iter()
        .try_for_each(|&(key, value)| session.insert(key, value))
}

#[inline(never)]
fn put_all<S: Session>(session: &mut S, records: &[(u64, u64)]) -> Result<(), Failure> {
    records
        .iter()
        .try_for_each(|&(key, value)| session.put(key, value))
}

/// The sum of all values read.
#[inline(never)]
fn get_all<S: Session>(session: &mut S, keys: &[u64]) -> Result<u64, Failure> {
    let mut sum = 0u64;
    for &key in keys {
        let Some(value) = session.get(key)? else {
            return Err(absent(key));
        };
        sum = sum.wrapping_add(value);
    }
    Ok(black_box(sum))
}

#[inline(never)]
fn scan_all<S: Session>(session: &mut S, keys: &[u64]) -> Result<(), Failure> {
    for &key in keys {
        black_box(session.scan(key, SCANNED)?);
    }
    Ok(())
}

/// The sum of all values read, in batches.
#[inline(never)]
fn get_many_all<S: Session>(session: &mut S, keys: &[u64], batch: usize) -> Result<u64, Failure> {
    let mut values = vec![None; batch];
    let mut sum = 0u64;
    for keys in keys.chunks(batch) {
        let values = &mut values[..keys.len()];
        session.get_many(keys, values)?;
        for (&key, value) in keys.iter().zip(values) {
            let Some(value) = *value else {
                return Err(absent(key));
            };
            sum = sum.wrapping_add(value);
        }
    }
    Ok(black_box(sum))
}
