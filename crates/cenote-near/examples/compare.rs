//! Compares the map with the baselines on simulated modules.
//!
//! `cargo run --release -p cenote-near --example compare -- [MODULES [KEYS [BATCH [DESIGNS [OPERATIONS [ALPHAS]]]]]]`,
//! for example `-- 2048 8388608 2097152 near,range get,scan 0,1.2`.
//!
//! Everything that it prints is virtual time by the `upmem` profile: a model, not a measurement of hardware. For each
//! operation and each skew it loads an index, executes batches to warm up, and then measures batches. Keys are drawn by
//! a zipfian distribution over the loaded keys, whose ranks are scattered over them.

use std::error::Error;
use std::ops::Bound;
use std::time::Instant;

use cenote_near::baseline::{Form, Index, Tree, range};
use cenote_near::map::{Config, Map, Operation};
use cenote_near::modules::Profile;
use cenote_ycsb::{Scatter, Skewed, key_of_record};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const WARM: usize = 5;
const MEASURED: usize = 2;
/// Of these, a design that is slow to simulate has one.
const SLOW: &str = "jump-push";
/// Keys of a scan: 32 to 1,024 are expected by the paper; this is the geometric middle.
const SCAN_KEYS: u64 = 181;

const KINDS: [&str; 6] = ["get", "predecessor", "insert", "delete", "update", "scan"];
const DESIGNS: [&str; 4] = ["near", "range", "jump-push", "pim-tree"];

struct Shape {
    modules: usize,
    keys: u64,
    batch: usize,
}

fn batch(shape: &Shape, kind: usize, alpha: f64, rng: &mut ChaCha8Rng) -> Vec<Operation> {
    let (skewed, scatter) = (Skewed::new(shape.keys, alpha), Scatter::new(shape.keys));
    let size = if kind == 5 { shape.batch / 16 } else { shape.batch };
    (0..size)
        .map(|_| {
            let record = scatter.apply(skewed.sample(rng));
            let key = key_of_record(record);
            match kind {
                0 => Operation::Get(key),
                1 => Operation::Predecessor(key),
                // A new key near a drawn one: as near as the loaded keys are to each other.
                2 => Operation::Insert(
                    key.wrapping_add(rng.random_range(1..u64::MAX / shape.keys)),
                    record,
                ),
                3 => Operation::Delete(key),
                4 => Operation::Update {
                    key,
                    expected: record,
                    value: record,
                },
                _ => {
                    let last = key.saturating_add(u64::MAX / shape.keys * SCAN_KEYS);
                    Operation::Scan(Bound::Included(key), Bound::Included(last))
                }
            }
        })
        .collect()
}

fn index(design: usize, shape: &Shape) -> Result<Box<dyn Index>, Box<dyn Error>> {
    let profile = Profile::upmem()?;
    Ok(match design {
        0 => Box::new(Map::simulated(Config::default(), shape.modules, profile)?),
        1 => Box::new(range::simulated(&Config::default(), shape.modules, profile)?),
        2 => Box::new(Tree::simulated(Form::JumpPush, shape.modules, profile)?),
        _ => Box::new(Tree::simulated(Form::PimTree, shape.modules, profile)?),
    })
}

struct Measured {
    mops: f64,
    rounds: f64,
    chases: f64,
    bytes: f64,
    imbalance: f64,
    memory: u64,
    parts_ms: [f64; 3],
}

fn measure(design: usize, kind: usize, alpha: f64, shape: &Shape) -> Result<Measured, Box<dyn Error>> {
    let mut pairs: Vec<(u64, u64)> = (0..shape.keys)
        .map(|record| (key_of_record(record), record))
        .collect();
    pairs.sort_unstable();
    let mut index = index(design, shape)?;
    index.load(&pairs)?;
    drop(pairs);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // What changes nothing needs no warming up in a design that does not adapt.
    let warm = if design == 0 || kind == 2 || kind == 3 {
        WARM
    } else {
        0
    };
    let batches = if DESIGNS[design] == SLOW { 1 } else { MEASURED };
    for _ in 0..warm {
        index.execute(&batch(shape, kind, alpha, &mut rng))?;
    }
    let before = index.counters();
    let mut operations = 0;
    for _ in 0..batches {
        let batch = batch(shape, kind, alpha, &mut rng);
        operations += batch.len();
        index.execute(&batch)?;
    }
    let after = index.counters();
    let loads = index.loads();
    let busiest = loads.iter().max().copied().unwrap_or(0) as f64;
    let each = |now: u64, then: u64| (now - then) as f64 / operations as f64;
    let ms = |now: u64, then: u64| (now - then) as f64 / 1e6 / batches as f64;
    let total_ms = ms(after.virtual_ns, before.virtual_ns);
    let (host, module) = (
        ms(after.host_ns, before.host_ns),
        ms(after.module_ns, before.module_ns),
    );
    Ok(Measured {
        mops: 1e3 / each(after.virtual_ns, before.virtual_ns),
        rounds: (after.rounds - before.rounds) as f64 / batches as f64,
        chases: each(after.chases, before.chases),
        bytes: each(after.sent + after.received, before.sent + before.received),
        imbalance: busiest * loads.len() as f64 / loads.iter().sum::<u64>().max(1) as f64,
        memory: index.memory_bytes(),
        parts_ms: [host, module, total_ms - host - module],
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |or: u64| arguments.next().map_or(Ok(or), |text| text.parse());
    let (modules, keys, batch) = (number(2048)?, number(1 << 22)?, number(1 << 20)?);
    let shape = Shape {
        modules: modules as usize,
        keys,
        batch: batch as usize,
    };
    let chosen = arguments.next().unwrap_or_else(|| DESIGNS.join(","));
    let kinds = arguments.next().unwrap_or_else(|| KINDS.join(","));
    let alphas = arguments.next().unwrap_or_else(|| "0,0.6,1.2".to_owned());
    let alphas = alphas
        .split(',')
        .map(str::parse)
        .collect::<Result<Vec<f64>, _>>()?;
    println!(
        "Simulated, profile upmem: {} modules, {} keys, batches of {} operations ({} scans of {SCAN_KEYS} keys), {WARM} batches to warm up, {MEASURED} measured, seed 1.",
        shape.modules,
        shape.keys,
        shape.batch,
        shape.batch / 16
    );
    println!(
        "{:12} {:5} {:10} {:>10} {:>8} {:>7} {:>8} {:>8} {:>9} {:>8}   host+module+way ms a batch",
        "operation", "alpha", "design", "Mops/s", "near is", "rounds", "chases", "bytes", "busiest/m", "MB"
    );
    for (kind, name) in KINDS.iter().enumerate() {
        if !kinds.split(',').any(|one| one == *name) {
            continue;
        }
        for &alpha in &alphas {
            let mut near = 0.0;
            for (design, label) in DESIGNS.iter().enumerate() {
                if !chosen.split(',').any(|one| one == *label) {
                    continue;
                }
                let began = Instant::now();
                let measured = measure(design, kind, alpha, &shape)?;
                if design == 0 {
                    near = measured.mops;
                }
                println!(
                    "{name:12} {alpha:<5} {label:10} {:10.2} {:7.1}x {:7.1} {:8.1} {:8.1} {:9.2} {:8.1}   {:.2}+{:.2}+{:.2}",
                    measured.mops,
                    near / measured.mops,
                    measured.rounds,
                    measured.chases,
                    measured.bytes,
                    measured.imbalance,
                    measured.memory as f64 / 1e6,
                    measured.parts_ms[0],
                    measured.parts_ms[1],
                    measured.parts_ms[2],
                );
                eprintln!("  ({:.1} s)", began.elapsed().as_secs_f64());
            }
        }
    }
    Ok(())
}
