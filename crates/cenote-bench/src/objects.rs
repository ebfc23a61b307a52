//! The `objects` command: objects of an object store beside a copy of their bytes, and beside a file in `/dev/shm` for
//! each object, as `multiprocessing.shared_memory` makes them.
//!
//! A *put* makes an object, copies bytes into it, and seals it; the peers copy the same bytes into memory that they
//! have used before, and into a new file that they map. A *get* views an object, reads one byte and ends the view; the
//! peers copy the bytes out, and open, map and unmap the file. Gets are by a second handle on the pool, which has a
//! mapping and a place of its own, as another process's has. Each put is followed by a deletion that is not timed.

#![allow(clippy::disallowed_types)] // the peer maps files of its own

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use cenote::objects::{NewObject, ObjectSettings, Objects, Sealed};
use cenote::{Options as PoolOptions, Pool};
use clap::Args;
use memmap2::{Mmap, MmapMut};
use serde_json::{Value, json};

use crate::subjects::{Failure, check, temporary};
use crate::table::{Output, Style, median, nanoseconds, ratio, table};

/// The sizes in bytes.
const SIZES: [usize; 4] = [1 << 10, 128 << 10, 1 << 20, 125 << 20];
/// Bytes that are put and copied in a round, of each size, at most.
const BYTES: usize = 250 << 20;
/// Operations in a round, of each size, at most.
const OPERATIONS_MAX: usize = 20_000;

/// The options of `objects`.
#[derive(Args)]
pub struct Options {
    /// Rounds; the medians over them are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    output: Output,
}

/// What is timed, in the order of the columns.
const COLUMNS: [&str; 6] = ["put", "copy in", "new file", "get", "copy out", "map file"];

/// Nanoseconds an operation of each of [`COLUMNS`], in each round.
type Figures = [Vec<f64>; COLUMNS.len()];

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    let directory = temporary("objects", Path::new("/dev/shm"))?;
    let path = directory.path().join("pool");
    let pool: Pool = Pool::create(&path, &PoolOptions::default())?;
    let objects = pool.objects("bench", &ObjectSettings::default())?;
    let other: Pool = Pool::open(&path, &PoolOptions::default())?;
    let theirs = other.existing_objects("bench")?;
    let mut figures: [Figures; SIZES.len()] = Default::default();
    for round in 0..=options.rounds {
        for (size, figures) in SIZES.into_iter().zip(&mut figures) {
            let measured = Bench {
                directory: directory.path(),
                bytes: vec![7; size],
                operations: (BYTES / size).clamp(2, OPERATIONS_MAX),
            }
            .round((&objects, &theirs))?;
            // The first round only warms up.
            if round > 0 {
                for (all, ns) in figures.iter_mut().zip(measured) {
                    all.push(ns);
                }
            }
        }
    }
    options.output.print(
        || json(&figures),
        |style| {
            format!(
                "ns an operation, medians of {} rounds\n\n{}",
                options.rounds,
                text(style, &figures)
            )
        },
    );
    Ok(())
}

struct Bench<'d> {
    directory: &'d Path,
    bytes: Vec<u8>,
    operations: usize,
}

impl Bench<'_> {
    fn round(&self, (ours, theirs): (&Objects, &Objects)) -> Result<[f64; COLUMNS.len()], Failure> {
        let mut buffer = vec![0; self.bytes.len()];
        let put = self.time(|| {
            let start = Instant::now();
            let made = ours.create(b"put", self.bytes.len() as u64, &NewObject::default())?;
            let Some(mut writer) = made else {
                return Err(Failure::Broken("an object was there".to_owned()));
            };
            writer.as_mut_slice().copy_from_slice(&self.bytes);
            check(writer.seal()? == Sealed::HasId, "an object was there")?;
            let ns = start.elapsed().as_nanos();
            ours.delete(b"put")?;
            Ok(ns)
        })?;
        let copy_in = self.time(|| {
            let start = Instant::now();
            buffer.copy_from_slice(black_box(&self.bytes));
            black_box(&buffer);
            Ok(start.elapsed().as_nanos())
        })?;
        let file = self.directory.join("file");
        let new_file = self.time(|| {
            let start = Instant::now();
            self.write_file(&file)?;
            let ns = start.elapsed().as_nanos();
            std::fs::remove_file(&file)?;
            Ok(ns)
        })?;
        check(ours.insert(b"get", &self.bytes)?, "an object was there")?;
        let get = self.time_all(|| {
            let view = theirs.get(b"get")?;
            black_box(view.and_then(|view| view.first().copied()));
            Ok(())
        })?;
        let copy_out = self.time(|| {
            let start = Instant::now();
            buffer.copy_from_slice(black_box(&self.bytes));
            black_box(&buffer);
            Ok(start.elapsed().as_nanos())
        })?;
        ours.delete(b"get")?;
        self.write_file(&file)?;
        let map_file = self.time_all(|| {
            // SAFETY: nobody changes the file.
            let mapped = unsafe { Mmap::map(&File::open(&file)?)? };
            black_box(mapped[0]);
            Ok(())
        })?;
        std::fs::remove_file(&file)?;
        Ok([put, copy_in, new_file, get, copy_out, map_file])
    }

    fn write_file(&self, file: &Path) -> Result<(), Failure> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(file)?;
        file.set_len(self.bytes.len() as u64)?;
        // SAFETY: nobody else has the file.
        let mut mapped = unsafe { MmapMut::map_mut(&file)? };
        mapped.copy_from_slice(&self.bytes);
        Ok(())
    }

    /// The median nanoseconds of operations that time themselves.
    fn time(&self, mut operation: impl FnMut() -> Result<u128, Failure>) -> Result<f64, Failure> {
        let operations = self.operations.min(2_000);
        let mut all = Vec::with_capacity(operations);
        for _ in 0..operations {
            all.push(operation()? as f64);
        }
        Ok(median(&all).unwrap_or_default())
    }

    /// The mean nanoseconds of operations.
    fn time_all(&self, mut operation: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
        let operations = OPERATIONS_MAX;
        let start = Instant::now();
        for _ in 0..operations {
            operation()?;
        }
        Ok(start.elapsed().as_nanos() as f64 / operations as f64)
    }
}

fn text(style: Style, figures: &[Figures]) -> String {
    let rows: Vec<Vec<String>> = SIZES
        .iter()
        .zip(figures)
        .map(|(size, figures)| {
            let of = |column: usize| median(&figures[column]);
            let by = |ours: usize, theirs: usize| {
                ratio(of(ours).zip(of(theirs)).map(|(ours, theirs)| ours / theirs))
            };
            let mut row = vec![format!("{} KiB", size >> 10)];
            row.extend((0..COLUMNS.len()).map(|column| nanoseconds(of(column))));
            row.extend([by(0, 1), by(0, 2), by(3, 5)]);
            row
        })
        .collect();
    let head = ["object"].iter().chain(&COLUMNS);
    let head: Vec<&str> = head
        .chain(&["put/copy", "put/new file", "get/map file"])
        .copied()
        .collect();
    let mut text = String::new();
    table(&mut text, style, 1, &head, &rows);
    text
}

fn json(figures: &[Figures]) -> Value {
    let of = |(size, figures): (&usize, &Figures)| {
        let columns: serde_json::Map<String, Value> = COLUMNS
            .iter()
            .zip(figures)
            .map(|(name, rounds)| {
                let key = format!("{}_ns", name.replace(' ', "_"));
                (key, json!({ "median": median(rounds), "rounds": rounds }))
            })
            .collect();
        json!({ "bytes": size, "times": columns })
    };
    json!({ "command": "objects", "objects": SIZES.iter().zip(figures).map(of).collect::<Vec<_>>() })
}
