//! The `processes` command: what a second process adds.
//!
//! Two processes have one coherent pool open, zipfian keys over all records, each in an order of its own. Measured
//! are one of them alone and both at once, in turns, for a fixed time each: single gets, batched gets, YCSB A (half
//! updates), and, as a yardstick of the machine, gets in a private map that each process has for itself. A ratio is
//! taken within a round, between figures measured a moment apart, before its median is.
//!
//! The processes are [parts](crate::parts).

use crate::hash::value_of;
use crate::parts::{Part, Work, repeat, serve, together, unknown};
use crate::subjects::{Failure, absent, temporary};
use crate::table::{Output, Style, median, rate, ratio, table};
use cenote::{Map, Pool};
use cenote_ycsb::{Action, Spec, Workload, key_of_record};
use clap::Args;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is measured: what the parts are told, and the name in the table.
pub const KINDS: [(&str, &str); 4] = [
    ("get", "single gets"),
    ("get_many", "get_many"),
    ("update", "YCSB A, half updates"),
    ("private", "gets, a private map each"),
];

/// Keys in a batched get.
const BATCH: usize = 32;

/// The options of `processes`.
#[derive(Args)]
pub struct Options {
    /// Records in the pool, such as 1000000 or 10M.
    #[arg(long, default_value = "1M", value_parser = crate::table::count)]
    records: u64,
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Milliseconds of each measurement.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    ms: u64,
    /// The seed from which the keys are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// The options of a part.
#[derive(Args)]
pub struct PartOptions {
    pool: PathBuf,
    records: u64,
    ms: u64,
    seed: u64,
    /// Which part it is.
    part: u64,
}

/// Operations a second in each round, of one process and of two, for each of [`KINDS`].
#[derive(Default)]
pub struct Figures {
    records: u64,
    kinds: [(Vec<f64>, Vec<f64>); KINDS.len()],
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let figures = measure(options)?;
    options.output.print(
        || figures.json(),
        |style| {
            format!(
                "{} records of 8-byte keys and values, zipfian 0.99, coherent; operations a second, medians of {} \
                 rounds\n\n{}",
                options.records,
                options.rounds,
                figures.text(style)
            )
        },
    );
    Ok(())
}

/// Measures with two processes of this program.
pub fn measure(options: &Options) -> Result<Figures, Failure> {
    measure_with(&std::env::current_exe()?, options)
}

fn measure_with(program: &Path, options: &Options) -> Result<Figures, Failure> {
    let directory = temporary("processes", Path::new("/dev/shm"))?;
    let path = directory.path().join("pool");
    let pool: Pool = Pool::create(
        &path,
        &cenote::Options {
            max: 64 << 30,
            ..Default::default()
        },
    )?;
    let map = pool.map("bench")?;
    for key in (0..options.records).map(key_of_record) {
        map.put_u64(key, value_of(key, 0))?;
    }
    let mut parts = [0, 1]
        .into_iter()
        .map(|part| {
            let numbers = [options.records, options.ms, options.seed, part].map(|number| number.to_string());
            let words = ["part".as_ref(), path.as_os_str()];
            Part::start(
                program,
                words.into_iter().chain(numbers.iter().map(AsRef::as_ref)),
            )
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut figures = Figures {
        records: options.records,
        ..Figures::default()
    };
    for round in 0..options.rounds as usize {
        for ((kind, _), (one, two)) in KINDS.into_iter().zip(&mut figures.kinds) {
            let alone = round / 2 % 2;
            for step in [round, round + 1] {
                if step % 2 == 0 {
                    one.push(together(&mut parts[alone..=alone], |_| kind.to_owned())?);
                } else {
                    two.push(together(&mut parts, |_| kind.to_owned())?);
                }
            }
        }
    }
    parts.into_iter().try_for_each(Part::end)?;
    Ok(figures)
}

/// What a part works with.
struct Hash {
    map: Map,
    private: FxHashMap<u64, u64>,
    keys: Vec<u64>,
    mixed: Vec<(bool, u64)>,
    time: Duration,
}

/// The hidden subcommand: a part, until its standard input ends.
pub fn run_part(options: &PartOptions) -> Result<(), Failure> {
    let spec = |workload, lane: u64| Spec {
        operations: 1_000_000,
        seed: options.seed.wrapping_mul(4).wrapping_add(2 * options.part + lane),
        ..Spec::new(workload, options.records)
    };
    let pool: Pool = Pool::open(&options.pool, &cenote::Options::default())?;
    let mut work = Hash {
        map: pool.existing_map("bench")?,
        private: (0..options.records)
            .map(key_of_record)
            .map(|key| (key, value_of(key, 0)))
            .collect(),
        keys: spec(Workload::C, 0)
            .stream()
            .map(|operation| key_of_record(operation.record))
            .collect(),
        mixed: spec(Workload::A, 1)
            .stream()
            .map(|operation| {
                (
                    operation.action == Action::Update,
                    key_of_record(operation.record),
                )
            })
            .collect(),
        time: Duration::from_millis(options.ms),
    };
    serve(&mut work)
}

impl Work for Hash {
    fn prepare(&mut self, kind: &str) -> Result<(), Failure> {
        self.work(kind, self.time / 10).map(drop)
    }

    fn run(&mut self, kind: &str) -> Result<(u64, u128), Failure> {
        self.work(kind, self.time)
    }
}

impl Hash {
    /// Does operations for some time; returns how many, and the nanoseconds.
    fn work(&self, kind: &str, time: Duration) -> Result<(u64, u128), Failure> {
        match kind {
            "get" => repeat(time, &self.keys, |keys| self.get(keys)),
            "get_many" => repeat(time, &self.keys, |keys| self.get_many(keys)),
            "update" => repeat(time, &self.mixed, |operations| self.update(operations)),
            "private" => repeat(time, &self.keys, |keys| self.get_private(keys)),
            _ => Err(unknown(kind)),
        }
    }

    #[inline(never)]
    fn get(&self, keys: &[u64]) -> Result<u64, Failure> {
        let mut wrong = 0;
        for &key in keys {
            let Some(value) = self.map.get_u64(key)? else {
                return Err(absent(key));
            };
            wrong |= value ^ value_of(key, 0);
        }
        Ok(wrong)
    }

    #[inline(never)]
    fn get_many(&self, keys: &[u64]) -> Result<u64, Failure> {
        let mut wrong = 0;
        for keys in keys.chunks(BATCH) {
            self.map.get_many_u64(keys, |n, value| {
                wrong |= value.map_or(1, |value| value ^ value_of(keys[n], 0));
            })?;
        }
        Ok(wrong)
    }

    /// Updates write the value that is there already: a new object all the same.
    #[inline(never)]
    fn update(&self, operations: &[(bool, u64)]) -> Result<u64, Failure> {
        let mut wrong = 0;
        for &(is_update, key) in operations {
            if is_update {
                self.map.put_u64(key, value_of(key, 0))?;
                continue;
            }
            let Some(value) = self.map.get_u64(key)? else {
                return Err(absent(key));
            };
            wrong |= value ^ value_of(key, 0);
        }
        Ok(wrong)
    }

    #[inline(never)]
    fn get_private(&self, keys: &[u64]) -> Result<u64, Failure> {
        let mut wrong = 0;
        for key in keys {
            let Some(value) = self.private.get(key) else {
                return Err(absent(*key));
            };
            wrong |= value ^ value_of(*key, 0);
        }
        Ok(wrong)
    }
}

impl Figures {
    /// Medians of a kind: one process, two, and the ratio of two to one.
    pub fn medians(&self, kind: usize) -> [Option<f64>; 3] {
        let (one, two) = &self.kinds[kind];
        let ratios: Vec<f64> = one.iter().zip(two).map(|(one, two)| two / one).collect();
        [median(one), median(two), median(&ratios)]
    }

    /// The table.
    pub fn text(&self, style: Style) -> String {
        let rows: Vec<Vec<String>> = KINDS
            .iter()
            .enumerate()
            .map(|(index, (_, name))| {
                let [one, two, two_to_one] = self.medians(index);
                vec![(*name).to_owned(), rate(one), rate(two), ratio(two_to_one)]
            })
            .collect();
        let mut text = String::new();
        table(&mut text, style, 1, &["processes", "one", "two", "ratio"], &rows);
        text
    }

    /// Everything, with each round's figures.
    pub fn json(&self) -> Value {
        let kinds: Vec<Value> = KINDS
            .iter()
            .zip(&self.kinds)
            .enumerate()
            .map(|(index, ((kind, _), (one, two)))| {
                let [one_median, two_median, ratio] = self.medians(index);
                json!({
                    "kind": kind,
                    "one_per_second": { "median": one_median, "rounds": one },
                    "two_per_second": { "median": two_median, "rounds": two },
                    "ratio": ratio,
                })
            })
            .collect();
        json!({ "command": "processes", "records": self.records, "kinds": kinds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut figures = Figures::default();
        figures.kinds[0] = (vec![1.0, 10.0, 2.0], vec![2.0, 15.0, 3.8]);
        assert_eq!(figures.medians(0), [Some(2.0), Some(3.8), Some(1.9)]);
        assert!(figures.text(Style::Plain).contains("1.90"));
        assert_eq!(figures.json()["kinds"][0]["ratio"], 1.9);
    }
}
