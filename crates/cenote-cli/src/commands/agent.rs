//! `cenote agent`: answers for this host to the pod that shares a pool.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cenote::memory::{LocalWord, Mapped, Memory, Priority, lock_code};
use cenote::pod::format::host_entry::HostPhase;
use cenote::store::{AgentStatus, Leave, Peers, Reporter};
use cenote::{Coherent, Delegated, HostAgent, MemoryKind, Noncoherent, Options};
use serde::Serialize;

use crate::failure::Failure;
use crate::health::Health;
use crate::interrupt::signals;
use crate::output::Output;
use crate::peers::PeerArgs;
use crate::pool::{PoolArg, as_this_host};

/// How often it is checked whether the agent shall end, or its host is being fenced.
const POLL: Duration = Duration::from_millis(50);

/// Arguments.
///
/// Runs until it is interrupted, and then until no other process of this host has the pool open. A host whose agent is
/// killed is fenced.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// A Unix socket; every client that connects is sent the agent's state as JSON
    #[arg(long, value_name = "SOCKET")]
    health: Option<PathBuf>,
    #[command(flatten)]
    peers: PeerArgs,
}

/// What else an agent is asked to do.
pub struct Asked {
    /// The socket on which it reports its health.
    pub health: Option<PathBuf>,
    /// The agents of other hosts.
    pub peers: Option<Peers>,
}

/// What is printed when the agent has begun.
#[derive(Serialize)]
pub struct Began {
    #[serde(flatten)]
    status: AgentStatus,
    /// Whether the program is kept in memory.
    locked: bool,
    health: Option<PathBuf>,
}

/// Runs the agent.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let path = args.pool.existing()?;
    let options = as_this_host()?;
    let asked = Asked {
        health: args.health,
        peers: args.peers.peers(),
    };
    match cenote::kind_of(&path)? {
        MemoryKind::Coherent => serve::<Coherent>(&path, &options, asked, out),
        MemoryKind::Noncoherent => serve::<Noncoherent>(&path, &options, asked, out),
        MemoryKind::Delegated => serve::<Delegated>(&path, &options, asked, out),
    }
}

fn serve<M: Mapped>(
    path: &std::path::Path,
    options: &Options,
    asked: Asked,
    out: &Output,
) -> Result<ExitCode, Failure> {
    let interrupted = Interrupted::listen();
    let (mut agent, _health) = start::<M>(path, options, asked, |_| {}, &interrupted, out)?;
    let reporter = agent.reporter()?;
    let generation = agent.status()?.generation;
    // Of those that there are still.
    let mut told = Vec::new();
    let mut is_damaged = false;
    while !interrupted.is_asked() {
        std::thread::sleep(POLL);
        let AgentStatus {
            host,
            phase,
            failures,
            ..
        } = check_fenced(&reporter, generation)?;
        let was_damaged = std::mem::replace(&mut is_damaged, phase == HostPhase::Damaged);
        if is_damaged && !was_damaged {
            out.note(format!(
                "what the pool says of host {host} is damaged; run `cenote fsck` on it"
            ));
        }
        for failure in failures.iter().filter(|failure| !told.contains(*failure)) {
            out.note(format!("not recovered, which is tried again: {failure}"));
        }
        told = failures;
    }
    leave(&mut agent, out)
}

/// Whether the command is interrupted. Once its agent has begun, it then ends in order. If it is interrupted again it
/// ends at once, as there may be no server that executes its exchanges.
#[derive(Default)]
pub struct Interrupted {
    is_asked: LocalWord,
    has_begun: LocalWord,
}

impl Interrupted {
    /// Listens from now on; before other threads are started.
    pub fn listen() -> Arc<Self> {
        let interrupted = Arc::<Self>::default();
        let theirs = interrupted.clone();
        let signals = signals();
        // Without the thread, the command cannot be interrupted.
        let _ = std::thread::Builder::new()
            .name("interrupted".to_owned())
            .spawn(move || {
                for signal in signals {
                    if !theirs.is_asked.exchange(0, 1) || theirs.has_begun.load() == 0 {
                        std::process::exit(128 + signal);
                    }
                }
            });
        interrupted
    }

    /// From now on there is an agent that must end in order.
    fn begin(&self) {
        self.has_begun.store(1);
    }

    /// Whether the command shall end.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load() != 0
    }
}

/// Starts the agent of this host, and says so. `more` adds to what is said of its health.
pub fn start<M: Mapped>(
    path: &std::path::Path,
    options: &Options,
    asked: Asked,
    more: impl Fn(&mut serde_json::Value) + Send + 'static,
    interrupted: &Interrupted,
    out: &Output,
) -> Result<(HostAgent<M>, Option<Health>), Failure> {
    let locked = lock_code();
    // Anything that has that name already is reported before the host goes up.
    let mut health = asked.health.as_deref().map(Health::bind).transpose()?;
    let mut agent = HostAgent::<M>::start(path, options)?;
    interrupted.begin();
    if let Some(peers) = &asked.peers {
        agent.tell_peers(peers)?;
    }
    let reporter = agent.reporter()?;
    if let Some(health) = &mut health {
        health.serve(move || match reporter.status() {
            Ok(status) => {
                let mut status = serde_json::json!(status);
                more(&mut status);
                status.to_string()
            }
            Err(error) => serde_json::json!({ "error": error.to_string() }).to_string(),
        })?;
    }
    let began = Began {
        status: agent.status()?,
        locked,
        health: health.as_ref().map(|health| health.path().to_owned()),
    };
    out.result(&began, |began| {
        let priority = match began.status.priority {
            Priority::Realtime => "in real time",
            Priority::Nice => "without real time, which was refused: monitors wait longer for it",
            Priority::Ordinary => {
                "with ordinary priority, as no other was granted: monitors wait longer for it"
            }
        };
        let locked = if began.locked {
            ""
        } else {
            "; it may be paged out, as locking memory was refused"
        };
        format!(
            "host {} is up in generation {}; it sends heartbeats {priority}{locked}",
            began.status.host, began.status.generation
        )
    })?;
    Ok((agent, health))
}

/// The agent's state. Fails if this host is being fenced, or its generation is over. While the host's record is
/// damaged, neither can be told and no monitor fences the host: the agent goes on.
pub fn check_fenced<M: Memory>(reporter: &Reporter<M>, generation: u32) -> Result<AgentStatus, Failure> {
    let status = reporter.status()?;
    let is_over = status.phase != HostPhase::Damaged && status.current_generation != generation;
    if status.phase == HostPhase::Fencing || is_over {
        return Err(Failure::failed(format!(
            "host {} is being fenced: a monitor missed its heartbeats",
            status.host
        )));
    }
    Ok(status)
}

/// Leaves as soon as no other process of this host has the pool open.
pub fn leave<M: Memory>(agent: &mut HostAgent<M>, out: &Output) -> Result<ExitCode, Failure> {
    let mut has_told = false;
    while agent.leave()? == Leave::InUse {
        if !has_told {
            out.note(
                "other processes of this host have the pool open; the agent goes on until they have ended",
            );
            has_told = true;
        }
        std::thread::sleep(POLL);
    }
    Ok(ExitCode::SUCCESS)
}
