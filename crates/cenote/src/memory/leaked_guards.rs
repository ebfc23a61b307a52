//! References into a pool that a thread has leaked must stay good, also when the thread has ended.
//!
//! A lock takes a thread that has ended for dead, and gives what it had to the next owner. A program may have leaked a
//! guard together with the handle of its lock, and given the reference to another thread; then two threads would write
//! the same value. So a thread that still has guards when it ends waits for ever instead, in its last destructor: its
//! locks stay locked, as those of a leaked guard do in any library.

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::rc::Rc;

use super::thread_key::ThreadKey;

/// How many guards a handle has given that were not dropped, for the end of the thread. A handle that is dropped has
/// none: they borrow it.
#[derive(Debug)]
pub struct Guards(Rc<Cell<u32>>);

impl Guards {
    /// None.
    ///
    /// Errors: the process has as many keys of threads' data as it can have, or no memory.
    pub fn none() -> io::Result<Self> {
        let count = Rc::new(Cell::new(0));
        let mut counts = counts()?.borrow_mut();
        counts.retain(|count| Rc::strong_count(count) > 1);
        counts.push(count.clone());
        Ok(Self(count))
    }

    /// One more, until the result is dropped.
    #[inline]
    pub fn count(&self) -> Counted<'_> {
        self.0.set(self.0.get().saturating_add(1));
        Counted(&self.0)
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

/// A guard that counts.
#[derive(Debug)]
pub struct Counted<'h>(&'h Cell<u32>);

impl Drop for Counted<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

type Counts = RefCell<Vec<Rc<Cell<u32>>>>;

/// The key of each thread's counts. Its function runs after the destructors of `thread_local!`, which may hold guards.
static KEY: ThreadKey = ThreadKey::new(end);

/// The counts of this thread's handles.
fn counts<'t>() -> io::Result<&'t Counts> {
    let key = KEY.get()?;
    // SAFETY: the key is valid.
    let mut counts = unsafe { libc::pthread_getspecific(key) }.cast::<Counts>();
    if counts.is_null() {
        counts = Box::into_raw(Box::default());
        // SAFETY: the key is valid.
        let code = unsafe { libc::pthread_setspecific(key, counts.cast()) };
        if code != 0 {
            // SAFETY: from `into_raw`, a moment ago.
            drop(unsafe { Box::from_raw(counts) });
            return Err(io::Error::from_raw_os_error(code));
        }
    }
    // SAFETY: from `into_raw`, this thread's alone; freed at the end of the thread, after all that borrows it for the
    // call of one function.
    Ok(unsafe { &*counts })
}

/// The end of a thread.
extern "C" fn end(counts: *mut libc::c_void) {
    // SAFETY: this thread's, from `into_raw`; the system has set the key to null.
    let counts = unsafe { Box::from_raw(counts.cast::<Counts>()) };
    if counts.borrow().iter().any(|count| count.get() != 0) {
        // Nobody may read what it writes.
        let _ = writeln!(
            io::stderr(),
            "cenote: a thread that leaked a lock's guard has come to its end; it waits for ever, so that the lock stays locked"
        );
        loop {
            std::thread::park();
        }
    }
}
