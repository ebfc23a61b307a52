//! The `processes` command: what a second process adds.
//!
//! Two processes have one coherent pool open, zipfian keys over all records, each in an order of its own. Measured
//! are one of them alone and both at once, in turns, for a fixed time each: single gets, batched gets, YCSB A (half
//! updates), and, as a yardstick of the machine, gets in a private map that each process has for itself. A ratio is
//! taken within a round, between figures measured a moment apart, before its median is.
//!
//! The parts are this program once more with a hidden subcommand. They are told what to do a line at a time: `get`
//! makes a part warm up and answer `ready`; `go` starts its clock; it answers with the operations it has done and
//! the nanoseconds it took. Whoever is not asked waits for its standard input and takes no time. A part ends when
//! its standard input does, and so with its parent however that ends.

use crate::hash::value_of;
use crate::subjects::{Failure, absent, check, temporary};
use crate::table::{Output, Style, median, rate, ratio, table};
use cenote::{Map, Pool};
use cenote_ycsb::{Action, Spec, Workload, key_of_record};
use clap::Args;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// What is measured: what the parts are told, and the name in the table.
pub const KINDS: [(&str, &str); 4] = [
    ("get", "single gets"),
    ("get_many", "get_many"),
    ("update", "YCSB A, half updates"),
    ("private", "gets, a private map each"),
];

/// Operations between two readings of the clock.
const STRETCH: usize = 2_048;
/// Keys in a batched get.
const BATCH: usize = 32;

/// The options of `processes`.
#[derive(Args)]
pub struct Options {
    /// Records in the pool.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
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

impl Options {
    /// What `all` asks for.
    pub fn judged(records: u64, rounds: u32, seed: u64) -> Self {
        Self {
            records,
            rounds,
            ms: 300,
            seed,
            output: Output::default(),
        }
    }
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
        .map(|part| Part::start(program, &path, options, part))
        .collect::<Result<Vec<_>, _>>()?;
    let mut figures = Figures::default();
    for round in 0..options.rounds as usize {
        for ((kind, _), (one, two)) in KINDS.into_iter().zip(&mut figures.kinds) {
            let alone = round / 2 % 2;
            for step in [round, round + 1] {
                if step % 2 == 0 {
                    one.push(together(&mut parts[alone..=alone], kind)?);
                } else {
                    two.push(together(&mut parts, kind)?);
                }
            }
        }
    }
    parts.into_iter().try_for_each(Part::end)?;
    Ok(figures)
}

/// Operations a second of some parts that start at the same time.
fn together(parts: &mut [Part], kind: &str) -> Result<f64, Failure> {
    for part in &mut *parts {
        part.say(kind)?;
    }
    for part in &mut *parts {
        let answer = part.hear()?;
        check(answer == "ready", "a part is not ready")?;
    }
    for part in &mut *parts {
        part.say("go")?;
    }
    parts.iter_mut().try_fold(0.0, |sum, part| {
        let answer = part.hear()?;
        let mut numbers = answer.split(' ').map(str::parse::<f64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(operations)), Some(Ok(ns))) => Ok(sum + operations / ns * 1e9),
            _ => Err(Failure::Broken(format!("a part answered \"{answer}\""))),
        }
    })
}

/// A process that does operations when it is told to.
struct Part {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Part {
    fn start(program: &Path, pool: &Path, options: &Options, part: u64) -> Result<Self, Failure> {
        let mut child = Command::new(program)
            .arg("part")
            .arg(pool)
            .args([options.records, options.ms, options.seed, part].map(|number| number.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Broken("a part has no pipes".to_owned()));
        };
        Ok(Self {
            child,
            input: Some(input),
            output: BufReader::new(output),
        })
    }

    fn say(&mut self, word: &str) -> Result<(), Failure> {
        match &mut self.input {
            Some(input) => Ok(writeln!(input, "{word}")?),
            None => Ok(()),
        }
    }

    fn hear(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        check(line.ends_with('\n'), "a part has ended too early")?;
        Ok(line.trim_end().to_owned())
    }

    fn end(mut self) -> Result<(), Failure> {
        drop(self.input.take());
        let status = self.child.wait()?;
        check(status.success(), "a part has failed")
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// What a part works with.
struct Work {
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
    let work = Work {
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
    let mut output = std::io::stdout();
    let mut lines = std::io::stdin().lines();
    let mut next = || lines.next().transpose();
    while let Some(kind) = next()? {
        work.run(&kind, work.time / 10)?;
        writeln!(output, "ready")?;
        output.flush()?;
        if next()?.is_none() {
            break;
        }
        let (operations, ns) = work.run(&kind, work.time)?;
        writeln!(output, "{operations} {ns}")?;
        output.flush()?;
    }
    Ok(())
}

impl Work {
    /// Does operations for some time; returns how many, and the nanoseconds.
    fn run(&self, kind: &str, time: Duration) -> Result<(u64, u128), Failure> {
        match kind {
            "get" => repeat(time, &self.keys, |keys| self.get(keys)),
            "get_many" => repeat(time, &self.keys, |keys| self.get_many(keys)),
            "update" => repeat(time, &self.mixed, |operations| self.update(operations)),
            "private" => repeat(time, &self.keys, |keys| self.get_private(keys)),
            _ => Err(Failure::Broken(format!("a part was told \"{kind}\""))),
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

/// Goes through the operations, over and over, until the time is over. `stretch` returns 0 if all it read was right.
fn repeat<T>(
    time: Duration,
    operations: &[T],
    mut stretch: impl FnMut(&[T]) -> Result<u64, Failure>,
) -> Result<(u64, u128), Failure> {
    let mut done = 0;
    let mut wrong = 0;
    let start = Instant::now();
    for part in operations.chunks(STRETCH).cycle() {
        wrong |= stretch(part)?;
        done += part.len() as u64;
        let elapsed = start.elapsed();
        if elapsed >= time {
            check(black_box(wrong) == 0, "a get returned a wrong value")?;
            return Ok((done, elapsed.as_nanos()));
        }
    }
    Err(Failure::Broken("there is nothing to do".to_owned()))
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
        json!({ "command": "processes", "kinds": kinds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_repeated_until_the_time_is_over_and_faults_are_seen() {
        let time = Duration::from_millis(2);
        let (done, ns) = repeat(time, &[1, 2, 3], |part| Ok(part.len() as u64 - 3)).expect("all is right");
        assert!(done >= 3 && done % 3 == 0 && ns >= time.as_nanos());
        assert!(repeat(time, &[1], |_| Ok(1)).is_err());
        assert!(repeat(time, &[0u64; 0], |_| Ok(0)).is_err());
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut figures = Figures::default();
        figures.kinds[0] = (vec![1.0, 10.0, 2.0], vec![2.0, 15.0, 3.8]);
        assert_eq!(figures.medians(0), [Some(2.0), Some(3.8), Some(1.9)]);
        assert!(figures.text(Style::Plain).contains("1.90"));
        assert_eq!(figures.json()["kinds"][0]["ratio"], 1.9);
    }
}
