//! How a thread that must not be late gets its processor: for threads that send heartbeats, and those that poll for
//! them.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The real-time priority asked for: above ordinary work, below what the kernel does for its devices.
const REALTIME: libc::c_int = 40;
/// Children run as ordinary threads again.
const RESET_ON_FORK: libc::c_int = 0x4000_0000;
/// The niceness asked for where real time is refused.
const NICENESS: libc::c_int = -20;

/// What the operating system has granted to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// It runs before all ordinary threads.
    Realtime,
    /// It gets most of a processor that it shares with ordinary threads.
    Nice,
    /// It has to share.
    Ordinary,
}

/// Asks for the highest priority that this thread is allowed. Its children do not inherit it.
pub fn raise_priority() -> Priority {
    let wanted = libc::sched_param {
        sched_priority: REALTIME,
    };
    // SAFETY: 0 means this thread; the parameter is a living value.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | RESET_ON_FORK, &wanted) } == 0 {
        return Priority::Realtime;
    }
    // SAFETY: the call takes numbers; 0 means this thread.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) } == 0 {
        return Priority::Nice;
    }
    Priority::Ordinary
}

/// Keeps what this process has mapped now in memory, so that no thread has to wait for a page. Call it before opening a
/// pool: pools are not meant to be kept. Returns whether that was allowed.
pub fn lock_code() -> bool {
    // SAFETY: the call takes a number.
    unsafe { libc::mlockall(libc::MCL_CURRENT) == 0 }
}

/// Has the kernel kill a command's process when the thread that starts it ends, for whatever reason. The process's own
/// children go on.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    let tie = move || {
        // SAFETY: the call takes numbers.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the call takes nothing. The parent may have died before.
        match unsafe { libc::getppid() } as u32 == parent {
            true => Ok(()),
            false => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    };
    // SAFETY: what runs between fork and exec is two system calls that take numbers.
    unsafe { command.pre_exec(tie) }
}
