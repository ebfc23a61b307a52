//! Blocks of 1 to 16 MiB: an allocation and a free in the pool's buddy tree, each one transaction under the allocator's
//! lock (Lupin, section 3.6), beside `malloc` and `free`, which ask the kernel for pages of that size.
//!
//! Nobody writes to what is allocated. Each call is timed alone, the sizes and the allocators in turn; a round's figure
//! is the median over its calls. Reading the clock twice is part of each figure.

use std::hint::black_box;
use std::time::Instant;

use cenote::memory::Mapped;
use cenote::pod::{Worker, alloc::heap};
use serde_json::{Value, json};

use crate::subjects::Failure;
use crate::table::{Style, median, table};

/// The sizes in MiB.
pub const MEBIBYTES: [usize; 5] = [1, 2, 4, 8, 16];

/// Calls of each size a round.
const CALLS: usize = 1_000;

/// Nanoseconds in each round: of an allocation and of a free.
#[derive(Default)]
pub struct Pair {
    pub allocate: Vec<f64>,
    pub free: Vec<f64>,
}

/// Of each of [`MEBIBYTES`]: on coherent memory, on memory without coherence, and those of the C library.
#[derive(Default)]
pub struct Blocks {
    pub coherent: [Pair; MEBIBYTES.len()],
    pub noncoherent: [Pair; MEBIBYTES.len()],
    pub malloc: [Pair; MEBIBYTES.len()],
}

impl Blocks {
    /// Measures one more round.
    pub fn round(
        &mut self,
        coherent: &Worker<impl Mapped>,
        noncoherent: &Worker<impl Mapped>,
    ) -> Result<(), Failure> {
        for (n, mebibytes) in MEBIBYTES.into_iter().enumerate() {
            let bytes = mebibytes << 20;
            self.coherent[n].add(|times| of_pool(coherent, bytes, times))?;
            self.noncoherent[n].add(|times| of_pool(noncoherent, bytes, times))?;
            self.malloc[n].add(|times| of_malloc(bytes, times))?;
        }
        Ok(())
    }

    /// The table, in microseconds.
    pub fn text(&self, style: Style) -> String {
        let rows: Vec<Vec<String>> = (0..MEBIBYTES.len())
            .map(|n| {
                let pairs = [&self.coherent[n], &self.noncoherent[n], &self.malloc[n]];
                let figures = pairs.into_iter().flat_map(|pair| [&pair.allocate, &pair.free]);
                std::iter::once(format!("{} MiB", MEBIBYTES[n]))
                    .chain(figures.map(|rounds| microseconds(median(rounds))))
                    .collect()
            })
            .collect();
        let mut text = String::new();
        let columns = [
            "block",
            "allocate",
            "free",
            "allocate, incoherent",
            "free, incoherent",
            "malloc",
            "free of malloc",
        ];
        table(&mut text, style, 1, &columns, &rows);
        text
    }

    /// Each round's figures.
    pub fn json(&self) -> Value {
        let pair = |pair: &Pair| json!({ "allocate_ns": pair.allocate, "free_ns": pair.free });
        (0..MEBIBYTES.len())
            .map(|n| {
                json!({
                    "mebibytes": MEBIBYTES[n],
                    "coherent": pair(&self.coherent[n]),
                    "noncoherent": pair(&self.noncoherent[n]),
                    "malloc": pair(&self.malloc[n]),
                })
            })
            .collect()
    }
}

impl Pair {
    /// Adds a round's medians.
    fn add(&mut self, call: impl Fn(&mut [Vec<f64>; 2]) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..CALLS {
            call(&mut times)?;
        }
        self.allocate.extend(median(&times[0]));
        self.free.extend(median(&times[1]));
        Ok(())
    }
}

/// Times one allocation and one free of the pool.
fn of_pool(worker: &Worker<impl Mapped>, bytes: usize, times: &mut [Vec<f64>; 2]) -> Result<(), Failure> {
    let _hold = worker.hold_list()?;
    let start = Instant::now();
    black_box(heap::allocate(worker, black_box(bytes as u64))?);
    let allocated = Instant::now();
    heap::discard(worker)?;
    times[0].push((allocated - start).as_nanos() as f64);
    times[1].push(allocated.elapsed().as_nanos() as f64);
    Ok(())
}

/// Times one allocation and one free of the C library.
fn of_malloc(bytes: usize, times: &mut [Vec<f64>; 2]) -> Result<(), Failure> {
    let start = Instant::now();
    // SAFETY: `malloc` has no precondition.
    let block = black_box(unsafe { libc::malloc(black_box(bytes)) });
    let allocated = Instant::now();
    // SAFETY: what `malloc` gave is freed once and used by nobody.
    unsafe { libc::free(block) };
    times[0].push((allocated - start).as_nanos() as f64);
    times[1].push(allocated.elapsed().as_nanos() as f64);
    Ok(())
}

fn microseconds(ns: Option<f64>) -> String {
    ns.map_or("-".to_owned(), |ns| format!("{:.2} us", ns / 1e3))
}
