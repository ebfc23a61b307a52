//! `cenote monitor`: watches the hosts of a pod, and fences those that miss their heartbeats.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cenote::hosts::{MonitorHandler, Reporter};
use cenote::memory::Mapped;
use cenote::pod::hosts::failover::LeaseEvent;
use cenote::pod::hosts::monitor::Event;
use cenote::{Coherent, Delegated, FailoverThread, MemoryKind, MonitorOptions, Noncoherent, Options};
use serde::Serialize;

use super::agent::{Asked, Interrupted, check_fenced, leave, start};
use crate::election::{Election, ElectionArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::peers::PeerArgs;
use crate::pool::{PoolArg, as_this_host};

/// Arguments.
///
/// A monitor needs a host id of its own, and is that host's agent. Of several monitors one leads; another takes over
/// when the leader's host is down.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// The program that makes certain that a host is down, and exits with 0 then and only then. A shell runs it, with
    /// the host's id and generation behind its arguments
    #[arg(long, value_name = "COMMAND", conflicts_with = "one_machine")]
    fence: Option<String>,
    /// All hosts are processes of this machine: one that misses its heartbeats is killed
    #[arg(long)]
    one_machine: bool,
    /// How long the program may take before it is killed and run again
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    fence_timeout: u64,
    /// Time between two polls of the hosts, which send heartbeats every 8 ms; as in 16ms
    #[arg(long, value_name = "TIME", default_value = "8ms", value_parser = milliseconds)]
    poll: Duration,
    /// Polls in a row without a new heartbeat after which a host is fenced
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    missed: u64,
    /// A Unix socket; every client that connects is sent the monitor's state as JSON
    #[arg(long, value_name = "SOCKET")]
    health: Option<PathBuf>,
    #[command(flatten)]
    peers: PeerArgs,
    #[command(flatten)]
    election: ElectionArgs,
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix("ms").unwrap_or(text);
    match number.parse() {
        Ok(time @ 1..=60_000) => Ok(Duration::from_millis(time)),
        _ => Err("a time is a number of milliseconds from 1 to 60000, as in 16ms".to_owned()),
    }
}

/// How often it is checked whether a server executes exchanges.
const POLL: Duration = Duration::from_millis(20);

/// An event, and when it was seen.
#[derive(Serialize)]
struct Report {
    /// Milliseconds since 1970.
    at_ms: u64,
    #[serde(flatten)]
    event: Seen,
}

/// What was seen or done.
#[derive(Serialize)]
#[serde(untagged)]
enum Seen {
    Hosts(Event),
    Lease(LeaseEvent),
}

/// Runs the monitor.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let election = Election::new(args.election)?;
    let path = args.pool.existing()?;
    let options = as_this_host()?;
    let watch = MonitorOptions {
        poll: args.poll,
        missed: args.missed,
        fence: args.fence,
        fence_timeout: Duration::from_secs(args.fence_timeout),
    };
    let beside = Asked {
        health: args.health,
        peers: args.peers.peers(),
    };
    let kind = cenote::kind_of(&path)?;
    if kind != MemoryKind::Delegated && watch.fence.is_none() && !args.one_machine {
        return Err(Failure::misuse(
            "say how a host is fenced: --fence COMMAND, or --one-machine if all hosts are processes of this machine",
        ));
    }
    match kind {
        MemoryKind::Coherent => serve::<Coherent>(&path, &options, &watch, election, beside, out),
        MemoryKind::Noncoherent => serve::<Noncoherent>(&path, &options, &watch, election, beside, out),
        MemoryKind::Delegated => serve::<Delegated>(&path, &options, &watch, election, beside, out),
    }
}

fn serve<M: Mapped>(
    path: &std::path::Path,
    options: &Options,
    watch: &MonitorOptions,
    election: Option<Arc<Election>>,
    beside: Asked,
    out: &Output,
) -> Result<ExitCode, Failure> {
    let interrupted = Interrupted::listen();
    let asked = election.clone();
    let more = move |status: &mut serde_json::Value| {
        if let Some(election) = &asked {
            status["etcd"] = election.status();
        }
    };
    let pool = cenote::pool_id(path)?;
    let candidate = election
        .as_ref()
        .map(|election| election.stand(pool, format!("host {}", options.host), out))
        .transpose()?;
    let (tell, told) = channel();
    // A slow reader of our output must not keep the monitor from polling.
    let printer = {
        let out = *out;
        std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || print(&told, &out))
            .map_err(Failure::io("the thread that prints events"))?
    };
    let failover = match M::DELEGATED {
        true => Some(start_failover::<M>(
            path,
            options,
            watch,
            &election,
            pool,
            tell.clone(),
        )?),
        false => None,
    };
    let has_server = || failover.as_ref().is_none_or(FailoverThread::is_lease_taken);
    while !has_server() {
        std::thread::sleep(POLL);
    }
    let (mut agent, _health) = start::<M>(path, options, beside, more, &interrupted, out)?;
    let reporter = agent.reporter()?;
    let generation = agent.status()?.generation;
    let handler = Handler {
        election: election.as_deref(),
        interrupted: &interrupted,
        reporter: &reporter,
        generation,
        tell: &tell,
    };
    let watched = agent.watch(watch, &handler);
    // It leads no more: another monitor may be elected.
    drop(failover);
    if let Some(candidate) = candidate {
        candidate.withdraw();
    }
    drop(tell);
    let _ = printer.join();
    watched?;
    check_fenced(&reporter, generation)?;
    leave(&mut agent, out)
}

/// What the monitor of hosts asks this command, and tells it.
struct Handler<'a, M: Mapped> {
    election: Option<&'a Election>,
    interrupted: &'a Interrupted,
    reporter: &'a Reporter<M>,
    /// This host's.
    generation: u32,
    tell: &'a Sender<Report>,
}

impl<M: Mapped> MonitorHandler for Handler<'_, M> {
    fn may_lead(&self) -> bool {
        self.election.is_none_or(Election::may_lead)
    }

    fn is_over(&self) -> bool {
        self.interrupted.is_asked() || check_fenced(self.reporter, self.generation).is_err()
    }

    fn on_event(&self, event: &Event) {
        say(self.tell, Seen::Hosts(event.clone()));
    }
}

/// Starts the thread that has this host execute the exchanges when no other host can.
fn start_failover<M: Mapped>(
    path: &std::path::Path,
    options: &Options,
    watch: &MonitorOptions,
    election: &Option<Arc<Election>>,
    pool: u64,
    tell: Sender<Report>,
) -> Result<FailoverThread, Failure> {
    let Some(election) = election else {
        return Err(Failure::misuse(
            "a server executes this pool's exchanges; which host's that is must be decided outside of the pool: give --etcd".to_owned(),
        ));
    };
    if watch.fence.is_none() {
        return Err(Failure::misuse(
            "a server executes this pool's exchanges; only a program can make certain that its host is down: give --fence".to_owned(),
        ));
    }
    let election = election.lease(pool)?;
    let tell = move |event| say(&tell, Seen::Lease(event));
    Ok(FailoverThread::start::<M>(path, options, watch, election, tell)?)
}

fn say(tell: &Sender<Report>, event: Seen) {
    let at_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_millis() as u64);
    // There may be no reader any more.
    let _ = tell.send(Report { at_ms, event });
}

fn print(told: &Receiver<Report>, out: &Output) {
    for told in told {
        if out.result(&told, text).is_err() {
            // The monitor goes on without a reader.
            return;
        }
    }
}

fn text(told: &Report) -> String {
    match &told.event {
        Seen::Hosts(event) => text_of_hosts(event),
        Seen::Lease(event) => text_of_lease(event),
    }
}

fn text_of_hosts(event: &Event) -> String {
    match event {
        Event::Leads => "this monitor leads: it watches all hosts".to_owned(),
        Event::Follows => "another monitor leads: this one watches it".to_owned(),
        Event::StandsBy => "this monitor may not lead: it watches no host until it is elected".to_owned(),
        Event::Suspected { host, generation } => {
            format!("host {host} (generation {generation}) missed its heartbeats, and is being fenced")
        }
        Event::FenceFailed {
            host,
            generation,
            why,
        } => {
            format!("host {host} (generation {generation}) is not fenced, which is tried again: {why}")
        }
        Event::PollsLate { late, polls } => format!(
            "{late} of this monitor's last {polls} polls came late: it waits longer for heartbeats than its options say. Give it a processor, or \
             a longer --poll"
        ),
        Event::PollsPunctual => "this monitor's polls come in time again".to_owned(),
        Event::NotRecovered { what, why } => format!("{what} is not recovered, which is tried again: {why}"),
        Event::Moved { host, generation } => {
            format!("host {host} is down; its generation {generation} is over, and is recovered")
        }
    }
}

fn text_of_lease(event: &LeaseEvent) -> String {
    match event {
        LeaseEvent::ServedWithoutHostId => {
            "a process without a host's id executes the exchanges, or was killed when it did: end it, or run `cenote stat` without \
             a host's id on its machine"
                .to_owned()
        }
        LeaseEvent::LeaseNominated { after } if after.is_empty() => "this host is to execute the exchanges".to_owned(),
        LeaseEvent::LeaseNominated { after } => {
            let hosts = after
                .iter()
                .map(|host| format!("host {} (generation {})", host.host, host.generation));
            format!(
                "this host is to execute the exchanges, when {} is certainly down",
                hosts.collect::<Vec<_>>().join(" and ")
            )
        }
        LeaseEvent::LeaseFenceFailed {
            host,
            generation,
            why,
        } => {
            format!("host {host} (generation {generation}) is not fenced, which is tried again: {why}")
        }
        LeaseEvent::LeaseTaken => "this host executes the exchanges".to_owned(),
        LeaseEvent::LeaseGivenBack => {
            "this host may not take the execution of exchanges over any more, and has left it as it was".to_owned()
        }
        LeaseEvent::LeaseRetried { why } => format!("there may be no server of exchanges; it is tried again: {why}"),
    }
}
