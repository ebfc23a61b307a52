//! Locks of the C library in files that processes map.

use crate::subjects::{Failure, check};
use std::fs::OpenOptions;
use std::path::Path;

/// Makes a process-shared mutex.
///
/// # Safety
///
/// There is room for it, and nobody uses it yet.
pub unsafe fn make_mutex(mutex: *mut libc::pthread_mutex_t, robust: bool) -> Result<(), Failure> {
    // SAFETY: the attributes are initialised before they are used; the caller has promised the rest.
    let failed = unsafe {
        let mut how: libc::pthread_mutexattr_t = std::mem::zeroed();
        let mut failed = libc::pthread_mutexattr_init(&mut how);
        failed |= libc::pthread_mutexattr_setpshared(&mut how, libc::PTHREAD_PROCESS_SHARED);
        if robust {
            failed |= libc::pthread_mutexattr_setrobust(&mut how, libc::PTHREAD_MUTEX_ROBUST);
        }
        failed |= libc::pthread_mutex_init(mutex, &how);
        failed
    };
    check(failed == 0, "the C library makes no process-shared mutex")
}

/// Makes a process-shared reader-writer lock.
///
/// # Safety
///
/// There is room for it, and nobody uses it yet.
pub unsafe fn make_rwlock(lock: *mut libc::pthread_rwlock_t) -> Result<(), Failure> {
    // SAFETY: the attributes are initialised before they are used; the caller has promised the rest.
    let failed = unsafe {
        let mut how: libc::pthread_rwlockattr_t = std::mem::zeroed();
        let mut failed = libc::pthread_rwlockattr_init(&mut how);
        failed |= libc::pthread_rwlockattr_setpshared(&mut how, libc::PTHREAD_PROCESS_SHARED);
        failed |= libc::pthread_rwlock_init(lock, &how);
        failed
    };
    check(
        failed == 0,
        "the C library makes no process-shared reader-writer lock",
    )
}

/// A process-shared mutex, as one thread of one process has it.
pub struct Pthread {
    /// Keeps the mutex mapped.
    #[allow(clippy::disallowed_types)] // not a pool: the C library's own words
    _map: memmap2::MmapRaw,
    mutex: *mut libc::pthread_mutex_t,
}

impl Pthread {
    /// Makes the mutex in a new file.
    pub fn create(path: &Path, robust: bool) -> Result<(), Failure> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        file.set_len(4096)?;
        let it = Self::open(path)?;
        // SAFETY: the mutex has room and nobody uses it yet.
        unsafe { make_mutex(it.mutex, robust) }
    }

    /// Maps the mutex of a file.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        #[allow(clippy::disallowed_types)] // as above
        let map = memmap2::MmapOptions::new().len(4096).map_raw(&file)?;
        let mutex = map.as_mut_ptr().cast();
        Ok(Self { _map: map, mutex })
    }

    /// Locks, runs, and unlocks; false if the C library refuses.
    #[inline]
    pub fn with(&self, inside: impl FnOnce()) -> bool {
        // SAFETY: the mutex is initialised and mapped for as long as `self` lives.
        let taken = unsafe { libc::pthread_mutex_lock(self.mutex) } == 0;
        inside();
        // SAFETY: as above, and this thread has it.
        taken && unsafe { libc::pthread_mutex_unlock(self.mutex) } == 0
    }
}

/// A process-shared reader-writer lock, as one thread of one process has it.
pub struct PthreadRw {
    /// Keeps the lock mapped.
    #[allow(clippy::disallowed_types)] // not a pool: the C library's own words
    _map: memmap2::MmapRaw,
    lock: *mut libc::pthread_rwlock_t,
}

impl PthreadRw {
    /// Makes the lock in a new file.
    pub fn create(path: &Path) -> Result<(), Failure> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        file.set_len(4096)?;
        let it = Self::open(path)?;
        // SAFETY: the lock has room and nobody uses it yet.
        unsafe { make_rwlock(it.lock) }
    }

    /// Maps the lock of a file.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        #[allow(clippy::disallowed_types)] // as above
        let map = memmap2::MmapOptions::new().len(4096).map_raw(&file)?;
        let lock = map.as_mut_ptr().cast();
        Ok(Self { _map: map, lock })
    }

    /// Locks for writing, runs, and unlocks; false if the C library refuses.
    #[inline]
    pub fn write(&self, inside: impl FnOnce()) -> bool {
        // SAFETY: the lock is initialised and mapped for as long as `self` lives.
        let taken = unsafe { libc::pthread_rwlock_wrlock(self.lock) } == 0;
        inside();
        // SAFETY: as above, and this thread has it.
        taken && unsafe { libc::pthread_rwlock_unlock(self.lock) } == 0
    }

    /// Locks for reading, runs, and unlocks; false if the C library refuses.
    #[inline]
    pub fn read(&self, inside: impl FnOnce()) -> bool {
        // SAFETY: the lock is initialised and mapped for as long as `self` lives.
        let taken = unsafe { libc::pthread_rwlock_rdlock(self.lock) } == 0;
        inside();
        // SAFETY: as above, and this thread has it.
        taken && unsafe { libc::pthread_rwlock_unlock(self.lock) } == 0
    }
}
