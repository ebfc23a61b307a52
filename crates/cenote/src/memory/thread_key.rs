//! A pthread key with a destructor, made on first use.
//!
//! No thread waits for another to make it: in the child of a fork that other thread may not exist. If two threads make
//! one at the same time, the later one deletes its own.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// A key, made when it is first asked for, and never given back.
pub struct ThreadKey {
    /// The key plus one, or 0.
    key: AtomicU64,
    end: extern "C" fn(*mut libc::c_void),
}

impl ThreadKey {
    /// A key whose function is called in each thread that ends with a value under it, with that value.
    pub const fn new(end: extern "C" fn(*mut libc::c_void)) -> Self {
        Self {
            key: AtomicU64::new(0),
            end,
        }
    }

    /// The key, if it was made.
    pub fn known(&self) -> Option<libc::pthread_key_t> {
        let key = self.key.load(Ordering::Acquire).checked_sub(1)?;
        libc::pthread_key_t::try_from(key).ok()
    }

    /// The key. Fails if pthread has none left (`EAGAIN`).
    pub fn get(&self) -> io::Result<libc::pthread_key_t> {
        if let Some(key) = self.known() {
            return Ok(key);
        }
        let mut key = 0;
        // SAFETY: `key` is valid; the function takes what is set under it.
        match unsafe { libc::pthread_key_create(&mut key, Some(self.end)) } {
            0 => {}
            code => return Err(io::Error::from_raw_os_error(code)),
        }
        let made = u64::from(key) + 1;
        if self
            .key
            .compare_exchange(0, made, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            return Ok(key);
        }
        // SAFETY: another thread was faster; nobody else knows this key.
        unsafe { libc::pthread_key_delete(key) };
        self.known().ok_or_else(|| io::ErrorKind::Other.into())
    }
}
