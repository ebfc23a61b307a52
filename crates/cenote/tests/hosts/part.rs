//! Processes that run this test program, each in a process group of its own, and in namespaces of its own where that is
//! permitted.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use cenote::memory::Mapped;

use super::{Outcome, ensure, text};

/// A process that runs this test program, in a process group of its own, which also has whatever it starts.
pub struct Part {
    pub child: Child,
    pub input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
    heard: String,
}

impl Part {
    pub fn start<M: Mapped>(role: &str, pool: &Path, host: u32, set: &[(&str, &str)]) -> Outcome<Self> {
        let program = std::env::current_exe().map_err(text)?;
        Self::run::<M>(Command::new(program), role, pool, host, set)
    }

    /// The same in namespaces of its own, where that is permitted.
    pub fn start_apart<M: Mapped>(role: &str, pool: &Path, host: u32) -> Outcome<Self> {
        if !namespaces_are_permitted() {
            return Self::start::<M>(role, pool, host, &[]);
        }
        let mut command = Command::new("unshare");
        command
            .args(["--pid", "--net", "--fork", "--"])
            .arg(std::env::current_exe().map_err(text)?);
        Self::run::<M>(command, role, pool, host, &[])
    }

    fn run<M: Mapped>(
        mut command: Command,
        role: &str,
        pool: &Path,
        host: u32,
        set: &[(&str, &str)],
    ) -> Outcome<Self> {
        let is_first = std::env::var_os("CENOTE_HOSTS_ROLE").is_none();
        if is_first {
            command.process_group(0);
        }
        let mut child = command
            .arg(pool)
            .args([M::NAME, &host.to_string()])
            .env("CENOTE_HOSTS_ROLE", role)
            .env_remove("CENOTE_CRASH")
            .envs(set.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(text)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Ok(Self {
            child,
            input,
            output: BufReader::new(output.ok_or("no standard output")?),
            heard: String::new(),
        })
    }

    /// Reads its output up to a line that contains something.
    pub fn hear(&mut self, wanted: &str) -> Outcome {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).map_err(text)? == 0 {
                return Err(format!(
                    "it ended without saying {wanted:?}; it said: {}",
                    self.heard
                ));
            }
            self.heard += &line;
            if line.contains(wanted) {
                return Ok(());
            }
        }
    }

    /// Signals it and all that it has started.
    pub fn signal(&self, signal: i32) {
        // SAFETY: a group that this process has made.
        unsafe { libc::kill(-(self.child.id() as i32), signal) };
    }

    /// Ends it in an orderly way.
    pub fn end(&mut self) -> Outcome {
        self.input = None;
        let status = self.child.wait().map_err(text)?;
        ensure(status.success(), || format!("it ended with {status}"))
    }

    /// Waits until it has died at a crash point.
    pub fn is_killed(&mut self) -> Outcome {
        let status = self.child.wait().map_err(text)?;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        ensure(signal == Some(libc::SIGKILL), || {
            format!("it was to be killed, and ended with {status}")
        })
    }

    /// Its output until its end.
    pub fn rest(&mut self) -> String {
        // The output until now is what counts.
        let _ = self.output.read_to_string(&mut self.heard);
        std::mem::take(&mut self.heard)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if std::env::var_os("CENOTE_HOSTS_ROLE").is_none() {
            self.signal(libc::SIGKILL);
        }
        // It may have been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn namespaces_are_permitted() -> bool {
    static PERMITTED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *PERMITTED.get_or_init(|| {
        let tried = Command::new("unshare")
            .args(["--pid", "--net", "--fork", "--", "true"])
            .output();
        let permitted = tried.as_ref().is_ok_and(|output| output.status.success());
        if !permitted {
            println!("hosts share this process's namespaces: unshare is refused ({tried:?})");
        }
        permitted
    })
}
