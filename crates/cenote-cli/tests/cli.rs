//! The `cenote` command from outside: its output, its exit codes, and that it survives errors.

#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/cluster.rs"]
mod cluster;
#[path = "cli/destinations.rs"]
mod destinations;
#[path = "cli/files.rs"]
mod files;
#[path = "cli/groups.rs"]
mod groups;
#[path = "cli/hosts.rs"]
mod hosts;
#[path = "cli/keys.rs"]
mod keys;
#[path = "cli/lock_services.rs"]
mod lock_services;
#[path = "cli/locks.rs"]
mod locks;
#[path = "cli/mapreduce.rs"]
mod mapreduce;
#[path = "cli/near.rs"]
mod near;
#[path = "cli/objects.rs"]
mod objects;
#[path = "cli/places.rs"]
mod places;
#[path = "cli/pools.rs"]
mod pools;
#[path = "cli/readers.rs"]
mod readers;
#[path = "cli/reproduce.rs"]
mod reproduce;
#[path = "cli/run.rs"]
mod run;
#[path = "cli/sim.rs"]
mod sim;
#[path = "cli/threads.rs"]
mod threads;
#[path = "cli/traces.rs"]
mod traces;
#[path = "cli/trust.rs"]
mod trust;

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A folder for pools, and the command run in it.
struct Here(tempfile::TempDir);

/// What a command did.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

impl Here {
    fn new() -> Self {
        Self(
            tempfile::Builder::new()
                .prefix("cenote-cli-test-")
                .tempdir_in("/dev/shm")
                .unwrap(),
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cenote"));
        command.args(args).current_dir(self.0.path());
        command
    }

    /// Runs a command line; words are parted by spaces.
    fn run(&self, line: &str) -> Ran {
        self.run_with(line, b"")
    }

    fn run_with(&self, line: &str, stdin: &[u8]) -> Ran {
        let mut child = self
            .command(line.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let ran = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A command that fails does not read it all.
                let _ = pipe.write_all(stdin);
            });
            child.wait_with_output().unwrap()
        });
        let stderr = String::from_utf8(ran.stderr).unwrap();
        assert!(!stderr.contains("panicked"), "{line}: {stderr}");
        Ran {
            code: ran.status.code(),
            stdout: ran.stdout,
            stderr,
        }
    }

    /// Runs a command line that must work, and returns what it prints.
    fn ok(&self, line: &str) -> String {
        let ran = self.run(line);
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{line}: {ran:?}");
        ran.text()
    }

    /// Runs a command line with `--json` that must work, and returns the object that it prints.
    fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.ok(&format!("{line} --json"))).unwrap()
    }

    /// Runs a command line that must fail with an exit code, plainly and with `--json`; returns the message.
    fn fails(&self, code: i32, line: &str) -> String {
        let plain = self.run(line);
        assert_eq!(
            (plain.code, plain.stdout.len()),
            (Some(code), 0),
            "{line}: {plain:?}"
        );
        let ran = self.run(&format!("{line} --json"));
        assert_eq!(
            (ran.code, ran.stdout.len()),
            (Some(code), 0),
            "{line} --json: {ran:?}"
        );
        let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect(&ran.stderr);
        let message = error["error"].as_str().unwrap().to_owned();
        // Not always word for word the same: which record no longer fits is a matter of chance.
        let prefix = if plain.stderr.starts_with("cenote: ") {
            "cenote: "
        } else {
            "error: "
        };
        let plain = plain.stderr.strip_prefix(prefix).expect(&plain.stderr);
        assert_eq!(plain.get(..16), message.get(..16), "{line}");
        message
    }
}

impl Ran {
    fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }
}

/// Sends a signal to a process that this test started.
fn kill(pid: u64, signal: i32) {
    let (pid, signal) = (Pid::from_raw(pid as i32), Signal::from_named_raw(signal));
    kill_process(pid.unwrap(), signal.unwrap()).unwrap();
}

#[test]
fn every_command_explains_itself() {
    let here = Here::new();
    let help = here.ok("--help");
    for command in [
        "create",
        "put",
        "get",
        "del",
        "scan",
        "load",
        "export",
        "lock",
        "lockd",
        "stat",
        "fsck",
        "bench",
        "trace",
        "replay",
        "torture",
        "demo",
        "reproduce",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        assert!(
            here.ok(&format!("{command} --help")).contains("Usage: cenote"),
            "{command}"
        );
    }
    assert!(!help.contains("\n  worker"));
    assert!(here.ok("--version").starts_with("cenote "));
    here.fails(2, "no-such-command");
    here.fails(2, "get");
    here.fails(2, "get p k --no-such-option");
    here.fails(2, "worker load");
}
