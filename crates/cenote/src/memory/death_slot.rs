//! Death slots and event counts on Linux: a robust mutex for each thread, and futexes.
//!
//! Each thread locks a robust mutex and keeps it locked ([`robust_mutex`](super::robust_mutex) has the details); the
//! mutex's futex word is the thread's death slot. When the thread ends, however it ends, the kernel walks the list of
//! its robust mutexes (`robust_list(7)`), sets the owner-died bit in each and wakes one waiter. It does so before it
//! tears down the address space: some microseconds after the death, however much was mapped. It drops locks of files
//! after that.
//!
//! | word | what | who writes it |
//! |---|---|---|
//! | the death slot | low half: the futex word | the owner; the kernel when it dies; watchers set the waiters bit |
//! | the word before it | the generation that is registered here, and a bit that says so | the owner |
//!
//! The futex word holds the owner's thread id in its own namespace. Nobody interprets the id: readers check only
//! whether the word is zero, and its two highest bits.
//!
//! **Order.** The owner writes the generation after it has locked the mutex; a reader reads the generation first. So an
//! owner-died bit that an earlier owner has left is never taken for a later one's.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::kernel::{DeathSlot, Kernel, Registration, SLEEPS_BY_MAX};
use super::kill::mapped_at_address;
use super::mapping::View;
use super::robust_mutex::{PrivateSlot, RobustMutex};

/// The bit that the kernel sets when the owner has died.
const OWNER_DIED: u32 = libc::FUTEX_OWNER_DIED;
/// The bit that tells the kernel to wake a waiter.
const WAITERS: u32 = libc::FUTEX_WAITERS;
/// Bytes of a page. A death slot lies at the end of one.
const PAGE: u64 = 4096;
/// Set in the generation's word while a thread is registered here.
const REGISTERED: u64 = 1 << 32;
/// `FUTEX2_SIZE_U32`.
const SIZE_U32: u32 = 2;
/// Between two polls where the kernel has no `futex_waitv` (before Linux 5.16), or refuses it on this memory.
const POLL: Duration = Duration::from_millis(1);

/// `struct futex_waitv`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Waiter {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

impl View {
    /// The word of the generation that is registered in a death slot.
    fn registered(&self, death_slot: u64) -> &AtomicU64 {
        self.word(death_slot - 8)
    }

    /// The half of a word that comes first in memory: the futex word.
    fn futex(&self, at: u64) -> &AtomicU32 {
        // SAFETY: within the reservation and aligned, as for `word`; the kernel and all processes access it atomically.
        unsafe { &*self.aligned(at, 8).cast::<AtomicU32>() }
    }

    fn waiter(&self, at: u64, value: u32) -> Waiter {
        Waiter {
            value: value.into(),
            address: self.aligned(at, 8) as u64,
            flags: SIZE_U32,
            reserved: 0,
        }
    }

    /// Asks to be woken when the thread in a death slot ends: `Ok(None)` if nobody is registered there, `Err` if it has
    /// died already.
    fn wait_by(&self, death_slot: u64) -> Result<Option<Waiter>, ()> {
        let futex = self.futex(death_slot);
        let mut word = futex.load(Ordering::Acquire);
        loop {
            if word & OWNER_DIED != 0 {
                return Err(());
            }
            if word == 0 {
                return Ok(None);
            }
            if word & WAITERS != 0 {
                return Ok(Some(self.waiter(death_slot, word)));
            }
            match futex.compare_exchange(word, word | WAITERS, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Some(self.waiter(death_slot, word | WAITERS))),
                Err(found) => word = found,
            }
        }
    }
}

impl Kernel for View {
    unsafe fn register(&self, death_slot: DeathSlot, generation: u32) -> Registration {
        let death_slot = death_slot.offset();
        self.registered(death_slot).store(0, Ordering::Release);
        self.word(death_slot).store(0, Ordering::Release);
        let registered = RobustMutex::lock(self, death_slot, self.aligned(death_slot, PAGE), generation);
        if let Some(RobustMutex::Window(_)) = registered {
            self.registered(death_slot)
                .store(REGISTERED | u64::from(generation), Ordering::Release);
        }
        Registration(registered)
    }

    unsafe fn unregister(&self, death_slot: DeathSlot, registration: Registration) {
        let death_slot = death_slot.offset();
        let Some(registered) = registration.0 else { return };
        if let RobustMutex::Window(_) = registered {
            self.registered(death_slot).store(0, Ordering::Release);
            // Not a plain store: once this returns, the death slot may have another owner.
            if self.word(death_slot).swap(0, Ordering::SeqCst) as u32 & WAITERS != 0 {
                self.wake_one(death_slot);
            }
        }
        registered.unlock();
    }

    fn has_died(&self, death_slot: DeathSlot, generation: u32) -> bool {
        // The generation first; see the header.
        match self.is_shown(death_slot, generation) {
            true => self.futex(death_slot.offset()).load(Ordering::Acquire) & OWNER_DIED != 0,
            false => PrivateSlot::shows_death(self, death_slot.offset(), generation),
        }
    }

    fn is_shown(&self, death_slot: DeathSlot, generation: u32) -> bool {
        self.registered(death_slot.offset()).load(Ordering::Acquire) == REGISTERED | u64::from(generation)
    }

    fn wait(&self, death_slots: &[DeathSlot], event_counts: &[(u64, u32)], time: Duration) {
        let mut waiters: Vec<Waiter> =
            Vec::with_capacity((death_slots.len() + event_counts.len()).min(SLEEPS_BY_MAX));
        let event_counts = event_counts.iter().map(|&(at, seen)| self.waiter(at, seen));
        waiters.extend(event_counts.take(SLEEPS_BY_MAX));
        for &death_slot in death_slots {
            if waiters.len() == SLEEPS_BY_MAX {
                break;
            }
            match self.wait_by(death_slot.offset()) {
                Ok(waiter) => waiters.extend(waiter),
                Err(()) => return,
            }
        }
        let mut until: libc::timespec = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: fills in a structure of ours.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut until) };
        let nanoseconds = until.tv_nsec as u64 + u64::from(time.subsec_nanos());
        until.tv_sec = until
            .tv_sec
            .saturating_add_unsigned(time.as_secs() + nanoseconds / 1_000_000_000);
        until.tv_nsec = (nanoseconds % 1_000_000_000) as i64;
        // SAFETY: the waiters and the time outlive the call; their addresses lie within the mapping.
        let slept = unsafe {
            libc::syscall(
                libc::SYS_futex_waitv,
                waiters.as_ptr(),
                waiters.len(),
                0,
                &until,
                libc::CLOCK_MONOTONIC,
            )
        };
        let error = std::io::Error::last_os_error().raw_os_error();
        // A word has changed, the time is over, or a signal came. Any other answer: this kernel cannot wait so.
        if slept < 0 && !matches!(error, Some(libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR)) {
            std::thread::sleep(time.min(POLL));
        }
    }

    fn wake(&self, by: u64) {
        // SAFETY: wakes those who wait for a word of the mapping; touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_futex, self.aligned(by, 8), libc::FUTEX_WAKE, i32::MAX) };
    }

    fn wake_one(&self, event_count: u64) -> bool {
        // SAFETY: wakes one who waits for a word of the mapping; touches no memory of ours.
        let woken =
            unsafe { libc::syscall(libc::SYS_futex, self.aligned(event_count, 8), libc::FUTEX_WAKE, 1) };
        woken > 0
    }

    fn mapped_file(&self) -> Option<String> {
        mapped_at_address(self.aligned(0, 8) as u64)
    }

    fn now(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64)
    }
}
