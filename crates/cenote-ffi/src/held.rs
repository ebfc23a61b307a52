//! What locks of both kinds have in common: how they are taken and released, by the thread that calls.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cenote::Acquired;
use cenote_holds::{Access, Deadline, Lock, Refusal, Thread, Wait, Which, uncancelled, with};
use libc::timespec;

use crate::boundary::{given, put, text};
use crate::object::{Kind, give, look, take_back};
use crate::pool::CenotePool;
use crate::rwlock::CenoteFormer;

/// The number of the next lock that is opened.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A lock of a pool, as C has it open.
pub(crate) struct Open {
    number: u64,
    lock: Arc<Lock>,
}

/// An object of C's that is a lock.
pub(crate) trait Lockable: Kind + Sized {
    /// The lock.
    fn open(&self) -> &Open;
}

/// A name of C's.
///
/// # Safety
///
/// It is null, or ends with a zero and stays as it is during the call.
pub(crate) unsafe fn name<'n>(name: *const c_char) -> Result<&'n str, Refusal> {
    // SAFETY: as the caller says.
    let name: &CStr = unsafe { text(name) }?;
    name.to_str()
        .map_err(|_| Refusal::Invalid("the name is not UTF-8"))
}

/// Opens a lock, so that it is known whether that can be, and gives it to C. `object` is told what it covers.
///
/// # Safety
///
/// The pool is null or open; there is room for a pointer.
pub(crate) unsafe fn open<L: Lockable>(
    pool: *const CenotePool,
    which: impl FnOnce() -> Result<Which, Refusal>,
    lock: *mut *mut L,
    object: impl FnOnce(Open, Vec<u64>) -> L,
) -> Result<c_int, Refusal> {
    // SAFETY: as the caller says.
    let pool = unsafe {
        put(lock, std::ptr::null_mut())?;
        look(pool)?
    };
    let open = Open {
        number: NEXT.fetch_add(1, Ordering::Relaxed),
        lock: Arc::new(Lock::new(pool.pool.clone(), which()?)),
    };
    let lens = with(|thread| {
        thread.open(open.number, || open.lock.clone())?;
        Ok(thread.region_lens(open.number))
    })?;
    // SAFETY: as the caller says.
    unsafe { put(lock, give(object(open, lens))) }?;
    Ok(0)
}

/// Closes a lock, unless this thread has it.
///
/// # Safety
///
/// It is null, or open and used by no other thread.
pub(crate) unsafe fn close<L: Lockable>(lock: *mut L) -> Result<c_int, Refusal> {
    // SAFETY: as the caller says.
    let open = unsafe { look(lock) }?.open();
    let is_held = with(|thread| Ok(thread.holds(open.number)))?;
    if is_held && !open.lock.pool().is_forked() {
        return Err(Refusal::Busy);
    }
    // SAFETY: as the caller says.
    let object = unsafe { take_back(lock) }?;
    object.open().lock.close();
    uncancelled(|| {
        with(|thread| {
            thread.forget_closed();
            Ok(())
        })
    })?;
    Ok(0)
}

/// Takes a lock: 0, or `EOWNERDEAD`, with which it is taken, too. `wait` looks at the arguments; `then` is called with
/// the thread that has the lock.
///
/// # Safety
///
/// It is null or open.
#[inline]
pub(crate) unsafe fn acquire<L: Lockable>(
    lock: *const L,
    access: Access,
    wait: impl FnOnce(&L) -> Result<Wait, Refusal>,
    then: impl FnOnce(&L, &mut Thread, u64) -> Result<(), Refusal>,
) -> Result<c_int, Refusal> {
    // SAFETY: as the caller says.
    let object = unsafe { look(lock) }?;
    let (open, wait) = (object.open(), wait(object)?);
    with(|thread| {
        let acquired = thread.acquire(open.number, || open.lock.clone(), access, wait)?;
        if let Err(refusal) = then(object, thread, open.number) {
            thread.release(open.number)?;
            return Err(refusal);
        }
        Ok(match acquired {
            Acquired::Clean => 0,
            Acquired::Recovered { .. } => libc::EOWNERDEAD,
        })
    })
}

/// The moment that C means, by a clock.
///
/// # Safety
///
/// It is null or such a moment.
pub(crate) unsafe fn until(clock: c_int, at: *const timespec) -> Result<Wait, Refusal> {
    // SAFETY: as the caller says.
    let at = unsafe { given(at) }?.ok_or(Refusal::Invalid("the moment is null"))?;
    Ok(Wait::Until(Deadline::new(clock, at)?))
}

/// # Safety
///
/// The lock is null or open.
#[inline]
pub(crate) unsafe fn unlock<L: Lockable>(lock: *const L) -> Result<c_int, Refusal> {
    // SAFETY: as the caller says.
    let number = unsafe { look(lock) }?.open().number;
    with(|thread| thread.release(number))?;
    Ok(0)
}

/// # Safety
///
/// The lock is null or open.
pub(crate) unsafe fn consistent<L: Lockable>(lock: *const L) -> Result<c_int, Refusal> {
    // SAFETY: as the caller says.
    let number = unsafe { look(lock) }?.open().number;
    with(|thread| thread.mend(number))?;
    Ok(0)
}

/// # Safety
///
/// The lock is null or open.
pub(crate) unsafe fn note<L: Lockable>(lock: *const L, note: u64) -> Result<c_int, Refusal> {
    // SAFETY: as the caller says.
    let number = unsafe { look(lock) }?.open().number;
    with(|thread| thread.note(number, note))?;
    Ok(0)
}

/// # Safety
///
/// The lock is null or open; there is room for the answer, or it is null.
pub(crate) unsafe fn former<L: Lockable>(
    lock: *const L,
    former: *mut CenoteFormer,
) -> Result<c_int, Refusal> {
    // SAFETY: as the caller says.
    let number = unsafe { look(lock) }?.open().number;
    let Acquired::Recovered { from, note } = with(|thread| thread.acquired(number))? else {
        return Err(Refusal::Nobody);
    };
    let answer = CenoteFormer {
        note,
        worker: from.worker,
        generation: from.generation,
    };
    // SAFETY: as the caller says.
    unsafe { put(former, answer) }?;
    Ok(0)
}
