//! The functions that are replaced. Each returns what POSIX says; what POSIX does not know is in the log.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cenote::{Acquired, Error};
use cenote_holds::{Access, Deadline, Refusal, Thread, Wait, uncancelled, with};
use libc::{clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};

use crate::mark::{self, Mark, Whose};
use crate::settings::{OwnerDead, settings};
use crate::state::{State, known, with_state};
use crate::{log, next, numbers};

/// Runs a call of the program's: no panic crosses to it, and what it could not know is written down.
fn run(call: impl FnOnce() -> Result<c_int, Refusal>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => value,
        Ok(Err(refusal)) => {
            // The others are answers that a program asks for.
            if matches!(
                refusal,
                Refusal::Pool(_) | Refusal::Exhausted(_) | Refusal::Invalid(_) | Refusal::Within
            ) {
                log::line(&refusal.to_string());
            }
            refusal.errno()
        }
        Err(_) => {
            log::line("a defect of this library: the call panicked; standard error has the place");
            libc::EINVAL
        }
    }
}

/// Refuses a lock that was destroyed.
#[cold]
fn destroyed() -> c_int {
    run(|| Err(Refusal::Invalid("the lock was destroyed")))
}

/// Refuses a lock that is in another pool.
#[inline]
fn check(mark: Mark, state: &State) -> Result<(), Refusal> {
    match state.id == mark.pool() {
        true => Ok(()),
        false => Err(Refusal::Invalid(
            "the lock is in another pool than CENOTE_POOL names",
        )),
    }
}

/// Takes a lock of ours.
#[inline]
fn acquire(mark: Mark, access: Access, wait: impl FnOnce() -> Result<Wait, Refusal>) -> c_int {
    run(|| {
        let (number, wait) = (mark.number(), wait()?);
        let acquired = with_state(|state| {
            check(mark, state)?;
            with(|thread| thread.acquire(number, || state.lock(number), access, wait))
        })?;
        match acquired {
            Acquired::Clean => Ok(0),
            acquired => succeed(number, access, acquired),
        }
    })
}

/// The lock's last owner has died: it is this thread's now.
#[cold]
fn succeed(number: u64, access: Access, acquired: Acquired) -> Result<c_int, Refusal> {
    let settings = settings();
    // Readers are told until somebody has written, each time; so that is written down for writers, and where it ends
    // something.
    if access == Access::Write || settings.owner_dead == OwnerDead::Abort {
        let who = match acquired {
            Acquired::Recovered { from, .. } => {
                format!("worker {}, generation {}", from.worker, from.generation)
            }
            Acquired::Clean => "nobody".to_owned(),
        };
        log::line(&format!(
            "lock {number}: its last owner ({who}) died while it was writing; what the lock protects may be half changed"
        ));
    }
    match settings.owner_dead {
        OwnerDead::Abort => std::process::abort(),
        _ if access == Access::Write => with(|thread| thread.mend(number))?,
        _ => {}
    }
    Ok(match settings.owner_dead {
        OwnerDead::Tell => libc::EOWNERDEAD,
        _ => 0,
    })
}

/// # Safety
///
/// It is null or an attribute.
unsafe fn is_shared(attribute: *const pthread_rwlockattr_t) -> bool {
    let mut shared = libc::PTHREAD_PROCESS_PRIVATE;
    // SAFETY: as the caller says.
    !attribute.is_null()
        && unsafe { libc::pthread_rwlockattr_getpshared(attribute, &mut shared) } == 0
        && shared == libc::PTHREAD_PROCESS_SHARED
}

/// Initialises a lock: as one of ours if it is process-shared, or `CENOTE_PRIVATE` says so; `EAGAIN` if none is left.
///
/// # Safety
///
/// That of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_init(
    lock: *mut pthread_rwlock_t,
    attribute: *const pthread_rwlockattr_t,
) -> c_int {
    let settings = settings();
    // SAFETY: as the caller says.
    let is_shared = unsafe { is_shared(attribute) };
    if settings.pool.is_none() || !(is_shared || settings.private) || !lock.is_aligned() || lock.is_null() {
        // SAFETY: as the caller says.
        return unsafe { next::init(lock, attribute) };
    }
    run(|| {
        with_state(|state| {
            let number = uncancelled(|| with(|thread| numbers::take(thread, state, !is_shared)))?;
            // SAFETY: as the caller says; it is neither null nor unaligned.
            unsafe { mark::put(lock, state.id, number) };
            Ok(0)
        })
    })
}

/// Ends a lock; `EBUSY` if a living thread has it.
///
/// # Safety
///
/// That of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_destroy(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: as the caller says.
    let mark = match unsafe { mark::of(lock) } {
        Whose::Ours(mark) => mark,
        Whose::Nobodys => return destroyed(),
        // SAFETY: as the caller says.
        Whose::Libcs => return unsafe { next::destroy(lock) },
    };
    run(|| {
        let number = u32::try_from(mark.number()).map_err(|_| Refusal::Invalid("the lock is damaged"))?;
        let destroy = |state: &'static State, thread: &mut Thread| {
            check(mark, state)?;
            if !numbers::is_free(thread, state, number)? {
                return Err(Refusal::Busy);
            }
            mark.clear();
            numbers::give_back(thread, state, number)?;
            Ok(0)
        };
        with_state(|state| uncancelled(|| with(|thread| destroy(state, thread))))
    })
}

macro_rules! lock_calls {
    ($(#[doc = $doc:literal] $name:ident, $next:ident, $access:ident, ($($argument:ident : $type:ty),*), $wait:expr;)*) => { $(
        #[doc = $doc]
        ///
        /// # Safety
        ///
        /// That of POSIX.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(lock: *mut pthread_rwlock_t $(, $argument: $type)*) -> c_int {
            // SAFETY: as the caller says.
            match unsafe { mark::of(lock) } {
                Whose::Ours(mark) => acquire(mark, Access::$access, || $wait),
                Whose::Nobodys => destroyed(),
                // SAFETY: as the caller says.
                Whose::Libcs => unsafe { next::$next(lock $(, $argument)*) },
            }
        }
    )* };
}

lock_calls! {
    /// Takes a lock for reading.
    pthread_rwlock_rdlock, rdlock, Read, (), Ok(Wait::Forever);
    /// Takes a lock for writing.
    pthread_rwlock_wrlock, wrlock, Write, (), Ok(Wait::Forever);
    /// Takes a lock for reading, without waiting.
    pthread_rwlock_tryrdlock, tryrdlock, Read, (), Ok(Wait::No);
    /// Takes a lock for writing, without waiting.
    pthread_rwlock_trywrlock, trywrlock, Write, (), Ok(Wait::No);
    /// Takes a lock for reading, until a moment of `CLOCK_REALTIME` at most.
    pthread_rwlock_timedrdlock, timedrdlock, Read, (at: *const timespec), until(libc::CLOCK_REALTIME, at);
    /// Takes a lock for writing, until a moment of `CLOCK_REALTIME` at most.
    pthread_rwlock_timedwrlock, timedwrlock, Write, (at: *const timespec), until(libc::CLOCK_REALTIME, at);
    /// Takes a lock for reading, until a moment of a clock at most.
    pthread_rwlock_clockrdlock, clockrdlock, Read, (clock: clockid_t, at: *const timespec), until(clock, at);
    /// Takes a lock for writing, until a moment of a clock at most.
    pthread_rwlock_clockwrlock, clockwrlock, Write, (clock: clockid_t, at: *const timespec), until(clock, at);
}

/// The moment that a program means. Called by the functions above, whose callers say that it is one.
fn until(clock: clockid_t, at: *const timespec) -> Result<Wait, Refusal> {
    if !at.is_aligned() {
        return Err(Refusal::Invalid("the moment is not aligned"));
    }
    // SAFETY: POSIX's timed calls are given a moment; this is called within them alone.
    let at = unsafe { at.as_ref() }.ok_or(Refusal::Invalid("the moment is null"))?;
    Ok(Wait::Until(Deadline::new(clock, at)?))
}

/// Releases a lock.
///
/// # Safety
///
/// That of POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: as the caller says.
    let mark = match unsafe { mark::of(lock) } {
        Whose::Ours(mark) => mark,
        Whose::Nobodys => return destroyed(),
        // SAFETY: as the caller says.
        Whose::Libcs => return unsafe { next::unlock(lock) },
    };
    run(|| {
        // Who has not opened the pool has no lock of it.
        let state = known().ok_or(Refusal::NotHeld)?;
        check(mark, state)?;
        let number = mark.number();
        match with(|thread| thread.release(number)) {
            Err(Refusal::Pool(Error::Forked)) => Err(Refusal::NotHeld),
            released => released.map(|()| 0),
        }
    })
}
