//! `cenote sim campaign`: many seeds of many subjects on several memories, in parts, each by a process of its own. What
//! has passed may be kept in a file, so that an interrupted campaign goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard};

use cenote_sim::subjects::Subject;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::destination;
use crate::failure::Failure;
use crate::output::{Output, count};
use crate::threads::start_all;

/// Arguments.
///
/// Prints a line for each subject and memory, and of each part that failed the command that runs its seeds again. A
/// part that fails ends at its first seed that does; the campaign goes on. Exit code: 0 if all passed, 1 if any did
/// not.
#[derive(clap::Args)]
pub struct Args {
    /// Which subjects, separated by commas; default: all parts of the library
    #[arg(long, value_delimiter = ',', value_parser = subject)]
    subjects: Vec<Subject>,
    /// Which memories
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "coherent,noncoherent,delegated"
    )]
    memory: Vec<Memory>,
    /// Seeds of each subject on each memory
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seeds of a part; a process keeps what killed processes had
    #[arg(long, value_name = "SEEDS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    part: u64,
    /// Processes at a time; default: one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Parts that passed are kept here, a line each, and are not run again. Another program or plan needs another file
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Arguments of `cenote sim` for each part, behind `--`; default: --hosts 3 --threads 2 --operations 14 --crashes 2
    #[arg(last = true, allow_hyphen_values = true)]
    plan: Vec<String>,
}

const PLAN: [&str; 8] = [
    "--hosts",
    "3",
    "--threads",
    "2",
    "--operations",
    "14",
    "--crashes",
    "2",
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Memory {
    Coherent,
    Noncoherent,
    Delegated,
}

impl Memory {
    fn name(self) -> &'static str {
        match self {
            Self::Coherent => "coherent",
            Self::Noncoherent => "noncoherent",
            Self::Delegated => "delegated",
        }
    }
}

fn subject(name: &str) -> Result<Subject, String> {
    Subject::named(name).ok_or_else(|| format!("no subject is called {name:?}"))
}

/// Some seeds of a subject.
#[derive(Clone, Copy)]
struct Part {
    subject: Subject,
    memory: Memory,
    seed: u64,
    seeds: u64,
}

impl Part {
    /// Arguments of `cenote sim`.
    fn arguments(&self, plan: &[String]) -> Vec<String> {
        let mut arguments = vec![self.subject.name().to_owned()];
        let own = ["--memory", self.memory.name(), "--seed"].map(str::to_owned);
        arguments.extend(own);
        arguments.extend([
            self.seed.to_string(),
            "--seeds".to_owned(),
            self.seeds.to_string(),
        ]);
        arguments.extend_from_slice(plan);
        arguments
    }
}

/// What all parts of one subject on one memory came to.
#[derive(Default, Serialize)]
struct Sum {
    subject: &'static str,
    memory: &'static str,
    seeds: u64,
    failed_parts: Vec<String>,
}

/// Runs.
pub fn run(args: &Args, out: &Output) -> Result<ExitCode, Failure> {
    let plan: Vec<String> = match args.plan.is_empty() {
        true => PLAN.map(str::to_owned).to_vec(),
        false => args.plan.clone(),
    };
    let parts = parts(args);
    let (file, passed) = args
        .results
        .as_deref()
        .map(results)
        .transpose()?
        .map_or((None, BTreeSet::new()), |(file, passed)| (Some(file), passed));
    let program = std::env::current_exe().map_err(Failure::io("this program"))?;
    let bar = bar(args, out);
    let jobs = match args.jobs {
        Some(jobs) => usize::from(jobs),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let (left, file) = (Mutex::new(parts.iter()), Mutex::new(file));
    let sums = Mutex::new(BTreeMap::<(Memory, usize), Sum>::new());
    let work = || -> Result<(), Failure> {
        loop {
            let Some(part) = lock(&left).next() else {
                return Ok(());
            };
            let arguments = part.arguments(&plan);
            let line = arguments.join(" ");
            let had_passed = passed.contains(&line);
            let told = match had_passed {
                true => None,
                false => told_by(&program, &arguments)?,
            };
            if told.is_none() && !had_passed {
                keep(&file, &line)?;
            }
            let place = parts.iter().position(|other| other.subject == part.subject);
            let mut sums = lock(&sums);
            let sum = sums.entry((part.memory, place.unwrap_or(0))).or_default();
            (sum.subject, sum.memory) = (part.subject.name(), part.memory.name());
            match told {
                None => sum.seeds += part.seeds,
                Some(told) => {
                    bar.suspend(|| out.note(&told));
                    sum.failed_parts.push(told);
                }
            }
            bar.inc(part.seeds);
        }
    };
    let outcomes: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
        let threads = match start_all(scope, "part", (0..jobs).map(|_| work)) {
            Ok(threads) => threads,
            Err(failure) => return vec![Err(failure)],
        };
        let failed = || Err(Failure::failed("a thread of the campaign panicked"));
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| failed()))
            .collect()
    });
    bar.finish_and_clear();
    outcomes.into_iter().collect::<Result<(), Failure>>()?;
    let sums = sums.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    for sum in sums.values() {
        out.result(sum, text)?;
    }
    match sums.values().all(|sum| sum.failed_parts.is_empty()) {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// All parts: the first ones of all subjects and memories before the second ones.
fn parts(args: &Args) -> Vec<Part> {
    let subjects = match args.subjects.is_empty() {
        true => Subject::ALL.to_vec(),
        false => args.subjects.clone(),
    };
    let memories: BTreeSet<Memory> = args.memory.iter().copied().collect();
    let mut parts = Vec::new();
    for first in (0..args.seeds).step_by(args.part as usize) {
        for &memory in &memories {
            parts.extend(subjects.iter().map(|&subject| Part {
                subject,
                memory,
                seed: args.seed.saturating_add(first),
                seeds: args.part.min(args.seeds - first),
            }));
        }
    }
    parts
}

/// Runs a part; what it says, with the command, if it did not pass. `Err` if the plan is none.
fn told_by(program: &Path, arguments: &[String]) -> Result<Option<String>, Failure> {
    let outcome = Command::new(program)
        .arg("sim")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(Failure::io("cenote sim"))?;
    let line = arguments.join(" ");
    match outcome.status.code() {
        Some(0) => Ok(None),
        Some(2) => {
            let stderr = String::from_utf8_lossy(&outcome.stderr);
            let message = stderr.trim().trim_start_matches("cenote: ");
            Err(Failure::misuse(message.trim_start_matches("error: ")))
        }
        _ => {
            let stdout = String::from_utf8_lossy(&outcome.stdout);
            let lines: Vec<&str> = stdout.lines().take_while(|line| !line.is_empty()).collect();
            Ok(Some(format!(
                "cenote sim {line}\n  {}: {}",
                outcome.status,
                lines.join("\n  ")
            )))
        }
    }
}

/// The file of results, and the parts in it. A line that was cut short counts for nothing.
fn results(path: &Path) -> Result<(File, BTreeSet<String>), Failure> {
    let failed = || Failure::io(path.display().to_string());
    let mut file = destination::append(path)?;
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).map_err(failed())?;
    file.read_to_string(&mut text).map_err(failed())?;
    if !text.is_empty() && !text.ends_with('\n') {
        file.write_all(b"\n").map_err(failed())?;
    }
    let whole = |line: &str| Some(line.strip_prefix("passed ")?.strip_suffix(" .")?.to_owned());
    Ok((file, text.lines().filter_map(whole).collect()))
}

fn keep(file: &Mutex<Option<File>>, line: &str) -> Result<(), Failure> {
    match &mut *lock(file) {
        Some(file) => file
            .write_all(format!("passed {line} .\n").as_bytes())
            .map_err(Failure::io("--results")),
        None => Ok(()),
    }
}

fn bar(args: &Args, out: &Output) -> ProgressBar {
    if !out.is_watched() {
        return ProgressBar::hidden();
    }
    let all: u64 = parts(args).iter().map(|part| part.seeds).sum();
    let bar = ProgressBar::new(all);
    let style = ProgressStyle::with_template("[{bar:40}] {human_pos}/{human_len} seeds, {eta} left");
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

fn text(sum: &Sum) -> String {
    let failed = match sum.failed_parts.len() {
        0 => String::new(),
        1 => ", 1 part failed".to_owned(),
        parts => format!(", {parts} parts failed"),
    };
    format!(
        "{:<10} {:<12} {} seeds passed{failed}",
        sum.subject,
        sum.memory,
        count(sum.seeds)
    )
}
