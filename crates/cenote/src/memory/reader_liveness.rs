//! Liveness for a reader without a place: it tests the locks of others, and takes none.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::Liveness;
use super::liveness::LOCK_BASE;
use super::mapping::{MappingError, os};
use super::opening::{Trust, open_to_read};

/// An open file description, for reading, of the file on which others have their liveness locks.
#[derive(Debug)]
pub(crate) struct ReaderLiveness(File);

impl ReaderLiveness {
    /// Opens the file of the liveness locks, which this process may perhaps only read.
    pub(crate) fn open(path: &Path, trust: Trust) -> Result<Self, MappingError> {
        open_to_read(path, trust).map(Self)
    }
}

impl Liveness for ReaderLiveness {
    fn try_lock(&self, _number: u32) -> Result<bool, MappingError> {
        Ok(false)
    }

    fn unlock(&self, _number: u32) -> Result<(), MappingError> {
        Ok(())
    }

    fn is_locked(&self, number: u32) -> Result<bool, MappingError> {
        // SAFETY: `flock` is plain data for which all zeroes is a valid value.
        let mut request: libc::flock = unsafe { std::mem::zeroed() };
        request.l_type = libc::F_WRLCK as i16;
        request.l_whence = libc::SEEK_SET as i16;
        request.l_start = LOCK_BASE + i64::from(number);
        request.l_len = 1;
        loop {
            // SAFETY: a valid descriptor and a valid request, which the call fills in.
            let asked = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_OFD_GETLK, &mut request) };
            let error = io::Error::last_os_error();
            match (asked, error.kind()) {
                (0, _) => return Ok(request.l_type != libc::F_UNLCK as i16),
                (_, io::ErrorKind::Interrupted) => {}
                _ => return Err(os("asking for a liveness lock")(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::FileLock;

    #[test]
    fn who_only_reads_sees_who_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks");
        FileLock::make(&path, 0o600).unwrap();
        let process = FileLock::open(&path).unwrap();
        let liveness = ReaderLiveness::open(&path, Trust::Own).unwrap();
        assert!(process.try_lock(3).unwrap());
        assert!(liveness.is_locked(3).unwrap() && !liveness.is_locked(4).unwrap());
        assert!(!liveness.try_lock(4).unwrap());
        drop(process);
        assert!(!liveness.is_locked(3).unwrap());
    }
}
