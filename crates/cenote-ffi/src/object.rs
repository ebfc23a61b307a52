//! Objects that C has pointers to. A word in each says what it is, so that a null, a foreign or a closed one is mostly
//! noticed.
#![allow(clippy::disallowed_types)] // words of the process, not of a pool

use std::sync::atomic::{AtomicU64, Ordering};

use cenote_holds::Refusal;

/// What kind of object a pointer leads to.
pub(crate) trait Kind {
    /// Its word.
    const MAGIC: u64;
    /// Said of a pointer to anything else.
    const NOT_ONE: &'static str;

    /// Where the word is.
    fn magic(&self) -> &AtomicU64;
}

/// Gives an object to C.
pub(crate) fn give<T: Kind>(object: T) -> *mut T {
    object.magic().store(T::MAGIC, Ordering::Relaxed);
    Box::into_raw(Box::new(object))
}

/// The object that C means.
///
/// # Safety
///
/// It is null, or `give` has made it, and it is not closed before the reference is used last.
pub(crate) unsafe fn look<'o, T: Kind>(object: *const T) -> Result<&'o T, Refusal> {
    if object.is_null() || !object.is_aligned() {
        return Err(Refusal::Invalid(T::NOT_ONE));
    }
    // SAFETY: as the caller says.
    let object = unsafe { &*object };
    match object.magic().load(Ordering::Relaxed) == T::MAGIC {
        true => Ok(object),
        false => Err(Refusal::Invalid(T::NOT_ONE)),
    }
}

/// Takes an object back from C.
///
/// # Safety
///
/// As for `look`; and nobody uses it any more.
pub(crate) unsafe fn take_back<T: Kind>(object: *mut T) -> Result<Box<T>, Refusal> {
    // SAFETY: as the caller says.
    unsafe { look(object) }?.magic().store(0, Ordering::Relaxed);
    // SAFETY: `give` made it of a box, and the caller says that nobody uses it.
    Ok(unsafe { Box::from_raw(object) })
}
