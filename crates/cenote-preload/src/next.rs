//! libc's functions, which ours hide: found once each, by the dynamic linker.
#![allow(clippy::disallowed_types)] // addresses of functions, no words of a pool

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{clockid_t, dlsym, pthread_rwlock_t, pthread_rwlockattr_t, timespec};

/// A function of libc's.
pub struct Next {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        let at = AtomicPtr::new(null_mut());
        Self { name, at }
    }

    #[inline]
    fn find(&self) -> *mut c_void {
        let at = self.at.load(Ordering::Relaxed);
        match at.is_null() {
            true => self.look_up(),
            false => at,
        }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: the name ends with a zero.
        let at = unsafe { dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.at.store(at, Ordering::Relaxed);
        at
    }
}

macro_rules! next {
    ($(#[doc = $doc:literal] $name:ident as $text:literal ( $($argument:ident : $type:ty),* ))*) => { $(
        #[doc = $doc]
        ///
        /// # Safety
        ///
        /// That of the function; `ENOSYS` where libc has none.
        #[inline]
        pub unsafe fn $name($($argument: $type),*) -> c_int {
            static NEXT: Next = Next::new($text);
            let at = NEXT.find();
            if at.is_null() {
                return libc::ENOSYS;
            }
            // SAFETY: it is libc's function of that name, which has this type.
            let function: unsafe extern "C" fn($($type),*) -> c_int = unsafe { std::mem::transmute(at) };
            // SAFETY: as the caller says.
            unsafe { function($($argument),*) }
        }
    )* };
}

next! {
    /// `pthread_rwlock_init`.
    init as c"pthread_rwlock_init" (lock: *mut pthread_rwlock_t, attribute: *const pthread_rwlockattr_t)
    /// `pthread_rwlock_destroy`.
    destroy as c"pthread_rwlock_destroy" (lock: *mut pthread_rwlock_t)
    /// `pthread_rwlock_rdlock`.
    rdlock as c"pthread_rwlock_rdlock" (lock: *mut pthread_rwlock_t)
    /// `pthread_rwlock_wrlock`.
    wrlock as c"pthread_rwlock_wrlock" (lock: *mut pthread_rwlock_t)
    /// `pthread_rwlock_tryrdlock`.
    tryrdlock as c"pthread_rwlock_tryrdlock" (lock: *mut pthread_rwlock_t)
    /// `pthread_rwlock_trywrlock`.
    trywrlock as c"pthread_rwlock_trywrlock" (lock: *mut pthread_rwlock_t)
    /// `pthread_rwlock_timedrdlock`.
    timedrdlock as c"pthread_rwlock_timedrdlock" (lock: *mut pthread_rwlock_t, at: *const timespec)
    /// `pthread_rwlock_timedwrlock`.
    timedwrlock as c"pthread_rwlock_timedwrlock" (lock: *mut pthread_rwlock_t, at: *const timespec)
    /// `pthread_rwlock_clockrdlock`.
    clockrdlock as c"pthread_rwlock_clockrdlock" (lock: *mut pthread_rwlock_t, clock: clockid_t, at: *const timespec)
    /// `pthread_rwlock_clockwrlock`.
    clockwrlock as c"pthread_rwlock_clockwrlock" (lock: *mut pthread_rwlock_t, clock: clockid_t, at: *const timespec)
    /// `pthread_rwlock_unlock`.
    unlock as c"pthread_rwlock_unlock" (lock: *mut pthread_rwlock_t)
}
