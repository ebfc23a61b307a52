//! A map that outlives its process: a snapshot in a file, and a log of what batches have changed since.
//!
//! | file | |
//! |---|---|
//! | `record` | a batch's changes, as the log has them |
//! | `log` | the log: appending, and reading it after a crash |
//! | `snapshot` | all pairs in a file, replaced as a whole |
//!
//! **Protocol.** A batch is executed, then what it has changed is appended to the log as one record, which is synced,
//! then its answers are given. So at any instruction at which the process may be killed, all acknowledged batches are
//! in the files; one that was not acknowledged is there as a whole or not at all, since a record that is not whole is
//! none. The log has what took effect, not what was asked for: an insert that a full module refused stays refused.
//!
//! A snapshot is written beside the old one, synced, and renamed over it; then the log is replaced by an empty one in
//! the same way. Between the two renames the log has records that the snapshot has too: each has a number, and those up
//! to the snapshot's are passed over. Where subranges are is in no file, so a crash in the middle of a redistribution
//! is like any other: an opened map begins with its regions whole, and follows the load anew.
//!
//! **Files.** `snapshot`, `log` and `lock` in the map's folder, and for moments `snapshot.new` and `log.new`, which
//! mean nothing. `lock` is locked as long as the map is open, by `flock`, which ends with the process.

#[cfg(test)]
mod full_tests;
mod log;
mod record;
mod snapshot;
#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::map::{Answer, Map, MapError, Operation};
use crate::modules::Modules;

use log::Log;
use record::Changes;

/// How a map is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether a batch is acknowledged only when the device has its record (`fdatasync`), so that it outlives the
    /// machine's power. Without it the kernel has it: it outlives the process, killed or not, but not always the
    /// machine: a loss of power may leave a log with a hole, which does not open. Snapshots are always synced.
    pub sync: bool,
    /// A batch after which the log has more bytes than this takes a snapshot, which makes it empty. If the snapshot
    /// cannot be written, a later batch tries again, when the log has as many bytes more.
    pub log_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sync: true,
            log_bytes: 64 << 20,
        }
    }
}

/// Why a map that is kept in files cannot go on, or be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DurableError {
    /// The map itself failed. What was acknowledged is in the files.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A file could not be read or written.
    #[error("{action} {}: {error}", path.display())]
    File {
        /// What was to be done.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file has been damaged, other than by a crash.
    #[error("{} is damaged at byte {at}: {what}. Restore the folder from a copy", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// Another process, or another map of this one, has the folder.
    #[error("{} is in use: another map has it open; close that one first", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// An earlier batch was executed, and its changes could not be logged.
    #[error("an earlier batch could not be logged, so the map is not what its files say: open {} again", path.display())]
    NotLogged {
        /// The folder.
        path: PathBuf,
    },
}

/// An error of a file.
fn at<T>(result: io::Result<T>, action: &'static str, path: &Path) -> Result<T, DurableError> {
    result.map_err(|error| DurableError::File {
        action,
        path: path.to_owned(),
        error,
    })
}

/// A map with its files.
pub struct Durable<M> {
    map: Map<M>,
    folder: PathBuf,
    settings: Settings,
    log: Log,
    /// Number of the last batch that is in the files.
    number: u64,
    /// What was executed last is not in the files.
    not_logged: bool,
    /// A batch after which the log has more bytes than this takes a snapshot.
    snapshot_at: u64,
    /// Why the last batch that was to take a snapshot could not.
    snapshot_error: Option<DurableError>,
    _lock: FolderLock,
}

impl<M: Modules> Durable<M> {
    /// Opens a folder, which is made if it is not there, and fills an empty map with what it has. Costs reading the
    /// files, memory for all pairs in order while that takes, and a round.
    ///
    /// # Errors
    /// Another map has the folder; files cannot be read, or are damaged; the map has keys, or its modules no room.
    pub fn open(folder: &Path, mut map: Map<M>, settings: Settings) -> Result<Self, DurableError> {
        at(std::fs::create_dir_all(folder), "make", folder)?;
        let lock = FolderLock::take(folder)?;
        let (mut number, mut pairs) = snapshot::read(folder)?;
        let (log, records) = Log::open(folder, number)?;
        for record in records {
            number = record.number;
            record.changes.apply(&mut pairs);
        }
        if settings.sync {
            // What this process shows, and answers by, is what outlives the machine's power.
            log.sync(folder)?;
        }
        let pairs: Vec<(u64, u64)> = pairs.into_iter().collect();
        map.load(&pairs)?;
        Ok(Self {
            map,
            folder: folder.to_owned(),
            snapshot_at: settings.log_bytes,
            snapshot_error: None,
            settings,
            log,
            number,
            not_logged: false,
            _lock: lock,
        })
    }

    /// Executes a batch as [`Map::execute`] does, and has what it changed in the log before it answers. Costs, beside
    /// the batch, a write of 16 bytes and 17 for each insert or update that took effect and 9 for each delete, and a
    /// sync if that is set; nothing if nothing has changed. Now and then a snapshot; if that fails, the batch is in the
    /// log all the same, and [`Durable::snapshot_error`] says why.
    ///
    /// # Errors
    /// The map failed; the log could not be written, and then all further batches are refused: the folder has to be
    /// opened again. The batch may be there then, as a whole.
    pub fn execute(&mut self, operations: &[Operation]) -> Result<Vec<Answer>, DurableError> {
        self.check()?;
        let answers = self.map.execute(operations)?;
        let changes = Changes::of(operations, &answers);
        if !changes.is_empty() && !planted(Fault::Unlogged) {
            self.not_logged = true;
            self.log.append(self.number + 1, &changes, self.settings.sync)?;
            self.number += 1;
            self.not_logged = false;
        }
        if !changes.is_empty() && self.log.bytes() > self.snapshot_at {
            self.snapshot_at = self.log.bytes().saturating_add(self.settings.log_bytes);
            self.snapshot_error = self.snapshot().err();
        }
        Ok(answers)
    }

    /// Fills an empty map with pairs that ascend, as [`Map::load`] does, and takes a snapshot.
    ///
    /// # Errors
    /// As for [`Map::load`] and [`Durable::snapshot`].
    pub fn load(&mut self, pairs: &[(u64, u64)]) -> Result<(), DurableError> {
        self.check()?;
        self.map.load(pairs)?;
        self.number += 1;
        self.not_logged = true;
        self.replace(pairs)
    }

    /// Takes a snapshot, and makes the log empty. Costs a scan of the whole map, 16 bytes to write for each pair, and
    /// syncs of both files and the folder.
    ///
    /// # Errors
    /// The map failed, or a file could not be written; what is in the folder is whole all the same.
    pub fn snapshot(&mut self) -> Result<(), DurableError> {
        self.check()?;
        let all = Operation::Scan(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let answers = self.map.execute(&[all])?;
        match answers.first() {
            Some(Answer::Pairs(pairs)) => self.replace(pairs),
            _ => Ok(()),
        }
    }

    fn replace(&mut self, pairs: &[(u64, u64)]) -> Result<(), DurableError> {
        if planted(Fault::LogFirst) {
            self.log = Log::replace(&self.folder)?;
            fault_stop();
        }
        snapshot::write(&self.folder, self.number, pairs)?;
        // Until it is replaced the log cannot be appended to: on an error it may be that of neither.
        self.not_logged = true;
        self.log = Log::replace(&self.folder)?;
        self.not_logged = false;
        self.snapshot_at = self.settings.log_bytes;
        self.snapshot_error = None;
        Ok(())
    }

    /// Why the last snapshot that a batch was to take could not be written, such as for want of room on the device. The
    /// log goes on growing meanwhile.
    pub fn snapshot_error(&self) -> Option<&DurableError> {
        self.snapshot_error.as_ref()
    }

    fn check(&self) -> Result<(), DurableError> {
        if self.not_logged {
            return Err(DurableError::NotLogged {
                path: self.folder.clone(),
            });
        }
        Ok(())
    }

    /// The map: its loads, counters and memory.
    pub fn map(&self) -> &Map<M> {
        &self.map
    }
}

/// The lock of a folder, held.
struct FolderLock(File);

impl FolderLock {
    fn take(folder: &Path) -> Result<Self, DurableError> {
        let path = folder.join("lock");
        let file = at(File::create(&path), "open", &path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(DurableError::InUse {
                path: folder.to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(DurableError::File {
                action: "lock",
                path,
                error,
            }),
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // A process that this one is starting at the moment has the file too, until it executes its program. What
        // cannot be unlocked is so when the file is closed.
        let _ = self.0.unlock();
    }
}

/// Planted faults, for the tests: each must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A batch is acknowledged and not logged.
    Unlogged,
    /// The log is emptied before the snapshot is there.
    LogFirst,
    /// A record's checksum is not looked at.
    Unchecked,
}

#[cfg(not(test))]
fn planted(_: Fault) -> bool {
    false
}

#[cfg(not(test))]
fn fault_stop() {}

#[cfg(test)]
use tests::{fault_stop, planted};
