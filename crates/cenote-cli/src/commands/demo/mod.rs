//! `cenote demo`: the main job on real data, with real kills, in less than a minute.
//!
//! | file | |
//! |---|---|
//! | `demo` | the course of the demo |
//! | `data` | the cities, and how they are laid out in the pool |
//! | `worker` | a worker process: claims units of work, does them, takes those of the dead over |
//! | `phase` | the supervisor's side: starts, kills, waits |
//! | `verify` | is everything in the pool as the input says? |
//! | `read` | fresh processes that look things up |
//! | `show` | colours and bars |

mod data;
mod phase;
mod read;
mod show;
mod verify;
mod worker;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use cenote::{FsckReport, Options, Pool};
use serde::Serialize;

use crate::complaint::complain;
use crate::failure::Failure;
use crate::output::{Output, bytes, count};

use data::{City, SMALL, UNIT};
use phase::{Outcome, Phase};
use read::{Lookup, Pace};
use show::Show;
use verify::Verified;

/// A name that many cities have.
const NAME: &str = "Richmond";

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Worker processes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=16))]
    workers: u32,
    /// Keep the pool, to look around in it
    #[arg(long)]
    keep: bool,
}

#[derive(Serialize)]
struct Summary {
    cities: usize,
    indexed: Outcome,
    verified_after_indexing: Verified,
    lookup: Lookup,
    lookups_per_second: f64,
    batched_lookups_per_second: f64,
    changed: Outcome,
    verified_after_changes: Verified,
    memory: FsckReport,
    seconds: f64,
    pool: Option<PathBuf>,
}

/// The pool's file, removed in the end.
struct Created(PathBuf);

impl Drop for Created {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs the demo.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let show = Show::new(out);
    let start = Instant::now();
    let cities = data::cities()?;
    let shm = Path::new("/dev/shm");
    let folder = if shm.is_dir() {
        shm.to_owned()
    } else {
        std::env::temp_dir()
    };
    let path = folder.join(format!("cenote-demo-{}", std::process::id()));
    let doomed = path.clone();
    crate::interrupt::on_interrupt(move || {
        let _ = std::fs::remove_file(&doomed);
        complain!("cenote: interrupted; {} is removed", doomed.display());
    });
    let pool: Pool = Pool::create(&path, &Options::default())?;
    let created = Created(path.clone());
    let mut summary = tell(&args, &show, &pool, &path, &cities)?;
    summary.seconds = start.elapsed().as_secs_f64();
    if args.keep {
        std::mem::forget(created);
        summary.pool = Some(path.clone());
    }
    show.title(&format!(
        "All verified in {:.1} seconds. Try next",
        summary.seconds
    ))?;
    what_next(&show, args.keep.then_some(&*path))?;
    if out.json {
        out.json_line(&summary)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(args: &Args, show: &Show, pool: &Pool, path: &Path, cities: &[City]) -> Result<Summary, Failure> {
    let units = cities.len().div_ceil(UNIT);
    show.title(&format!(
        "1  {} processes index {} cities in one pool",
        args.workers,
        count(cities.len() as u64)
    ))?;
    show.fact(
        "data: GeoNames (geonames.org), CC BY 4.0; 69,472 towns of the world, from this program's own file",
    )?;
    show.fact(&format!(
        "pool: {}; no server, no coordinator: the processes share nothing but this file",
        path.display()
    ))?;
    // The last to be killed has no successor: the survivors do its work.
    let kills = [(0.15, true), (0.4, true), (0.65, false)];
    let phase = Phase {
        path,
        number: 1,
        units,
        workers: args.workers,
        kills: &kills,
    };
    let bar = show.bar(units, "indexing");
    let indexed = phase.run(pool, &bar, |text| show.kill(&bar, &text))?;
    bar.finish_and_clear();
    survivors(show, &indexed, units)?;

    show.title("2  Is everything there?")?;
    let verified_after_indexing = verify::verify(pool, cities, 1)?;
    verified(show, &verified_after_indexing)?;

    show.title("3  Fresh processes read")?;
    let lookup = read::fresh_lookup(path, NAME)?;
    show.good(&format!(
        "a new process opened the pool in {:.1} ms and looked up {NAME:?} in {:.0} us: {} cities",
        lookup.open_ms,
        lookup.lookup_us,
        lookup.records.len()
    ))?;
    let mut largest: Vec<(u64, String)> = lookup
        .records
        .iter()
        .filter_map(|record| ranked(record))
        .collect();
    largest.sort_unstable_by_key(|city| std::cmp::Reverse(city.0));
    let largest: Vec<String> = largest
        .iter()
        .take(3)
        .map(|(people, place)| format!("{place} ({} people)", count(*people)))
        .collect();
    show.fact(&format!("the largest of them: {}", largest.join("; ")))?;
    range(show, cities, &lookup)?;
    let paces = read::readers(path, args.workers)?;
    let sum = |of: fn(&Pace) -> f64| paces.iter().map(of).sum::<f64>();
    let (single, batched) = (sum(|pace| pace.single), sum(|pace| pace.batched));
    show.good(&format!(
        "{} processes at once: {:.1} million lookups a second one by one, {:.1} million with `get_many`",
        paces.len(),
        single / 1e6,
        batched / 1e6
    ))?;

    let small = cities.iter().filter(|city| city.is_small()).count();
    show.title(&format!(
        "4  Change everything: {} cities with less than {} people go, the others grow",
        count(small as u64),
        count(SMALL)
    ))?;
    let phase = Phase {
        path,
        number: 2,
        units,
        workers: args.workers,
        kills: &[(0.3, false)],
    };
    let bar = show.bar(units, "changing");
    let changed = phase.run(pool, &bar, |text| show.kill(&bar, &text))?;
    bar.finish_and_clear();
    survivors(show, &changed, units)?;
    let verified_after_changes = verify::verify(pool, cities, 2)?;
    verified(show, &verified_after_changes)?;

    show.title("5  Where is the memory?")?;
    let memory = account(show, pool)?;
    Ok(Summary {
        cities: cities.len(),
        indexed,
        verified_after_indexing,
        lookup,
        lookups_per_second: single,
        batched_lookups_per_second: batched,
        changed,
        verified_after_changes,
        memory,
        seconds: 0.0,
        pool: None,
    })
}

/// Shows what a range of names has, once it is compared with the input.
fn range(show: &Show, cities: &[City], lookup: &Lookup) -> Result<(), Failure> {
    let beginning = &NAME[..read::BEGINNING];
    let names = cities.iter().map(|city| city.name.as_str());
    let wanted: BTreeSet<&str> = names.filter(|name| name.starts_with(beginning)).collect();
    if !wanted.iter().eq(&lookup.range) {
        return Err(Failure::failed(format!(
            "{} names begin with {beginning:?}, and the range has {}",
            wanted.len(),
            lookup.range.len()
        )));
    }
    let (Some(first), Some(last)) = (lookup.range.first(), lookup.range.last()) else {
        return Ok(());
    };
    show.good(&format!(
        "names from {beginning:?} on, in order, in {:.0} us: {} of them, {first} to {last}",
        lookup.range_us,
        lookup.range.len()
    ))
}

/// A city's inhabitants, and where it is.
fn ranked(record: &str) -> Option<(u64, String)> {
    let columns: Vec<&str> = record.split('\t').collect();
    Some((
        columns.get(5)?.parse().ok()?,
        format!("{}, {}", columns.get(2)?, columns.get(1)?),
    ))
}

fn survivors(show: &Show, outcome: &Outcome, units: usize) -> Result<(), Failure> {
    show.good(&format!(
        "{units} units of work done by {} processes in {:.1} s; {} taken over from the dead",
        outcome.processes, outcome.seconds, outcome.taken_over
    ))?;
    for killed in &outcome.killed {
        let how = match killed.finished_by {
            Some(process) => format!("was finished by {process}, {:.0} ms later", killed.after_ms),
            None => "was done just before".to_owned(),
        };
        show.fact(&format!(
            "what {} left half done (unit {}) {how}",
            killed.process, killed.unit
        ))?;
    }
    show.fact(&format!(
        "nobody waited for the dead: of {} operations of the survivors the longest took {:.1} ms",
        count(outcome.operations),
        outcome.longest_ms
    ))
}

fn verified(show: &Show, verified: &Verified) -> Result<(), Failure> {
    show.good(&format!(
        "{} records, {} names, {} countries with {} people: each as the input says, and nothing else",
        count(verified.cities as u64),
        count(verified.names as u64),
        verified.countries,
        count(verified.population)
    ))
}

fn account(show: &Show, pool: &Pool) -> Result<FsckReport, Failure> {
    let report = pool.fsck()?;
    for (what, number) in [
        ("in use", report.reachable_bytes),
        ("free", report.free_bytes),
        ("retired, waiting for readers", report.retired_bytes),
        ("held by this process", report.held_bytes),
        ("overhead of blocks", report.overhead_bytes),
        ("leaked", report.leaked_bytes),
    ] {
        show.fact(&format!("{what:30} {:>12}", bytes(number)))?;
    }
    if !report.is_clean() {
        let problems = report.problems.join("; ");
        return Err(Failure::failed(format!(
            "{} bytes are leaked; {problems}",
            report.leaked_bytes
        )));
    }
    show.good(&format!(
        "every byte of {} is accounted for; {} dead processes were recovered",
        bytes(report.committed_bytes),
        pool.stat()?.recoveries
    ))?;
    Ok(report)
}

fn what_next(show: &Show, kept: Option<&Path>) -> Result<(), Failure> {
    let program = std::env::args().next().unwrap_or_else(|| "cenote".to_owned());
    if let Some(path) = kept {
        let path = path.display();
        show.command(
            &format!("{program} get {path} --map by-name {NAME}"),
            "the ids of all cities of this name",
        )?;
        show.command(
            &format!("{program} scan {path} --map by-name --from San --to Sao --limit 10"),
            "the first names of a range, in order",
        )?;
        show.command(&format!("{program} get {path} --map cities 1850147"), "Tokyo")?;
        show.command(
            &format!("{program} stat {path}"),
            "the pool's figures; remove the file when you are done",
        )?;
    }
    show.command(
        &format!("{program} torture --seconds 10"),
        "four processes, killed again and again; nothing is lost, torn or leaked",
    )?;
    show.command(
        &format!("{program} create towns"),
        "a pool of your own, /dev/shm/towns",
    )?;
    show.command(
        &format!("printf 'paris\\t2138551\\nrome\\t2318895\\n' | {program} load towns -"),
        "fill it, from a file or from standard input",
    )?;
    show.command(
        &format!("{program} get towns rome"),
        "and read it, from any number of processes",
    )?;
    if kept.is_none() {
        show.command(
            &format!("{program} demo --keep"),
            "this again, and keep the pool to look around in it",
        )?;
    }
    Ok(())
}

/// Runs one of its worker processes.
pub fn worker(args: Vec<String>) -> Result<ExitCode, Failure> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let answer = match args[..] {
        ["work", path, "1"] => return worker::run(path, 1).map(|()| ExitCode::SUCCESS),
        ["work", path, "2"] => return worker::run(path, 2).map(|()| ExitCode::SUCCESS),
        ["lookup", path, name] => serde_json::to_string(&read::lookup(path, name)?),
        ["read", path] => serde_json::to_string(&read::read(path)?),
        _ => return Err(Failure::misuse("a demo worker is started by `cenote demo` alone")),
    };
    Output::new(true).line(answer.unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}
