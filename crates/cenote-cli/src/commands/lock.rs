//! `cenote lock`: runs a command while it holds a lock of a pool, as flock(1) does with a file's.
//!
//! The kernel kills the command with its wrapper. The note of the lock is the command's process id, so whoever succeeds a killed holder can look whether
//! what that had started itself is still running.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use cenote::memory::{Memory, tether};
use cenote::sync::guard::Release;
use cenote::sync::{Guard, Patience, ReadGuard};
use cenote::{Acquired, Options, Pool};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::pool::{PoolArg, on_pool};

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Exit code: that of COMMAND, 128 + N if signal N ended it; 1 if the lock was not free in time, or something failed; 2 for misuse.
If this command is killed, the kernel kills COMMAND, but not what COMMAND has started; the lock passes to the next who asks, who is told COMMAND's process id.")]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// The lock's name; it is made if there is none
    name: String,
    /// The lock's form
    #[arg(long, value_enum, default_value = "mutex", value_name = "FORM")]
    form: FormArg,
    /// Share a reader-writer lock with others that do
    #[arg(long)]
    shared: bool,
    /// Give up after so long, such as 5s, 200ms, 1m; 0 tries once
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// What to run, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FormArg {
    /// Whoever is first; who has waited for long goes first
    Mutex,
    /// First come, first served
    Queue,
    /// One writer or any number of readers
    Rw,
    /// Whoever is first; who waits does not sleep
    Spin,
}

fn time(text: &str) -> Result<Duration, String> {
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

/// Runs the command under the lock.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    if args.shared && args.form != FormArg::Rw {
        return Err(Failure::misuse(
            "only a lock of the form rw can be shared: give --form rw",
        ));
    }
    let path = args.pool.existing()?;
    let code = on_pool!(&path, &Options::default(), |pool| locked(&pool, &args, out)?);
    Ok(ExitCode::from(code))
}

fn locked<M: Memory>(pool: &Pool<M>, args: &Args, out: &Output) -> Result<u8, Failure> {
    let patience = match args.timeout {
        None => Patience::Forever,
        Some(Duration::ZERO) => Patience::None,
        Some(time) => Patience::during(time),
    };
    let name = &args.name;
    match (args.form, args.shared) {
        (FormArg::Mutex, _) => {
            let lock = pool.mutex(name)?;
            let held = lock.lock_with(patience)?.ok_or_else(|| late(args))?;
            alone(&held, args, out)
        }
        (FormArg::Spin, _) => {
            let lock = pool.spin_mutex(name)?;
            let held = lock.lock_with(patience)?.ok_or_else(|| late(args))?;
            alone(&held, args, out)
        }
        (FormArg::Queue, _) => {
            let lock = pool.queue_mutex(name)?;
            let held = lock.lock_with(patience)?.ok_or_else(|| late(args))?;
            alone(&held, args, out)
        }
        (FormArg::Rw, false) => {
            let lock = pool.rwlock(name)?;
            let held = lock.write_with(patience)?.ok_or_else(|| late(args))?;
            alone(&held, args, out)
        }
        (FormArg::Rw, true) => {
            let lock = pool.rwlock(name)?;
            let held: ReadGuard<'_, M> = lock.read_with(patience)?.ok_or_else(|| late(args))?;
            under(held.acquired(), args, out, |_| {})
        }
    }
}

fn alone<M: Memory, L: Release<M>>(held: &Guard<'_, M, L>, args: &Args, out: &Output) -> Result<u8, Failure> {
    under(held.acquired(), args, out, |child| {
        held.set_note(u64::from(child))
    })
}

fn late(args: &Args) -> Failure {
    Failure::failed(format!(
        "the lock {:?} was not free in time; `cenote stat` says who has it",
        args.name
    ))
}

/// Runs the command; its exit code.
fn under(acquired: Acquired, args: &Args, out: &Output, note: impl FnOnce(u32)) -> Result<u8, Failure> {
    let [program, arguments @ ..] = &args.command[..] else {
        return Err(Failure::misuse("give a command to run"));
    };
    if let Acquired::Recovered { from, note } = acquired {
        out.note(format!(
            "cenote: worker {} (generation {}) died with the lock {:?}; its note: {note}",
            from.worker, from.generation, args.name
        ));
    }
    let mut child = tether(Command::new(program).args(arguments))
        .spawn()
        .map_err(Failure::io(program.display()))?;
    note(child.id());
    let status = child.wait().map_err(Failure::io(program.display()))?;
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => 1,
    };
    if out.json {
        out.json_line(&Ran {
            lock: &args.name,
            acquired,
            code,
        })?;
    }
    Ok(code)
}
