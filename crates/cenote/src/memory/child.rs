//! Child processes: waiting until one of several ends, and signals to them.
//!
//! A descriptor of the process (`pidfd_open`) becomes readable when it has ended. Where the kernel has none, children
//! are polled every few milliseconds instead. Signals go by process id, which stays the child's own until it was waited
//! for.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// How often children without a descriptor are polled.
const POLL: Duration = Duration::from_millis(2);

/// The signals that a supervisor sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Please end.
    Terminate,
    /// End, now.
    Kill,
    /// Any other, by its number.
    Other(i32),
}

impl Signal {
    /// Its number.
    pub fn number(self) -> i32 {
        match self {
            Self::Terminate => libc::SIGTERM,
            Self::Kill => libc::SIGKILL,
            Self::Other(number) => number,
        }
    }
}

/// A child process that is watched. It is not ended when this is dropped.
#[derive(Debug)]
pub struct WatchedChild {
    child: Child,
    descriptor: Option<OwnedFd>,
    ended: Option<ExitStatus>,
}

impl WatchedChild {
    /// Starts a command.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.spawn()?;
        let descriptor = open(&child);
        Ok(Self {
            child,
            descriptor,
            ended: None,
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has. It is no zombie then.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let ended = self.child.wait()?;
        self.ended = Some(ended);
        Ok(ended)
    }

    /// Sends it a signal, if it was not waited for yet. Has no effect on a child that has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        // SAFETY: a plain system call; the child was not waited for, so that its id is its own.
        match unsafe { libc::kill(self.child.id() as libc::pid_t, signal.number()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Opens a descriptor of a process, where the kernel has such.
fn open(child: &Child) -> Option<OwnedFd> {
    // SAFETY: a plain system call with two numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id() as libc::pid_t, 0) };
    // SAFETY: the kernel has just made this descriptor for us, closed on exec.
    (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// Waits until one of the children has ended, or the time is over.
pub fn await_any<'c>(children: impl Iterator<Item = &'c WatchedChild>, at_most: Duration) {
    let mut polled = Vec::new();
    let mut at_most = at_most;
    for child in children {
        match &child.descriptor {
            Some(descriptor) => polled.push(libc::pollfd {
                fd: descriptor.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            }),
            None => at_most = at_most.min(POLL),
        }
    }
    let millis = i32::try_from(at_most.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    // SAFETY: the pointer and the length are those of the vector. Interrupted or failed, it is as if time were up.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, millis) };
}

/// Kills a child that was started as a process group of its own and not waited for, and everything that the child has
/// started in that group.
pub(crate) fn kill_group(child: &Child) {
    // SAFETY: a plain system call; the child was not waited for, so that the group's id is its own. It may have ended
    // by itself.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
}

/// Ends this process as a crash would: no destructor runs, nothing is given back. For tests of what outlives it.
pub fn crash() -> ! {
    // SAFETY: a plain system call about this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::thread::park();
    }
}
