//! How a pool is created and opened.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::index::hash::Guidelines;
use crate::memory::FileLock;

/// Options for creating and opening a pool. Those of the first group only matter when it is created.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes that the pool has room for at first; reserved when it is created. Default 16 MiB.
    pub size: u64,
    /// Bytes that it may grow to. Default 1 TiB. Address space is reserved for it, memory is not. On a device it is at most what
    /// the device has room for ([`device_room`](super::device_room)).
    pub max: u64,
    /// Processes that may have it open at a time. Default 128.
    pub processes: u32,
    /// Workers (threads with a map open) that it may have at a time. Default 256.
    pub workers: u32,
    /// Names that it may have. Default 256.
    pub names: u32,
    /// Hosts that may share it, with ids from 0 on. Default 64.
    pub hosts: u32,
    /// Permission bits of the file, whatever the process's mask. Default 0o600. A device has its own.
    pub mode: u32,
    /// The host's id, given by the administrator; 0 on a single machine.
    pub host: u32,
    /// The file that holds the liveness locks, if it is not the pool itself; it is made if there is none, with the
    /// pool's permission bits. All processes of a machine
    /// must use the same, on a file system of that machine alone.
    pub lock_file: Option<PathBuf>,
    /// Whether a pool may be created on a device that holds something. Whoever has it open then is lost.
    pub overwrite: bool,
    /// Which of the paper's guidelines to follow.
    pub guidelines: Guidelines,
    /// Whether a background thread of this process looks for dead processes and recovers them at once. Without
    /// it, whoever is held back by them does.
    pub agent: bool,
    /// Whether that thread gives memory back to the file system that has stayed free for so long, 32 MiB a second at most; see
    /// [`Pool::trim`](crate::Pool::trim). The thread is started if need be. Default: no.
    pub trim_after: Option<std::time::Duration>,
}

impl Options {
    /// The file that holds the liveness locks of a pool. One that is not the pool is made if there is none: for those who may use the pool.
    pub(super) fn lock_file_of<'a>(&'a self, pool: &'a Path) -> Result<&'a Path> {
        match &self.lock_file {
            None => Ok(pool),
            Some(file) => {
                let mode = pool.metadata().map_or(self.mode, |pool| pool.mode() & 0o666);
                FileLock::make(file, mode).map_err(|source| {
                    let path = file.clone();
                    Error::LockFile { path, source }
                })?;
                Ok(file)
            }
        }
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
            overwrite: false,
            guidelines: Guidelines::default(),
            agent: false,
            trim_after: None,
        }
    }
}

/// Reads a size such as `512MiB`, `1GiB` or `4096`. Units are powers of 1024: `KiB`, `MiB`, `GiB`, `TiB`, or the
/// first letter alone.
pub fn parse_size(text: &str) -> Result<u64> {
    let bad = |why| Error::Option {
        option: "a size",
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
        _ => return Err(bad("units are KiB, MiB, GiB and TiB")),
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
