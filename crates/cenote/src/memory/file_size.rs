//! Reserving bytes of a file without a signal: where a process may not make files that large (`RLIMIT_FSIZE`,
//! `ulimit -f`), the kernel returns an error and also sends `SIGXFSZ`, which would end the process.
//!
//! The signal goes to the calling thread. It is blocked while the file grows, and consumed if that made it pending; one
//! pending before stays.

use std::io;

/// `SIGXFSZ`, blocked in the calling thread for as long as this lives.
pub(super) struct NoSignal {
    before: libc::sigset_t,
    was_pending: bool,
}

impl NoSignal {
    /// Blocks it: two or three system calls.
    pub(super) fn begin() -> io::Result<Self> {
        let signal = only_this();
        // SAFETY: signal sets are plain data for which all zeroes is a valid value; the calls read one and fill in the
        // others.
        unsafe {
            let mut before: libc::sigset_t = std::mem::zeroed();
            let failed = libc::pthread_sigmask(libc::SIG_BLOCK, &signal, &mut before);
            if failed != 0 {
                return Err(io::Error::from_raw_os_error(failed));
            }
            let was_pending = libc::sigismember(&before, libc::SIGXFSZ) == 1 && is_pending();
            Ok(Self { before, was_pending })
        }
    }
}

impl Drop for NoSignal {
    fn drop(&mut self) {
        if !self.was_pending && is_pending() {
            let now = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let signal = only_this();
            // SAFETY: a valid set and a valid time; nothing is wanted of the signal. It is pending for this thread, or
            // for the process: then it is one that this thread was sent, as nobody else blocks it without a reason;
            // without it nothing happens here.
            while unsafe { libc::sigtimedwait(&signal, std::ptr::null_mut(), &now) } == -1
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
        // SAFETY: the mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// Whether it is pending for this thread, or for the process.
fn is_pending() -> bool {
    // SAFETY: fills in a signal set of ours.
    unsafe {
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&mut pending) == 0 && libc::sigismember(&pending, libc::SIGXFSZ) == 1
    }
}

fn only_this() -> libc::sigset_t {
    // SAFETY: an all-zero set is a valid place for sigemptyset to initialise.
    unsafe {
        let mut signal: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut signal);
        libc::sigaddset(&mut signal, libc::SIGXFSZ);
        signal
    }
}

/// Whether a file may not be as long as `len` in this process.
pub(super) fn is_beyond_limit(len: u64) -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills in a structure of ours.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    is_known && limit.rlim_cur != libc::RLIM_INFINITY && len > limit.rlim_cur
}
