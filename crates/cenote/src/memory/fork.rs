//! `fork`: a child must never act under its parent's identity.
//!
//! Two mechanisms. A page that the kernel wipes in every child (`MADV_WIPEONFORK`) tells a child, also one made
//! by a raw system call, that it is one: [`forked`] is a single load. And a handler that runs in children of
//! `fork` closes the descriptors that hold liveness locks, so that a child that outlives its parent does not
//! keep it alive in the eyes of others.
//!
//! Another thread may fork at any instruction. So nothing here is locked, as a lock that is taken then stays taken in
//! the child; and `fork` waits while a thread opens or closes such a descriptor ([`without_forks`]), as the child would
//! have one that no table names.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::MappingError;

/// The page in use: its first byte is 1 in the process that made it and 0 in every child. A child that opens a pool of
/// its own makes another.
static CANARY: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// Whether the fork handlers are installed; children inherit handlers.
static HANDLED: AtomicBool = AtomicBool::new(false);

/// Descriptors that a forked child closes. Fixed, as a fork handler must not allocate. A pool has up to three: so many
/// pools as can be mapped have room.
const SLOTS: usize = 4096;
static DESCRIPTORS: [AtomicI32; SLOTS] = [const { AtomicI32::new(FREE) }; SLOTS];
const FREE: i32 = -1;
/// A slot of which the file is not known yet.
const TAKEN: i32 = -2;
/// The files that they lead to, by device and inode: other code of the process may have closed one, and its number may
/// be another file's.
static FILES: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
/// No slot from here on was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Threads that keep others from forking, and, times [`FORKING`], threads that fork.
static GATE: AtomicU32 = AtomicU32::new(0);
const FORKING: u32 = 1 << 16;
/// The longest wait at the gate, should one who has to leave it never do so: a signal handler that forks, for example.
const LONGEST: Duration = Duration::from_millis(100);

/// Waits until the gate is as wanted, or for as long as one waits at most.
fn wait_for(is: impl Fn(u32) -> bool) {
    if is(GATE.load(Ordering::SeqCst)) {
        return;
    }
    let begun = Instant::now();
    while !is(GATE.load(Ordering::SeqCst)) && begun.elapsed() < LONGEST {
        std::thread::yield_now();
    }
}

extern "C" fn before_fork() {
    GATE.fetch_add(FORKING, Ordering::SeqCst);
    wait_for(|gate| gate % FORKING == 0);
}

extern "C" fn in_parent() {
    GATE.fetch_sub(FORKING, Ordering::SeqCst);
}

extern "C" fn in_child() {
    // Nobody else is here.
    GATE.store(0, Ordering::SeqCst);
    let used = USED.load(Ordering::Acquire).min(SLOTS);
    for (slot, file) in DESCRIPTORS[..used].iter().zip(&FILES) {
        let descriptor = slot.swap(FREE, Ordering::AcqRel);
        if descriptor >= 0 && file_of(descriptor) == Some(file.load(Ordering::Acquire)) {
            // SAFETY: the descriptor was registered by its owner, which in this child will never use it again:
            // every operation asks `forked` first.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// The file of a descriptor, in a word. Callable between `fork` and `exec`.
fn file_of(descriptor: i32) -> Option<u64> {
    // SAFETY: `stat` is plain data for which all zeroes is a valid value.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a plain system call that fills in a structure of ours.
    let known = unsafe { libc::fstat(descriptor, &mut found) } == 0;
    known.then(|| found.st_dev.rotate_left(40) ^ found.st_ino)
}

/// While it lives no other thread forks, by the function of that name. Not to be had twice by a thread at a time: each
/// would wait for a fork that waits for it.
#[derive(Debug)]
pub struct WithoutForks(());

/// For as long as it takes to open or close a descriptor that children must not have.
pub fn without_forks() -> WithoutForks {
    loop {
        wait_for(|gate| gate < FORKING);
        if GATE.fetch_add(1, Ordering::SeqCst) < FORKING {
            return WithoutForks(());
        }
        // A fork came first: it does not wait for this one.
        GATE.fetch_sub(1, Ordering::SeqCst);
        std::thread::yield_now();
    }
}

impl Drop for WithoutForks {
    fn drop(&mut self) {
        GATE.fetch_sub(1, Ordering::SeqCst);
    }
}

fn make_canary() -> io::Result<*mut u8> {
    // SAFETY: a fresh anonymous page of our own; the handlers are plain functions that live for ever.
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
        Ok(page.cast())
    }
}

/// Installs the handlers, once.
fn handle_forks() -> io::Result<()> {
    if HANDLED.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    // SAFETY: plain functions that live for ever.
    match unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) } {
        0 => Ok(()),
        error => {
            HANDLED.store(false, Ordering::Release);
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

/// Starts to watch for forks; a process must call it before it opens a pool.
pub fn watch_fork() -> Result<ForkWatch, MappingError> {
    let known = CANARY.load(Ordering::Acquire);
    if !known.is_null() && !forked(ForkWatch(known)) {
        return Ok(ForkWatch(known));
    }
    let watching = |source| MappingError::Os {
        what: "watching for forks",
        source,
    };
    handle_forks().map_err(watching)?;
    let page = make_canary().map_err(watching)?;
    match CANARY.compare_exchange(known, page, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(ForkWatch(page)),
        Err(others) => {
            // SAFETY: a page of our own that nobody else knows.
            unsafe { libc::munmap(page.cast(), 4096) };
            Ok(ForkWatch(others))
        }
    }
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

/// Has a descriptor closed in forked children, until the returned value is dropped. An error if the table is full: a
/// child would keep the descriptor's locks, and its parent alive in the eyes of others.
pub fn on_fork_close(descriptor: i32) -> Result<CloseOnFork, MappingError> {
    let slot = take_slot(&DESCRIPTORS, &USED)?;
    FILES[slot].store(file_of(descriptor).unwrap_or(0), Ordering::Release);
    DESCRIPTORS[slot].store(descriptor, Ordering::Release);
    Ok(CloseOnFork(Some(slot)))
}

fn take_slot(table: &[AtomicI32], used: &AtomicUsize) -> Result<usize, MappingError> {
    let free = (0..table.len()).find(|&n| {
        // A child looks at a slot before it is used.
        used.fetch_max(n + 1, Ordering::AcqRel);
        table[n]
            .compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    });
    free.ok_or(MappingError::TooMany {
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
            DESCRIPTORS[index].store(FREE, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_opens_while_a_thread_forks() {
        before_fork();
        let opened = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let opener = scope.spawn(|| {
                let _gate = without_forks();
                opened.store(true, Ordering::SeqCst);
            });
            for _ in 0..100 {
                std::thread::yield_now();
                assert!(!opened.load(Ordering::SeqCst));
            }
            in_parent();
            opener.join().unwrap();
        });
        assert!(opened.load(Ordering::SeqCst));
    }

    #[test]
    fn a_full_table_is_an_error_until_a_descriptor_leaves() {
        let (table, used) = ([const { AtomicI32::new(FREE) }; 2], AtomicUsize::new(0));
        let take = || take_slot(&table, &used);
        assert_eq!([take().unwrap(), take().unwrap()], [0, 1]);
        assert_eq!(used.load(Ordering::Relaxed), 2);
        let refused = take().unwrap_err();
        assert!(
            matches!(refused, MappingError::TooMany { limit: 2, .. })
                && refused.to_string().contains("close pools"),
            "{refused}"
        );
        table[1].store(FREE, Ordering::Release);
        assert_eq!(take().unwrap(), 1);
    }
}
