//! What the operations of a cluster cost, beside the round trips that they are made of.
//!
//! A raw round trip is that of a batch that reads 8 bytes at one memory node, measured between the operations. With
//! `--redis`, reads and writes are measured in turns with those of a Redis server that has one replica.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use cenote_cluster::Map;
use serde::Serialize;

use super::place::ClusterArg;
use super::redis::Redis;
use crate::failure::Failure;
use crate::output::{Output, count};

/// Arguments of `bench`.
#[derive(clap::Args)]
pub struct BenchArgs {
    #[command(flatten)]
    cluster: ClusterArg,
    /// Operations of each kind by one client
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=16 << 20))]
    value: u32,
    /// Clients that then read and write at once, each a thread with a session of its own
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// How long they do, in seconds
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Compare with a Redis server on this machine, which has one replica and waits for it; needs redis-server
    #[arg(long)]
    redis: bool,
}

/// An operation of the cluster, and of Redis.
#[derive(Serialize)]
struct Beside {
    operation: &'static str,
    cluster_us: f64,
    cluster_p99_us: f64,
    redis_us: f64,
    redis_p99_us: f64,
    /// The cluster's median over that of Redis.
    ratio: f64,
}

/// An operation.
#[derive(Serialize)]
struct Latency {
    operation: &'static str,
    median_us: f64,
    p99_us: f64,
    /// How many round trips it is made of.
    round_trips: f64,
    /// Its median over that of so many raw round trips.
    over_raw: f64,
    /// Median of what its own round trips take in one operation.
    own_round_trips_us: f64,
    /// Median of the operation's time over that of its own round trips.
    over_own: f64,
}

#[derive(Serialize)]
struct Measured {
    raw_round_trip_us: f64,
    latencies: Vec<Latency>,
    clients: u32,
    /// Operations a second of all, half of them reads.
    per_second: f64,
    /// With `--redis`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    redis: Vec<Beside>,
}

fn key(n: u64) -> Vec<u8> {
    format!("bench {n}").into_bytes()
}

/// Median and 99th percentile, in microseconds.
fn figures(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    (at(0.5), at(0.99))
}

type Operation = fn(&mut Map, u64, &[u8]) -> Result<(), cenote_cluster::Error>;

/// Measures.
pub fn run(args: &BenchArgs, out: &Output) -> Result<ExitCode, Failure> {
    let mut map = args.cluster.open()?;
    let value = vec![7; args.value as usize];
    let kinds: [(&'static str, Operation); 5] = [
        ("insert", |map, n, value| map.insert(&key(n), value).map(drop)),
        ("get", |map, n, _| map.get(&key(n)).map(drop)),
        ("get of no key", |map, n, _| map.get(&key(u64::MAX - n)).map(drop)),
        ("put", |map, n, value| map.put(&key(n), value)),
        ("remove", |map, n, _| map.remove(&key(n)).map(drop)),
    ];
    let mut raw = Vec::new();
    let mut latencies = Vec::new();
    for (operation, run) in kinds {
        let (mut times, mut own, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut batches = 0;
        for n in 0..args.ops {
            let before = map.batches();
            let begun = Instant::now();
            run(&mut map, n, &value)?;
            let time = begun.elapsed();
            let after = map.batches();
            batches += after.count - before.count;
            own.push(after.time - before.time);
            ratios.push(time.as_secs_f64() / own[own.len() - 1].as_secs_f64().max(1e-9));
            times.push(time);
            let begun = Instant::now();
            map.round_trip()?;
            raw.push(begun.elapsed());
        }
        let (median_us, p99_us) = figures(&mut times);
        let (own_round_trips_us, _) = figures(&mut own);
        ratios.sort_unstable_by(f64::total_cmp);
        latencies.push(Latency {
            operation,
            median_us,
            p99_us,
            round_trips: batches as f64 / args.ops as f64,
            over_raw: 0.0,
            own_round_trips_us,
            over_own: ratios[ratios.len() / 2],
        });
    }
    let (raw_round_trip_us, _) = figures(&mut raw);
    for latency in &mut latencies {
        latency.over_raw = latency.median_us / (raw_round_trip_us * latency.round_trips);
    }
    let per_second = together(args, &value)?;
    let redis = match args.redis {
        true => beside(args, &mut map, &value)?,
        false => Vec::new(),
    };
    let measured = Measured {
        raw_round_trip_us,
        latencies,
        clients: args.clients,
        per_second,
        redis,
    };
    out.result(&measured, text)?;
    Ok(ExitCode::SUCCESS)
}

/// Keys that are read and written beside Redis.
const KEYS_BESIDE: u64 = 1000;

/// Reads and writes in turns with those of Redis.
fn beside(args: &BenchArgs, map: &mut Map, value: &[u8]) -> Result<Vec<Beside>, Failure> {
    let mut redis = Redis::start()?;
    for n in 0..KEYS_BESIDE {
        map.put(&key(n), value)?;
        redis.set(&key(n), value)?;
    }
    let mut times: [Vec<Duration>; 4] = Default::default();
    let mut time = |place: usize, run: &mut dyn FnMut() -> Result<(), Failure>| {
        let begun = Instant::now();
        run()?;
        times[place].push(begun.elapsed());
        Ok::<_, Failure>(())
    };
    for n in 0..args.ops {
        let key = key(n % KEYS_BESIDE);
        time(0, &mut || map.get(&key).map(drop).map_err(Failure::from))?;
        time(1, &mut || redis.get(&key).map(drop))?;
        time(2, &mut || Ok(map.put(&key, value)?))?;
        time(3, &mut || redis.set(&key, value))?;
    }
    let beside = |operation, first: usize| {
        let [(cluster_us, cluster_p99_us), (redis_us, redis_p99_us)] =
            [first, first + 1].map(|place| figures(&mut times[place].clone()));
        Beside {
            operation,
            cluster_us,
            cluster_p99_us,
            redis_us,
            redis_p99_us,
            ratio: cluster_us / redis_us,
        }
    };
    Ok(vec![beside("get", 0), beside("put", 2)])
}

/// Operations a second of several clients.
fn together(args: &BenchArgs, value: &[u8]) -> Result<f64, Failure> {
    let options = args.cluster.options()?;
    let time = Duration::from_secs(args.seconds);
    let done = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..args.clients)
            .map(|number| {
                let options = &options;
                scope.spawn(move || -> Result<u64, Failure> {
                    let mut map = Map::open(options)?;
                    let begun = Instant::now();
                    let mut done = 0;
                    while begun.elapsed() < time {
                        let n = (u64::from(number) << 32) + done % 1000;
                        match done % 2 {
                            0 => map.put(&key(n), value)?,
                            _ => drop(map.get(&key(n - 1))?),
                        }
                        done += 1;
                    }
                    Ok(done)
                })
            })
            .collect();
        let counted = clients.into_iter().map(|client| {
            client
                .join()
                .unwrap_or_else(|_| Err(Failure::failed("a client's thread has ended")))
        });
        counted.sum::<Result<u64, Failure>>()
    })?;
    Ok(done as f64 / time.as_secs_f64())
}

fn text(measured: &Measured) -> String {
    let mut text = format!("raw round trip  {:>8.1} µs\n\n", measured.raw_round_trip_us);
    text += "operation        median       p99  round trips  what these take  over that  over as many reads of a word\n";
    for latency in &measured.latencies {
        text += &format!(
            "{:<13} {:>6.1} µs {:>6.1} µs  {:>11.2}  {:>12.1} µs  {:>9.2}  {:>28.2}\n",
            latency.operation,
            latency.median_us,
            latency.p99_us,
            latency.round_trips,
            latency.own_round_trips_us,
            latency.over_own,
            latency.over_raw
        );
    }
    if !measured.redis.is_empty() {
        text += "\nbeside Redis     cluster       p99      Redis       p99  ratio\n";
        for beside in &measured.redis {
            text += &format!(
                "{:<13} {:>7.1} µs {:>6.1} µs {:>7.1} µs {:>6.1} µs  {:>5.2}\n",
                beside.operation,
                beside.cluster_us,
                beside.cluster_p99_us,
                beside.redis_us,
                beside.redis_p99_us,
                beside.ratio
            );
        }
        text += "a put of Redis is SET and WAIT 1, in one message\n";
    }
    text + &format!(
        "\n{} clients at once, half reads: {} operations a second",
        measured.clients,
        count(measured.per_second as u64)
    )
}
