//! A node's memory in a file, so that it outlives the node's process: `cenote memnode --pool`.
//!
//! | bytes | |
//! |---|---|
//! | 0 | magic and version (8), bytes for regions (8), incarnation (8), 1 if it ended in order (8), boot of the machine (36) |
//! | 72 | the latest term of a master that the node has obeyed (8) |
//! | 4096 | for each number of a region: its bytes (8), where they begin (8), its key (8); no bytes: not held |
//! | then, from the next 64 KiB on | the regions |
//!
//! One process has it open; the kernel's lock on the file says so. The process writes whatever takes effect to the file
//! before it answers, by system calls, so what was answered outlives it however it ends: the kernel has it. All that a
//! crash can tear is
//!
//! | a process that is killed | leaves |
//! |---|---|
//! | as it makes the file | no magic: it is made anew |
//! | in a write of more than a page | a part of it; its client was told nothing, and reads and writes of more than 8 bytes promise no more |
//! | as it begins or forgets a region | the region held or not, as its entry is written at once and last; the master asks again, or gives the node up |
//! | in a new key | the old key or the new one: they are 8 bytes in one page |
//!
//! A machine that stops takes with it what the kernel had not written back, in no order. So the file names the boot in
//! which it is in use, and another boot takes it only if it was [ended](MemoryFile::end) in order: written back, and
//! marked as such.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cenote_replica::verbs::REGIONS_MAX;
use rustix::fs::{FallocateFlags, fallocate};

const MAGIC: &[u8; 8] = b"CNTNMEM\x02";
const HEADER: usize = 80;
const TERM: u64 = 72;
const IN_ORDER: u64 = 24;
const TABLE: u64 = 4096;
const ENTRY: u64 = 24;
/// Where regions begin.
const REGIONS: u64 = (TABLE + ENTRY * REGIONS_MAX as u64).next_multiple_of(1 << 16);
/// Bytes of zeros that are written at once.
const ZEROS: usize = 1 << 20;

type Boot = [u8; 36];

/// Why a file cannot be a node's memory.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The system refuses something.
    #[error("{0}: {1}")]
    System(PathBuf, io::Error),
    /// Another process has it.
    #[error("{0}: another memory node has its memory in it")]
    InUse(PathBuf),
    /// It is something else.
    #[error("{0} is not the memory of a memory node, or is damaged: name a file that does not exist")]
    Strange(PathBuf),
    /// A node of another version has made it.
    #[error(
        "{path} is the memory of a memory node of version {found}, and this program has version {}: start the node with a program of that version, or name a file that does not exist",
        MAGIC[7]
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u8,
    },
    /// It has another size.
    #[error("{path} has {has} bytes for regions, and not {wanted}: say so, or name another file")]
    Size {
        /// Its path.
        path: PathBuf,
        /// What it has.
        has: u64,
        /// What was asked for.
        wanted: u64,
    },
    /// It was in use when its machine stopped.
    #[error(
        "{0} was in use when its machine stopped, so parts of it may be lost: remove it, and add the node as a new one"
    )]
    Torn(PathBuf),
}

/// A region in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its bytes.
    pub bytes: u64,
    /// Where they begin.
    at: u64,
    /// Its key.
    pub key: u64,
}

/// A node's memory in a file.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    path: PathBuf,
    memory: u64,
    incarnation: u64,
    /// As it was when the file was opened.
    term: u64,
    /// The thread that changes the file has it; [`MemoryFile::end`] keeps it.
    entries: Mutex<BTreeMap<u16, Entry>>,
}

/// The boot that the machine is in; zeros if that cannot be told.
fn boot() -> Boot {
    let text = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.first_chunk().copied().unwrap_or([0; 36])
}

impl MemoryFile {
    /// Opens a file with so many bytes for regions, or makes one, with an incarnation.
    pub fn open(path: &Path, memory: u64, incarnation: u64) -> Result<Self, Unfit> {
        Self::open_in(path, memory, incarnation, boot())
    }

    fn open_in(path: &Path, memory: u64, incarnation: u64, boot: Boot) -> Result<Self, Unfit> {
        let system = |error| Unfit::System(path.to_owned(), error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(system)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Unfit::InUse(path.to_owned()),
            TryLockError::Error(error) => system(error),
        })?;
        let strange = || Unfit::Strange(path.to_owned());
        let len = REGIONS.checked_add(memory).ok_or_else(strange)?;
        let found = file.metadata().map_err(system)?.len();
        let mut head = [0; HEADER];
        if found >= REGIONS {
            file.read_exact_at(&mut head, 0).map_err(system)?;
        }
        let word = |at: usize| {
            head[at..]
                .first_chunk()
                .map_or(0, |word| u64::from_le_bytes(*word))
        };
        let mut opened = Self {
            file,
            path: path.to_owned(),
            memory,
            incarnation,
            term: 0,
            entries: Mutex::default(),
        };
        if found == 0 || found == len && head == [0; HEADER] {
            opened.file.set_len(len).map_err(system)?;
        } else {
            if head.starts_with(&MAGIC[..7]) && head[7] != MAGIC[7] {
                return Err(Unfit::Version {
                    path: path.to_owned(),
                    found: head[7],
                });
            }
            if !head.starts_with(MAGIC) || found != REGIONS.saturating_add(word(8)) {
                return Err(strange());
            }
            if word(8) != memory {
                return Err(Unfit::Size {
                    path: path.to_owned(),
                    has: word(8),
                    wanted: memory,
                });
            }
            let is_same_boot = boot != [0; 36] && head[32..68] == boot;
            if !is_same_boot && word(24) != 1 {
                return Err(Unfit::Torn(path.to_owned()));
            }
            opened.incarnation = word(16);
            opened.term = word(TERM as usize);
            opened.entries = Mutex::new(opened.read_entries()?);
        }
        let words = [memory, opened.incarnation, 0].map(u64::to_le_bytes);
        let head = [&MAGIC[..], words.as_flattened(), &boot[..]].concat();
        opened.file.write_all_at(&head, 0).map_err(system)?;
        // Before anything else is changed: the file is in use.
        opened.file.sync_data().map_err(system)?;
        Ok(opened)
    }

    fn read_entries(&self) -> Result<BTreeMap<u16, Entry>, Unfit> {
        let mut table = vec![0; (ENTRY * u64::from(REGIONS_MAX)) as usize];
        let system = |error| Unfit::System(self.path.clone(), error);
        self.file.read_exact_at(&mut table, TABLE).map_err(system)?;
        let mut entries = BTreeMap::new();
        let (words, _) = table.as_chunks::<8>();
        let (rows, _) = words.as_chunks::<3>();
        for (number, row) in (0_u16..).zip(rows) {
            let [bytes, at, key] = row.map(u64::from_le_bytes);
            if bytes > 0 {
                entries.insert(number, Entry { bytes, at, key });
            }
        }
        let mut extents: Vec<Entry> = entries.values().copied().collect();
        extents.sort_by_key(|entry| entry.at);
        let mut free = REGIONS;
        for entry in extents {
            let end = entry.at.checked_add(entry.bytes);
            match end.filter(|end| entry.at >= free && *end <= REGIONS + self.memory) {
                Some(end) => free = end,
                None => return Err(Unfit::Strange(self.path.clone())),
            }
        }
        Ok(entries)
    }

    /// The number of its memory, which it has for ever.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The latest term of a master that a node of this memory has obeyed, as it was when the file was opened.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Keeps the term of a master that is going to be obeyed.
    pub fn set_term(&self, term: u64) -> io::Result<()> {
        self.file.write_all_at(&term.to_le_bytes(), TERM)
    }

    /// The regions that it holds, with their bytes and keys.
    pub fn regions(&self) -> BTreeMap<u16, Entry> {
        self.entries().clone()
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<u16, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_entry(&self, region: u16, entry: Entry) -> io::Result<()> {
        let words = [entry.bytes, entry.at, entry.key].map(u64::to_le_bytes);
        self.file
            .write_all_at(words.as_flattened(), TABLE + ENTRY * u64::from(region))
    }

    /// Holds a region, all zeros. An error if there is no room.
    pub fn hold(&self, region: u16, bytes: u32, key: u64) -> io::Result<()> {
        let mut entries = self.entries();
        let bytes = u64::from(bytes);
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        if u32::from(region) >= REGIONS_MAX || bytes == 0 {
            return Err(full());
        }
        self.forget(&mut entries, region)?;
        let mut extents: Vec<(u64, u64)> = entries.values().map(|entry| (entry.at, entry.bytes)).collect();
        extents.sort_unstable();
        let mut at = REGIONS;
        for (begin, len) in extents {
            if begin - at >= bytes {
                break;
            }
            at = begin + len;
        }
        if at + bytes > REGIONS + self.memory {
            return Err(full());
        }
        self.zero(at, bytes)?;
        let entry = Entry { bytes, at, key };
        self.write_entry(region, entry)?;
        entries.insert(region, entry);
        Ok(())
    }

    /// Makes bytes zeros, which the file system has room for.
    fn zero(&self, at: u64, bytes: u64) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let freed = fallocate(&self.file, hole, at, bytes);
        let given = freed.and_then(|()| fallocate(&self.file, FallocateFlags::empty(), at, bytes));
        match given {
            Err(rustix::io::Errno::OPNOTSUPP) => {}
            given => return given.map_err(io::Error::from),
        }
        let zeros = vec![0; ZEROS];
        for begin in (0..bytes).step_by(ZEROS) {
            let len = (bytes - begin).min(ZEROS as u64) as usize;
            self.file.write_all_at(&zeros[..len], at + begin)?;
        }
        Ok(())
    }

    fn forget(&self, entries: &mut BTreeMap<u16, Entry>, region: u16) -> io::Result<()> {
        if entries.contains_key(&region) {
            let none = Entry {
                bytes: 0,
                at: 0,
                key: 0,
            };
            self.write_entry(region, none)?;
            entries.remove(&region);
        }
        Ok(())
    }

    /// Holds a region no longer.
    pub fn drop_region(&self, region: u16) -> io::Result<()> {
        self.forget(&mut self.entries(), region)
    }

    /// Gives a region that is held another key.
    pub fn set_key(&self, region: u16, key: u64) -> io::Result<()> {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&region) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        entry.key = key;
        let at = TABLE + ENTRY * u64::from(region) + 16;
        self.file.write_all_at(&key.to_le_bytes(), at)
    }

    /// Reads bytes of a region, which has them.
    pub fn read(&self, region: u16, from: u32, bytes: &mut [u8]) -> io::Result<()> {
        let at = self.place(&self.entries(), region, from, bytes.len())?;
        self.file.read_exact_at(bytes, at)
    }

    /// Writes bytes of a region, which has them.
    pub fn write(&self, region: u16, from: u32, bytes: &[u8]) -> io::Result<()> {
        let entries = self.entries();
        let at = self.place(&entries, region, from, bytes.len())?;
        self.file.write_all_at(bytes, at)
    }

    fn place(&self, entries: &BTreeMap<u16, Entry>, region: u16, from: u32, len: usize) -> io::Result<u64> {
        let entry = entries.get(&region);
        let end = u64::from(from) + len as u64;
        match entry.filter(|entry| end <= entry.bytes) {
            Some(entry) => Ok(entry.at + u64::from(from)),
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Ends in order: nothing is changed any more, and the file is fit for another boot. A thread that changes it waits
    /// for ever, so end the process.
    pub fn end(&self) -> io::Result<()> {
        std::mem::forget(self.entries());
        self.file.sync_all()?;
        self.file.write_all_at(&1_u64.to_le_bytes(), IN_ORDER)?;
        self.file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 1 << 20;
    const BOOT: Boot = [1; 36];

    fn open(path: &Path, boot: Boot) -> Result<MemoryFile, Unfit> {
        MemoryFile::open_in(path, MEMORY, 77, boot)
    }

    #[test]
    fn what_was_written_is_there_when_it_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        let file = open(&path, BOOT).unwrap();
        assert!(matches!(open(&path, BOOT), Err(Unfit::InUse(_))));
        file.hold(3, 1 << 16, 5).unwrap();
        file.hold(16_383, 1 << 17, 6).unwrap();
        file.write(3, 100, b"hello").unwrap();
        file.set_key(3, 9).unwrap();
        drop(file);
        let file = MemoryFile::open_in(&path, MEMORY, 78, BOOT).unwrap();
        assert_eq!(file.incarnation(), 77);
        let regions = file.regions();
        assert_eq!((regions[&3].bytes, regions[&3].key), (1 << 16, 9));
        assert_eq!((regions[&16_383].bytes, regions[&16_383].key), (1 << 17, 6));
        let mut found = [0; 6];
        file.read(3, 100, &mut found).unwrap();
        assert_eq!(&found, b"hello\0");
        assert!(file.read(3, (1 << 16) - 5, &mut found).is_err());
        assert!(file.write(4, 0, b"x").is_err());
        // One that is held anew is all zeros.
        file.hold(3, 1 << 16, 10).unwrap();
        file.read(3, 100, &mut found).unwrap();
        assert_eq!(found, [0; 6]);
    }

    #[test]
    fn room_is_used_again_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let file = open(&folder.path().join("memory"), BOOT).unwrap();
        for number in 0..16 {
            file.hold(number, 1 << 16, 1).unwrap();
        }
        assert!(file.hold(16, 1 << 16, 1).is_err());
        file.drop_region(7).unwrap();
        file.hold(16, 1 << 16, 1).unwrap();
        assert!(file.hold(7, 1, 1).is_err() && file.hold(7, 0, 1).is_err());
    }

    #[test]
    fn another_boot_takes_only_what_was_ended_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        drop(open(&path, BOOT).unwrap());
        assert!(matches!(open(&path, [2; 36]), Err(Unfit::Torn(_))));
        open(&path, BOOT).unwrap().end().unwrap();
        drop(open(&path, [2; 36]).unwrap());
        // It is in use again.
        assert!(matches!(open(&path, BOOT), Err(Unfit::Torn(_))));
        // A machine that cannot say which boot it is in takes none for the same.
        let path = folder.path().join("other");
        drop(open(&path, [0; 36]).unwrap());
        assert!(matches!(open(&path, [0; 36]), Err(Unfit::Torn(_))));
    }

    #[test]
    fn what_is_no_memory_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        std::fs::write(&path, b"my thesis").unwrap();
        assert!(matches!(open(&path, BOOT), Err(Unfit::Strange(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"my thesis");
        std::fs::remove_file(&path).unwrap();
        let file = open(&path, BOOT).unwrap();
        file.hold(1, 1 << 16, 1).unwrap();
        file.hold(2, 1 << 16, 1).unwrap();
        let mut lies = file.regions()[&2];
        lies.at -= 1;
        file.write_entry(2, lies).unwrap();
        drop(file);
        assert!(matches!(open(&path, BOOT), Err(Unfit::Strange(_))));
        let other = MemoryFile::open_in(&path, MEMORY * 2, 77, BOOT);
        assert!(matches!(other, Err(Unfit::Size { .. })));
    }

    #[test]
    fn what_another_version_made_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        open(&path, BOOT).unwrap().hold(1, 1 << 16, 1).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[7] = 1;
        std::fs::write(&path, &bytes).unwrap();
        let refused = open(&path, BOOT).map(drop).unwrap_err();
        assert!(matches!(refused, Unfit::Version { found: 1, .. }), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}
