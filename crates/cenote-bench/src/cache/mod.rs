//! The `cache` command: how often an object store that evicts has what it is asked for, beside SIEVE and LRU in one
//! process, which hold nothing but sizes.
//!
//! A get that misses is followed by a put, as in a cache. All have the same bytes: a share of what all objects of the
//! trace would occupy. An object counts in each with what it occupies in a pool, so the hit ratios differ by what is
//! evicted alone. With `--minutes` the trace is repeated, each time drawn anew; then the pool must not have grown since
//! the first time, and nothing may have leaked.

mod policy;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use cenote::objects::{ObjectSettings, Objects};
use cenote::{Error, Options as PoolOptions, Pool};
use cenote_ycsb::trace::{Action, Preset, Shape, Sizes, Step, Synthetic, synthetic};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::subjects::{Failure, check, temporary};
use crate::table::{Output, Style, grouped, ratio, table};
use policy::{Lru, Policy, Sieve};

/// The options of `cache`.
#[derive(Args)]
pub struct Options {
    /// Which traces: clusters of Twitter's caches by their published figures (see `cenote trace presets`), or
    /// `zipf`: exponentially distributed sizes of 4 KiB on average, and scans of keys that nobody asks for again.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "zipf,cluster52,cluster18,cluster7"
    )]
    traces: Vec<Trace>,
    /// Requests of a trace.
    #[arg(long, default_value = "1M", value_parser = crate::table::count)]
    operations: u64,
    /// The bytes that a cache has, in hundredths of those of all objects of the trace.
    #[arg(long, value_delimiter = ',', default_value = "1,10", value_parser = clap::value_parser!(u64).range(1..=100))]
    percent: Vec<u64>,
    /// Repeats each trace for so long, drawn anew each time.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    minutes: u32,
    /// The seed from which all requests are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// What was found of one trace and size.
#[derive(Debug, Serialize)]
struct Row {
    trace: String,
    percent: u64,
    quota_bytes: u64,
    requests: u64,
    cenote_hits: f64,
    sieve_hits: f64,
    lru_hits: f64,
    /// Times that the trace was drawn.
    times: u64,
    /// Bytes that the pool has after the first time, and after the last.
    committed_bytes: [u64; 2],
    requests_per_second: f64,
}

/// Requests, of which each read is either a hit or a miss.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    hits: u64,
    reads: u64,
}

impl Count {
    fn add(&mut self, is_hit: bool) {
        self.hits += u64::from(is_hit);
        self.reads += 1;
    }

    fn ratio(self) -> f64 {
        self.hits as f64 / self.reads.max(1) as f64
    }
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for trace in &options.traces {
        for percent in &options.percent {
            let spec = |seed| trace.spec(options.operations, seed);
            let time = Duration::from_secs(60 * u64::from(options.minutes));
            rows.push(measure(trace, *percent, options.seed, time, spec)?);
        }
    }
    options.output.print(
        || json!({ "command": "cache", "rows": rows }),
        |style| text(style, &rows),
    );
    Ok(())
}

/// The requests of a trace.
struct Spec {
    requests: Synthetic,
    /// After so many requests a scan of new keys follows, a twentieth as many as there are.
    scans: Option<u64>,
}

/// Which requests are drawn.
#[derive(Clone, Debug)]
enum Trace {
    Zipf,
    Cluster(Preset),
}

impl FromStr for Trace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "zipf" {
            return Ok(Self::Zipf);
        }
        let preset = text.parse().map(Self::Cluster);
        preset.map_err(|error: cenote_ycsb::trace::Error| format!("{error}; or zipf"))
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zipf => f.write_str("zipf"),
            Self::Cluster(preset) => f.write_str(&preset.name()),
        }
    }
}

impl Trace {
    fn spec(&self, operations: u64, seed: u64) -> Spec {
        match self {
            Self::Zipf => Spec {
                requests: Synthetic {
                    operations,
                    keys: (operations / 10).max(1),
                    reads: 1.0,
                    exponent: 0.9,
                    value_size: Sizes {
                        mean: 4096,
                        shape: Shape::Exponential,
                    },
                    seed,
                    ..Synthetic::default()
                },
                scans: Some((operations / 20).max(1)),
            },
            Self::Cluster(preset) => Spec {
                requests: Synthetic {
                    seed,
                    ..preset.spec(operations)
                },
                scans: None,
            },
        }
    }
}

impl Spec {
    fn steps(&self) -> Result<Vec<Step>, Failure> {
        let mut steps = Vec::new();
        let mut scanned = 0;
        for (n, step) in (1..).zip(synthetic(&self.requests)?) {
            steps.push(step);
            if self.scans.is_some_and(|scans| n % scans == 0) {
                // Each is asked for once.
                for _ in 0..self.requests.keys / 20 {
                    scanned += 1;
                    steps.push(Step {
                        action: Action::Read,
                        value_size: 4096,
                        key: cenote_ycsb::key_of_record(u64::MAX - scanned),
                    });
                }
            }
        }
        Ok(steps)
    }
}

fn measure(
    trace: &Trace,
    percent: u64,
    seed: u64,
    time: Duration,
    spec: impl Fn(u64) -> Spec,
) -> Result<Row, Failure> {
    let directory = temporary("cache", Path::new("/dev/shm"))?;
    let pool: Pool = Pool::create(directory.path().join("pool"), &PoolOptions::default())?;
    let mut steps = spec(seed).steps()?;
    let mut charges = Charges::of(&pool)?;
    let quota_bytes = charges.of_all(&steps)? * percent / 100;
    let settings = ObjectSettings {
        quota: Some(quota_bytes),
        ..ObjectSettings::cache()
    };
    let objects = pool.objects("cache", &settings)?;
    // What the store itself occupies is not for objects.
    let limit = quota_bytes.saturating_sub(objects.bytes());
    let mut others: [Box<dyn Policy>; 2] = [Box::new(Sieve::new(limit)), Box::new(Lru::new(limit))];
    let (mut ours, mut theirs) = (Count::default(), [Count::default(); 2]);
    let (mut committed_bytes, mut times, mut took) = ([0; 2], 0, Duration::ZERO);
    let start = Instant::now();
    loop {
        let began = Instant::now();
        for step in &steps {
            replay(&objects, *step, &mut ours)?;
        }
        took += began.elapsed();
        for (policy, count) in others.iter_mut().zip(&mut theirs) {
            for step in &steps {
                count_only(policy.as_mut(), *step, &mut charges, count)?;
            }
        }
        times += 1;
        let report = pool.fsck()?;
        check(report.leaked.is_empty(), "bytes have leaked")?;
        committed_bytes[1] = report.committed_bytes;
        if times == 1 {
            committed_bytes[0] = report.committed_bytes;
        }
        if start.elapsed() >= time {
            break;
        }
        steps = spec(seed.wrapping_add(times)).steps()?;
    }
    Ok(Row {
        trace: trace.to_string(),
        percent,
        quota_bytes,
        requests: ours.reads,
        cenote_hits: ours.ratio(),
        sieve_hits: theirs[0].ratio(),
        lru_hits: theirs[1].ratio(),
        times,
        committed_bytes,
        requests_per_second: steps.len() as f64 * times as f64 / took.as_secs_f64(),
    })
}

/// What objects occupy, by their sizes.
struct Charges {
    scratch: Objects,
    known: HashMap<u32, u64>,
}

impl Charges {
    fn of(pool: &Pool) -> Result<Self, Failure> {
        Ok(Self {
            scratch: pool.objects("scratch", &ObjectSettings::default())?,
            known: HashMap::new(),
        })
    }

    fn charge(&mut self, size: u32) -> Result<u64, Failure> {
        if let Some(charge) = self.known.get(&size) {
            return Ok(*charge);
        }
        let before = self.scratch.bytes();
        self.scratch.put(&[0; 8], &vec![0; size as usize])?;
        let charge = self.scratch.bytes().saturating_sub(before);
        self.scratch.delete(&[0; 8])?;
        self.known.insert(size, charge);
        Ok(charge)
    }

    /// Of all objects of a trace.
    fn of_all(&mut self, steps: &[Step]) -> Result<u64, Failure> {
        let mut seen = HashSet::new();
        let mut all = 0;
        for step in steps {
            if step.action != Action::Delete && seen.insert(step.key) {
                all += self.charge(step.value_size)?;
            }
        }
        Ok(all)
    }
}

fn replay(objects: &Objects, step: Step, count: &mut Count) -> Result<(), Failure> {
    let id = step.key.to_be_bytes();
    let put = || -> Result<(), Failure> {
        let mut writer = match objects.create_over(&id, u64::from(step.value_size), &Default::default()) {
            // Larger than the cache, as a small share may be.
            Err(Error::Quota { needed, limit, .. }) if needed > limit => return Ok(()),
            created => created?,
        };
        writer.as_mut_slice().fill(id[7]);
        writer.seal_over()?;
        Ok(())
    };
    match step.action {
        Action::Read => {
            let found = objects.get(&id)?;
            count.add(found.is_some());
            match found {
                // Of a trace that was drawn before it may have had another size.
                Some(view) => check(
                    view.iter().all(|byte| *byte == id[7]),
                    "an object holds what another one should",
                ),
                None => put(),
            }
        }
        Action::Write => put(),
        Action::Insert => match objects.contains(&id)? {
            true => Ok(()),
            false => put(),
        },
        Action::Delete => Ok(objects.delete(&id).map(drop)?),
    }
}

fn count_only(
    policy: &mut dyn Policy,
    step: Step,
    charges: &mut Charges,
    count: &mut Count,
) -> Result<(), Failure> {
    match step.action {
        Action::Read => {
            let is_hit = policy.get(step.key);
            count.add(is_hit);
            if !is_hit {
                policy.put(step.key, charges.charge(step.value_size)?);
            }
        }
        Action::Write => policy.put(step.key, charges.charge(step.value_size)?),
        Action::Insert if policy.has(step.key) => {}
        Action::Insert => policy.put(step.key, charges.charge(step.value_size)?),
        Action::Delete => policy.delete(step.key),
    }
    Ok(())
}

fn text(style: Style, rows: &[Row]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.trace.clone(),
                format!("{} %", row.percent),
                grouped(row.quota_bytes >> 20),
                grouped(row.requests),
                format!("{:.3}", row.cenote_hits),
                format!("{:.3}", row.sieve_hits),
                format!("{:.3}", row.lru_hits),
                ratio((row.sieve_hits > 0.0).then(|| row.cenote_hits / row.sieve_hits)),
                format!(
                    "{} to {}",
                    row.committed_bytes[0] >> 20,
                    row.committed_bytes[1] >> 20
                ),
                crate::table::rate(Some(row.requests_per_second)),
            ]
        })
        .collect();
    let head = [
        "trace",
        "cache",
        "MiB",
        "reads",
        "cenote",
        "SIEVE",
        "LRU",
        "cenote/SIEVE",
        "pool MiB",
        "requests/s",
    ];
    let mut text = String::from("Hit ratios; a miss puts\n\n");
    table(&mut text, style, 1, &head, &cells);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_store_evicts_as_sieve_does_and_the_pool_stays_as_it_is() {
        for trace in ["zipf", "cluster52"] {
            let trace: Trace = trace.parse().unwrap();
            let spec = |seed| trace.spec(20_000, seed);
            let row = measure(&trace, 10, 1, Duration::ZERO, spec).unwrap();
            assert!(row.sieve_hits > 0.1, "{row:?}");
            assert!((row.cenote_hits / row.sieve_hits - 1.0).abs() < 0.02, "{row:?}");
        }
    }
}
