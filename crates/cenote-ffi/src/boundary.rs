//! What crosses to C: values of `errno`, the text of a thread's last error, and no panic.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cenote_holds::{Refusal, uncancelled};

/// Bytes of the text, with the zero at its end.
const TEXT_MAX: usize = 1024;

thread_local! {
    // Has no destructor, so that C can read it as long as the thread runs.
    static TEXT: UnsafeCell<[u8; TEXT_MAX]> = const { UnsafeCell::new([0; TEXT_MAX]) };
}

/// The text of this thread's last error; empty if it had none. It is the caller's until this thread's next call that
/// fails.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_last_error() -> *const c_char {
    TEXT.with(|text| text.get().cast::<c_char>().cast_const())
}

fn keep(error: &str) {
    let most = error.len().min(TEXT_MAX - 1);
    let fits = (0..=most)
        .rev()
        .find(|&at| error.is_char_boundary(at))
        .unwrap_or(0);
    TEXT.with(|text| {
        // SAFETY: only this thread has the text, and C may not read it during a call that fails.
        let text = unsafe { &mut *text.get() };
        text[..fits].copy_from_slice(&error.as_bytes()[..fits]);
        text[fits] = 0;
    });
}

/// Runs a call of C's. Its value is 0, what the call returns, or the `errno` of what refused it; a panic is
/// `ENOTRECOVERABLE`.
pub(crate) fn run(call: impl FnOnce() -> Result<c_int, Refusal>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => value,
        Ok(Err(refusal)) => {
            keep(&refusal.to_string());
            refusal.errno()
        }
        Err(_) => {
            keep("a defect of this library: the call panicked; standard error has the place");
            libc::ENOTRECOVERABLE
        }
    }
}

/// The same for calls that open and close things.
pub(crate) fn run_slowly(call: impl FnOnce() -> Result<c_int, Refusal>) -> c_int {
    uncancelled(|| run(call))
}

/// A text of C's.
///
/// # Safety
///
/// It is null, or ends with a zero and stays as it is during the call.
pub(crate) unsafe fn text<'t>(text: *const c_char) -> Result<&'t CStr, Refusal> {
    if text.is_null() {
        return Err(Refusal::Invalid("a text is null"));
    }
    // SAFETY: as the caller says.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Something of C's to read; `None` if it is null.
///
/// # Safety
///
/// It is null, or it is such a value and stays as it is during the call.
pub(crate) unsafe fn given<'g, T>(given: *const T) -> Result<Option<&'g T>, Refusal> {
    if !given.is_aligned() {
        return Err(Refusal::Invalid("a pointer is not aligned"));
    }
    // SAFETY: as the caller says.
    Ok(unsafe { given.as_ref() })
}

/// Writes a result to where C wants it.
///
/// # Safety
///
/// It is null, or there is room for such a value.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Refusal> {
    if to.is_null() || !to.is_aligned() {
        return Err(Refusal::Invalid("there is nowhere to put the result"));
    }
    // SAFETY: as the caller says.
    unsafe { to.write(value) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: this thread does not fail meanwhile.
        unsafe { CStr::from_ptr(cenote_last_error()) }
            .to_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn a_panic_ends_at_the_boundary() {
        assert_eq!(last(), "");
        assert_eq!(run(|| panic!("planted")), libc::ENOTRECOVERABLE);
        assert!(last().contains("panicked"));
        assert_eq!(run(|| Err(Refusal::Busy)), libc::EBUSY);
        assert_eq!(last(), "others have the lock");
        assert_eq!(run(|| Ok(libc::EOWNERDEAD)), libc::EOWNERDEAD);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        keep(&"é".repeat(TEXT_MAX));
        assert_eq!(last().chars().count(), (TEXT_MAX - 1) / 2);
    }
}
