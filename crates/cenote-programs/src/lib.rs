//! Building and running programs in C and C++, each for so long at most. For tests: whatever fails is a panic that says
//! what.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a compiler may take.
const COMPILES: Duration = Duration::from_secs(120);

/// A file that cargo has built beside the test that runs.
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    let folders = test.ancestors().skip(1).take(2);
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("cargo has built no {name}"))
}

/// Runs a command; it is killed, with the processes of its group, when the time is over. What it prints must fit a
/// pipe.
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
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if start.elapsed() <= limit => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                // SAFETY: a system call; the group is that of a child which has not been waited for.
                unsafe { libc::kill(group, libc::SIGKILL) };
                let said = child.wait_with_output().map(|output| texts(&output));
                panic!("{command:?} did not end within {limit:?}: {said:?}");
            }
        }
    }
    child
        .wait_with_output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// What a program has printed to standard output and to standard error.
pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// [`run`] of what must succeed. Returns all that it printed.
pub fn succeed(command: &mut Command, limit: Duration) -> String {
    let output = run(command, limit);
    let (out, err) = texts(&output);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}\n{err}",
        output.status
    );
    format!("{out}{err}")
}

/// Compiles a program in C, or in C++ if its name ends so; `CC` and `CXX` name other compilers. Warnings are errors.
pub fn compile(source: &Path, program: &Path, arguments: &[&str]) {
    let (variable, compiler, standard) = match source.extension().is_some_and(|ending| ending == "cc") {
        true => ("CXX", "c++", "-std=gnu++17"),
        false => ("CC", "cc", "-std=gnu11"),
    };
    let mut command = Command::new(std::env::var_os(variable).unwrap_or_else(|| compiler.into()));
    command
        .args([standard, "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(program)
        .arg(source)
        .args(arguments);
    succeed(&mut command, COMPILES);
}
