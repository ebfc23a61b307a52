//! `cenote_dlock_*`: directory locks, which cover regions of the pool and survive their owners.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::AtomicU64;

use cenote_holds::{Access, Refusal, Wait, Which};
use libc::timespec;

use crate::boundary::{put, run, run_slowly};
use crate::held::{self, Lockable, Open, until};
use crate::object::{Kind, look};
use crate::pool::CenotePool;
use crate::rwlock::CenoteFormer;

/// A directory lock of a pool: a reader-writer lock together with the regions of the pool that it covers.
pub struct CenoteDlock {
    magic: AtomicU64,
    open: Open,
    /// Bytes of each region.
    lens: Vec<u64>,
}

impl Kind for CenoteDlock {
    const MAGIC: u64 = u64::from_le_bytes(*b"cntdlck\x01");
    const NOT_ONE: &'static str = "the directory lock is null or closed";

    fn magic(&self) -> &AtomicU64 {
        &self.magic
    }
}

impl Lockable for CenoteDlock {
    fn open(&self) -> &Open {
        &self.open
    }
}

fn object(open: Open, lens: Vec<u64>) -> CenoteDlock {
    CenoteDlock {
        magic: AtomicU64::new(0),
        open,
        lens,
    }
}

/// The most regions of a lock.
const REGIONS_MAX: usize = 1024;

/// Lengths of regions.
///
/// # Safety
///
/// It is null, or there are so many.
unsafe fn lens_of(sizes: *const u64, count: usize) -> Result<Vec<u64>, Refusal> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if sizes.is_null() || !sizes.is_aligned() {
        return Err(Refusal::Invalid(
            "the sizes of the regions are null or not aligned",
        ));
    }
    if count > REGIONS_MAX {
        return Err(Refusal::Invalid("a directory lock covers 1,024 regions at most"));
    }
    // SAFETY: as the caller says.
    Ok(unsafe { std::slice::from_raw_parts(sizes, count) }.to_vec())
}

/// Opens the directory lock of a name.
///
/// Errors: ENOENT if there is none; EINVAL if the pool is null, the name is not UTF-8, too long or empty, or it names
/// something else; EAGAIN if the pool has no place for another thread; ESTALE in a child of the process that opened the
/// pool; EIO if the pool is damaged. The lock is null then.
///
/// Cost: that of cenote_rwlock_open.
///
/// # Safety
///
/// The pool is null or open; the name ends with a zero; there is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_open(
    pool: *const CenotePool,
    name: *const c_char,
    lock: *mut *mut CenoteDlock,
) -> c_int {
    // SAFETY: as the caller says, for all three pointers.
    run_slowly(|| unsafe {
        let which = || Ok(Which::Regions(held::name(name)?.to_owned()));
        held::open(pool, which, lock, object)
    })
}

/// Opens the directory lock of a name, and makes it if there is none: with so many regions of these sizes in bytes,
/// each at a multiple of 64, all zeroes. Each call gives an object of its own; a thread uses one of them.
///
/// Errors: EINVAL if the lock exists and covers other regions, if there are more than 1,024 or they have more than 2^40
/// bytes together; ENOMEM if the pool has no room for them; EAGAIN if it has none for another name; else those of
/// cenote_dlock_open. The lock is null then.
///
/// Cost: that of cenote_rwlock_open; if it is made, also that of writing its regions.
///
/// # Safety
///
/// The pool is null or open; the name ends with a zero; there are so many sizes; there is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_open_or_create(
    pool: *const CenotePool,
    name: *const c_char,
    sizes: *const u64,
    count: usize,
    lock: *mut *mut CenoteDlock,
) -> c_int {
    // SAFETY: as the caller says, for all four pointers.
    run_slowly(|| unsafe {
        let which = || {
            Ok(Which::RegionsOf(
                held::name(name)?.to_owned(),
                lens_of(sizes, count)?,
            ))
        };
        held::open(pool, which, lock, object)
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
pub unsafe extern "C" fn cenote_dlock_close(lock: *mut CenoteDlock) -> c_int {
    // SAFETY: as the caller says.
    run_slowly(|| unsafe { held::close(lock) })
}

/// How many regions a lock covers.
///
/// Errors: EINVAL if a pointer is null.
///
/// # Safety
///
/// The lock is null or open; there is room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_regions(lock: *const CenoteDlock, count: *mut usize) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe {
        put(count, look(lock)?.lens.len())?;
        Ok(0)
    })
}

/// How many bytes a region has. Regions are counted from 0.
///
/// Errors: EINVAL if a pointer is null, or there is no such region.
///
/// # Safety
///
/// The lock is null or open; there is room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_region_size(
    lock: *const CenoteDlock,
    region: usize,
    size: *mut u64,
) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe {
        let lens = &look(lock)?.lens;
        let len = lens.get(region).ok_or(Refusal::Invalid(TOO_MANY))?;
        put(size, *len)?;
        Ok(0)
    })
}

const TOO_MANY: &str = "the lock has not so many regions";

/// Takes a lock, and hands out where its first regions are.
///
/// # Safety
///
/// The lock is null or open; there is room for so many pointers.
#[inline]
unsafe fn acquire(
    lock: *const CenoteDlock,
    access: Access,
    wait: impl FnOnce() -> Result<Wait, Refusal>,
    (regions, count): (*mut *mut c_void, usize),
) -> Result<c_int, Refusal> {
    let check = |lock: &CenoteDlock| {
        if count > lock.lens.len() {
            return Err(Refusal::Invalid(TOO_MANY));
        }
        if count != 0 && (regions.is_null() || !regions.is_aligned()) {
            return Err(Refusal::Invalid("there is nowhere to put the regions"));
        }
        wait()
    };
    // SAFETY: as the caller says; there is room for `count` pointers, as was checked as far as it can be.
    unsafe {
        held::acquire(lock, access, check, |_, thread, number| {
            for region in 0..count {
                regions.add(region).write(thread.region(number, region)?.cast());
            }
            Ok(())
        })
    }
}

/// Takes the lock for reading, and hands out where its first `count` regions are. They are this thread's to read until
/// it unlocks. `count` may be 0, and then `regions` null. Waits while a living thread has the lock for writing. A
/// thread that reads may ask again, and must unlock as often.
///
/// Returns 0, or EOWNERDEAD: the lock is taken, but the last writer died with it, or left it inconsistent; the regions
/// may be half changed. All readers are told until a writer has repaired them.
///
/// Errors: EINVAL if the lock is null, has fewer regions, or `regions` is null; else those of cenote_rwlock_rdlock.
///
/// Cost: that of cenote_rwlock_rdlock, and about 11 ns in which the thread is not to be cancelled.
///
/// # Safety
///
/// The lock is null or open; there is room for so many pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_rdlock(
    lock: *mut CenoteDlock,
    regions: *mut *const c_void,
    count: usize,
) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Read, || Ok(Wait::Forever), (regions.cast(), count)) })
}

/// Takes the lock for writing, and hands out where its first `count` regions are. They are this thread's to read and to
/// change until it unlocks. `count` may be 0, and then `regions` null. Waits while a living thread has the lock.
///
/// Returns 0, or EOWNERDEAD: the lock is taken, but the last writer died with it, or left it inconsistent. Look at
/// cenote_dlock_former, repair the regions, and call cenote_dlock_consistent; or unlock, and the next is told the same.
///
/// Errors: those of cenote_dlock_rdlock, and EDEADLK if this thread has it.
///
/// Cost: that of cenote_rwlock_wrlock, and about 11 ns in which the thread is not to be cancelled.
///
/// # Safety
///
/// The lock is null or open; there is room for so many pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_wrlock(
    lock: *mut CenoteDlock,
    regions: *mut *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Write, || Ok(Wait::Forever), (regions, count)) })
}

/// cenote_dlock_rdlock if no living thread has it for writing.
///
/// Errors: EBUSY if one has, also this one; else those of cenote_dlock_rdlock.
///
/// # Safety
///
/// The lock is null or open; there is room for so many pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_tryrdlock(
    lock: *mut CenoteDlock,
    regions: *mut *const c_void,
    count: usize,
) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Read, || Ok(Wait::No), (regions.cast(), count)) })
}

/// cenote_dlock_wrlock if no living thread has it.
///
/// Errors: EBUSY if one has, also this one; else those of cenote_dlock_wrlock.
///
/// # Safety
///
/// The lock is null or open; there is room for so many pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_trywrlock(
    lock: *mut CenoteDlock,
    regions: *mut *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Write, || Ok(Wait::No), (regions, count)) })
}

/// cenote_dlock_rdlock that waits until a moment of CLOCK_REALTIME at most.
///
/// Errors: ETIMEDOUT if it came first; EINVAL if it is null or has not 0 to 999,999,999 nanoseconds; else those of
/// cenote_dlock_rdlock.
///
/// # Safety
///
/// The lock is null or open; the moment is null or one; there is room for so many pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_timedrdlock(
    lock: *mut CenoteDlock,
    at: *const timespec,
    regions: *mut *const c_void,
    count: usize,
) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe {
        acquire(
            lock,
            Access::Read,
            || until(libc::CLOCK_REALTIME, at),
            (regions.cast(), count),
        )
    })
}

/// cenote_dlock_wrlock that waits until a moment of CLOCK_REALTIME at most.
///
/// Errors: ETIMEDOUT if it came first; EINVAL if it is null or has not 0 to 999,999,999 nanoseconds; else those of
/// cenote_dlock_wrlock.
///
/// # Safety
///
/// The lock is null or open; the moment is null or one; there is room for so many pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_timedwrlock(
    lock: *mut CenoteDlock,
    at: *const timespec,
    regions: *mut *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe {
        acquire(
            lock,
            Access::Write,
            || until(libc::CLOCK_REALTIME, at),
            (regions, count),
        )
    })
}

/// cenote_dlock_rdlock that waits until a moment of a clock at most: CLOCK_REALTIME or CLOCK_MONOTONIC.
///
/// Errors: EINVAL if the clock is another one; else those of cenote_dlock_timedrdlock.
///
/// # Safety
///
/// The lock is null or open; the moment is null or one; there is room for so many pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_clockrdlock(
    lock: *mut CenoteDlock,
    clock: c_int,
    at: *const timespec,
    regions: *mut *const c_void,
    count: usize,
) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Read, || until(clock, at), (regions.cast(), count)) })
}

/// cenote_dlock_wrlock that waits until a moment of a clock at most: CLOCK_REALTIME or CLOCK_MONOTONIC.
///
/// Errors: EINVAL if the clock is another one; else those of cenote_dlock_timedwrlock.
///
/// # Safety
///
/// The lock is null or open; the moment is null or one; there is room for so many pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_clockwrlock(
    lock: *mut CenoteDlock,
    clock: c_int,
    at: *const timespec,
    regions: *mut *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { acquire(lock, Access::Write, || until(clock, at), (regions, count)) })
}

/// Releases one hold of this thread, whose pointers to the regions are void then. If it was told EOWNERDEAD, has the
/// lock for writing, and has not called cenote_dlock_consistent, the next one is told EOWNERDEAD as well, with the same
/// note. A thread that ends with the lock for writing leaves it as a death does.
///
/// Errors: EPERM if this thread does not have it; EINVAL if it is null; ESTALE in a child of the process that opened
/// the pool.
///
/// Cost: that of cenote_rwlock_unlock.
///
/// # Safety
///
/// It is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_unlock(lock: *mut CenoteDlock) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { held::unlock(lock) })
}

/// Says that the regions are whole again. For a writer that was told EOWNERDEAD.
///
/// Errors: EINVAL if this thread does not have it for writing after EOWNERDEAD, or it is null; EPERM if this thread
/// does not have it; ESTALE in a child of the process that opened the pool.
///
/// # Safety
///
/// It is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_dlock_consistent(lock: *mut CenoteDlock) -> c_int {
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
pub unsafe extern "C" fn cenote_dlock_note(lock: *mut CenoteDlock, note: u64) -> c_int {
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
pub unsafe extern "C" fn cenote_dlock_former(lock: *mut CenoteDlock, former: *mut CenoteFormer) -> c_int {
    // SAFETY: as the caller says.
    run(|| unsafe { held::former(lock, former) })
}
