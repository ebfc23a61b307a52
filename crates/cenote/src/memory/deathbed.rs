//! Beds and bells on Linux: a robust mutex for each thread, and futexes.
//!
//! A thread locks a robust mutex and keeps it locked, whose futex word is its bed ([`bed_mutex`](super::bed_mutex) has the rest). When it ends,
//! however it ends, the kernel walks the list of its robust mutexes (`robust_list(7)`), sets the owner-died bit in each and wakes one waiter. That is
//! before its address space is torn down: some microseconds after the death, however much it had mapped. Locks of
//! files are dropped after that.
//!
//! | word | what | who writes it |
//! |---|---|---|
//! | the bed | low half: the futex word | the owner; the kernel when it dies; watchers set the waiters bit |
//! | the word before it | the generation that lies here, and a bit that says so | the owner |
//!
//! The futex word holds the owner's thread id in its own namespace. Nobody interprets it: only whether it is zero, and
//! the two highest bits.
//!
//! **Order.** The owner writes the generation after the mutex is locked; who looks reads the generation first. So an
//! owner-died bit that an earlier owner has left is never taken for a later one's.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::bed_mutex::{Lies, PrivateBed};
use super::kernel::{Kernel, Lying, SLEEPS_BY_MAX};
use super::kill::mapped_at_address;
use super::mapping::View;

/// The bit that the kernel sets when the owner has died.
const OWNER_DIED: u32 = libc::FUTEX_OWNER_DIED;
/// The bit by which the kernel knows that it has to wake somebody.
const WAITERS: u32 = libc::FUTEX_WAITERS;
/// Bytes of a page, at the end of which a bed is.
const PAGE: u64 = 4096;
/// Set in the generation's word while somebody lies here.
const LIES: u64 = 1 << 32;
/// `FUTEX2_SIZE_U32`.
const SIZE_U32: u32 = 2;
/// Between two looks where the kernel has no `futex_waitv` (before Linux 5.16), or refuses it on this memory.
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
    /// The word of the generation that lies in a bed.
    fn lies(&self, bed: u64) -> &AtomicU64 {
        self.word(bed - 8)
    }

    /// The half of a word that comes first in memory: what the kernel compares.
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

    /// Asks to be woken when the thread in a bed ends: `Ok(None)` if nobody lies there, `Err` if it has died already.
    fn wait_by(&self, bed: u64) -> Result<Option<Waiter>, ()> {
        let futex = self.futex(bed);
        let mut word = futex.load(Ordering::Acquire);
        loop {
            if word & OWNER_DIED != 0 {
                return Err(());
            }
            if word == 0 {
                return Ok(None);
            }
            if word & WAITERS != 0 {
                return Ok(Some(self.waiter(bed, word)));
            }
            match futex.compare_exchange(word, word | WAITERS, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Some(self.waiter(bed, word | WAITERS))),
                Err(found) => word = found,
            }
        }
    }
}

impl Kernel for View {
    fn lie_down(&self, bed: u64, generation: u32) -> Lying {
        self.lies(bed).store(0, Ordering::Release);
        self.word(bed).store(0, Ordering::Release);
        let lies = Lies::down(self, bed, self.aligned(bed, PAGE), generation);
        if let Some(Lies::Window(_)) = lies {
            self.lies(bed)
                .store(LIES | u64::from(generation), Ordering::Release);
        }
        Lying(lies)
    }

    fn get_up(&self, bed: u64, lying: Lying) {
        let Some(lies) = lying.0 else { return };
        if let Lies::Window(_) = lies {
            self.lies(bed).store(0, Ordering::Release);
            // No mere store: once this returns, the bed may be somebody else's.
            if self.word(bed).swap(0, Ordering::SeqCst) as u32 & WAITERS != 0 {
                self.rouse_one(bed);
            }
        }
        lies.up();
    }

    fn has_died(&self, bed: u64, generation: u32) -> bool {
        // The generation first; see the header.
        match self.is_shown(bed, generation) {
            true => self.futex(bed).load(Ordering::Acquire) & OWNER_DIED != 0,
            false => PrivateBed::shows_death(self, bed, generation),
        }
    }

    fn is_shown(&self, bed: u64, generation: u32) -> bool {
        self.lies(bed).load(Ordering::Acquire) == LIES | u64::from(generation)
    }

    fn doze(&self, beds: &[u64], bells: &[(u64, u32)], time: Duration) {
        let mut waiters: Vec<Waiter> = Vec::with_capacity((beds.len() + bells.len()).min(SLEEPS_BY_MAX));
        let bells = bells.iter().map(|&(at, seen)| self.waiter(at, seen));
        waiters.extend(bells.take(SLEEPS_BY_MAX));
        for &bed in beds {
            if waiters.len() == SLEEPS_BY_MAX {
                break;
            }
            match self.wait_by(bed) {
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
        // A word has changed; it was for so long; a signal came. Anything else is a kernel that cannot do it.
        if slept < 0 && !matches!(error, Some(libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR)) {
            std::thread::sleep(time.min(POLL));
        }
    }

    fn rouse(&self, by: u64) {
        // SAFETY: wakes those who wait for a word of the mapping; touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_futex, self.aligned(by, 8), libc::FUTEX_WAKE, i32::MAX) };
    }

    fn rouse_one(&self, bell: u64) -> bool {
        // SAFETY: wakes one who waits for a word of the mapping; touches no memory of ours.
        let woken = unsafe { libc::syscall(libc::SYS_futex, self.aligned(bell, 8), libc::FUTEX_WAKE, 1) };
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
