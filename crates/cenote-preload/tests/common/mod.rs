//! Running programs, each for so long at most.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A file that cargo has built beside this test.
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("cargo has built no {name}"))
}

/// Runs a command; it is killed, with the processes of its group, when the time is over.
pub fn run(command: &mut Command, limit: Duration) -> Output {
    use std::os::unix::process::CommandExt;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let group = -(child.id() as i32);
    let start = Instant::now();
    // Output is short: it fits a pipe.
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > limit {
            // SAFETY: a system call; the group is that of a child which has not been waited for.
            unsafe { libc::kill(group, libc::SIGKILL) };
            let output = child.wait_with_output().unwrap();
            panic!(
                "{command:?} did not end within {limit:?}\n{}\n{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// The same; it must succeed. Returns what it printed.
pub fn succeed(command: &mut Command, limit: Duration) -> String {
    let output = run(command, limit);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}\n{err}",
        output.status
    );
    format!("{out}{err}")
}
