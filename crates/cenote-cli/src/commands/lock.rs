//! `cenote lock`: runs a command while it holds a lock of a pool, as flock(1) does with a file's, or one of a lock
//! service ([`remote_lock`](super::remote_lock)); or removes the lock.
//!
//! The kernel kills the command with its wrapper. The note of the lock is the command's process id, so the next owner
//! after a killed one can check whether processes that the command had started are still running.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use cenote::memory::{Memory, die_with_parent};
use cenote::remote::Address;
use cenote::sync::guard::Release;
use cenote::sync::{Guard, ReadGuard, Timeout};
use cenote::{Acquired, Backend, Error, Options, Pool};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::pool::{PoolArg, on_pool};

/// Arguments.
#[derive(clap::Args)]
#[command(override_usage = "\
cenote lock [OPTIONS] <POOL> <NAME> -- <COMMAND>...
       cenote lock [OPTIONS] --at <ADDR> <NAME> -- <COMMAND>...
       cenote lock --remove [OPTIONS] <POOL> <NAME>")]
#[command(after_help = "\
Exit code: that of COMMAND, 128 + N if signal N ended it; 1 if the lock was not free in time, or something failed; 2 for misuse.
If this command is killed, the kernel kills COMMAND, but not what COMMAND has started; the lock passes to the next who asks, who is told COMMAND's process id.
With --at, COMMAND is also killed, and the exit code 1, if the lock service may have declared this command dead. COMMAND finds a fencing token in CENOTE_FENCING_TOKEN, unless the lock is shared.")]
pub struct Args {
    /// The pool's file; with --at the lock's name
    #[arg(value_name = "POOL")]
    first: String,
    /// The lock's name; it is made if there is none
    #[arg(value_name = "NAME")]
    second: Option<String>,
    /// Ask the lock service at this address, unix:PATH or HOST:PORT, instead of a pool (see cenote lockd)
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["kind", "count", "permits", "remove"])]
    at: Option<Address>,
    /// What kind of lock; a mutex if nothing is said, with --shared a directory lock
    #[arg(long, alias = "form", value_enum)]
    kind: Option<KindArg>,
    /// Share a directory lock or a reader-writer lock with others that do
    #[arg(long)]
    shared: bool,
    /// How many locks there are under this name, if there are several; they are made if there are none
    #[arg(long, value_name = "N", requires = "index")]
    count: Option<u32>,
    /// Which of them, counted from 0
    #[arg(long, value_name = "I", requires = "count")]
    index: Option<u32>,
    /// Let so many have it at a time: a semaphore of N permits; it is made if there is none
    #[arg(long, value_name = "N", conflicts_with_all = ["kind", "shared", "count"])]
    permits: Option<u32>,
    /// Remove the lock, of whatever kind, once it is free; commands that wait for it go on with a new lock of that name
    #[arg(long, conflicts_with_all = ["kind", "shared", "count", "permits", "command"])]
    remove: bool,
    /// Give up after so long, such as 5s, 200ms, 1m; 0 tries once
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// What to run, and its arguments
    #[arg(last = true, required_unless_present = "remove", value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum KindArg {
    /// The first to ask; a command that has waited for long goes first
    Mutex,
    /// First come, first served
    Queue,
    /// One writer or any number of readers
    Rw,
    /// The first to ask; a waiting command does not sleep
    Spin,
    /// One writer or any number of readers; processes keep it until another one asks
    Directory,
}

impl Args {
    /// The lock's name.
    pub(super) fn name(&self) -> &str {
        match &self.at {
            None => self.second.as_deref().unwrap_or_default(),
            Some(_) => &self.first,
        }
    }

    /// Whether to share the lock.
    pub(super) fn shared(&self) -> bool {
        self.shared
    }

    /// How long to wait.
    pub(super) fn timeout(&self) -> Timeout {
        match self.timeout {
            None => Timeout::Forever,
            Some(Duration::ZERO) => Timeout::None,
            Some(time) => Timeout::during(time),
        }
    }

    /// What to run.
    pub(super) fn program(&self) -> Result<(&OsString, &[OsString]), Failure> {
        match &self.command[..] {
            [program, arguments @ ..] => Ok((program, arguments)),
            [] => Err(Failure::misuse("give a command to run")),
        }
    }

    /// The kind that is asked for.
    fn kind(&self) -> KindArg {
        let usual = match self.shared {
            true => KindArg::Directory,
            false => KindArg::Mutex,
        };
        self.kind.unwrap_or(usual)
    }
}

/// Reads a time.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        _ => return Err("a time is a number with s, ms or m".to_owned()),
    };
    let number: Option<f64> = text[..text.len() - unit.len()].parse().ok();
    number
        .and_then(|number| Duration::try_from_secs_f64(number * seconds).ok())
        .ok_or("a time is a number with s, ms or m".to_owned())
}

/// What came of it.
#[derive(Serialize)]
struct Ran<'a> {
    lock: &'a str,
    acquired: Acquired,
    code: u8,
}

/// What was removed.
#[derive(Serialize)]
struct Removed<'a> {
    removed: &'a str,
}

/// Runs the command under the lock, or removes the lock.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    if let Some(address) = &args.at {
        return match args.second {
            None => super::remote_lock::run(&args, address, out),
            Some(_) => Err(Failure::misuse(
                "with --at there is no pool: give the lock's name alone",
            )),
        };
    }
    if args.second.is_none() {
        return Err(Failure::misuse(
            "give a pool and the lock's name, or --at and the lock's name",
        ));
    }
    if args.shared && !matches!(args.kind(), KindArg::Rw | KindArg::Directory) {
        return Err(Failure::misuse(
            "a lock of this kind cannot be shared: give --kind directory or --kind rw",
        ));
    }
    if args.count.is_some() && args.kind() == KindArg::Directory {
        return Err(Failure::misuse(
            "a directory lock has a name of its own: give another --kind with --count",
        ));
    }
    let pool = PoolArg {
        pool: args.first.clone(),
    };
    let path = pool.existing()?;
    let code = on_pool!(&path, &Options::default(), |pool| locked_or_removed(
        &pool, &args, out
    )?);
    Ok(ExitCode::from(code))
}

fn locked_or_removed<M: Backend>(pool: &Pool<M>, args: &Args, out: &Output) -> Result<u8, Failure> {
    let timeout = args.timeout();
    if args.remove {
        let name = args.name();
        pool.remove_lock_with(name, timeout)?;
        if out.json {
            out.json_line(&Removed { removed: name })?;
        }
        return Ok(0);
    }
    loop {
        // If the lock was removed meanwhile, the name is a new one's.
        if let Some(code) = locked(pool, args, timeout, out)? {
            return Ok(code);
        }
    }
}

/// Runs the command under the lock; `None` if the lock was removed while this waited.
fn locked<M: Backend>(
    pool: &Pool<M>,
    args: &Args,
    timeout: Timeout,
    out: &Output,
) -> Result<Option<u8>, Failure> {
    let (name, index) = (args.name(), args.index.unwrap_or_default());
    macro_rules! open {
        ($one:ident, $many:ident) => {
            match args.count {
                None => pool.$one(name)?,
                Some(count) => pool.$many(name, count)?.at(index)?,
            }
        };
    }
    macro_rules! had {
        ($taken:expr) => {
            match $taken {
                Ok(held) => held.ok_or_else(|| late(args))?,
                Err(Error::LockRemoved) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        };
    }
    if let Some(permits) = args.permits {
        let semaphore = pool.semaphore(name, permits)?;
        let permit = had!(semaphore.acquire_with(timeout));
        let code = under(permit.acquired(), args, out, |child| {
            permit.set_note(u64::from(child));
        });
        return code.map(Some);
    }
    let code = match (args.kind(), args.shared) {
        (KindArg::Mutex, _) => {
            let lock = open!(mutex, mutexes);
            alone(&had!(lock.lock_with(timeout)), args, out)
        }
        (KindArg::Spin, _) => {
            let lock = open!(spin_mutex, spin_mutexes);
            alone(&had!(lock.lock_with(timeout)), args, out)
        }
        (KindArg::Queue, _) => {
            let lock = open!(queue_mutex, queue_mutexes);
            alone(&had!(lock.lock_with(timeout)), args, out)
        }
        (KindArg::Rw, false) => {
            let lock = open!(raw_rwlock, raw_rwlocks);
            alone(&had!(lock.write_with(timeout)), args, out)
        }
        (KindArg::Rw, true) => {
            let lock = open!(raw_rwlock, raw_rwlocks);
            let held: ReadGuard<'_, M> = had!(lock.read_with(timeout));
            under(held.acquired(), args, out, |_| {})
        }
        (KindArg::Directory, false) => {
            let lock = pool.regions_builder(name).open()?;
            let held = had!(lock.write_with(timeout));
            under(held.acquired(), args, out, |child| {
                held.set_note(u64::from(child))
            })
        }
        (KindArg::Directory, true) => {
            let lock = pool.regions_builder(name).open()?;
            let held = had!(lock.read_with(timeout));
            under(held.acquired(), args, out, |_| {})
        }
    };
    code.map(Some)
}

fn alone<M: Memory, L: Release<M>>(held: &Guard<'_, M, L>, args: &Args, out: &Output) -> Result<u8, Failure> {
    under(held.acquired(), args, out, |child| {
        held.set_note(u64::from(child))
    })
}

fn late(args: &Args) -> Failure {
    Failure::failed(format!(
        "the lock {:?} was not free in time; `cenote stat` says who has it",
        args.name()
    ))
}

/// Runs the command; its exit code.
fn under(acquired: Acquired, args: &Args, out: &Output, note: impl FnOnce(u32)) -> Result<u8, Failure> {
    let (program, arguments) = args.program()?;
    if let Acquired::Recovered { from, note } = acquired {
        out.note(format!(
            "cenote: worker {} (generation {}) died with the lock {:?}; its note: {note}",
            from.worker,
            from.generation,
            args.name()
        ));
    }
    let mut child = die_with_parent(Command::new(program).args(arguments))
        .spawn()
        .map_err(Failure::io(program.display()))?;
    note(child.id());
    let status = child.wait().map_err(Failure::io(program.display()))?;
    let code = exit_code(status);
    if out.json {
        out.json_line(&Ran {
            lock: args.name(),
            acquired,
            code,
        })?;
    }
    Ok(code)
}

/// The exit code that says how a command has ended.
pub(super) fn exit_code(status: std::process::ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => 1,
    }
}
