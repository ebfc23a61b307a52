//! Descriptors that the library keeps for as long as a pool is open, in a process whose other code may close what it
//! does not know: a daemon that closes all descriptors from 3 on, say.
//!
//! The number of such a descriptor may be another file's by then. Code that is about to lock, lengthen, punch or close
//! that file first checks whether the number still leads to the library's own ([`Kept::file`]). One that another thread
//! closes between the question and its use is not noticed.
//!
//! The kernel drops the locks of an open file description with its last descriptor; but a mapping counts as well as a
//! descriptor, and no other code knows its address. So a lock that is to last as long as the process has a mapping
//! ([`Pin`]). A child has no such mapping (`MADV_DONTFORK`), and a program that `exec`s loses it.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use super::fork::{ForkWatch, forked, watch_fork};
use crate::mutant::{self, Mutant};

/// Why a descriptor is not used.
#[derive(Debug, thiserror::Error)]
#[error(
    "other code of this process has closed a descriptor of the pool: it must leave those that it has not opened itself alone; open the pool anew"
)]
pub(super) struct Closed;

/// An open file, whose descriptor other code may close.
#[derive(Debug)]
pub(super) struct Kept {
    file: ManuallyDrop<File>,
    place: (u64, u64),
}

impl Kept {
    /// Keeps a file that was opened just now.
    pub(super) fn new(file: File) -> io::Result<Self> {
        let place = place_of(&file)?;
        Ok(Self {
            file: ManuallyDrop::new(file),
            place,
        })
    }

    /// The file; an error if its descriptor is closed, or another file's.
    ///
    /// Cost: a system call.
    pub(super) fn file(&self) -> io::Result<&File> {
        match place_of(&self.file) {
            Ok(place) if place == self.place => Ok(&self.file),
            Ok(_) if mutant::is(Mutant::DescriptorBelieved) => Ok(&self.file),
            _ => Err(io::Error::other(Closed)),
        }
    }

    /// Its device and inode.
    pub(super) fn place(&self) -> (u64, u64) {
        self.place
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.file().is_ok() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.file) }
        }
    }
}

fn place_of(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

/// A mapping that keeps an open file description, and with it its locks, for as long as the process lives or this value
/// does.
#[derive(Debug)]
pub(super) struct Pin {
    at: *mut libc::c_void,
    made_by: ForkWatch,
}

// SAFETY: nobody accesses the mapping, which has no permissions.
unsafe impl Send for Pin {}
// SAFETY: as for `Send`.
unsafe impl Sync for Pin {}

/// Bytes of a mapping: the least that there is.
const LEN: usize = 1;

impl Pin {
    /// Keeps the description of a file. `None` if it cannot be mapped: its locks last as long as its descriptors then.
    /// Other threads do not fork meanwhile ([`super::fork::without_forks`]).
    pub(super) fn of(file: &File) -> Option<Self> {
        if mutant::is(Mutant::LivenessByDescriptor) {
            return None;
        }
        let made_by = watch_fork().ok()?;
        // SAFETY: a fresh mapping without access, wherever the kernel has room for it.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                LEN,
                libc::PROT_NONE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return None;
        }
        let pin = Self { at, made_by };
        // SAFETY: advice about the mapping that was made above.
        let advised = unsafe { libc::madvise(pin.at, LEN, libc::MADV_DONTFORK) };
        (advised == 0).then_some(pin)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // A child has not got it, and may have something else there.
        if !forked(self.made_by) {
            // SAFETY: a mapping of this value's own.
            unsafe { libc::munmap(self.at, LEN) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_another_files_is_left_alone() {
        let kept = Kept::new(tempfile::tempfile().unwrap()).unwrap();
        let number = kept.file().unwrap().as_raw_fd();
        let other = tempfile::tempfile().unwrap();
        // SAFETY: the number is this test's own, and gets another file.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert!(kept.file().unwrap_err().to_string().contains("closed"));
        drop(kept);
        // SAFETY: as before; it was not closed.
        assert_eq!(unsafe { libc::close(number) }, 0);
    }
}
