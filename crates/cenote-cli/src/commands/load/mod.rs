//! `cenote load`: sets a map's keys from a file of records, by several processes at once.
//!
//! This process reads the file; [workers](deal) write to the pool. If a worker is killed, another takes its place;
//! if this process is killed, what was done by then is in the pool, and loading again does the rest.

mod cluster;
mod deal;
mod frame;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use cenote::index::hash::KEY_MAX;
use cenote::memory::Memory;
use cenote::{Options, Pool};
use indicatif::ProgressBar;
use serde::Serialize;

use self::deal::{Dealer, Job};
use self::frame::{Answer, Receiver};
use crate::failure::Failure;
use crate::input::{self, Position};
use crate::map::AnyMap;
use crate::output::{Output, count};
use crate::pool::{MapArg, PoolArg, TokenArg, on_pool, with_given};
use crate::records::{self, Columns, Format, Next, Pair};

/// Arguments.
///
/// Where a key occurs twice, the later record counts.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// What to load; `-` is standard input. A name that ends in .gz or .zst is taken as compressed
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    map: MapArg,
    /// Make the map an ordered one if it is not there yet
    #[arg(long)]
    ordered: bool,
    /// Its format [default: by the file's name; tsv for standard input]
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    columns: Columns,
    /// In TSV, take backslashes as they are
    #[arg(long)]
    raw: bool,
    /// Processes that write to the pool at once [default: one a core, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: Option<u16>,
    /// Create the pool if there is none
    #[arg(long)]
    create: bool,
    /// Go on after records that cannot be read, and count them
    #[arg(long)]
    skip_bad: bool,
    #[command(flatten)]
    token: TokenArg,
}

#[derive(Serialize)]
struct Loaded {
    records: u64,
    bad_records: u64,
    /// In the map, when it was done; a cluster does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u64>,
    processes: usize,
    /// Workers that died and were replaced.
    replaced_workers: u64,
    seconds: f64,
    records_per_second: f64,
}

/// Loads the file.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let file = (args.file.as_os_str() != "-").then_some(&*args.file);
    let format = Format::choose(args.format, file)?;
    let (input, position) = input::open(file)?;
    // What is wrong with the input should not leave an empty pool behind.
    let mut source = records::read(format, &args.columns, args.raw, input)?;
    if let Some(cluster) = args.pool.cluster(&args.token) {
        return cluster::load(&cluster, &args, &mut *source, &position, out);
    }
    let path = args.pool.path();
    if args.create && !path.exists() {
        Pool::<cenote::Coherent>::open_or_create(
            &path,
            &with_given(&Options {
                size: 64 << 20,
                ..Options::default()
            }),
        )?;
    }
    let path = args.pool.existing()?;
    // Reports what is wrong with the pool or the map before anything is started.
    on_pool!(&path, &Options::default(), |pool| AnyMap::open(
        &pool,
        &args.map.map,
        args.ordered
    )
    .map(|_| ())?);

    let processes = args.processes.map_or_else(default_processes, usize::from);
    let progress = position.bar(out);
    let job = Job {
        pool: path.clone(),
        map: args.map.map.clone(),
        progress: progress.clone(),
    };
    let begin = Instant::now();
    let mut dealer = Dealer::start(&job, processes)?;
    let mut bad_records = 0;
    let read = deal_all(
        &mut *source,
        &mut |key, value| dealer.deal(key, value),
        &args,
        out,
        (&position, &progress),
        &mut bad_records,
    );
    let done = dealer.finish();
    progress.finish_and_clear();
    // If a worker failed, that is also why reading ended.
    let done = done?;
    read.map_err(|failure| match failure {
        Failure::Failed(why) => {
            Failure::Failed(format!("{why} ({} records are loaded)", count(done.records)))
        }
        other => other,
    })?;

    let seconds = begin.elapsed().as_secs_f64();
    let keys = on_pool!(&path, &Options::default(), |pool| AnyMap::existing(
        &pool,
        &args.map.map
    )?
    .len());
    let loaded = Loaded {
        records: done.records,
        bad_records,
        keys: Some(keys),
        processes,
        replaced_workers: done.replaced,
        seconds,
        records_per_second: done.records as f64 / seconds.max(1e-9),
    };
    out.result(&loaded, text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(loaded: &Loaded) -> String {
    let mut text = format!(
        "loaded {} records in {:.2} s ({} a second, {} processes)",
        count(loaded.records),
        loaded.seconds,
        count(loaded.records_per_second as u64),
        loaded.processes,
    );
    if let Some(keys) = loaded.keys {
        text += &format!("; the map has {} keys", count(keys));
    }
    if loaded.bad_records > 0 {
        text += &format!("\nskipped {} bad records", count(loaded.bad_records));
    }
    if loaded.replaced_workers > 0 {
        text += &format!(
            "\n{} worker processes died and were replaced",
            loaded.replaced_workers
        );
    }
    text
}

fn default_processes() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4))
}

fn deal_all(
    source: &mut dyn records::Source,
    deal: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    args: &Args,
    out: &Output,
    (position, progress): (&Position, &ProgressBar),
    bad_records: &mut u64,
) -> Result<(), Failure> {
    let mut pair = Pair::default();
    let mut number = 0u64;
    loop {
        number += 1;
        position.guess(number, progress);
        let why = match source.next(&mut pair)? {
            Next::End => return Ok(()),
            Next::Pair if pair.key.len() > KEY_MAX => {
                format!(
                    "record {number}: its key has {} bytes; keys have at most {KEY_MAX}",
                    pair.key.len()
                )
            }
            Next::Pair if deal(&pair.key, &pair.value) => continue,
            Next::Pair => return Ok(()),
            Next::Bad { line, why } => format!("line {line}: {why}"),
        };
        let file = if args.file.as_os_str() == "-" {
            "standard input".into()
        } else {
            args.file.to_string_lossy()
        };
        if !args.skip_bad {
            return Err(Failure::failed(format!(
                "{file}, {why}; correct it, or leave such records out with --skip-bad"
            )));
        }
        *bad_records += 1;
        match *bad_records {
            1..=5 => progress.suspend(|| out.note(format!("cenote: skipped: {file}, {why}"))),
            6 => progress.suspend(|| out.note("cenote: more bad records are only counted")),
            _ => {}
        }
    }
}

/// A worker process: upserts chunks from standard input and answers each on standard output.
pub fn worker(args: Vec<String>) -> Result<ExitCode, Failure> {
    let [path, map] = &args[..] else {
        return Err(Failure::misuse("a load worker is told a pool and a map"));
    };
    match work(Path::new(path), map) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(failure) => {
            // The parent reports it; if the parent is gone, nobody waits for it.
            let _ = Answer::Failed(failure.to_string()).send(&mut io::stdout().lock());
            Ok(ExitCode::FAILURE)
        }
    }
}

fn work(path: &Path, map: &str) -> Result<(), Failure> {
    on_pool!(path, &Options::default(), |pool| upsert(&pool, map))
}

fn upsert<M: Memory>(pool: &Pool<M>, map: &str) -> Result<(), Failure> {
    let map = AnyMap::existing(pool, map)?;
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut chunk = Receiver::default();
    while chunk
        .receive(&mut stdin)
        .map_err(Failure::io("reading from the parent process"))?
    {
        for (key, value) in chunk.records() {
            map.put(key, value)?;
        }
        Answer::Done.send(&mut stdout).map_err(Failure::stdout)?;
    }
    Ok(())
}
