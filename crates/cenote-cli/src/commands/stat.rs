//! `cenote stat`: a pool's figures, once or again and again.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cenote::Stat;
use cenote::memory::Memory;
use cenote::pod::format::host_entry::HostPhase;
use cenote::sync::inspect::{Holder, LockState};
use cenote::sync::object::LockKind;

use crate::failure::Failure;
use crate::output::{Output, bytes, count};
use crate::pool::PoolArg;
use crate::source::{ReadArg, Source, on_source};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    #[command(flatten)]
    read: ReadArg,
    /// Print them again every second, or every so many seconds, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    #[arg(value_parser = seconds)]
    watch: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wanted = text
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    wanted
        .filter(|time| *time >= Duration::from_millis(10))
        .ok_or("seconds are a number of 0.01 or more".to_owned())
}

/// Prints the figures.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let path = args.pool.existing()?;
    on_source!(&path, args.read, out, |source| stat(&source, args.watch, out)?);
    Ok(ExitCode::SUCCESS)
}

fn stat<M: Memory>(source: &Source<M>, watch: Option<Duration>, out: &Output) -> Result<(), Failure> {
    loop {
        if watch.is_some() && !out.json && out.is_terminal() {
            // Home, and clear all below.
            out.line("\x1b[H\x1b[J")?;
        }
        out.result(&source.stat()?, text)?;
        match watch {
            Some(pause) => std::thread::sleep(pause),
            None => return Ok(()),
        }
    }
}

fn ago(seconds_since_1970: u64) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    match now.saturating_sub(seconds_since_1970) {
        seconds @ 0..120 => format!("{seconds} s ago"),
        seconds @ 120..7200 => format!("{} min ago", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

/// The owner of a lock, and the waiters.
fn held(seen: &LockState) -> String {
    let names = |holders: &[Holder]| {
        let names: Vec<String> = holders
            .iter()
            .map(|holder| holder.who.worker.to_string())
            .collect();
        names.join(", ")
    };
    let mut text = match seen.owner {
        Some(owner) if owner.is_alive && seen.transfers.is_some() => {
            format!("worker {}'s process keeps it to write", owner.who.worker)
        }
        Some(owner) if owner.is_alive => format!("worker {} has it", owner.who.worker),
        Some(owner) => format!(
            "worker {} died with it; the next owner will be told",
            owner.who.worker
        ),
        None if seen.kind == LockKind::Condvar => "nobody has it".to_owned(),
        None if seen.kind == LockKind::Semaphore && !seen.readers.is_empty() => {
            format!("workers {} have permits", names(&seen.readers))
        }
        None if seen.readers.is_empty() => "free".to_owned(),
        None if seen.transfers.is_some() => {
            format!(
                "the processes of workers {} keep it to read",
                names(&seen.readers)
            )
        }
        None => format!("workers {} read under it", names(&seen.readers)),
    };
    if seen.note != 0 {
        // Writing to a string does not fail.
        let _ = write!(text, ", note {}", seen.note);
    }
    if !seen.waiting.is_empty() {
        let _ = write!(text, "; workers {} wait", names(&seen.waiting));
    }
    if let Some(transfers) = seen.transfers {
        let _ = write!(text, "; {} transfers to write", count(transfers.into()));
    }
    match seen.kind {
        LockKind::Semaphore | LockKind::Condvar => format!("{}, {text}", seen.kind.name()),
        kind => format!("{} lock, {text}", kind.name()),
    }
}

/// Recoveries that are shown to people; scripts get all that the pool remembers.
const RECENT_SHOWN: usize = 5;

fn phase(phase: HostPhase) -> &'static str {
    match phase {
        HostPhase::Down => "down",
        HostPhase::Up => "up",
        HostPhase::Fencing => "being fenced",
        HostPhase::Leaving => "leaving",
        HostPhase::Damaged => "damaged",
    }
}

/// Lines, each with a word in front that says what it is about.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, what: &str, value: String) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{what:<11} {value}");
    }
}

fn text(stat: &Stat) -> String {
    let mut lines = Lines::default();
    pool(stat, &mut lines);
    contents(stat, &mut lines);
    processes(stat, &mut lines);
    hosts(stat, &mut lines);
    reclamation(stat, &mut lines);
    groups(stat, &mut lines);
    recoveries(stat, &mut lines);
    lines.0
}

/// The pool itself, and its bytes.
fn pool(stat: &Stat, lines: &mut Lines) {
    lines.line(
        "pool",
        format!(
            "{} ({} memory, id {})",
            stat.path.display(),
            stat.kind.name(),
            stat.id
        ),
    );
    if stat.without_place {
        lines.line("read", "without a place in the pool".to_owned());
    }
    lines.line("created", ago(stat.created_s));
    lines.line(
        "reserved",
        format!(
            "{} of at most {}",
            bytes(stat.committed_bytes.saturating_sub(stat.given_back_bytes)),
            bytes(stat.max_bytes)
        ),
    );
    if stat.given_back_bytes > 0 {
        lines.line("given back", bytes(stat.given_back_bytes));
    }
    if let Some(file) = stat.file_bytes {
        lines.line("file", format!("takes {}", bytes(file)));
    }
}

/// What is in it: maps, object stores, task lists, locks.
fn contents(stat: &Stat, lines: &mut Lines) {
    for map in &stat.maps {
        lines.line("map", format!("{:?}: {} keys", map.name, count(map.keys)));
    }
    for store in &stat.objects {
        let evicted = match store.evictions.objects {
            0 => String::new(),
            evicted => format!(", {} evicted", count(evicted)),
        };
        lines.line(
            "objects",
            format!("{:?}: {}{evicted}", store.name, bytes(store.bytes)),
        );
    }
    for list in &stat.tasks {
        let (done, tasks) = (count(list.done), count(list.tasks));
        lines.line("tasks", format!("{:?}: {done} of {tasks} done", list.name));
    }
    for lock in &stat.locks {
        let which = lock.index.map_or_else(String::new, |index| format!("[{index}]"));
        lines.line("lock", format!("{:?}{which}: {}", lock.name, held(&lock.seen)));
    }
}

/// Processes that have it open.
fn processes(stat: &Stat, lines: &mut Lines) {
    for process in &stat.processes {
        let state = if process.is_alive {
            ""
        } else {
            ", dead: it waits for recovery"
        };
        let host = if process.host == 0 {
            String::new()
        } else {
            format!(" on host {}", process.host)
        };
        let me = if process.pid == u64::from(std::process::id()) {
            " (this command)"
        } else {
            ""
        };
        lines.line(
            "process",
            format!("{}{host}, since {}{state}{me}", process.pid, ago(process.since_s)),
        );
    }
}

/// Hosts of its pod.
fn hosts(stat: &Stat, lines: &mut Lines) {
    for host in &stat.hosts {
        let agent = match host.agent {
            Some(_) => "",
            None if host.phase == HostPhase::Down => "",
            None => ", without an agent",
        };
        let lease = match host.has_lease {
            true => ", executes the exchanges",
            false => "",
        };
        lines.line(
            "host",
            format!(
                "{}: {}{agent}, generation {}, {} heartbeats{lease}",
                host.host,
                phase(host.phase),
                host.generation,
                count(host.heartbeats)
            ),
        );
    }
}

/// Workers, and objects that wait until nobody reads them.
fn reclamation(stat: &Stat, lines: &mut Lines) {
    lines.line("workers", stat.workers.to_string());
    lines.line("epoch", count(stat.epoch));
    lines.line(
        "retired",
        format!(
            "{} objects ({}) that someone may still be reading",
            count(stat.retired_objects),
            bytes(stat.retired_bytes)
        ),
    );
    if let Some(held) = &stat.held_back {
        lines.line(
            "held back",
            format!(
                "{} objects ({}) wait for those who have been reading since {} or longer",
                count(held.waiting.objects),
                bytes(held.waiting.bytes),
                ago(held.since_s)
            ),
        );
    }
    if stat.dropped > 0 {
        let text = format!(
            "{} maps or object stores that are still in use",
            count(stat.dropped)
        );
        lines.line("dropped", text);
    }
    for laggard in &stat.laggards {
        lines.line(
            "laggard",
            format!(
                "worker {} of process {} has been reading since before the epoch",
                laggard.worker, laggard.pid
            ),
        );
    }
}

/// Groups.
fn groups(stat: &Stat, lines: &mut Lines) {
    for group in &stat.groups {
        let members = count(group.members);
        lines.line(
            "group",
            format!(
                "{:?}: {members} members, {} events",
                group.name,
                count(group.events)
            ),
        );
    }
}

/// Damage, and recoveries of the dead.
fn recoveries(stat: &Stat, lines: &mut Lines) {
    for damaged in &stat.damaged {
        lines.line("damaged", format!("{}: {}", damaged.what, damaged.why));
    }
    for failure in &stat.failures {
        lines.line("unrecovered", failure.to_string());
    }
    lines.line("recoveries", count(stat.recoveries));
    for recovery in stat.recent.iter().take(RECENT_SHOWN) {
        let done = match recovery.done.is_empty() {
            true => String::new(),
            false => format!(" ({})", recovery.done.join(", ")),
        };
        lines.line(
            "recovered",
            format!(
                "worker {} of process {}, {}, in {:.3} ms by worker {}{done}",
                recovery.worker,
                recovery.pid,
                ago(recovery.began_ns / 1_000_000_000),
                recovery.took_ns as f64 / 1e6,
                recovery.recoverer
            ),
        );
    }
}
