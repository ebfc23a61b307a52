//! A fence that is a program of the administrator's: it switches a machine off and reports that by its exit code.
//!
//! A shell runs the program, with the host's id and generation after its own arguments. It must exit with 0 when the
//! host is certainly down, and only then. It runs while the monitor goes on polling other hosts. A program that takes
//! too long is killed; one that fails is run again, after longer and longer pauses. It dies with the monitor, or when
//! the monitor leads no more: the next leader runs its own. It is a process group of its own, so that what it has
//! started is killed with it: a command that takes effect late would switch off a host that is up again. If the monitor
//! itself is killed, only the shell is sure to die.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::memory::{Memory, die_with_parent, kill_group};
use crate::pod::Worker;
use crate::pod::hosts::fence::{Fence, Fenced};

/// The pause after the first failure, and the longest pause.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct CommandFence {
    command: String,
    time_out: Duration,
    attempts: BTreeMap<u32, Attempt>,
}

/// The fencing of one host.
#[derive(Debug)]
struct Attempt {
    generation: u32,
    /// The program, if it runs, and when it started.
    running: Option<(Child, Instant)>,
    /// When it may be run again.
    next: Instant,
    pause: Duration,
}

impl CommandFence {
    /// A fence that runs `command` and lets it take so long.
    pub(super) fn new(command: String, time_out: Duration) -> Self {
        Self {
            command,
            time_out,
            attempts: BTreeMap::new(),
        }
    }

    pub(super) fn end_all(&mut self) {
        let attempts = std::mem::take(&mut self.attempts);
        attempts
            .into_values()
            .filter_map(|attempt| attempt.running)
            .for_each(end);
    }

    fn start(&self, host: u32, generation: u32) -> std::io::Result<Child> {
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(format!("{} \"$@\"", self.command))
            .args(["fence".to_owned(), host.to_string(), generation.to_string()])
            .stdin(Stdio::null())
            // Standard output is for the monitor's own results.
            .stdout(Stdio::null());
        die_with_parent(command.process_group(0)).spawn()
    }

    /// Starts or polls the program for a host. Needs no pool.
    pub(super) fn step(&mut self, host: u32, generation: u32, now: Instant) -> Fenced {
        let mut attempt = match self.attempts.remove(&host) {
            Some(attempt) if attempt.generation == generation => attempt,
            other => {
                other.and_then(|old| old.running).into_iter().for_each(end);
                Attempt {
                    generation,
                    running: None,
                    next: now,
                    pause: PAUSE,
                }
            }
        };
        let failure = match attempt.running.take() {
            Some((mut child, since)) => match child.try_wait() {
                Ok(Some(status)) if status.success() => return Fenced::Certainly,
                Ok(Some(status)) => Some(format!("{:?} ended with {status}", self.command)),
                Ok(None) if now.duration_since(since) < self.time_out => {
                    attempt.running = Some((child, since));
                    None
                }
                Ok(None) => {
                    end((child, since));
                    Some(format!(
                        "{:?} did not end in {} s",
                        self.command,
                        self.time_out.as_secs()
                    ))
                }
                Err(error) => Some(format!("{:?}: {error}", self.command)),
            },
            None if now >= attempt.next => match self.start(host, generation) {
                Ok(child) => {
                    attempt.running = Some((child, now));
                    None
                }
                Err(error) => Some(format!("{:?} could not be run: {error}", self.command)),
            },
            None => None,
        };
        let answer = match failure {
            None => Fenced::NotYet,
            Some(why) => {
                attempt.next = now + attempt.pause;
                attempt.pause = (attempt.pause * 2).min(PAUSE_MAX);
                Fenced::Failed(why)
            }
        };
        self.attempts.insert(host, attempt);
        answer
    }
}

/// Kills a program that took too long, or is not wanted any more, and all that it has started.
fn end((mut child, _): (Child, Instant)) {
    kill_group(&child);
    let _ = child.wait();
}

impl<M: Memory> Fence<M> for CommandFence {
    fn fence(&mut self, _: &Worker<M>, host: u32, generation: u32) -> Result<Fenced> {
        Ok(self.step(host, generation, Instant::now()))
    }

    fn give_up(&mut self) {
        self.end_all();
    }
}

impl Drop for CommandFence {
    fn drop(&mut self) {
        self.end_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls until the answer is another than `NotYet`.
    fn answer(fence: &mut CommandFence, from: Instant) -> Fenced {
        loop {
            match fence.step(3, 9, from) {
                Fenced::NotYet => std::thread::yield_now(),
                other => return other,
            }
        }
    }

    #[test]
    fn a_program_is_told_whom_to_fence() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let command = format!("printf '%s %s %s' > {} off", log.display());
        let mut fence = CommandFence::new(command, Duration::from_secs(600));
        assert_eq!(answer(&mut fence, Instant::now()), Fenced::Certainly);
        assert_eq!(std::fs::read_to_string(log).unwrap(), "off 3 9");
    }

    #[test]
    fn failures_are_told_and_tried_again_later() {
        let now = Instant::now();
        let mut fence = CommandFence::new("exit 5; :".to_owned(), Duration::from_secs(600));
        assert!(matches!(answer(&mut fence, now), Fenced::Failed(why) if why.contains('5')));
        assert_eq!(fence.step(3, 9, now + PAUSE / 2), Fenced::NotYet);
        assert!(fence.attempts[&3].running.is_none());
        assert_eq!(fence.step(3, 9, now + PAUSE), Fenced::NotYet);
        assert!(fence.attempts[&3].running.is_some());
        assert!(matches!(answer(&mut fence, now + PAUSE), Fenced::Failed(_)));
        assert_eq!(fence.attempts[&3].pause, PAUSE * 4);
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let now = Instant::now();
        let mut fence = CommandFence::new("exec sleep 600; :".to_owned(), Duration::from_secs(5));
        assert_eq!(fence.step(3, 9, now), Fenced::NotYet);
        assert_eq!(fence.step(3, 9, now), Fenced::NotYet);
        let late = now + Duration::from_secs(6);
        assert!(matches!(fence.step(3, 9, late), Fenced::Failed(why) if why.contains("5 s")));
        // What it has started goes with it.
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let program = format!(
            "mkfifo {0}; (sleep 600; :) > {0} & exec sleep 600; :",
            pipe.display()
        );
        let mut group = CommandFence::new(program, Duration::from_secs(5));
        assert_eq!(group.step(3, 9, now), Fenced::NotYet);
        while !pipe.exists() {
            std::thread::yield_now();
        }
        let mut reader = std::fs::File::open(&pipe).unwrap();
        assert!(matches!(group.step(3, 9, late), Fenced::Failed(_)));
        // The pipe ends with its last writer.
        assert_eq!(std::io::Read::read(&mut reader, &mut [0]).unwrap(), 0);
        // Another generation is another matter.
        assert_eq!(fence.step(3, 10, late), Fenced::NotYet);
        assert!(fence.attempts[&3].running.is_some());
    }
}
