//! Who keeps somebody waiting, for people.

use std::fmt::{self, Display, Formatter};

/// Who has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The worker's place.
    pub worker: u32,
    /// Its process's id.
    pub pid: u64,
    /// Its host; 0 on a single machine.
    pub host: u64,
}

impl Display for LockHolder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        match self.host {
            0 => Ok(()),
            host => write!(f, " on host {host}"),
        }
    }
}

/// A wait for one of the pool's own locks, which has taken about a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// What the lock is.
    pub lock: &'static str,
    /// Who has it.
    pub holder: LockHolder,
}
