//! `cenote_rwlock_*`: reader-writer locks that survive their owners.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::ffi::{c_char, c_int};
use std::sync::atomic::AtomicU64;

use cenote_holds::{Access, Refusal, Wait, Which};
use libc::timespec;

use crate::boundary::{run, run_slowly};
use crate::held::{self, Lockable, Open, until};
use crate::object::Kind;
use crate::pool::CenotePool;

/// A reader-writer lock of a pool.
pub struct CenoteRwlock {
    magic: AtomicU64,
    open: Open,
}

impl Kind for CenoteRwlock {
    const MAGIC: u64 = u64::from_le_bytes(*b"cntlock\x01");
    const NOT_ONE: &'static str = "the lock is null or closed";

    fn magic(&self) -> &AtomicU64 {
        &self.magic
    }
}

impl Lockable for CenoteRwlock {
    fn open(&self) -> &Open {
        &self.open
    }
}

/// The owner that died with the lock.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CenoteFormer {
    /// What it had said last that it was doing; 0 if nothing.
    pub note: u64,
    /// The number of its thread among those of the pool.
    pub worker: u32,
    /// Which thread of that number it was.
    pub generation: u32,
}

/// Opens the reader-writer lock of a name, and makes it if there is none. Each call gives an object of its own; a
/// thread uses one of them: by another one it may wait for itself.
///
/// Errors: EINVAL if the pool is null, the name is not UTF-8, too long or empty, or it names something else; EAGAIN if
/// the pool has no place for another thread or name; ENOMEM if it is full; ESTALE in a child of the process that opened
/// the pool. The lock is null then.
///
/// Cost: a search of the pool's names, about a microsecond; the thread's first call in this pool also takes its place
/// in it, some system calls.
///
/// # Safety
///
/// The pool is null or open; the name ends with a zero; there is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_open(
    pool: *const CenotePool,
    name: *const c_char,
    lock: *mut *mut CenoteRwlock,
) -> c_int {
    // SAFETY: as the caller says, for all three pointers.
    run_slowly(|| unsafe {
        let which = || Ok(Which::Named(held::name(name)?.to_owned()));
        held::open(pool, which, lock, |open, _| CenoteRwlock {
            magic: AtomicU64::new(0),
            open,
        })
    })
}

/// Closes a lock. It stays in the pool, under its name.
///
/// Errors: EINVAL if it is null; EBUSY if this thread has it.
///
/// # Safety
///
/// It is null, or it was opened and not closed since, and no other thread has or uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_close(lock: *mut CenoteRwlock) -> c_int {
    // SAFETY: as the caller says.
    run_slowly(|| unsafe { held::close(lock) })
}

/// Takes a lock: 0, or `EOWNERDEAD`, with which it is taken, too.
///
/// # Safety
///
/// It is null or open.
#[inline]
unsafe fn acquire(
    lock: *const CenoteRwlock,
    access: Access,
    wait: impl FnOnce() -> Result<Wait, Refusal>,
) -> Result<c_int, Refusal> {
    // SAFETY: as the caller says.
    unsafe { held::acquire(lock, access, |_| wait(), |_, _, _| Ok(())) }
}

/// Takes the lock for reading. Waits while a living thread has it for writing. A thread that reads may ask again, and
/// must unlock as often.
///
/// Returns 0, or EOWNERDEAD: the lock is taken, but the last writer died with it, or left it inconsistent; what the
/// lock protects may be half changed. All readers are told until a writer has repaired it.
///
/// Errors: EDEADLK if this thread has it for writing; EAGAIN if the pool has no place for another thread; EIDRM if its
/// name was removed; EINVAL if it is null; ESTALE in a child of the process that opened the pool; EIO if the pool is
/// damaged.
///
/// Cost if nobody writes: an exchange and two loads of shared memory. Waiters sleep.
///
/// # Safety
///
/// It is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_rdlock(lock: *mut CenoteRwlock) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Read, || Ok(Wait::Forever)) })
}

/// Takes the lock for writing. Waits while a living thread has it.
///
/// Returns 0, or EOWNERDEAD: the lock is taken, but the last writer died with it, or left it inconsistent. Look at
/// cenote_rwlock_former, repair what the lock protects, and call cenote_rwlock_consistent; or unlock, and the next is
/// told the same.
///
/// Errors: EDEADLK if this thread has it; else those of cenote_rwlock_rdlock.
///
/// Cost if nobody has it: a compare-exchange and a load for each 64 threads that the pool may have. Waiters sleep.
///
/// # Safety
///
/// It is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_wrlock(lock: *mut CenoteRwlock) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Write, || Ok(Wait::Forever)) })
}

/// Takes the lock for reading if no living thread has it for writing.
///
/// Errors: EBUSY if one has, also this one; else those of cenote_rwlock_rdlock, which says what EOWNERDEAD means.
///
/// # Safety
///
/// It is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_tryrdlock(lock: *mut CenoteRwlock) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Read, || Ok(Wait::No)) })
}

/// Takes the lock for writing if no living thread has it.
///
/// Errors: EBUSY if one has, also this one; else those of cenote_rwlock_wrlock, which says what EOWNERDEAD means.
///
/// # Safety
///
/// It is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_trywrlock(lock: *mut CenoteRwlock) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Write, || Ok(Wait::No)) })
}

/// Takes the lock for reading, and waits until a moment of CLOCK_REALTIME at most.
///
/// Errors: ETIMEDOUT if it came first; EINVAL if it is null or has not 0 to 999,999,999 nanoseconds; else those of
/// cenote_rwlock_rdlock.
///
/// # Safety
///
/// The lock is null or open; the moment is null or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_timedrdlock(lock: *mut CenoteRwlock, at: *const timespec) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Read, || until(libc::CLOCK_REALTIME, at)) })
}

/// Takes the lock for writing, and waits until a moment of CLOCK_REALTIME at most.
///
/// Errors: ETIMEDOUT if it came first; EINVAL if it is null or has not 0 to 999,999,999 nanoseconds; else those of
/// cenote_rwlock_wrlock.
///
/// # Safety
///
/// The lock is null or open; the moment is null or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_timedwrlock(lock: *mut CenoteRwlock, at: *const timespec) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Write, || until(libc::CLOCK_REALTIME, at)) })
}

/// Takes the lock for reading, and waits until a moment of a clock at most: CLOCK_REALTIME or CLOCK_MONOTONIC.
///
/// Errors: EINVAL if the clock is another one; else those of cenote_rwlock_timedrdlock.
///
/// # Safety
///
/// The lock is null or open; the moment is null or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_clockrdlock(
    lock: *mut CenoteRwlock,
    clock: c_int,
    at: *const timespec,
) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Read, || until(clock, at)) })
}

/// Takes the lock for writing, and waits until a moment of a clock at most: CLOCK_REALTIME or CLOCK_MONOTONIC.
///
/// Errors: EINVAL if the clock is another one; else those of cenote_rwlock_timedwrlock.
///
/// # Safety
///
/// The lock is null or open; the moment is null or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_clockwrlock(
    lock: *mut CenoteRwlock,
    clock: c_int,
    at: *const timespec,
) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Write, || until(clock, at)) })
}

/// Releases one hold of this thread. If it was told EOWNERDEAD, has the lock for writing, and has not called
/// cenote_rwlock_consistent, the next one is told EOWNERDEAD as well, with the same note. Unlike a robust mutex of
/// POSIX's the lock never becomes unusable.
///
/// A thread that ends with the lock for writing leaves it as a death does.
///
/// Errors: EPERM if this thread does not have it; EINVAL if it is null; ESTALE in a child of the process that opened
/// the pool.
///
/// Cost: a store and a load of shared memory; a system call if a thread sleeps.
///
/// # Safety
///
/// It is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_unlock(lock: *mut CenoteRwlock) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { held::unlock(lock) })
}

/// Says that what the lock protects is whole again. For a writer that was told EOWNERDEAD.
///
/// Errors: EINVAL if this thread does not have it for writing after EOWNERDEAD, or it is null; EPERM if this thread
/// does not have it; ESTALE in a child of the process that opened the pool.
///
/// # Safety
///
/// It is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_consistent(lock: *mut CenoteRwlock) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { held::consistent(lock) })
}

/// Leaves a note: a word, of the caller's choice, about what it is doing. If this writer dies, the next owner gets the
/// note. 0 when the lock is unlocked.
///
/// Errors: EPERM if this thread does not have it for writing; EINVAL if it is null; ESTALE in a child of the process
/// that opened the pool.
///
/// Cost: a store; a second one in the unlock.
///
/// # Safety
///
/// It is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_note(lock: *mut CenoteRwlock, note: u64) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { held::note(lock, note) })
}

/// Who died with the lock before this thread got it. For a thread that was told EOWNERDEAD, as long as it has the lock.
///
/// Errors: ENOENT if nobody died; EPERM if this thread does not have the lock; EINVAL if a pointer is null; ESTALE in a
/// child of the process that opened the pool.
///
/// # Safety
///
/// The lock is null or open; there is room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_rwlock_former(lock: *mut CenoteRwlock, former: *mut CenoteFormer) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { held::former(lock, former) })
}
