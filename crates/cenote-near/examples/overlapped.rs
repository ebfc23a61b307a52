//! What it is worth that batches overlap: two maps on a worker thread beside the host's, which execute the same batches
//! in turn; one of them is given each batch while it executes the one before.
//!
//! `cargo run --release -p cenote-near --example overlapped`

use std::time::Instant;

use cenote_near::map::{Config, MapError};

use work::{BATCH, Draw, KEYS, MODULES, Work, loaded, median, table};

mod work;

/// One processor for the host, one for modules.
const THREADS: usize = 1;
/// Batches of a round; a round before those that count, and those.
const BATCHES: usize = 10;
const COUNTED: usize = 7;

/// The median times of a batch in ms, with and without.
fn measure(work: Work, alpha: f64) -> Result<[f64; 2], MapError> {
    let mut draw = Draw::new(work, alpha);
    let mut maps = [
        loaded(Config::default(), THREADS)?,
        loaded(Config::default(), THREADS)?,
    ];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=COUNTED {
        let batches: Vec<_> = (0..BATCHES).map(|_| draw.batch()).collect();
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let given = batches.clone();
            let began = Instant::now();
            if which == 0 {
                let mut overlapped = maps[0].overlapped();
                for batch in given {
                    overlapped.send(batch)?;
                }
                overlapped.finish()?;
            } else {
                for batch in given {
                    maps[1].execute(&batch)?;
                }
            }
            times[which].push(began.elapsed().as_secs_f64() * 1e3 / BATCHES as f64);
        }
    }
    Ok(times.map(|all| median(all[1..].to_vec())))
}

fn main() -> Result<(), MapError> {
    println!(
        "{KEYS} keys, batches of {BATCH}, {MODULES} modules, a thread for them; ms a batch with and without overlap, and the one over the other"
    );
    table(measure)
}
