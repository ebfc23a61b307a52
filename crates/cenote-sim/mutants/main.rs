//! `cargo xtask mutants`: plants each mutant of the library in turn, and tests whether the checkers catch it.
//!
//! A mutant is caught by the first seed of its plan that does not pass, if the library as it is passes that seed. Seeds
//! begin with 1; after [`SEEDS_MAX`] a mutant has survived.

mod document;
mod slices;
mod sweep;
mod table;
mod trial;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use cenote::mutant::Mutant;
use cenote_sim::subjects::Subject;
use serde_json::json;

use slices::Clean;
use sweep::Sweep;
use trial::{Caught, Outcome, Report, SEEDS_MAX};

/// What the command line asked for.
#[derive(Default)]
struct Options {
    quick: bool,
    only: Option<Mutant>,
    json: bool,
    table: bool,
    /// Mutants at a time; one a processor if it does not say.
    jobs: Option<usize>,
    /// The subject of all plans, if not their own.
    subject: Option<Subject>,
    sweep: Option<Sweep>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [argument, of_slice @ ..] = arguments.as_slice()
        && argument == slices::ARGUMENT
    {
        return run_slice(of_slice);
    }
    match parse(arguments.into_iter()) {
        Ok(options) => match &options.sweep {
            Some(sweep) => run_sweep(sweep),
            None => run(&options),
        },
        Err(message) => {
            eprintln!("mutants: {message}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--json" => options.json = true,
            "--table" => options.table = true,
            "--jobs" => {
                let jobs: Option<usize> = arguments.next().and_then(|jobs| jobs.parse().ok());
                match jobs {
                    Some(1..=1_024) => options.jobs = jobs,
                    _ => return Err("`--jobs` needs a number from 1 to 1024".to_owned()),
                }
            }
            "--sweep" => {
                options.sweep = Some(Sweep {
                    runs: sweep::RUNS,
                    only: None,
                    missing: false,
                    part: (1, 1),
                    subject: None,
                });
            }
            "--subject" if options.sweep.is_none() => {
                options.subject = Some(subject(&arguments.next().ok_or("`--subject` needs a value")?)?);
            }
            "--missing" | "--site" | "--runs" | "--part" | "--subject" => {
                let sweep = options
                    .sweep
                    .as_mut()
                    .ok_or(format!("`{argument}` goes with `--sweep`"))?;
                let mut value = || arguments.next().ok_or(format!("`{argument}` needs a value"));
                match argument.as_str() {
                    "--missing" => sweep.missing = true,
                    "--site" => sweep.only = Some(value()?),
                    "--subject" => sweep.subject = Some(subject(&value()?)?),
                    "--runs" => sweep.runs = value()?.parse().map_err(|_| "`--runs` needs a number")?,
                    _ => sweep.part = part(&value()?).ok_or("`--part` needs two numbers, like 1/2")?,
                }
            }
            "--only" => {
                let name = arguments.next().ok_or("`--only` needs the name of a mutant")?;
                let found = Mutant::ALL.iter().find(|mutant| mutant.name() == name);
                options.only = Some(*found.ok_or_else(|| format!("no mutant is called `{name}`"))?);
            }
            other => return Err(format!("no argument is called `{other}`")),
        }
    }
    match options.subject.is_some() && options.table {
        true => Err("`--table` tells of mutants' own subjects".to_owned()),
        false => Ok(options),
    }
}

fn subject(name: &str) -> Result<Subject, String> {
    Subject::named(name).ok_or_else(|| format!("no subject is called `{name}`"))
}

/// One of some parts, as in `2/3`.
fn part(text: &str) -> Option<(usize, usize)> {
    let (part, parts) = text.split_once('/')?;
    let (part, parts) = (part.parse().ok()?, parts.parse().ok()?);
    (1..=parts).contains(&part).then_some((part, parts))
}

fn run_sweep(sweep: &Sweep) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    match sweep::run(sweep) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("mutants: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run_slice(arguments: &[String]) -> ExitCode {
    // A panic of the code under test is a result, reported with the others.
    std::panic::set_hook(Box::new(|_| {}));
    match slices::serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("mutants: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> ExitCode {
    let start = Instant::now();
    let mutants: Vec<Mutant> = Mutant::ALL
        .iter()
        .copied()
        .filter(|&mutant| !options.quick || table::trial(mutant).quick)
        .filter(|&mutant| options.only.is_none_or(|only| only == mutant))
        .filter(|&mutant| options.only.is_some() || table::directed(mutant).is_none())
        .collect();
    let reports = match run_all(options, &mutants) {
        Ok(reports) => reports,
        Err(message) => {
            eprintln!("mutants: {message}");
            return ExitCode::FAILURE;
        }
    };
    let caught = reports.iter().filter(|report| report.is_caught()).count();
    let mut passed = summarise(options, caught, reports.len(), start);
    let told = match () {
        () if options.table => document::write(&reports),
        () if options.quick || options.only.is_some() => document::check_names(),
        () => document::check(&reports),
    };
    if let Err(message) = told {
        eprintln!("{message}");
        passed = false;
    }
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs the mutants, as many at a time as was asked for, and tells of each when it is done.
fn run_all(options: &Options, mutants: &[Mutant]) -> Result<Vec<Report>, String> {
    let clean = Clean::new(!options.quick);
    let left = Mutex::new(mutants.iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let done = std::iter::from_fn(next).map(|&mutant| {
            let report = slices::run(mutant, options.subject, &clean)?;
            tell(&report, options.json);
            Ok(report)
        });
        let done = done.collect::<Result<Vec<Report>, String>>();
        if done.is_err() {
            // The others begin no more.
            while next().is_some() {}
        }
        done
    };
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.unwrap_or_else(processors);
    let mut reports = Vec::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            reports.extend(worker.join().map_err(|_| "a thread panicked")??);
            Ok::<(), String>(())
        })
    })?;
    reports.sort_by_key(|report| mutants.iter().position(|&mutant| mutant == report.mutant));
    Ok(reports)
}

fn tell(report: &Report, json: bool) {
    let (name, what) = (report.mutant.name(), report.mutant.what());
    let seconds = report.time.as_secs_f64();
    if json {
        let (outcome, checker, finding) = match &report.outcome {
            Outcome::Caught(Caught { checker, finding }) => ("caught", checker.as_str(), finding.as_str()),
            Outcome::Survived => ("survived", "", ""),
            Outcome::CleanFails(finding) => ("clean fails", "", finding.as_str()),
        };
        println!(
            "{}",
            json!({"mutant": name, "what": what, "plan": table::describe(&report.plan), "outcome": outcome,
                "checker": checker, "seeds": report.seeds, "seconds": seconds, "finding": finding})
        );
        return;
    }
    let seen = match &report.outcome {
        Outcome::Caught(Caught { checker, .. }) => format!("{checker}, seed {}", report.seeds),
        Outcome::Survived => format!("SURVIVED {} seeds", report.seeds),
        Outcome::CleanFails(finding) => {
            format!("THE LIBRARY AS IT IS FAILS seed {}: {finding}", report.seeds)
        }
    };
    println!("{name:28} {seen:28} {seconds:6.1} s  {what}");
}

fn summarise(options: &Options, caught: usize, of: usize, start: Instant) -> bool {
    let all = Mutant::ALL.len();
    if options.json {
        println!(
            "{}",
            json!({"caught": caught, "run": of, "mutants": all, "seeds_max": SEEDS_MAX})
        );
    } else {
        let left = match options.quick {
            true => format!(" (of {all} mutants, those that take few seeds)"),
            false => String::new(),
        };
        println!(
            "\ncaught {caught} of {of}{left} in {:.1} s",
            start.elapsed().as_secs_f64()
        );
    }
    caught == of
}
