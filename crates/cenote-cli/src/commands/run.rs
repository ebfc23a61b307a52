//! `cenote run`: supervises any command. Each process gets its worker number, the number of workers, and how often it
//! was started before; a process that fails is started again with the same number.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use cenote::store::supervise::{Event, Policy, Restart, Signal, Start, Supervisor, Then};
use serde::Serialize;

use crate::complaint::complain;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::pod_hosts::{PodHosts, Seen};
use crate::pool::PoolArg;

/// How long the supervisor waits between two checks for signals.
const POLL: Duration = Duration::from_millis(20);
/// The same if it polls hosts too: as often as they send heartbeats.
const POD_POLL: Duration = Duration::from_millis(8);

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "Each process has in its environment:
  CENOTE_WORKER    its number, from 0 on; the same after a restart
  CENOTE_WORKERS   how many workers there are
  CENOTE_RESTARTS  how often this worker was started before
  CENOTE_NODE      the number of its --on, from 0 on; 0 without
  CENOTE_POOL      the pool, with --pool

Exit code: 0 if all workers ended well; else that of the first one that did not (128 + n for signal n);
128 + n if cenote itself was ended by signal n, which it hands on to the workers first.")]
pub struct Args {
    /// Processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: u32,
    /// Which ends are followed by another start
    #[arg(long, value_enum, default_value_t = When::OnFailure)]
    restart: When,
    /// Restarts of a worker within --window; with one more it is given up
    #[arg(long, value_name = "N", default_value_t = 10)]
    max_restarts: u32,
    /// Seconds in which restarts are counted
    #[arg(long, value_name = "S", default_value_t = 60)]
    window: u64,
    /// Milliseconds before the first restart; doubled with each further one
    #[arg(long, value_name = "MS", default_value_t = 10)]
    backoff: u64,
    /// Milliseconds before a restart at most; a worker that ran for longer begins with --backoff again
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    backoff_max: u64,
    /// Seconds between SIGTERM and SIGKILL
    #[arg(long, value_name = "S", default_value_t = 5)]
    grace: u64,
    /// A host: the words that the command is put behind, such as 'ssh node1'; may be given several times
    #[arg(long, value_name = "PREFIX")]
    on: Vec<String>,
    /// Failures in a row, each sooner than --backoff-max, after which a host counts as lost and its workers go to the
    /// others
    #[arg(long, value_name = "N", requires = "on")]
    reschedule_after: Option<u32>,
    /// Which hosts of the pool's pod the --on are, in their order, such as 3,4: when one of them has died, its workers
    /// go to the others at once. Until it is up again it gets none
    #[arg(
        long,
        value_name = "ID,...",
        value_delimiter = ',',
        requires = "pool",
        requires = "on"
    )]
    pod_hosts: Vec<u32>,
    /// A pool that the workers find in CENOTE_POOL; it must exist
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Which ends are followed by another start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum When {
    /// All
    Always,
    /// Those with an exit code other than 0, or by a signal
    OnFailure,
    /// None
    Never,
}

/// What became of all.
#[derive(Serialize)]
struct Summary {
    /// Whether all ended well.
    ok: bool,
    seconds: f64,
    restarts: u32,
    /// The signal that ended it all, if one did.
    signal: Option<i32>,
    workers: Vec<Worker>,
}

/// What became of a worker.
#[derive(Serialize)]
struct Worker {
    worker: u32,
    restarts: u32,
    exit_code: Option<u8>,
    end: Option<String>,
}

/// Runs a command in several processes.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let signals = interrupt::signals();
    let pool = match &args.pool {
        Some(pool) => Some(PoolArg { pool: pool.clone() }.existing()?),
        None => None,
    };
    let policy = Policy {
        restart: match args.restart {
            When::Always => Restart::Always,
            When::OnFailure => Restart::OnFailure,
            When::Never => Restart::Never,
        },
        restarts_max: args.max_restarts,
        window: Duration::from_secs(args.window),
        wait_first: Duration::from_millis(args.backoff),
        wait_most: Duration::from_millis(args.backoff_max),
        grace: Duration::from_secs(args.grace),
        lost_after: args.reschedule_after,
    };
    let hosts = args.on.len();
    let mut pod_hosts = match &pool {
        Some(pool) if !args.pod_hosts.is_empty() => Some(PodHosts::open(pool, &args.pod_hosts, hosts)?),
        _ => None,
    };
    let make = |start: &Start| {
        let mut command = command(&args, start);
        if let Some(pool) = &pool {
            command.env("CENOTE_POOL", pool);
        }
        command
    };
    let begun = Instant::now();
    let mut supervisor = Supervisor::new(args.workers, hosts, policy, make);
    let mut ended_by = None;
    // Hosts that died and have their workers yet.
    let mut kept = Vec::new();
    while !supervisor.is_over() {
        for seen in pod_hosts.iter_mut().flat_map(PodHosts::poll) {
            log_host(&seen);
            match seen {
                Seen::Died { node, .. } if supervisor.lose_host(node) => {}
                // There is no other, or it was lost before.
                Seen::Died { node, .. } => kept.push(node),
                Seen::Up { node, .. } => {
                    supervisor.regain_host(node);
                    // Now there is one for the workers of others.
                    kept.retain(|&other| other != node && !supervisor.lose_host(other));
                }
                Seen::Unknown { .. } => {}
            }
        }
        for event in supervisor.poll(if pod_hosts.is_some() { POD_POLL } else { POLL }) {
            log(&event);
        }
        if let Ok(signal) = signals.try_recv() {
            complain!("cenote run: signal {signal}; ending the workers");
            if signal != Signal::Terminate.number() {
                supervisor.signal(Signal::Other(signal));
            }
            supervisor.stop();
            ended_by = Some(signal);
        }
    }
    let fates = supervisor.fates();
    let failed = |end: &cenote::store::supervise::End| end.is_failure().then(|| end.code());
    let code = fates.iter().find_map(|fate| fate.end.as_ref().and_then(failed));
    let summary = Summary {
        ok: code.is_none() && ended_by.is_none(),
        seconds: begun.elapsed().as_secs_f64(),
        restarts: fates.iter().map(|fate| fate.restarts).sum(),
        signal: ended_by,
        workers: fates
            .into_iter()
            .map(|fate| Worker {
                worker: fate.worker,
                restarts: fate.restarts,
                exit_code: fate.end.as_ref().map(|end| end.code()),
                end: fate.end.map(|end| end.to_string()),
            })
            .collect(),
    };
    if out.json {
        out.json_line(&summary)?;
    } else if !summary.ok {
        let bad = summary
            .workers
            .iter()
            .filter(|worker| worker.exit_code != Some(0));
        let bad = bad.count();
        complain!("cenote run: {bad} of {} workers did not end well", args.workers);
    }
    Ok(match ended_by {
        Some(signal) => ExitCode::from(128u8.wrapping_add(signal as u8)),
        None => ExitCode::from(code.unwrap_or(0)),
    })
}

/// The command of a worker. Where a host has a prefix, the environment goes through `env`, as a remote shell keeps
/// none.
fn command(args: &Args, start: &Start) -> Command {
    let settings = [
        ("CENOTE_WORKER", start.worker.to_string()),
        ("CENOTE_WORKERS", start.workers.to_string()),
        ("CENOTE_RESTARTS", start.restarts.to_string()),
        ("CENOTE_NODE", start.host.to_string()),
    ];
    let prefix = args.on.get(start.host).map_or("", String::as_str);
    let mut words = prefix.split_whitespace();
    let Some(first) = words.next() else {
        let mut command = Command::new(&args.command[0]);
        command.args(&args.command[1..]).envs(settings);
        return command;
    };
    let mut command = Command::new(first);
    command.args(words).arg("env");
    command.args(settings.map(|(name, value)| format!("{name}={value}")));
    command.args(&args.command);
    command
}

fn log_host(seen: &Seen) {
    match seen {
        Seen::Died { host, .. } => {
            complain!("cenote run: host {host} has died; its workers go to the others");
        }
        Seen::Up { host, .. } => complain!("cenote run: host {host} is up again"),
        Seen::Unknown { host, why } => complain!("cenote run: nobody can tell of host {host}: {why}"),
    }
}

/// One line to standard error for what a person wants to know; nothing for what went as planned.
fn log(event: &Event) {
    match event {
        Event::Started { start, process } if start.restarts > 0 => complain!(
            "cenote run: worker {} is process {process} now, restart {}",
            start.worker,
            start.restarts
        ),
        Event::Started { .. } => {}
        Event::Ended {
            worker,
            process,
            end,
            then,
        } => {
            let then = match then {
                Then::Restart(wait) => format!("; restart in {} ms", wait.as_millis()),
                Then::GivenUp => "; given up".to_owned(),
                Then::Over if end.is_failure() => String::new(),
                Then::Over => return,
            };
            complain!("cenote run: worker {worker} (process {process}) {end}{then}");
        }
        Event::HostLost { host } => {
            complain!("cenote run: host {host} counts as lost; its workers go to the others");
        }
    }
}
