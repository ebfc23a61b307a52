//! `cenote lockd`: answers for locks that processes and machines share without a pool; or shows who has them.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use cenote::remote::{Address, LockService, LockStatus, ServiceOptions, Status, status};
use serde::Serialize;

use super::lock::time;
use crate::failure::Failure;
use crate::interrupt::signals;
use crate::output::{Output, bytes, count};

/// Arguments.
///
/// Runs until it is interrupted or gets SIGTERM. Locks, and what they cover, end with it.
#[derive(clap::Args)]
#[command(after_help = "\
Who may connect may take every lock, and keep it. A Unix socket admits this user alone. There is no authentication by TCP: listen on a network that is trusted.")]
pub struct Args {
    /// Listen here: unix:PATH for this machine, HOST:PORT for others too, port 0 for any that is free; may be given
    /// several times
    #[arg(long, value_name = "ADDR", required_unless_present = "status")]
    listen: Vec<Address>,
    /// Declare a client dead of which nothing is heard for so long, such as 10s, 500ms, 1m: 100ms to 60m, and longer
    /// than the network needs for a lock's data
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    lease: Duration,
    /// The most locks that are kept
    #[arg(long, value_name = "N", default_value_t = ServiceOptions::default().max_locks)]
    max_locks: usize,
    /// The most bytes that all locks may cover
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    max_bytes: usize,
    /// Show the clients of the service that listens here, and who has which lock
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["listen", "lease", "max_locks", "max_bytes"])]
    status: Option<Address>,
}

fn size(text: &str) -> Result<usize, String> {
    let bytes = cenote::parse_size(text).map_err(|error| error.to_string())?;
    usize::try_from(bytes).map_err(|error| error.to_string())
}

/// What is printed when the service listens.
#[derive(Serialize)]
struct Began {
    listening: Vec<Address>,
    lease_ms: u64,
}

/// Serves, or shows what a service does.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    if let Some(address) = &args.status {
        out.result(&status(address)?, text)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Before other threads are started.
    let signals = signals();
    let mut options = ServiceOptions::default();
    (options.lease, options.max_locks, options.max_bytes) = (args.lease, args.max_locks, args.max_bytes);
    let service = LockService::start(&options)?;
    let listening = args.listen.iter().map(|address| service.listen(address));
    let began = Began {
        listening: listening.collect::<Result<_, _>>()?,
        lease_ms: u64::try_from(options.lease.as_millis()).unwrap_or(u64::MAX),
    };
    out.result(&began, |began| {
        let addresses: Vec<String> = began.listening.iter().map(Address::to_string).collect();
        format!(
            "listening at {}; the lease is {:?}",
            addresses.join(" and "),
            options.lease
        )
    })?;
    // An error says that no signal can come any more; the service goes on.
    if signals.recv().is_err() {
        std::thread::park();
    }
    Ok(ExitCode::SUCCESS)
}

fn text(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let mut line = |what: &str, value: String| {
        let _ = writeln!(text, "{what:<8} {value}");
    };
    let used: u64 = status.locks.iter().map(|lock| lock.bytes).sum();
    line(
        "service",
        format!(
            "lease {:?}; {} of at most {} locks, {} of at most {}",
            Duration::from_millis(status.lease_ms),
            count(status.locks.len() as u64),
            count(status.locks_max),
            bytes(used),
            bytes(status.bytes_max)
        ),
    );
    for node in &status.nodes {
        let heard = Duration::from_millis(node.silent_ms);
        line(
            "node",
            format!(
                "{} (session {}): {:?}, heard {heard:?} ago",
                node.node, node.session, node.label
            ),
        );
    }
    for lock in &status.locks {
        line("lock", format!("{:?}: {}", lock.name, held(lock)));
    }
    text
}

/// Who has a lock, and who waits for it.
fn held(lock: &LockStatus) -> String {
    let nodes = |nodes: &[u8]| {
        let names: Vec<String> = nodes.iter().map(u8::to_string).collect();
        match nodes.len() {
            1 => format!("node {} keeps", names[0]),
            _ => format!("nodes {} keep", names.join(", ")),
        }
    };
    let mut text = match (lock.writer, &lock.readers[..]) {
        (Some(writer), _) => format!("{} it to write", nodes(&[writer])),
        (None, []) => "free".to_owned(),
        (None, readers) => format!("{} it to read", nodes(readers)),
    };
    // Writing to a string does not fail.
    if lock.note != 0 && lock.died.is_none() {
        let _ = write!(text, ", note {}", lock.note);
    }
    let waiting: Vec<String> = lock
        .waiting
        .iter()
        .map(|waiting| {
            format!(
                "{} to {}",
                waiting.node,
                if waiting.is_shared { "read" } else { "write" }
            )
        })
        .collect();
    if !waiting.is_empty() {
        let _ = write!(text, "; waiting: {}", waiting.join(", "));
    }
    if let Some(died) = lock.died {
        let _ = write!(
            text,
            "; node {} (session {}) died with it, note {}: the next owner will be told",
            died.node, died.session, died.note
        );
    }
    if lock.bytes > 0 {
        let _ = write!(text, "; covers {}", bytes(lock.bytes));
    }
    let _ = write!(text, "; {} transfers to write", count(lock.transfers));
    text
}
