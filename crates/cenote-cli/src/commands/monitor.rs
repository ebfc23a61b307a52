//! `cenote monitor`: watches the hosts of a pod, and fences those that miss their beats.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cenote::memory::Mapped;
use cenote::pod::monitor::Event;
use cenote::{Coherent, Delegated, Kind, Noncoherent, Options, Watch};
use serde::Serialize;

use super::agent::{check_fenced, leave, start, until_interrupted};
use crate::election::{Election, ElectionArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::pool::{PoolArg, this_host};

/// Arguments.
///
/// A monitor needs a host id of its own, and is that host's agent. Of several monitors one leads; another one takes over
/// when the leader's host is down.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// The program that makes certain that a host is down, and exits with 0 then and only then. A shell runs it, with the
    /// host's id and generation behind its arguments. Without it hosts are taken for processes of this machine, and killed
    #[arg(long, value_name = "COMMAND")]
    fence: Option<String>,
    /// How long the program may take before it is killed and run again
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    fence_timeout: u64,
    /// Between two looks at the hosts, which beat every 8 ms; as in 16ms
    #[arg(long, value_name = "TIME", default_value = "8ms", value_parser = milliseconds)]
    poll: Duration,
    /// Looks in a row without a new beat after which a host is fenced
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    missed: u64,
    /// A Unix socket on which whoever connects is sent the monitor's state as JSON
    #[arg(long, value_name = "SOCKET")]
    health: Option<PathBuf>,
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

/// An event, and when it was seen.
#[derive(Serialize)]
struct Told {
    /// Milliseconds since 1970.
    at_ms: u64,
    #[serde(flatten)]
    event: Event,
}

/// Runs the monitor.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let election = Election::new(args.election)?;
    let path = args.pool.existing()?;
    let options = Options {
        host: this_host()?,
        ..Options::default()
    };
    let watch = Watch {
        poll: args.poll,
        missed: args.missed,
        fence: args.fence,
        fence_time_out: Duration::from_secs(args.fence_timeout),
    };
    match cenote::kind_of(&path)? {
        Kind::Coherent => serve::<Coherent>(&path, &options, &watch, election, args.health, out),
        Kind::Noncoherent => serve::<Noncoherent>(&path, &options, &watch, election, args.health, out),
        Kind::Delegated => serve::<Delegated>(&path, &options, &watch, election, args.health, out),
    }
}

fn serve<M: Mapped>(
    path: &std::path::Path,
    options: &Options,
    watch: &Watch,
    election: Option<Arc<Election>>,
    health: Option<PathBuf>,
    out: &Output,
) -> Result<ExitCode, Failure> {
    let ends = until_interrupted();
    let asked = election.clone();
    let more = move |status: &mut serde_json::Value| {
        if let Some(election) = &asked {
            status["etcd"] = election.status();
        }
    };
    let (mut agent, _health) = start::<M>(path, options, health, more, out)?;
    let reporter = agent.reporter()?;
    let began = agent.status()?;
    let generation = began.generation;
    let name = format!("host {}, generation {generation}", began.host);
    let pool = agent.pool_id()?;
    let candidate = election
        .as_ref()
        .map(|election| election.stand(pool, name, out))
        .transpose()?;
    let (tell, told) = channel();
    // Whoever reads our output must not keep the monitor from looking.
    let printer = {
        let out = *out;
        std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || print(&told, &out))
            .map_err(Failure::io("the thread that prints events"))?
    };
    let watched = agent.watch(
        watch,
        &|| election.as_ref().is_none_or(|election| election.may_lead()),
        &|| ends.load() != 0 || check_fenced(&reporter, generation).is_err(),
        &mut |event| {
            let at_ms = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |time| time.as_millis() as u64);
            // Nobody may be there to read it.
            let _ = tell.send(Told {
                at_ms,
                event: event.clone(),
            });
        },
    );
    // It leads no more: another one may be elected.
    if let Some(candidate) = candidate {
        candidate.withdraw();
    }
    drop(tell);
    let _ = printer.join();
    watched?;
    check_fenced(&reporter, generation)?;
    leave(&mut agent, out)
}

fn print(told: &Receiver<Told>, out: &Output) {
    for told in told {
        if out.result(&told, text).is_err() {
            // The monitor goes on without a reader.
            return;
        }
    }
}

fn text(told: &Told) -> String {
    match &told.event {
        Event::Leads => "this monitor leads: it watches all hosts".to_owned(),
        Event::Follows => "another monitor leads: this one watches it".to_owned(),
        Event::StandsBy => "this monitor may not lead: it watches nobody until it is elected".to_owned(),
        Event::Accused { host, generation } => {
            format!("host {host} (generation {generation}) missed its beats, and is being fenced")
        }
        Event::FenceFailed {
            host,
            generation,
            why,
        } => {
            format!("host {host} (generation {generation}) is not fenced, which is tried again: {why}")
        }
        Event::Moved { host, generation } => {
            format!("host {host} is down; its generation {generation} is over, and is recovered")
        }
    }
}
