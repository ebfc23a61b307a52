//! The `alloc` command: the common allocation and free of a pool beside `malloc` and `free` of the C library.
//!
//! A pair is one allocation and one free of it; nothing else happens in between, so that both allocators go their
//! shortest way: the pool takes a cell out of the worker's reserve and puts it back, `malloc` does the same with its
//! thread's cache. Pairs are timed in groups, the two allocators and the sizes in turn; a round's figure is the
//! median over its groups.
//!
//! The last row is for information: new keys are put and removed again, which also allocates, publishes, retires and
//! collects an object each, and takes fresh cells from blocks. Below it, blocks of 1 to 16 MiB: see [`blocks`].

mod blocks;

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use blocks::Blocks;
use cenote::pod::alloc::heap;
use cenote::{Map, Noncoherent, Pool};
use clap::Args;
use serde_json::{Value, json};

use crate::subjects::{Failure, check, temporary};
use crate::table::{Output, Style, median, nanoseconds, ratio, table};

/// The sizes in bytes.
pub const SIZES: [usize; 4] = [16, 64, 256, 1024];

/// Pairs between two readings of the clock.
const GROUP: u64 = 1_000;
/// Keys that are put before the first of them is removed.
const KEYS: u64 = 10_000;

/// The options of `alloc`.
#[derive(Args)]
pub struct Options {
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Pairs of each size and allocator a round.
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    ops: u64,
    #[command(flatten)]
    output: Output,
}

/// Nanoseconds a pair in each round.
pub struct Figures {
    /// Of each of [`SIZES`]: the pool's and malloc's.
    pub pairs: [(Vec<f64>, Vec<f64>); SIZES.len()],
    /// A put of a new key and its removal.
    pub put_remove: Vec<f64>,
    /// Large blocks.
    blocks: Blocks,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let figures = measure(options)?;
    options.output.print(
        || figures.json(),
        |style| {
            format!(
                "ns a pair, medians of {} rounds\n\n{}",
                options.rounds,
                figures.text(style)
            )
        },
    );
    Ok(())
}

/// Measures.
pub fn measure(options: &Options) -> Result<Figures, Failure> {
    let directory = temporary("alloc", Path::new("/dev/shm"))?;
    let pool: Pool = Pool::create(directory.path().join("pool"), &cenote::Options::default())?;
    let map = pool.map("bench")?;
    let incoherent: Pool<Noncoherent> =
        Pool::create(directory.path().join("incoherent"), &cenote::Options::default())?;
    let incoherent = incoherent.worker()?;
    let mut figures = Figures {
        pairs: Default::default(),
        put_remove: Vec::new(),
        blocks: Blocks::default(),
    };
    for round in 0..=options.rounds {
        let mut groups: [(Vec<f64>, Vec<f64>); SIZES.len()] = Default::default();
        for _ in 0..options.ops / GROUP {
            for (size, (ours, theirs)) in SIZES.into_iter().zip(&mut groups) {
                ours.push(pool_pairs(&map, size)?);
                theirs.push(malloc_pairs(size)?);
            }
        }
        let put_remove = put_remove(&map, u64::from(round) * KEYS)?;
        // The first round only warms up.
        if round > 0 {
            for (all, (ours, theirs)) in figures.pairs.iter_mut().zip(&groups) {
                all.0.extend(median(ours));
                all.1.extend(median(theirs));
            }
            figures.put_remove.push(put_remove);
            figures.blocks.round(map.worker(), &incoherent)?;
        }
    }
    Ok(figures)
}

/// Nanoseconds a pair of one group in the pool.
#[inline(never)]
fn pool_pairs(map: &Map, size: usize) -> Result<f64, Failure> {
    let worker = &**map.worker();
    let _hold = worker.hold_list()?;
    let start = Instant::now();
    for _ in 0..GROUP {
        black_box(heap::allocate(worker, black_box(size as u64))?);
        heap::discard(worker)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / GROUP as f64)
}

/// Nanoseconds a pair of one group of the C library.
#[inline(never)]
fn malloc_pairs(size: usize) -> Result<f64, Failure> {
    let start = Instant::now();
    for _ in 0..GROUP {
        // SAFETY: `malloc` has no precondition, and what it gave is freed once and used by nobody.
        unsafe { libc::free(black_box(libc::malloc(black_box(size)))) };
    }
    Ok(start.elapsed().as_nanos() as f64 / GROUP as f64)
}

/// Nanoseconds for a put of a new key and its removal.
fn put_remove(map: &Map, first: u64) -> Result<f64, Failure> {
    let start = Instant::now();
    for key in first..first + KEYS {
        map.put_u64(key, key)?;
    }
    let mut removed = true;
    for key in first..first + KEYS {
        removed &= map.remove(&key.to_le_bytes())?;
    }
    let ns = start.elapsed().as_nanos() as f64 / KEYS as f64;
    check(removed, "a key was not there to be removed")?;
    Ok(ns)
}

impl Figures {
    /// The medians of a size, the pool's and malloc's.
    pub fn medians(&self, size: usize) -> (Option<f64>, Option<f64>) {
        let (ours, theirs) = &self.pairs[size];
        (median(ours), median(theirs))
    }

    /// The table.
    pub fn text(&self, style: Style) -> String {
        let mut rows: Vec<Vec<String>> = SIZES
            .iter()
            .enumerate()
            .map(|(index, size)| {
                let (ours, theirs) = self.medians(index);
                let ratios: Vec<f64> = self.pairs[index]
                    .0
                    .iter()
                    .zip(&self.pairs[index].1)
                    .map(|(ours, theirs)| ours / theirs)
                    .collect();
                vec![
                    format!("allocate + free, {size} bytes"),
                    nanoseconds(ours),
                    nanoseconds(theirs),
                    ratio(median(&ratios)),
                ]
            })
            .collect();
        rows.push(vec![
            "put + remove of a new key".to_owned(),
            nanoseconds(median(&self.put_remove)),
            "-".to_owned(),
            "-".to_owned(),
        ]);
        let mut text = String::new();
        table(&mut text, style, 1, &["pair", "cenote", "malloc", "ratio"], &rows);
        text.push('\n');
        text.push_str(&self.blocks.text(style));
        text
    }

    /// Everything, with each round's figures.
    pub fn json(&self) -> Value {
        let figures = |rounds: &Vec<f64>| json!({ "median": median(rounds), "rounds": rounds });
        let sizes: Vec<Value> = SIZES
            .iter()
            .zip(&self.pairs)
            .map(|(size, (ours, theirs))| {
                json!({ "bytes": size, "cenote_ns": figures(ours), "malloc_ns": figures(theirs) })
            })
            .collect();
        json!({ "command": "alloc", "pairs": sizes, "put_remove_ns": figures(&self.put_remove), "blocks": self.blocks.json() })
    }
}

#[cfg(test)]
mod tests {
    use super::blocks::MEBIBYTES;
    use super::*;

    #[test]
    fn every_size_has_a_figure_and_a_row() {
        let options = Options {
            rounds: 1,
            ops: 1_000,
            output: Output::default(),
        };
        let figures = measure(&options).expect("it runs");
        assert!(
            figures
                .pairs
                .iter()
                .all(|(ours, theirs)| ours[0] > 0.0 && theirs[0] > 0.0)
        );
        assert_eq!(
            figures.text(Style::Plain).lines().count(),
            SIZES.len() + MEBIBYTES.len() + 4
        );
        assert_eq!(figures.json()["pairs"][3]["bytes"], 1024);
    }
}
