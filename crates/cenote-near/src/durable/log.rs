//! The log: a header of 8 bytes, and records one after another.
//!
//! **After a crash** the last record may not be whole: the batch was not acknowledged, and the record is cut off.
//! Records are written one after another, each when the one before it was written, so behind such a record there is
//! nothing; where there is a whole one, the file was damaged otherwise, and nothing is cut off.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::record::{Changes, HEADER, Record, bytes, number_of, read};
use super::{DurableError, at};

/// What a log begins with; the last byte is the format's version.
const MAGIC: [u8; 8] = *b"cnearlg\x01";

pub(super) struct Log {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Log {
    /// Opens a folder's log, and reads the records after a number. What is left of one that is not whole is cut off.
    pub fn open(folder: &Path, after: u64) -> Result<(Self, Vec<Record>), DurableError> {
        let path = folder.join("log");
        if !at(path.try_exists(), "look for", &path)? {
            return Ok((Self::replace(folder)?, Vec::new()));
        }
        let mut file = at(
            OpenOptions::new().read(true).append(true).open(&path),
            "open",
            &path,
        )?;
        let mut all = Vec::new();
        at(file.read_to_end(&mut all), "read", &path)?;
        if !all.starts_with(&MAGIC) {
            return Err(DurableError::Damaged {
                path,
                at: 0,
                what: "it does not begin as a log of this version does",
            });
        }
        let (mut end, mut records, mut number) = (MAGIC.len(), Vec::new(), None);
        while let Some((record, len)) = read(&all[end..]) {
            let expected = number.map_or(record.number.min(after.saturating_add(1)), |number: u64| {
                number.saturating_add(1)
            });
            if record.number != expected {
                return Err(damaged(&path, end, "a record is missing before this one"));
            }
            if !record.changes.can_be_read() {
                return Err(damaged(&path, end, "a record has its checksum, and no changes"));
            }
            number = Some(record.number);
            end += len;
            if record.number > after {
                records.push(record);
            }
        }
        // Numbers below the next one are found in a whole record by chance alone, and one in four billion of those has
        // its checksum.
        let most = number
            .unwrap_or(after)
            .saturating_add(1 + (all.len() / HEADER) as u64);
        let may_be = |found: u64| found > 0 && Some(found) > number && found <= most;
        // Checksums are looked at where a header may be: else a long record that is torn would take hours.
        let later = |from: usize| number_of(&all[from..]).is_some_and(may_be) && read(&all[from..]).is_some();
        if let Some(from) = (end + 1..all.len().saturating_sub(HEADER)).find(|from| later(*from)) {
            return Err(damaged(
                &path,
                from,
                "a whole record follows one that cannot be read",
            ));
        }
        if end < all.len() {
            at(file.set_len(end as u64), "cut off what is not whole of", &path)?;
            at(file.sync_all(), "sync", &path)?;
        }
        if number.is_some_and(|number| number < after) {
            // A snapshot was interrupted between its renames: what comes next would not follow the log's last record.
            return Ok((Self::replace(folder)?, records));
        }
        let log = Self {
            file,
            path,
            bytes: end as u64,
        };
        Ok((log, records))
    }

    /// An empty log in place of the one that is there.
    pub fn replace(folder: &Path) -> Result<Self, DurableError> {
        let path = folder.join("log");
        replace(folder, "log", |file| file.write_all(&MAGIC))?;
        let file = at(OpenOptions::new().append(true).open(&path), "open", &path)?;
        Ok(Self {
            file,
            path,
            bytes: MAGIC.len() as u64,
        })
    }

    /// Appends a record, and has it synced.
    pub fn append(&mut self, number: u64, changes: &Changes, sync: bool) -> Result<(), DurableError> {
        let too_long = || std::io::Error::other("a batch changes more than 4 GiB of it; divide the batch");
        let bytes = at(
            bytes(number, changes).ok_or_else(too_long),
            "append to",
            &self.path,
        )?;
        at(self.file.write_all(&bytes), "append to", &self.path)?;
        if sync {
            at(self.file.sync_data(), "sync", &self.path)?;
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Has the device have the log, and its name.
    pub fn sync(&self, folder: &Path) -> Result<(), DurableError> {
        at(self.file.sync_all(), "sync", &self.path)?;
        sync_folder(folder)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn damaged(path: &Path, from: usize, what: &'static str) -> DurableError {
    DurableError::Damaged {
        path: path.to_owned(),
        at: from as u64,
        what,
    }
}

/// Replaces a file as a whole: written beside it, synced, renamed over it, and the folder synced.
pub(super) fn replace(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<(), DurableError> {
    let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
    let mut file = at(File::create(&new), "make", &new)?;
    let renamed = at(write(&mut file), "write", &new)
        .and_then(|()| at(file.sync_all(), "sync", &new))
        .and_then(|()| at(std::fs::rename(&new, &path), "rename to", &path));
    if renamed.is_err() {
        // It may be what the device has no room for.
        let _ = std::fs::remove_file(&new);
    }
    renamed?;
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> Result<(), DurableError> {
    let file = at(File::open(folder), "open", folder)?;
    at(file.sync_all(), "sync", folder)
}
