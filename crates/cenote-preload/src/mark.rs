//! What a lock of ours has in the bytes of a `pthread_rwlock_t`: number, pool and, last, a mark in a word that libc
//! leaves 0.
//!
//! libc writes that word (`__pad2`) when it initialises a lock, and never again; the static initialiser has 0 there. So
//! no lock of libc's has the mark. A lock of ours that was destroyed has another one, until it is initialised again:
//! libc would take what is left in its bytes for a lock.
#![allow(clippy::disallowed_types)] // the program's memory, no pool

use std::sync::atomic::{AtomicU64, Ordering};

use libc::pthread_rwlock_t;

/// "CNTRWLK" and a version.
const MARK: u64 = u64::from_le_bytes(*b"CNTRWLK\x01");
/// The same of a lock that was destroyed.
const DESTROYED: u64 = u64::from_le_bytes(*b"CNTDEAD\x01");

#[repr(C)]
struct Words {
    number: AtomicU64,
    pool: AtomicU64,
    unused: [AtomicU64; 3],
    mark: AtomicU64,
    flags: AtomicU64,
}

const _: () = assert!(size_of::<Words>() == size_of::<pthread_rwlock_t>());
const _: () = assert!(align_of::<Words>() <= align_of::<pthread_rwlock_t>());

/// The words of a lock that has the mark.
#[derive(Clone, Copy)]
pub struct Mark<'l>(&'l Words);

/// Whose a lock is.
#[derive(Clone, Copy)]
pub enum Whose<'l> {
    /// Ours.
    Ours(Mark<'l>),
    /// Nobody's: it was ours, and was destroyed.
    Nobodys,
    /// libc's.
    Libcs,
}

/// Whose a lock is. A pointer that is null or not aligned is libc's to judge.
///
/// # Safety
///
/// It is null or points to a lock, which stays where it is during the call that it is for.
#[inline]
pub unsafe fn of<'l>(lock: *const pthread_rwlock_t) -> Whose<'l> {
    let words = lock.cast::<Words>();
    if !words.is_aligned() {
        return Whose::Libcs;
    }
    // SAFETY: as the caller says; both types have the same size, and the words may be anything.
    match unsafe { words.as_ref() } {
        Some(words) => match words.mark.load(Ordering::Acquire) {
            MARK => Whose::Ours(Mark(words)),
            DESTROYED => Whose::Nobodys,
            _ => Whose::Libcs,
        },
        None => Whose::Libcs,
    }
}

/// Makes a lock ours.
///
/// # Safety
///
/// It points to room for a lock, which nobody uses yet, at a multiple of 8.
pub unsafe fn put(lock: *mut pthread_rwlock_t, pool: u64, number: u32) {
    // SAFETY: as the caller says.
    let words = unsafe { &*lock.cast::<Words>() };
    words.number.store(number.into(), Ordering::Relaxed);
    words.pool.store(pool, Ordering::Relaxed);
    for word in &words.unused {
        word.store(0, Ordering::Relaxed);
    }
    words.flags.store(0, Ordering::Relaxed);
    words.mark.store(MARK, Ordering::Release);
}

impl Mark<'_> {
    /// Its number in the array.
    #[inline]
    pub fn number(self) -> u64 {
        self.0.number.load(Ordering::Relaxed)
    }

    /// The pool that it is in, by its random number.
    #[inline]
    pub fn pool(self) -> u64 {
        self.0.pool.load(Ordering::Relaxed)
    }

    /// Ends the lock: it is nobody's, until it is initialised again.
    pub fn clear(self) {
        self.0.mark.store(DESTROYED, Ordering::Release);
    }
}
