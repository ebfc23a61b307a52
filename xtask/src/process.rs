//! Runs a command with a time limit, and tells a stuck test from one that failed.

use std::fmt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Long enough for any step on a slow machine, short enough that a stuck one is noticed.
pub const LIMIT_DEFAULT: Duration = Duration::from_secs(20 * 60);

/// How a command can end badly.
#[derive(Debug)]
pub enum Failure {
    /// The program could not be started at all.
    NotStarted(std::io::Error),
    /// It ended by itself with this status.
    Status(ExitStatus),
    /// It did not end within the limit; it and all its descendants were killed.
    Stuck(Duration),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NotStarted(error) => write!(f, "could not be started: {error}"),
            Failure::Status(status) => write!(f, "failed ({status})"),
            Failure::Stuck(limit) => write!(
                f,
                "is stuck: it did not end within {} s and was killed",
                limit.as_secs()
            ),
        }
    }
}

/// Runs `command` to its end; its output goes where ours goes.
pub fn run(mut command: Command, limit: Duration) -> Result<(), Failure> {
    let start = Instant::now();
    let mut child = command.spawn().map_err(Failure::NotStarted)?;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait().map_err(Failure::NotStarted)? {
            return if status.success() {
                Ok(())
            } else {
                Err(Failure::Status(status))
            };
        }
        if start.elapsed() >= limit {
            kill_tree(&mut child);
            return Err(Failure::Stuck(limit));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Kills the child and what it started. The list is made first: a process whose parent has died is no longer
/// found below it. The child stays in our own process group, so that Ctrl-C on a terminal reaches it too.
fn kill_tree(child: &mut Child) {
    let below = descendants(child.id());
    if !below.is_empty() {
        let ids = below.iter().map(u32::to_string);
        let _ = Command::new("kill").arg("-KILL").args(ids).status();
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The ids of all processes below `ancestor`; empty where there is no `/proc`.
fn descendants(ancestor: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|id| Some((id, parent_of(id)?)))
        .collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(
            parents
                .iter()
                .filter(|(id, of)| *of == parent && *id != parent)
                .map(|(id, _)| *id),
        );
        next += 1;
    }
    found.split_off(1)
}

/// The fourth field of `/proc/ID/stat`; the second is a name in brackets that may hold anything.
fn parent_of(id: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..]
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn tells_passed_failed_absent_and_stuck_apart() {
        let limit = Duration::from_secs(30);
        assert!(run(shell("exit 0"), limit).is_ok());
        assert!(
            matches!(run(shell("exit 3"), limit), Err(Failure::Status(status)) if status.code() == Some(3))
        );
        assert!(matches!(
            run(Command::new("no-such-command-anywhere"), limit),
            Err(Failure::NotStarted(_))
        ));
        assert!(matches!(
            run(shell("sleep 30"), Duration::from_millis(20)),
            Err(Failure::Stuck(_))
        ));
    }

    #[test]
    fn a_stuck_command_takes_its_children_along() {
        let mut child = shell("sleep 30 & sleep 30 & wait").spawn().unwrap();
        let start = Instant::now();
        while descendants(child.id()).len() < 2 && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let below = descendants(child.id());
        assert_eq!(below.len(), 2);
        kill_tree(&mut child);
        let alive = |id: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.rfind(')')
                .is_some_and(|end| !stat[end + 1..].trim_start().starts_with(['Z', 'X']))
        };
        let start = Instant::now();
        while below.iter().any(alive) && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!below.iter().any(alive), "a child outlived its killed parent");
    }
}
