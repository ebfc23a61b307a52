//! A file that processes map: locks of the C library, and what they and others cover.

use std::fs::OpenOptions;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{FallocateFlags, fallocate};

use crate::subjects::Failure;

/// Bytes before what a lock covers: a line for the lock.
const LOCK: usize = 64;

/// A file in equal parts, as one process has it mapped. Each part has room for a lock, and behind it for what that
/// covers.
pub struct Area {
    #[allow(clippy::disallowed_types)] // not a pool: what is compared with one
    map: memmap2::MmapRaw,
    part: usize,
}

impl Area {
    /// Maps a file of so many parts that cover so many bytes, which is made if there is none.
    pub fn open(path: &Path, parts: u32, bytes: u64) -> Result<Rc<Self>, Failure> {
        let part = LOCK + (bytes as usize).next_multiple_of(LOCK);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let len = part * parts as usize;
        if file.metadata()?.len() != len as u64 {
            // Reserved at once, as pools are: without that, stores of a hundred megabytes were up to 1.7 times slower
            // in files than in pools.
            fallocate(&file, FallocateFlags::empty(), 0, len as u64)?;
        }
        #[allow(clippy::disallowed_types)] // as above
        let map = memmap2::MmapOptions::new().len(len).map_raw(&file)?;
        // As pools ask for. Where there are none, there are none for either.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Rc::new(Self { map, part }))
    }

    /// Where the lock of a part is: at a multiple of 64, zeroes at first.
    pub fn lock(&self, part: u32) -> *mut u8 {
        let at = self.part * part as usize;
        assert!(at + self.part <= self.map.len(), "there is no part {part}");
        // SAFETY: in the mapping, by the line above.
        unsafe { self.map.as_mut_ptr().add(at) }
    }

    /// What the lock of a part covers.
    ///
    /// # Safety
    ///
    /// The caller has that lock, shared at least.
    pub unsafe fn covered(&self, part: u32) -> &[u8] {
        // SAFETY: in the mapping, as the lock is; nobody writes while the caller has the lock.
        unsafe { std::slice::from_raw_parts(self.lock(part).add(LOCK), self.part - LOCK) }
    }

    /// The same, to change.
    ///
    /// # Safety
    ///
    /// The caller has that lock exclusively, and no other reference to what it covers.
    #[allow(clippy::mut_from_ref)] // the lock is what makes it exclusive
    pub unsafe fn covered_mut(&self, part: u32) -> &mut [u8] {
        // SAFETY: in the mapping, as the lock is; nobody reads or writes while the caller has the lock.
        unsafe { std::slice::from_raw_parts_mut(self.lock(part).add(LOCK), self.part - LOCK) }
    }
}
