//! Children that use a damaged pool, so that a signal, a panic or a hang is seen as one.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A child that takes longer than this is taken to hang.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a test of this program as a child, by its name, with some variables set.
pub fn start(test: &str, variables: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().expect("this test's program"))
        .args(["--exact", test, "--nocapture"])
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("another process")
}

/// How a process has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With a status of its own.
    Status(i32),
    /// By a signal or a panic: what, and what it has said.
    Broken(String),
    /// Not at all: it was killed. The text says where its threads were.
    Hung(String),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(to, "exit status {status}"),
            Self::Broken(how) => write!(to, "{how}"),
            Self::Hung(threads) => write!(to, "it hung\n{threads}"),
        }
    }
}

/// Waits for a child, whose errors are piped.
pub fn end(mut child: Child, timeout: Duration) -> Ended {
    let stderr = child.stderr.take();
    // A child that writes much blocks until its output is read.
    let listener = std::thread::spawn(move || {
        let mut text = Vec::new();
        stderr.map(|mut stderr| stderr.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() <= timeout => std::thread::sleep(Duration::from_millis(1)),
            _ => {
                ask_threads(child.id());
                std::thread::sleep(Duration::from_millis(500));
                let _ = child.kill();
                let _ = child.wait();
                return Ended::Hung(listener.join().unwrap_or_default());
            }
        }
    };
    let text = listener.join().unwrap_or_default();
    match status.code() {
        Some(code) if code != 101 && !text.contains("panicked at") => Ended::Status(code),
        _ => Ended::Broken(format!("{status}\n{text}")),
    }
}

/// Has the threads of a child say where they are.
fn ask_threads(pid: u32) {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    for thread in threads.filter_map(|thread| thread.file_name().to_str()?.parse::<libc::pid_t>().ok()) {
        // SAFETY: a signal to a thread of a child that has not been waited for.
        unsafe { libc::syscall(libc::SYS_tgkill, pid as libc::pid_t, thread, libc::SIGUSR2) };
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Has a fault say where it happened, before it ends the process as it would have.
pub fn tell_faults() {
    extern "C" fn tell(signal: libc::c_int) {
        // Of a process that ends: what this calls may be in any state.
        eprintln!("signal {signal}\n{}", std::backtrace::Backtrace::force_capture());
        if signal != libc::SIGUSR2 {
            // SAFETY: restores what the kernel does of itself; the fault happens again when this returns.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    // One that hangs is asked by SIGUSR2.
    for signal in [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGUSR2,
    ] {
        // SAFETY: a handler of the right type, which returns to the fault with the default action in place.
        unsafe { libc::signal(signal, tell as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
}

/// A number from the environment.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
