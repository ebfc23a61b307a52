//! The mutex that shows a thread's death. Only its futex word is in the pool.
//!
//! The kernel walks a list of mutexes when a thread ends, and the C library writes that list: both follow addresses
//! that stand in the mutex, after its futex word. A process that may write to the pool may write anything there. So the
//! mutex lies across the end of a page:
//!
//! ```text
//!  the page of the pool with the death slot, mapped once more │ a page of this process alone
//!  …… generation │ futex word, count (of 1)            │ owner, users, kind, list entry: the addresses
//! ```
//!
//! What another process does to the futex word can only make the death show too early or not at all, or make the C
//! library refuse to unlock. So before the library unlocks it, a page of this process replaces the shared one.
//!
//! Where a page cannot be mapped once more (a device, pages that are not of 4 KiB, a C library of another layout), the
//! whole mutex is in memory of the process, which alone sees the death of the thread, and recovers it.
//!
//! | a thread that ends | leaves |
//! |---|---|
//! | with its mutex locked | two pages of addresses, never used again; a private mutex for the next thread that registers in the death slot |
//! | between the last word in the pool and the unlocking | the same; nothing shows in the pool |
//!
//! Cost: four system calls for each worker that attaches and detaches.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::mapping::View;

/// The page size for which death slots lie at the end of pages.
const PAGE: usize = 4096;
/// Bytes of the mutex in the pool: its futex word, and a counter that the C library uses only for recursive mutexes.
const SHARED: usize = 8;

/// The mutex of a thread that is registered in a death slot.
#[derive(Clone, Copy, Debug)]
pub enum RobustMutex {
    /// Across a page of the pool and one of this process.
    Window(Window),
    /// In this process.
    Private(&'static PrivateSlot),
}

/// The page of a death slot, mapped once more, followed by a page of this process.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pages: *mut libc::c_void,
}

impl Window {
    /// Maps a page of the pool once more; `None` where that cannot be done.
    fn open(page: *mut u8) -> Option<Self> {
        // SAFETY: fresh pages of our own, wherever there is room.
        let pages = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if pages == libc::MAP_FAILED {
            return None;
        }
        // A length of 0: the page stays where it is, too.
        // SAFETY: replaces the first of the two pages, which nobody uses yet.
        let again = unsafe {
            libc::mremap(
                page.cast(),
                0,
                PAGE,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                pages,
            )
        };
        if again != pages {
            // The first page may be gone already, and another thread may have its address.
            // SAFETY: the second page is still this thread's alone.
            unsafe { libc::munmap(pages.wrapping_byte_add(PAGE), PAGE) };
            return None;
        }
        Some(Self { pages })
    }

    fn mutex(self) -> *mut libc::pthread_mutex_t {
        self.pages.wrapping_byte_add(PAGE - SHARED).cast()
    }

    /// Unlocks the mutex where no other process can reach it; the pool no longer refers to it. If unlocking fails, the
    /// mutex stays where its thread's list has it.
    fn close(self) {
        // SAFETY: replaces the first page of the window, which is this thread's alone.
        let own = unsafe {
            libc::mmap(
                self.pages,
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        // There may be no memory for that page. Then the word in the pool must do, if it is still there: only a hostile
        // process would write to it.
        // SAFETY: looks whether the page is mapped.
        if own != self.pages && unsafe { libc::msync(self.pages, PAGE, libc::MS_ASYNC) } != 0 {
            return;
        }
        // SAFETY: takes nothing and gives the id of the calling thread.
        let id = unsafe { libc::gettid() };
        // SAFETY: the futex word is in a page that is mapped and aligned; it is accessed atomically.
        unsafe { AtomicU32::from_ptr(self.mutex().cast()) }.store(id as u32, Ordering::SeqCst);
        // SAFETY: this thread has locked the mutex, and has not unlocked it.
        let unlocked = unsafe { libc::pthread_mutex_unlock(self.mutex()) };
        if unlocked == 0 {
            self.unmap();
        }
    }

    fn unmap(self) {
        // SAFETY: both pages were mapped by `open`, and nothing refers to them: no mutex there is locked.
        unsafe { libc::munmap(self.pages, 2 * PAGE) };
    }
}

/// A mutex in memory of this process, for the death slot of a mapping.
#[derive(Debug)]
pub struct PrivateSlot {
    next: *const PrivateSlot,
    is_taken: AtomicBool,
    mapping: AtomicU64,
    death_slot: AtomicU64,
    /// The generation that is registered there, and a bit that says so.
    generation: AtomicU64,
    mutex: UnsafeCell<libc::pthread_mutex_t>,
}

/// All private death slots that this process has ever used. They are never freed: threads' lists may still have them.
static PRIVATE: AtomicPtr<PrivateSlot> = AtomicPtr::new(std::ptr::null_mut());
/// Set in [`PrivateSlot::generation`] while a thread is registered there.
const REGISTERED: u64 = 1 << 32;

impl PrivateSlot {
    fn all() -> impl Iterator<Item = &'static PrivateSlot> {
        let mut at = PRIVATE.load(Ordering::Acquire).cast_const();
        std::iter::from_fn(move || {
            // SAFETY: what has been put into the list is complete and is never freed.
            let death_slot: &'static PrivateSlot = unsafe { at.as_ref() }?;
            at = death_slot.next;
            Some(death_slot)
        })
    }

    fn is_of(&self, view: &View, death_slot: u64) -> bool {
        self.mapping.load(Ordering::Relaxed) == view.number
            && self.death_slot.load(Ordering::Relaxed) == death_slot
    }

    fn futex(&self) -> &AtomicU32 {
        // SAFETY: the first word of the mutex, aligned; the kernel and the C library access it atomically.
        unsafe { &*self.mutex.get().cast::<AtomicU32>() }
    }

    fn is_dead(&self) -> bool {
        self.generation.load(Ordering::Acquire) & REGISTERED != 0
            && self.futex().load(Ordering::Acquire) & libc::FUTEX_OWNER_DIED != 0
    }

    /// The private slot for a death slot: that of a dead thread which was registered there, a free one, or a new one.
    fn take(view: &View, death_slot: u64) -> &'static PrivateSlot {
        // A thread that registers in a death slot has claimed it: no other thread takes one for the same death slot.
        let theirs = Self::all().find(|other| other.is_of(view, death_slot) && other.is_dead());
        let free = || Self::all().find(|other| !other.is_taken.swap(true, Ordering::AcqRel));
        let found = theirs.or_else(free);
        let found = found.unwrap_or_else(|| {
            // SAFETY: all zeroes is a mutex that nobody has locked.
            let mutex = unsafe { std::mem::zeroed() };
            let new = Box::leak(Box::new(PrivateSlot {
                next: PRIVATE.load(Ordering::Acquire),
                is_taken: AtomicBool::new(true),
                mapping: AtomicU64::new(0),
                death_slot: AtomicU64::new(0),
                generation: AtomicU64::new(0),
                mutex: UnsafeCell::new(mutex),
            }));
            while let Err(first) =
                PRIVATE.compare_exchange(new.next.cast_mut(), new, Ordering::AcqRel, Ordering::Acquire)
            {
                new.next = first;
            }
            new
        });
        found.generation.store(0, Ordering::Release);
        found.mapping.store(view.number, Ordering::Relaxed);
        found.death_slot.store(death_slot, Ordering::Relaxed);
        found
    }

    /// Whether the thread that registered in a death slot under a generation, in a private mutex, has died.
    pub(super) fn shows_death(view: &View, death_slot: u64, generation: u32) -> bool {
        Self::all().any(|private| {
            private.generation.load(Ordering::Acquire) == REGISTERED | u64::from(generation)
                && private.is_of(view, death_slot)
                && private.is_dead()
        })
    }
}

impl RobustMutex {
    /// Locks a mutex for a death slot in a page of the mapping. The death slot belongs to the calling thread; nothing
    /// that stands in it is trusted.
    pub(super) fn lock(view: &View, death_slot: u64, page: *mut u8, generation: u32) -> Option<Self> {
        // SAFETY: takes a number and gives one.
        let is_page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } == PAGE as libc::c_long;
        let can_share = cfg!(target_env = "gnu") && is_page && view.has_pages;
        if let Some(window) = can_share.then(|| Window::open(page)).flatten() {
            if lock(window.mutex()) {
                return Some(Self::Window(window));
            }
            window.unmap();
            return None;
        }
        let private = PrivateSlot::take(view, death_slot);
        if !lock(private.mutex.get()) {
            private.is_taken.store(false, Ordering::Release);
            return None;
        }
        private
            .generation
            .store(REGISTERED | u64::from(generation), Ordering::Release);
        Some(Self::Private(private))
    }

    /// Unlocks it, in the thread that has locked it.
    pub(super) fn unlock(self) {
        match self {
            Self::Window(window) => window.close(),
            Self::Private(private) => {
                private.generation.store(0, Ordering::Release);
                // SAFETY: this thread has locked it; nobody else writes to it.
                unsafe { libc::pthread_mutex_unlock(private.mutex.get()) };
                private.is_taken.store(false, Ordering::Release);
            }
        }
    }
}

// SAFETY: all fields but the mutex are atomic or never change; the mutex belongs to who has taken the death slot, and
// is else accessed by its futex word alone, atomically.
unsafe impl Sync for PrivateSlot {}

/// Makes a robust mutex and locks it; `false` if that is impossible. It returns whatever the pool's part holds.
fn lock(mutex: *mut libc::pthread_mutex_t) -> bool {
    // SAFETY: the attributes are a local value that is initialised before it is used; the mutex is valid for writes, in
    // no thread's list, and the caller's alone but for its futex word. It is not unmapped before it is unlocked.
    unsafe {
        let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
        if libc::pthread_mutexattr_init(&mut attributes) != 0 {
            return false;
        }
        let is_made = libc::pthread_mutexattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED) == 0
            && libc::pthread_mutexattr_setrobust(&mut attributes, libc::PTHREAD_MUTEX_ROBUST) == 0
            && libc::pthread_mutex_init(mutex, &attributes) == 0;
        libc::pthread_mutexattr_destroy(&mut attributes);
        // Not `lock`: it would wait if another process wrote to the futex word just now.
        is_made
            && match libc::pthread_mutex_trylock(mutex) {
                0 => true,
                // Another process has written this into the futex word. The mutex is in the thread's list, like any of
                // its own.
                libc::EOWNERDEAD => {
                    libc::pthread_mutex_consistent(mutex);
                    true
                }
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::super::kernel::{DeathSlot, Kernel};
    use super::super::mapping::Mapping;
    use super::*;

    const DEATH_SLOT: u64 = PAGE as u64 - 8;
    // SAFETY: the test has the mapping for itself.
    const SLOT: DeathSlot = unsafe { DeathSlot::at(DEATH_SLOT) };

    fn eventually(what: &str, is_so: impl Fn() -> bool) {
        let begun = std::time::Instant::now();
        while !is_so() {
            assert!(begun.elapsed().as_secs() < 60, "{what} does not come");
            std::thread::yield_now();
        }
    }

    fn of_file() -> (tempfile::TempDir, Mapping) {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = folder.path().join("pool");
        std::fs::write(&file, vec![0; 2 * PAGE]).unwrap();
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(file)
            .unwrap();
        let mapping = Mapping::of_file(file, 2 * PAGE as u64).unwrap();
        (folder, mapping)
    }

    /// A thread registers, dies, and another registers in its death slot.
    fn shows_deaths(mapping: &Mapping, is_shown: bool) {
        let view = mapping.view();
        let (registered, lain) = channel();
        let (die, dies) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // SAFETY: nobody else uses the death slot.
                let registration = unsafe { view.register(SLOT, 5) };
                registered.send(registration.0.is_some()).unwrap();
                let _ = dies.recv();
            });
            assert!(lain.recv().unwrap());
            assert!(!view.has_died(SLOT, 5));
            assert_eq!(view.is_shown(SLOT, 5), is_shown);
            die.send(()).unwrap();
            eventually("its death", || view.has_died(SLOT, 5));
            assert!(!view.has_died(SLOT, 4) && !view.has_died(SLOT, 6));
        });
        // SAFETY: nobody else uses the death slot.
        let registration = unsafe { view.register(SLOT, 6) };
        assert!(!view.has_died(SLOT, 5) && !view.has_died(SLOT, 6));
        // SAFETY: registered above, by this thread.
        unsafe { view.unregister(SLOT, registration) };
        assert!(!view.is_shown(SLOT, 6) && !view.has_died(SLOT, 6));
    }

    /// The kernel maps no private page twice.
    #[test]
    fn a_page_that_cannot_be_mapped_again_has_no_window() {
        // SAFETY: a fresh page, which is unmapped below and used by nobody.
        let page = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), PAGE, libc::PROT_READ, flags, -1, 0)
        };
        assert_ne!(page, libc::MAP_FAILED);
        assert!(Window::open(page.cast()).is_none());
        // SAFETY: the page from above.
        assert_eq!(unsafe { libc::munmap(page, PAGE) }, 0);
    }

    #[test]
    fn a_death_shows_through_a_window_and_in_a_private_death_slot() {
        let (_folder, mapping) = of_file();
        shows_deaths(&mapping, true);
        let other = Mapping::anonymous(2 * PAGE as u64).unwrap();
        shows_deaths(&other, false);
        // One mapping's mutexes say nothing of another's.
        shows_deaths(&Mapping::anonymous(2 * PAGE as u64).unwrap(), false);
    }

    #[test]
    fn nothing_but_a_number_and_a_generation_is_in_the_pool() {
        let (_folder, mapping) = of_file();
        let view = mapping.view();
        // SAFETY: nobody else uses the death slot.
        let registration = unsafe { view.register(SLOT, 7) };
        assert!(matches!(registration.0, Some(RobustMutex::Window(_))));
        // SAFETY: takes nothing and gives the id of the calling thread.
        let id = unsafe { libc::gettid() } as u64;
        for at in (0..2 * PAGE as u64).step_by(8) {
            let expected = match at {
                // The second word counts how often it is locked.
                DEATH_SLOT => id | 1 << 32,
                at if at == DEATH_SLOT - 8 => REGISTERED | 7,
                _ => 0,
            };
            assert_eq!(view.word(at).load(Ordering::Relaxed), expected, "{at:#x}");
        }
        // SAFETY: registered above, by this thread.
        unsafe { view.unregister(SLOT, registration) };
        assert_eq!(view.word(DEATH_SLOT).load(Ordering::Relaxed), 0);
    }

    #[test]
    fn whatever_others_write_a_thread_gets_up_and_its_list_stays_sound() {
        let (_folder, mapping) = of_file();
        let view = mapping.view();
        for word in [
            0,
            1,
            u64::MAX,
            0x4141_4141_4141_4141,
            u64::from(libc::FUTEX_OWNER_DIED),
        ] {
            // SAFETY: nobody else uses the death slot.
            let registration = unsafe { view.register(SLOT, 8) };
            for at in (0..2 * PAGE as u64).step_by(8) {
                view.word(at).store(word, Ordering::Relaxed);
            }
            // SAFETY: registered above, by this thread.
            unsafe { view.unregister(SLOT, registration) };
            // A mutex of the user's joins the list and leaves it; another death slot too.
            let own = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
            assert!(lock(own.get()));
            // SAFETY: nobody else uses the death slot.
            let second = unsafe { view.register(SLOT, 9) };
            // SAFETY: locked above, by this thread.
            assert_eq!(unsafe { libc::pthread_mutex_unlock(own.get()) }, 0);
            // SAFETY: registered above, by this thread.
            unsafe { view.unregister(SLOT, second) };
        }
    }

    #[test]
    fn a_death_slot_that_is_written_to_while_one_lies_down_makes_nobody_wait() {
        let (_folder, mapping) = of_file();
        let view = mapping.view();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut word = 1u64;
                while !is_over.load(Ordering::Relaxed) {
                    word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    view.word(DEATH_SLOT).store(word, Ordering::Relaxed);
                }
            });
            for generation in 0..2000 {
                // SAFETY: nobody else uses the death slot.
                let registration = unsafe { view.register(SLOT, generation) };
                // SAFETY: registered above, by this thread.
                unsafe { view.unregister(SLOT, registration) };
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
