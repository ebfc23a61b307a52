//! `cenote sim`: runs parts of the library on a simulated pod, from seeds.

mod campaign;
mod sensitivity;
mod throughput;

use std::path::PathBuf;
use std::process::ExitCode;

use cenote_sim::campaign::{
    Failure as FailingRun, LimitsKind, Plan, PolicyKind, Result as Ended, Run, STEPS_MAX,
};
use cenote_sim::policy::Bounds;
use cenote_sim::profile::Profile;
use cenote_sim::schedule;
use cenote_sim::subjects::Subject;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Output, count};
use crate::whole_file::Target;

/// Arguments.
///
/// Hosts with caches that are not coherent, crashes at any step, schedules from seeds; the code that runs is the
/// library's own. Exit code: 0 if every run passed, 1 if one was wrong, 3 if one was stuck, 4 if one panicked.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[arg(default_value = "all", help = subject_help())]
    subject: String,
    /// Which machine
    #[arg(long, value_enum, default_value_t = MemoryArg::Both)]
    memory: MemoryArg,
    /// Hosts, each with one process
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    hosts: u32,
    /// Threads of each process
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    threads: u32,
    /// Operations of each thread
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    operations: u32,
    /// Processes that die in a run, at steps that are drawn
    #[arg(long, default_value_t = 1)]
    crashes: u32,
    /// What decides which thread runs next
    #[arg(long, value_enum, default_value_t = PolicyArg::Random)]
    policy: PolicyArg,
    /// For pct: ordering constraints that a bug may need
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=16))]
    depth: u32,
    /// For exhaustive: preemptions of a run
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=8))]
    preemptions: u32,
    /// For exhaustive: evictions and early completions of a run
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=8))]
    faults: u32,
    /// For exhaustive: give up after so many schedules
    #[arg(long, default_value_t = 1_000_000)]
    schedules_max: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// A miss brings the next line in too, as hardware prefetchers do
    #[arg(long)]
    prefetch: bool,
    /// The kernels have no asymmetric barrier (membarrier): each announcement has a barrier of its own
    #[arg(long)]
    no_membarrier: bool,
    /// Run threads in the order of virtual clocks, with the costs of a built-in profile (dram, dram-remote, cxl-local,
    /// cxl-remote, cxl-remote-wide) or of a TOML file
    #[arg(long, value_name = "NAME", conflicts_with_all = ["policy", "depth", "preemptions", "faults", "replay"])]
    profile: Option<String>,
    /// Which thresholds processes have: after how much they collect, how much they keep at hand
    #[arg(long, value_enum, default_value_t = LimitsArg::Drawn)]
    limits: LimitsArg,
    /// Run every schedule twice, and fail if the two differ
    #[arg(long)]
    twice: bool,
    /// Steps after which a run is stuck, for each 128 operations of its threads; eight times as many on delegated
    /// memory
    #[arg(long, default_value_t = STEPS_MAX)]
    steps_max: u64,
    /// Repeat a schedule, as a failure prints it, with the seed's data and crashes
    #[arg(long, value_name = "SCHEDULE")]
    replay: Option<String>,
    /// Report a failing run as it is, and search for no simpler schedule
    #[arg(long)]
    no_shrink: bool,
    /// Write the calls of the last run to a file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Steps of a failing run to print
    #[arg(long, default_value_t = 40)]
    timeline: usize,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Run many seeds of all subjects, in parts
    Campaign(campaign::Args),
    /// Measure YCSB workloads in virtual time
    Throughput(throughput::Args),
    /// Which figures of virtual time each cost of the profile moves
    Sensitivity(sensitivity::Args),
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MemoryArg {
    Coherent,
    Noncoherent,
    /// Noncoherent, and one process executes the atomic exchanges of all; another takes over when it dies
    Delegated,
    /// Coherent, then noncoherent
    Both,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LimitsArg {
    /// Those of users
    Usual,
    /// Small ones, drawn from the seed
    Small,
    /// Small ones for half of the seeds
    Drawn,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PolicyArg {
    Random,
    Pct,
    Exhaustive,
}

/// What all runs of one plan came to.
#[derive(Serialize)]
struct Answer {
    subject: &'static str,
    memory: &'static str,
    result: &'static str,
    runs: u64,
    steps: u64,
    /// Runs with scans whose orders were too many to search: what they say of each key fits some order.
    #[serde(skip_serializing_if = "is_zero")]
    by_key: u64,
    /// Of the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_ns: Option<f64>,
    /// What the exploration of the last seed was bounded by.
    #[serde(skip_serializing_if = "Option::is_none")]
    exhausted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailingRun>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Runs.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    match args.command {
        Some(Command::Throughput(args)) => return throughput::run(args, out),
        Some(Command::Sensitivity(args)) => return sensitivity::run(&args, out),
        Some(Command::Campaign(args)) => return campaign::run(&args, out),
        None => {}
    }
    let subjects = match args.subject.as_str() {
        "all" => Subject::ALL.to_vec(),
        name => vec![Subject::named(name).ok_or_else(|| {
            let known = Subject::ALL.iter().chain(&Subject::BASELINES);
            let names: Vec<&str> = known.map(|subject| subject.name()).collect();
            Failure::misuse(format!(
                "no subject is called {name:?}; there are {} and all",
                names.join(", ")
            ))
        })?],
    };
    let replay = args
        .replay
        .as_deref()
        .map(schedule::decode)
        .transpose()
        .map_err(|part| Failure::misuse(format!("--replay: {part:?} is no part of a schedule")))?;
    let profile = args.profile.as_deref().map(Profile::load).transpose();
    let profile = profile.map_err(|error| Failure::misuse(error.to_string()))?;
    if replay.is_some() && (subjects.len() > 1 || args.memory == MemoryArg::Both) {
        return Err(Failure::misuse(
            "--replay needs one subject and one --memory".to_owned(),
        ));
    }
    // A panic of the code under test is a result, reported with the others.
    std::panic::set_hook(Box::new(|_| {}));
    for subject in subjects {
        let memories = match args.memory {
            MemoryArg::Both => &[MemoryArg::Coherent, MemoryArg::Noncoherent][..],
            _ => &[args.memory],
        };
        for &memory in memories {
            let plan = plan(&args, subject, memory, profile.clone());
            let (answer, last) = campaign(&args, &plan, replay.as_deref(), out)?;
            export(&args, last.as_ref())?;
            out.result(&answer, text)?;
            if let Some(code) = code_of(&answer) {
                return Ok(ExitCode::from(code));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What subjects there are, for the help text.
fn subject_help() -> String {
    let names = |subjects: &[Subject]| {
        subjects
            .iter()
            .map(|subject| subject.name())
            .collect::<Vec<_>>()
            .join(", ")
    };
    format!(
        "What to run: {}, or all of these; an index made for comparison: {}",
        names(&Subject::ALL),
        names(&Subject::BASELINES)
    )
}

fn plan(args: &Args, subject: Subject, memory: MemoryArg, profile: Option<Profile>) -> Plan {
    Plan {
        subject,
        coherent: memory == MemoryArg::Coherent,
        hosts: args.hosts,
        threads: args.threads,
        operations: args.operations,
        crashes: args.crashes,
        delegated: memory == MemoryArg::Delegated,
        draws_guidelines: true,
        prefetches: args.prefetch,
        has_membarrier: !args.no_membarrier,
        blind_exchanges: false,
        limits: match args.limits {
            LimitsArg::Usual => LimitsKind::Usual,
            LimitsArg::Small => LimitsKind::Small,
            LimitsArg::Drawn => LimitsKind::Drawn,
        },
        policy: match args.policy {
            PolicyArg::Random => PolicyKind::Random,
            PolicyArg::Pct => PolicyKind::Pct(args.depth),
            PolicyArg::Exhaustive => PolicyKind::Exhaustive(Bounds {
                preemptions: args.preemptions,
                faults: args.faults,
            }),
        },
        profile,
        steps_max: args.steps_max,
    }
}

/// Runs one plan's seeds up to the first that fails. The answer, and the last run.
fn campaign(
    args: &Args,
    plan: &Plan,
    replay: Option<&[u32]>,
    out: &Output,
) -> Result<(Answer, Option<Run>), Failure> {
    let mut answer = Answer {
        subject: plan.subject.name(),
        memory: plan.memory(),
        result: "passed",
        runs: 0,
        steps: 0,
        by_key: 0,
        virtual_ns: None,
        exhausted: None,
        failure: None,
    };
    let bar = bar(args.seeds, out, &answer);
    let mut last = None;
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        let (run, runs) = match (replay, plan.policy) {
            (Some(decisions), _) => (plan.replay(seed, decisions.to_vec()), 1),
            (None, PolicyKind::Exhaustive(bounds)) => {
                let explored = plan.explore(seed, bounds, args.schedules_max);
                answer.exhausted = Some(explored.to_string());
                (explored.last, explored.schedules)
            }
            (None, _) => (plan.run(seed), 1),
        };
        answer.runs += runs;
        answer.steps += run.outcome.steps;
        answer.by_key += u64::from(run.is_by_key);
        if plan.profile.is_some() {
            answer.virtual_ns = Some(run.outcome.time_ps as f64 / 1e3);
        }
        bar.inc(1);
        if args.twice && replay.is_none() {
            let again = match plan.profile {
                Some(_) => plan.run(seed),
                None => plan.replay(seed, run.outcome.decisions.clone()),
            };
            if again.outcome.digest != run.outcome.digest {
                return Err(Failure::failed(format!(
                    "seed {seed}: the same schedule ran differently the second time"
                )));
            }
        }
        let failed = run.result != Ended::Passed;
        if failed {
            bar.finish_and_clear();
            if !args.no_shrink {
                out.note(format!("seed {seed} failed; looking for a simpler schedule"));
            }
            let shrinks = replay.is_none() && !args.no_shrink;
            answer.failure = Some(plan.failure(seed, &run, shrinks, args.timeline));
            answer.result = match run.result {
                Ended::Stuck(_) => "stuck",
                Ended::Crashed(_) => "crashed",
                _ => "wrong",
            };
        }
        last = Some(run);
        if failed {
            break;
        }
    }
    bar.finish_and_clear();
    Ok((answer, last))
}

fn bar(seeds: u64, out: &Output, answer: &Answer) -> ProgressBar {
    if !out.is_watched() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:24} [{bar:40}] {pos}/{len} seeds, {eta} left");
    let bar = ProgressBar::new(seeds).with_message(format!("{}, {}", answer.subject, answer.memory));
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

fn export(args: &Args, run: Option<&Run>) -> Result<(), Failure> {
    let (Some(path), Some(history)) = (&args.export, run.and_then(|run| run.history.as_ref())) else {
        return Ok(());
    };
    let failed = |error| Failure::failed(format!("{}: {error}", path.display()));
    Target::at(path)?.write(|to| history.export(to).map_err(failed))
}

fn code_of(answer: &Answer) -> Option<u8> {
    match answer.result {
        "passed" => None,
        "stuck" => Some(3),
        "crashed" => Some(4),
        _ => Some(1),
    }
}

fn text(answer: &Answer) -> String {
    let head = format!(
        "{:<10} {:<12} {}: {} run{}, {} steps",
        answer.subject,
        answer.memory,
        answer.result,
        count(answer.runs),
        if answer.runs == 1 { "" } else { "s" },
        count(answer.steps),
    );
    let head = match answer.by_key {
        0 => head,
        runs => format!(
            "{head}, {} with too many orders, searched key by key",
            count(runs)
        ),
    };
    let head = match (&answer.exhausted, answer.virtual_ns) {
        (Some(exhausted), _) => format!("{head}; {exhausted}"),
        (None, Some(time)) => format!("{head}, {time:.0} ns of virtual time"),
        (None, None) => head,
    };
    match &answer.failure {
        Some(failure) => format!("{head}\n{failure}"),
        None => head,
    }
}
