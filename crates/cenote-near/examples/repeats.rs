//! What it is worth to find what a batch asks for several times: two maps on worker threads, one of which does not,
//! execute the same batches in turn.
//!
//! `cargo run --release -p cenote-near --example repeats`

use std::time::Instant;

use cenote_near::map::{Config, MapError};

use work::{BATCH, Draw, KEYS, MODULES, Work, loaded, median, table};

mod work;

const THREADS: usize = 2;
/// Batches before those that count, and those.
const WARM: usize = 5;
const COUNTED: usize = 20;

/// The median times of a batch in ms, with and without.
fn measure(work: Work, alpha: f64) -> Result<[f64; 2], MapError> {
    let mut draw = Draw::new(work, alpha);
    let config = |repeats| Config {
        repeats,
        ..Config::default()
    };
    let mut maps = [loaded(config(true), THREADS)?, loaded(config(false), THREADS)?];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..WARM + COUNTED {
        let batch = draw.batch();
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let began = Instant::now();
            maps[which].execute(&batch)?;
            times[which].push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(times.map(|all| median(all[WARM..].to_vec())))
}

fn main() -> Result<(), MapError> {
    println!(
        "{KEYS} keys, batches of {BATCH}, {MODULES} modules, {THREADS} threads; ms a batch with and without, and the one over the other"
    );
    table(measure)
}
