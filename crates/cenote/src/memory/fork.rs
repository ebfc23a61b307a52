//! `fork`: a child must never act under its parent's identity.
//!
//! Two mechanisms. A page that the kernel wipes in every child (`MADV_WIPEONFORK`) tells a child, also one made
//! by a raw system call, that it is one: [`forked`] is a single load. And a handler that runs in children of
//! `fork` closes the descriptors that hold liveness locks, so that a child that outlives its parent does not
//! keep it alive in the eyes of others.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use super::MapError;

/// The page in use: its first byte is 1 in the process that made it and 0 in every child. A child that opens a pool of
/// its own makes another.
static CANARY: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// Whether the fork handler is installed; children inherit handlers.
static HANDLED: AtomicBool = AtomicBool::new(false);

/// Descriptors that a forked child closes; slots hold -1 when free. Fixed, as a fork handler must not allocate. A pool has up to three: so many
/// pools as can be mapped have room.
const SLOTS: usize = 4096;
static DESCRIPTORS: [AtomicI32; SLOTS] = [const { AtomicI32::new(-1) }; SLOTS];
static USED: AtomicUsize = AtomicUsize::new(0);
static SLOT_LOCK: Mutex<()> = Mutex::new(());

extern "C" fn in_child() {
    for slot in &DESCRIPTORS[..USED.load(Ordering::Acquire).min(SLOTS)] {
        let descriptor = slot.swap(-1, Ordering::AcqRel);
        if descriptor >= 0 {
            // SAFETY: the descriptor was registered by its owner, which in this child will never use it again:
            // every operation asks `forked` first.
            unsafe { libc::close(descriptor) };
        }
    }
}

fn make_canary() -> io::Result<*mut u8> {
    // SAFETY: a fresh anonymous page of our own; the handler is a plain function that lives for ever.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED || libc::madvise(page, 4096, libc::MADV_WIPEONFORK) != 0 {
            return Err(io::Error::last_os_error());
        }
        page.cast::<u8>().write(1);
        if !HANDLED.swap(true, Ordering::AcqRel) && libc::pthread_atfork(None, None, Some(in_child)) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(page.cast())
    }
}

/// Starts to watch for forks; a process must call it before it opens a pool.
pub fn watch_fork() -> Result<ForkWatch, MapError> {
    let _guard = SLOT_LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let current = ForkWatch(CANARY.load(Ordering::Acquire));
    if !current.0.is_null() && !forked(current) {
        return Ok(current);
    }
    let page = make_canary().map_err(|source| MapError::Os {
        what: "watching for forks",
        source,
    })?;
    CANARY.store(page, Ordering::Release);
    Ok(ForkWatch(page))
}

/// Shows whether this process is a child of the one that made it.
#[derive(Clone, Copy, Debug)]
pub struct ForkWatch(*const u8);

// SAFETY: the page is only ever read, and never unmapped.
unsafe impl Send for ForkWatch {}
// SAFETY: as for `Send`.
unsafe impl Sync for ForkWatch {}

/// Whether this process was forked off after `watch` was made.
#[inline]
pub fn forked(watch: ForkWatch) -> bool {
    // SAFETY: the page is mapped for the life of the process; volatile, because the kernel may change it.
    unsafe { watch.0.read_volatile() == 0 }
}

/// Has a descriptor closed in forked children, until the returned value is dropped. An error if the table is full: a child would keep the
/// descriptor's locks, and its parent alive in the eyes of others.
pub fn on_fork_close(descriptor: i32) -> Result<CloseOnFork, MapError> {
    let _guard = SLOT_LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let index = register(&DESCRIPTORS, descriptor)?;
    USED.fetch_max(index + 1, Ordering::AcqRel);
    Ok(CloseOnFork(Some(index)))
}

fn register(table: &[AtomicI32], descriptor: i32) -> Result<usize, MapError> {
    let free = table.iter().position(|slot| {
        slot.compare_exchange(-1, descriptor, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    });
    free.ok_or(MapError::TooMany {
        what: "files with liveness locks open",
        limit: table.len(),
    })
}

/// See [`on_fork_close`].
#[derive(Debug)]
pub struct CloseOnFork(Option<usize>);

impl CloseOnFork {
    /// For a descriptor that forked children have no copy of.
    pub fn unneeded() -> Self {
        Self(None)
    }
}

impl Drop for CloseOnFork {
    fn drop(&mut self) {
        if let Some(index) = self.0 {
            DESCRIPTORS[index].store(-1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_is_an_error_until_a_descriptor_leaves() {
        let table = [const { AtomicI32::new(-1) }; 2];
        assert_eq!(
            [register(&table, 7).unwrap(), register(&table, 8).unwrap()],
            [0, 1]
        );
        let refused = register(&table, 9).unwrap_err();
        assert!(
            matches!(refused, MapError::TooMany { limit: 2, .. })
                && refused.to_string().contains("close pools"),
            "{refused}"
        );
        table[1].store(-1, Ordering::Release);
        assert_eq!(register(&table, 9).unwrap(), 1);
    }
}
