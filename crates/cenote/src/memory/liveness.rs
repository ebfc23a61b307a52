//! Who is alive: a lock that outlives its holder by nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::fork::{CloseOnFork, on_fork_close};
use super::mapping::{MapError, os, permit};

/// Locks by number, each held by one process at a time, which loses it when it dies: not before its last memory access,
/// and without anybody's timeout.
pub trait Liveness: Send + Sync {
    /// Takes a lock; `false` if somebody alive has it.
    fn try_lock(&self, number: u32) -> Result<bool, MapError>;

    /// Gives a lock back.
    fn unlock(&self, number: u32) -> Result<(), MapError>;

    /// Whether another process holds a lock.
    fn is_locked(&self, number: u32) -> Result<bool, MapError>;
}

const LOOKING: &str = "looking for the file that holds the liveness locks";

/// Far behind any pool's end, so that lock bytes are never data.
pub(super) const LOCK_BASE: i64 = 1 << 62;

/// An open file description whose byte locks say who is alive. The kernel drops them when the last process that
/// holds the description has gone, after its last memory access, whatever ended it, in any PID namespace.
#[derive(Debug)]
pub(crate) struct FileLock {
    /// Dropped before the descriptor that it would close.
    _close: CloseOnFork,
    file: File,
}

impl FileLock {
    /// Opens a description of its own on `path`, so that no other handle shares its locks.
    pub(crate) fn open(path: &Path) -> Result<Self, MapError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(path)
            .map_err(os("opening the file that holds the liveness locks"))?;
        Ok(Self {
            _close: on_fork_close(file.as_raw_fd()),
            file,
        })
    }

    /// Makes the file that [`FileLock::open`] opens, with these permission bits, if there is none.
    pub(crate) fn make(path: &Path, mode: u32) -> Result<(), MapError> {
        if path.try_exists().map_err(os(LOOKING))? {
            return Ok(());
        }
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_CLOEXEC)
            .mode(mode)
            .open(path);
        match made {
            Ok(file) => permit(&file, mode),
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(os("making the file that holds the liveness locks")(error)),
        }
    }

    fn request(byte: u32, kind: libc::c_int) -> libc::flock {
        // SAFETY: `flock` is plain data for which all zeroes is a valid value.
        let mut request: libc::flock = unsafe { std::mem::zeroed() };
        request.l_type = kind as i16;
        request.l_whence = libc::SEEK_SET as i16;
        request.l_start = LOCK_BASE + i64::from(byte);
        request.l_len = 1;
        request
    }

    fn control(&self, command: libc::c_int, request: &mut libc::flock) -> io::Result<()> {
        loop {
            // SAFETY: a valid descriptor and a valid request.
            if unsafe { libc::fcntl(self.file.as_raw_fd(), command, request as *mut libc::flock) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

impl Liveness for FileLock {
    fn try_lock(&self, byte: u32) -> Result<bool, MapError> {
        match self.control(libc::F_OFD_SETLK, &mut Self::request(byte, libc::F_WRLCK)) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(os("taking a liveness lock")(error)),
        }
    }

    fn unlock(&self, byte: u32) -> Result<(), MapError> {
        self.control(libc::F_OFD_SETLK, &mut Self::request(byte, libc::F_UNLCK))
            .map_err(os("releasing a liveness lock"))
    }

    fn is_locked(&self, byte: u32) -> Result<bool, MapError> {
        let mut request = Self::request(byte, libc::F_WRLCK);
        self.control(libc::F_OFD_GETLK, &mut request)
            .map_err(os("asking for a liveness lock"))?;
        Ok(request.l_type != libc::F_UNLCK as i16)
    }
}
