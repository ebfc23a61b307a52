//! Which addresses of this process are pools: for a handler of bus errors, which may ask only the kernel.
//!
//! Truncating a pool's file takes bytes away that processes have mapped. The next access to them is a bus error
//! (`SIGBUS`), which ends a process. A library cannot go on from there: what was in the pool is gone, and a thread may
//! have been in the middle of using it. A program can say what happened before it ends, by a handler of its own that
//! asks [`mapped_at`].
//!
//! The list has a fixed number of entries and takes no lock, so that a handler can read it whatever the thread was
//! doing. An entry is claimed by its address, and listed when its length is there. An entry that leaves the list while
//! a handler reads it is a pool that another thread unmaps: the handler may then name another file.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use super::MappingError;

/// The most mappings of files and devices that a process can have.
const ENTRIES: usize = 1024;

/// An entry of the list.
struct Listed {
    /// 0 if it is free.
    base: AtomicUsize,
    /// 0 until the descriptor is stored.
    len: AtomicUsize,
    descriptor: AtomicI32,
}

impl Listed {
    const fn free() -> Self {
        Self {
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            descriptor: AtomicI32::new(-1),
        }
    }
}

static LIST: [Listed; ENTRIES] = [const { Listed::free() }; ENTRIES];

/// A pool's place in the list, which it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Entry(usize);

/// Lists a mapping; an error if no place is left, as a handler would then not know the pool.
pub(super) fn list(base: usize, len: usize, descriptor: RawFd) -> Result<Entry, MappingError> {
    let claimed = claim(&LIST, base)?;
    LIST[claimed].descriptor.store(descriptor, Ordering::Relaxed);
    // PAIRS WITH: memory::mapped::mapped_at
    LIST[claimed].len.store(len, Ordering::Release);
    Ok(Entry(claimed))
}

fn claim(list: &[Listed], base: usize) -> Result<usize, MappingError> {
    let claimed = list.iter().position(|listed| {
        listed
            .base
            .compare_exchange(0, base, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    });
    claimed.ok_or(MappingError::TooMany {
        what: "pools mapped",
        limit: list.len(),
    })
}

impl Drop for Entry {
    fn drop(&mut self) {
        LIST[self.0].len.store(0, Ordering::Relaxed);
        LIST[self.0].base.store(0, Ordering::Release);
    }
}

/// What is mapped at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// The descriptor that this process has the pool's file or device open by.
    pub descriptor: RawFd,
    /// The offset in it.
    pub offset: u64,
}

/// The pool that this process has mapped at an address. A signal handler may call it.
pub fn mapped_at(address: usize) -> Option<MappedFile> {
    LIST.iter().find_map(|listed| {
        // PAIRS WITH: memory::mapped::list
        let len = listed.len.load(Ordering::Acquire);
        let offset = address.wrapping_sub(listed.base.load(Ordering::Relaxed));
        (offset < len).then(|| MappedFile {
            descriptor: listed.descriptor.load(Ordering::Relaxed),
            offset: offset as u64,
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::memory::Mapping;

    #[test]
    fn mapped_pools_are_found_by_their_addresses_until_they_are_unmapped() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [0; 4096]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let descriptor = file.as_raw_fd();
        let mapping = Mapping::of_file(file, 1 << 20).unwrap();
        let base = mapping.view().aligned(0, 1) as usize;
        for offset in [0, 77, (1 << 20) - 1] {
            let found = mapped_at(base + offset).unwrap();
            let offset = offset as u64;
            assert_eq!(found, MappedFile { descriptor, offset });
        }
        // The addresses beyond are only reserved.
        assert_eq!(mapped_at(base + (1 << 20)), None);
        assert_eq!(mapped_at(&raw const descriptor as usize), None);
        drop(mapping);
        assert!(mapped_at(base).is_none_or(|found| found.descriptor != descriptor));
    }

    #[test]
    fn a_full_list_is_an_error_until_an_entry_is_free() {
        let list = [Listed::free(), Listed::free()];
        assert_eq!([claim(&list, 4096).unwrap(), claim(&list, 8192).unwrap()], [0, 1]);
        let refused = claim(&list, 12288).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "this process has 2 pools mapped already, as many as it can have; close pools that it no longer uses, or open others in another process"
        );
        list[0].base.store(0, Ordering::Release);
        assert_eq!(claim(&list, 12288).unwrap(), 0);
    }
}
