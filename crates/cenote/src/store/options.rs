//! How a pool is created and opened.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::causes::Setting;
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::memory::{FileLock, MappingError, Trust, Use, WrongLockFile};
use crate::pod::format::geometry::NO_HOST;
use crate::pod::format::lock_wait::LockWait;

/// Options for creating and opening a pool. Those up to `mode`, and `overwrite`, matter only when it is created.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes for data at first; reserved when the pool is created. Default 16 MiB.
    pub size: u64,
    /// Bytes that it may grow to. Default 1 TiB. Address space is reserved for that, memory is not. On a device it is
    /// at most what the device has room for.
    pub max: u64,
    /// Processes that may have it open at a time. Default 128.
    pub processes: u32,
    /// Workers (threads that use the pool) that it may have at a time. Default 256.
    pub workers: u32,
    /// Names that it may have. Default 256.
    pub names: u32,
    /// Hosts that may share it, with ids from 0 on. Default 64.
    pub hosts: u32,
    /// Permission bits of the file, whatever the process's umask. Default 0o600. A device has its own. A pool that
    /// every user may write can only be opened with `trust_owner`.
    pub mode: u32,
    /// The host's id, given by the administrator; 0 on a single machine.
    pub host: u32,
    /// The file that holds the liveness locks, if it is not the pool itself. It is created if there is none, with the
    /// pool's permission bits. All processes of a machine
    /// must use the same file, on a file system of that machine alone.
    pub lock_file: Option<PathBuf>,
    /// Whether a pool is opened although it, or the file of its liveness locks, belongs neither to the effective user
    /// of this process nor to root, or although every user may write it. A user who may write a pool can change and
    /// destroy all that is in it. If the permission bits let the file's group write it, that is allowed: the owner
    /// chose them, and the owner is trusted. Default: no.
    pub trust_owner: bool,
    /// Whether a pool may be created on a device that holds something. Processes that have the device open then lose
    /// their data.
    pub overwrite: bool,
    /// Which of the paper's guidelines to follow.
    pub guidelines: Guidelines,
    /// Whether a background thread of this process watches for deaths and recovers the dead at once. Without
    /// it, a worker that is held up by a dead one recovers it.
    pub background_thread: bool,
    /// Whether that thread gives memory back to the file system that has been free for so long, 32 MiB a second at
    /// most; see [`Pool::trim`](crate::Pool::trim). The thread is started if need be. Default: no.
    pub trim_after: Option<std::time::Duration>,
    /// Called on a thread that has waited for about a second for one of the pool's own locks, and about every ten
    /// seconds from then on. The process that has the lock is stopped, or its host is about to be fenced. The function
    /// must not use the pool. Default: none.
    pub on_lock_wait: Option<fn(&LockWait)>,
}

impl Options {
    /// The file that holds the liveness locks of a pool. If it is not the pool and does not exist, creates it with the
    /// pool's permissions.
    pub(super) fn lock_file_of<'a>(&'a self, pool: &'a Path) -> Result<&'a Path> {
        match &self.lock_file {
            Some(file) if !is_same(file, pool) => {
                let mode = pool
                    .symlink_metadata()
                    .map_or(self.mode, |pool| pool.mode() & 0o666);
                FileLock::make(file, mode).map_err(wrong(file))?;
                Ok(file)
            }
            _ => Ok(pool),
        }
    }

    /// The users whose pools may be opened.
    pub(super) fn trust(&self) -> Trust {
        match self.trust_owner {
            true => Trust::All,
            false => Trust::Own,
        }
    }

    /// The same for a pool that this process has just created, whose permission bits may let every user write it.
    pub(super) fn trust_in_what_was_made(&self) -> Trust {
        match self.trust() {
            Trust::Own if self.mode & 0o002 != 0 => Trust::OwnForAll,
            trust => trust,
        }
    }
}

/// Whether two paths name one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let found = |path: &Path| path.symlink_metadata().map(|found| (found.dev(), found.ino()));
    matches!((found(one), found(other)), (Ok(one), Ok(other)) if one == other)
}

fn wrong(lock_file: &Path) -> impl Fn(MappingError) -> Error + use<'_> {
    |source| match source {
        MappingError::Distrusted(_) => Error::about(lock_file)(source),
        source => Error::LockFile {
            path: lock_file.to_owned(),
            source,
        },
    }
}

/// Opens a file for the liveness locks of the pool of this id, unless it holds another pool's.
pub(super) fn claim_locks(lock_file: &Path, id: u64, trust: Trust) -> Result<FileLock> {
    let wrong = wrong(lock_file);
    let lock = FileLock::open_of(lock_file, trust).map_err(&wrong)?;
    match lock.says(Use::LocksOf(id)).map_err(&wrong)? {
        true => Ok(lock),
        false => Err(wrong(MappingError::LocksElsewhere(WrongLockFile::OtherPool))),
    }
}

/// Opens the file that holds a pool's liveness locks, for a process that opens the pool on a host. Fails if others have
/// the locks on another file, or if that file holds another pool's: processes with different files would not see
/// whether the others live.
pub(super) fn open_locks(
    pool: &Path,
    lock_file: &Path,
    id: u64,
    host: u32,
    trust: Trust,
) -> Result<FileLock> {
    let wrong = wrong(lock_file);
    let mut lock = claim_locks(lock_file, id, trust)?;
    // A host's home says where its processes live; and nothing is known here of another machine's lock file.
    if host != NO_HOST {
        return Ok(lock);
    }
    let (device, inode) = lock.place();
    let locked_by = Use::LockedBy(device, inode);
    let is_agreed = if lock_file == pool {
        lock.says(locked_by).map_err(&wrong)?
    } else {
        // A file system without locks is what lock files are for.
        match FileLock::open_of(pool, trust).and_then(|own| own.says(locked_by).map(|agreed| (own, agreed))) {
            Ok((own, agreed)) => {
                lock.keep(own);
                agreed
            }
            Err(_) => true,
        }
    };
    match is_agreed {
        true => Ok(lock),
        false => Err(wrong(MappingError::LocksElsewhere(WrongLockFile::OtherFile))),
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            size: 16 << 20,
            max: 1 << 40,
            processes: 128,
            workers: 256,
            names: 256,
            hosts: 64,
            mode: 0o600,
            host: 0,
            lock_file: None,
            trust_owner: false,
            overwrite: false,
            guidelines: Guidelines::default(),
            background_thread: false,
            trim_after: None,
            on_lock_wait: None,
        }
    }
}

/// Reads a size such as `512MiB`, `1GiB` or `4096`. Units are powers of 1024: `KiB`, `MiB`, `GiB`, `TiB`, or the
/// first letter alone.
pub fn parse_size(text: &str) -> Result<u64> {
    let bad = |why| Error::InvalidOption {
        option: Setting::Size,
        value: text.to_owned(),
        why,
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(bad("its unit is KiB, MiB, GiB or TiB")),
    };
    let number: u64 = digits
        .trim()
        .parse()
        .map_err(|_| bad("it begins with a whole number, as in 512MiB"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| bad("it is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_powers_of_1024() {
        assert_eq!(parse_size("512MiB").unwrap(), 512 << 20);
        assert_eq!(parse_size("1t").unwrap(), 1 << 40);
        assert_eq!(parse_size("4096").unwrap(), 4096);
        for bad in ["", "MiB", "1.5GiB", "12XB", "99999999999TiB", "-1"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
