//! The `sizes` command: both maps beside those of one process and LMDB, with keys and values of several lengths.
//!
//! A round takes each shape, of a key's length and a value's, and for it each store in turn, which starts empty:
//!
//! 1. **load**: inserts the records in an order of no meaning. LMDB times a part, and is filled in one transaction;
//! 2. **get**: reads keys one by one, zipfian with theta 0.99, and a byte of each line of the value;
//! 3. **update**: replaces values by others of the same length, zipfian too.
//!
//! A shape has as many records as were asked for, or as many as have so many bytes. What is read is compared with what
//! must come out: each value begins with a number of its key and update. Medians are over the rounds; a ratio is taken
//! in each round before its median is.

mod stores;

use crate::progress::{Progress, tell};
use crate::subjects::{Failure, absent, check};
use crate::table::{Output, Style, grouped, median, rate, ratio, table};
use cenote_ycsb::{Spec, Workload, key_of_record};
use clap::Args;
use serde_json::{Value, json};
use std::time::Instant;
use stores::{Dash, Hash, Lmdb, OrderedMap, Skip, Store};

/// Lengths of keys and values.
const SHAPES: [(usize, usize); 6] = [
    (8, 8),
    (24, 8),
    (8, 100),
    (24, 100),
    (24, 1 << 10),
    (24, 64 << 10),
];
/// Bytes that are read, and those that are written, in a round of a store, at most.
const BYTES_MOVED: usize = 2 << 30;
const LINE: usize = 64;

/// The options of `sizes`.
#[derive(Args)]
pub struct Options {
    /// Records in each store, such as 1000000 or 10M, if they are not too large.
    #[arg(long, default_value = "1M", value_parser = crate::table::count)]
    records: u64,
    /// Bytes of keys and values in each store, at most, in MiB.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..))]
    mib: u64,
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Reads and updates a round; fewer of large values.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// The seed from which all keys are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// What is measured of a store.
#[derive(Clone, Copy, Default)]
struct Figures {
    /// Operations a second.
    load: f64,
    get: f64,
    update: f64,
    bytes_per_record: Option<f64>,
}

/// What is measured, by name.
type Figure = (&'static str, fn(&Figures) -> f64);

const FIGURES: [Figure; 3] = [
    ("load", |figures| figures.load),
    ("get", |figures| figures.get),
    ("update", |figures| figures.update),
];

/// A store, and the code that measures it.
struct Entry {
    name: &'static str,
    measure: fn(&Plan) -> Result<Figures, Failure>,
}

impl Entry {
    const fn of<S: Store>() -> Self {
        Self {
            name: S::NAME,
            measure: measure::<S>,
        }
    }
}

const STORES: [Entry; 5] = [
    Entry::of::<Hash>(),
    Entry::of::<Dash>(),
    Entry::of::<OrderedMap>(),
    Entry::of::<Skip>(),
    Entry::of::<Lmdb>(),
];

/// Which stores are compared: ours, and a peer.
const RATIOS: [(usize, usize); 4] = [(0, 1), (0, 4), (2, 3), (2, 4)];

/// The operations that every store gets, for one shape.
struct Plan {
    key: usize,
    value: usize,
    records: u64,
    gets: Vec<u64>,
    updates: Vec<u64>,
}

impl Plan {
    fn new(options: &Options, (key, value): (usize, usize)) -> Self {
        let records = options
            .records
            .min((options.mib << 20) / (key + value) as u64)
            .max(1);
        let keys = |seed: u64| {
            let spec = Spec {
                operations: options.ops.min((BYTES_MOVED / (key + value)) as u64),
                seed,
                ..Spec::new(Workload::C, records)
            };
            spec.stream().map(|operation| operation.record).collect()
        };
        Self {
            key,
            value,
            records,
            gets: keys(options.seed),
            updates: keys(options.seed.wrapping_add(1)),
        }
    }
}

/// A key and a value that are made as they are needed.
pub struct Pair {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Pair {
    fn new(plan: &Plan) -> Self {
        Self {
            key: vec![0; plan.key],
            value: vec![7; plan.value],
        }
    }

    /// A record's key.
    fn key(&mut self, record: u64) -> &[u8] {
        let (first, rest) = self.key.split_at_mut(8);
        first.copy_from_slice(&key_of_record(record).to_be_bytes());
        rest.fill(record as u8);
        &self.key
    }

    /// A record's key, and its value after so many updates.
    fn of(&mut self, record: u64, version: u64) -> (&[u8], &[u8]) {
        self.value[..8].copy_from_slice(&mark_of(record, version).to_le_bytes());
        self.key(record);
        (&self.key, &self.value)
    }
}

/// What a value of a record begins with after so many updates.
fn mark_of(record: u64, version: u64) -> u64 {
    key_of_record(record).rotate_left(32).wrapping_add(version)
}

/// Measures every store with every shape, and prints the tables.
pub fn run(options: &Options) -> Result<(), Failure> {
    let plans = SHAPES.map(|shape| Plan::new(options, shape));
    // By shape, store and round.
    let mut figures = vec![vec![Vec::new(); STORES.len()]; SHAPES.len()];
    for round in 0..options.rounds as usize {
        for (plan, figures) in plans.iter().zip(&mut figures) {
            for step in 0..STORES.len() {
                let turn = (round + step) % STORES.len();
                let store = &STORES[turn];
                let progress = Progress::new(format!("round {} of {}: ", round + 1, options.rounds));
                progress.tell(&format!(
                    "{}, keys of {} and values of {} bytes",
                    store.name, plan.key, plan.value
                ));
                let measured = (store.measure)(plan)
                    .map_err(|failure| Failure::Broken(format!("{}: {failure}", store.name)))?;
                figures[turn].push(measured);
            }
        }
    }
    tell("");
    options.output.print(
        || to_json(options, &plans, &figures),
        |style| text(style, options, &plans, &figures),
    );
    Ok(())
}

/// One round of one store with one shape.
fn measure<S: Store>(plan: &Plan) -> Result<Figures, Failure> {
    let (mut store, mut pair) = (S::create()?, Pair::new(plan));
    let timed = plan.records.min(S::WRITES_MAX);
    let filled = plan.records - timed;
    store.fill(0..filled, &mut pair)?;
    let load = per_second(timed, || {
        (filled..plan.records).try_for_each(|record| {
            let (key, value) = pair.of(record, 0);
            store.put(key, value)
        })
    })?;
    let bytes = store.bytes()?;
    let mut get = |store: &mut S, record: u64| {
        let mut mark = 0;
        let is_there = store.get(pair.key(record), |value| {
            mark = value.first_chunk().map_or(0, |mark| u64::from_le_bytes(*mark));
            std::hint::black_box(value.iter().step_by(LINE).fold(0, |all, byte| all ^ byte));
        })?;
        if is_there { Ok(mark) } else { Err(absent(record)) }
    };
    let expected = plan
        .gets
        .iter()
        .fold(0u64, |all, record| all.wrapping_add(mark_of(*record, 0)));
    let mut found = 0u64;
    let gets = per_second(plan.gets.len() as u64, || {
        plan.gets.iter().try_for_each(|record| {
            found = found.wrapping_add(get(&mut store, *record)?);
            Ok(())
        })
    })?;
    check(found == expected, "a get returned a wrong value")?;
    let updates = &plan.updates[..plan.updates.len().min(S::WRITES_MAX as usize)];
    let mut pair = Pair::new(plan);
    let mut version = 0;
    let update = per_second(updates.len() as u64, || {
        updates.iter().try_for_each(|record| {
            version += 1;
            let (key, value) = pair.of(*record, version);
            store.put(key, value)
        })
    })?;
    if let Some(last) = updates.last() {
        check(
            get(&mut store, *last)? == mark_of(*last, version),
            "an update is not there",
        )?;
    }
    Ok(Figures {
        load,
        get: gets,
        update,
        bytes_per_record: bytes.map(|bytes| bytes as f64 / plan.records as f64),
    })
}

fn per_second(operations: u64, work: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    let start = Instant::now();
    work()?;
    Ok(operations as f64 / start.elapsed().as_secs_f64())
}

fn median_of(rounds: &[Figures], figure: impl Fn(&Figures) -> f64) -> Option<f64> {
    median(&rounds.iter().map(figure).collect::<Vec<_>>())
}

fn text(style: Style, options: &Options, plans: &[Plan], figures: &[Vec<Vec<Figures>>]) -> String {
    let shape = |plan: &Plan| {
        vec![
            format!("{} + {}", plan.key, grouped(plan.value as u64)),
            grouped(plan.records),
        ]
    };
    let mut rows = Vec::new();
    let mut ratios = Vec::new();
    for (plan, stores) in plans.iter().zip(figures) {
        for (store, rounds) in STORES.iter().zip(stores) {
            let mut row = shape(plan);
            row.push(store.name.to_owned());
            row.extend(FIGURES.map(|(_, figure)| rate(median_of(rounds, figure))));
            let bytes: Option<Vec<f64>> = rounds.iter().map(|figures| figures.bytes_per_record).collect();
            row.push(
                bytes
                    .and_then(|bytes| median(&bytes))
                    .map_or("-".to_owned(), |bytes| format!("{bytes:.0}")),
            );
            rows.push(row);
        }
        for (ours, peer) in RATIOS {
            let mut row = shape(plan);
            row.push(format!("{} to {}", STORES[ours].name, STORES[peer].name));
            let pairs = || stores[ours].iter().zip(&stores[peer]);
            row.extend(FIGURES.map(|(_, figure)| {
                let each: Vec<f64> = pairs().map(|(ours, peer)| figure(ours) / figure(peer)).collect();
                ratio(median(&each))
            }));
            ratios.push(row);
        }
    }
    let mut text = format!(
        "operations a second by one thread, zipfian 0.99, medians of {} rounds, seed {}\n\n",
        options.rounds, options.seed
    );
    let head = ["key + value", "records"];
    let of_stores = ["store", "load", "get", "update", "bytes a record"];
    table(&mut text, style, 3, &[&head[..], &of_stores].concat(), &rows);
    text.push('\n');
    table(
        &mut text,
        style,
        3,
        &[&head[..], &["ratio", "load", "get", "update"]].concat(),
        &ratios,
    );
    text
}

fn to_json(options: &Options, plans: &[Plan], figures: &[Vec<Vec<Figures>>]) -> Value {
    let of_store = |(store, rounds): (&Entry, &Vec<Figures>)| {
        let of = |figure: fn(&Figures) -> f64| rounds.iter().map(figure).collect::<Vec<_>>();
        let mut all = json!({ "store": store.name });
        for (name, figure) in FIGURES {
            all[name] = json!(of(figure));
        }
        all["bytes_per_record"] = json!(
            rounds
                .iter()
                .map(|figures| figures.bytes_per_record)
                .collect::<Vec<_>>()
        );
        all
    };
    let of_shape = |(plan, stores): (&Plan, &Vec<Vec<Figures>>)| {
        let stores: Vec<Value> = STORES.iter().zip(stores).map(of_store).collect();
        json!({ "key_bytes": plan.key, "value_bytes": plan.value, "records": plan.records, "stores": stores })
    };
    let shapes: Vec<Value> = plans.iter().zip(figures).map(of_shape).collect();
    json!({ "command": "sizes", "rounds": options.rounds, "seed": options.seed, "shapes": shapes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects::heap::tests::alone;

    /// Whatever the lengths, every store answers what was written.
    #[test]
    fn stores_find_what_they_were_given() {
        let _alone = alone();
        for (key, value) in [(8, 8), (24, 100), (24, 64 << 10)] {
            let plan = Plan {
                key,
                value,
                records: 50,
                gets: (0..50).collect(),
                updates: vec![7, 3, 7],
            };
            for store in &STORES {
                let figures =
                    (store.measure)(&plan).unwrap_or_else(|failure| panic!("{}: {failure}", store.name));
                assert!(
                    figures.load > 0.0 && figures.get > 0.0 && figures.update > 0.0,
                    "{}",
                    store.name
                );
            }
        }
    }
}
