//! Cancellation of threads. POSIX's reader-writer locks are not cancelled while they wait, nor are these: a
//! cancellation would unwind through frames of Rust's. It takes effect at the program's next point of cancellation.

use std::ffi::c_int;

/// `PTHREAD_CANCEL_DISABLE`, which the libc crate does not have.
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs a call within which this thread is not cancelled.
///
/// Cost: two calls of libc's, about 11 ns. So what neither waits nor calls the system is done without.
pub fn uncancelled<T>(call: impl FnOnce() -> T) -> T {
    struct Restore(c_int);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: sets what was set before; libc takes null for a result that nobody wants.
            unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
        }
    }
    let mut before = 0;
    // SAFETY: writes a variable of ours.
    unsafe { pthread_setcancelstate(DISABLE, &mut before) };
    let _restore = Restore(before);
    call()
}
