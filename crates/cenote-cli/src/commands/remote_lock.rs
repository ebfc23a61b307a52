//! `cenote lock --at`: runs a command while it holds a lock of a lock service.
//!
//! The command is killed as soon as the service may have declared this process dead. If this process itself is stopped
//! meanwhile, that is when it goes on: the fencing token is for what must not happen in between.

use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use cenote::Acquired;
use cenote::memory::die_with_parent;
use cenote::remote::{Address, ConnectError, Error, LockClient, RegionsReadGuard, RegionsWriteGuard};
use cenote::sync::Timeout;
use serde::Serialize;

use super::lock::{Args, exit_code};
use crate::failure::Failure;
use crate::output::Output;

/// How long to wait for a service that is not there, at least.
const CONNECTING: Duration = Duration::from_secs(10);
/// The pause before another attempt to be let in by a service that has no number left.
const RETRY: Duration = Duration::from_millis(50);
/// The longest pause between two polls: has the command ended, and is the lock lost?
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Where the command finds its fencing token.
const TOKEN_VARIABLE: &str = "CENOTE_FENCING_TOKEN";

/// What came of it.
#[derive(Serialize)]
struct Ran<'a> {
    lock: &'a str,
    acquired: Acquired,
    code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
}

enum Hold<'l> {
    Read(RegionsReadGuard<'l>),
    Write(RegionsWriteGuard<'l>),
}

impl Hold<'_> {
    fn acquired(&self) -> Acquired {
        match self {
            Self::Read(guard) => guard.acquired(),
            Self::Write(guard) => guard.acquired(),
        }
    }

    fn verify(&self) -> Result<(), Error> {
        match self {
            Self::Read(guard) => guard.verify(),
            Self::Write(guard) => guard.verify(),
        }
    }

    fn token(&self) -> Option<u64> {
        match self {
            Self::Read(_) => None,
            Self::Write(guard) => Some(guard.fencing_token()),
        }
    }

    fn set_note(&self, note: u64) -> Result<(), Error> {
        match self {
            Self::Read(_) => Ok(()),
            Self::Write(guard) => guard.set_note(note),
        }
    }
}

/// Runs the command under a lock of the service at an address.
pub fn run(args: &Args, address: &Address, out: &Output) -> Result<ExitCode, Failure> {
    let (name, timeout) = (args.name(), args.timeout());
    // Before anything waits.
    let (program, arguments) = args.program()?;
    let late = || {
        Failure::failed(format!(
            "the lock {name:?} was not free in time; `cenote lockd --status {address}` says who has it"
        ))
    };
    let client = connect(address, program.to_string_lossy().as_ref(), timeout)?;
    let lock = client.regions_builder(name).open()?;
    let hold = match args.shared() {
        true => lock.read_with(timeout)?.map(Hold::Read),
        false => lock.write_with(timeout)?.map(Hold::Write),
    };
    let hold = hold.ok_or_else(late)?;
    let (acquired, token) = (hold.acquired(), hold.token());
    if let Acquired::Recovered { from, note } = acquired {
        out.note(format!(
            "cenote: node {} (session {}) died with the lock {name:?}; its note: {note}",
            from.worker, from.generation
        ));
    }
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(token) = token {
        command.env(TOKEN_VARIABLE, token.to_string());
    }
    let mut child = die_with_parent(&mut command)
        .spawn()
        .map_err(Failure::io(program.display()))?;
    let code = watch(&mut child, &hold).map_err(|error| {
        // It may have ended meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        match error {
            Lost::Lock(why) => Failure::failed(format!(
                "the lock {name:?} may be lost, and the command was killed: {why}"
            )),
            Lost::Child(error) => Failure::failed(format!("{}: {error}", program.display())),
        }
    })?;
    drop(hold);
    // The command has had the lock until its end, whatever becomes of the service now.
    if let Err(error) = client.close() {
        out.note(format!(
            "cenote: the lock {name:?} could not be handed back: {error}"
        ));
    }
    if out.json {
        out.json_line(&Ran {
            lock: name,
            acquired,
            code,
            token,
        })?;
    }
    Ok(ExitCode::from(code))
}

/// Connects; while the service has no number for another node, again and again until the timeout ends.
fn connect(address: &Address, program: &str, timeout: Timeout) -> Result<LockClient, Failure> {
    let label = format!("cenote lock[{}] {program}", std::process::id());
    let until = match timeout {
        Timeout::Forever => None,
        Timeout::Until(moment) => Some(moment),
        Timeout::None | Timeout::Polls(_) => Some(Instant::now()),
    };
    loop {
        match LockClient::connect_as(address, &label, CONNECTING) {
            Err(ConnectError::TooManyNodes) if until.is_none_or(|until| Instant::now() < until) => {
                std::thread::sleep(RETRY);
            }
            outcome => return Ok(outcome?),
        }
    }
}

/// Why a command is not waited for any longer.
enum Lost {
    Lock(Error),
    Child(std::io::Error),
}

/// Waits until the command has ended, and the lock was held until then; its exit code.
fn watch(child: &mut Child, hold: &Hold<'_>) -> Result<u8, Lost> {
    hold.set_note(u64::from(child.id())).map_err(Lost::Lock)?;
    let mut pause = Duration::from_micros(500);
    loop {
        let ended = child.try_wait().map_err(Lost::Child)?;
        hold.verify().map_err(Lost::Lock)?;
        if let Some(status) = ended {
            return Ok(exit_code(status));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(POLL_INTERVAL);
    }
}
