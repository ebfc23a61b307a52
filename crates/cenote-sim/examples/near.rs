//! Compares the near-memory map with others on simulated modules, at any size.
//!
//! `cargo run --release -p cenote-sim --example near -- [MODULES [KEYS [BATCH [DESIGNS [OPERATIONS [ALPHAS]]]]]]`, for
//! example `-- 2048 8388608 2097152 near,range get,scan 0,1.2`. `cenote reproduce radar/fig10` is the same at a size of
//! its own.
//!
//! Everything that it prints is virtual time by the `upmem` profile: a model, not a measurement of hardware.

use std::error::Error;
use std::time::Instant;

use cenote_sim::near_runs::{Design, Kind, Plan, Work, measure};

const DESIGNS: [Design; 6] = [
    Design::Near,
    Design::Overlapped,
    Design::Static,
    Design::Range,
    Design::JumpPush,
    Design::PimTree,
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |or: u64| arguments.next().map_or(Ok(or), |text| text.parse());
    let (modules, keys, batch) = (number(2048)?, number(1 << 22)?, number(1 << 20)?);
    let mut words = |or: &str| arguments.next().unwrap_or_else(|| or.to_owned());
    let (designs, kinds) = (
        words("near,overlapped,range,jump-push,pim-tree"),
        words(&Kind::ALL.map(Kind::name).join(",")),
    );
    let alphas = words("0,0.6,1.2");
    let alphas = alphas
        .split(',')
        .map(str::parse)
        .collect::<Result<Vec<f64>, _>>()?;
    println!(
        "Simulated, profile upmem: {modules} modules, {keys} keys, batches of {batch} operations or {} scans.",
        batch / 16
    );
    println!(
        "{:12} {:5} {:12} {:>10} {:>8} {:>7} {:>8} {:>8} {:>9} {:>8}   host+module+way ms a batch",
        "operation", "alpha", "design", "Mops/s", "near is", "rounds", "chases", "bytes", "busiest/m", "MB"
    );
    let is_asked = |list: &str, name: &str| list.split(',').any(|one| one == name);
    for kind in Kind::ALL.into_iter().filter(|kind| is_asked(&kinds, kind.name())) {
        for &alpha in &alphas {
            let mut near = 0.0;
            for design in DESIGNS
                .into_iter()
                .filter(|design| is_asked(&designs, design.name()))
            {
                let began = Instant::now();
                let outcome = measure(&Plan {
                    design,
                    work: Work::Each(kind),
                    alpha,
                    modules: modules as usize,
                    keys,
                    batch: batch as usize,
                    // With inserts and deletes all have to warm up, and take minutes for it.
                    warm: if kind.changes_keys() { 5 } else { 20 },
                    batches: if design == Design::JumpPush { 1 } else { 2 },
                    seed: 1,
                })?;
                if design == Design::Near {
                    near = outcome.mops;
                }
                let [host, module, way] = outcome.parts_ms;
                println!(
                    "{:12} {alpha:<5} {:12} {:10.2} {:7.1}x {:7.1} {:8.1} {:8.1} {:9.2} {:8.1}   {host:.2}+{module:.2}+{way:.2}",
                    kind.name(),
                    design.name(),
                    outcome.mops,
                    near / outcome.mops,
                    outcome.rounds,
                    outcome.chases,
                    outcome.bytes,
                    outcome.imbalance,
                    outcome.memory as f64 / 1e6,
                );
                eprintln!("  ({:.1} s)", began.elapsed().as_secs_f64());
            }
        }
    }
    Ok(())
}
