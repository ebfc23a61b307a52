//! Beds and bells on Linux: a robust mutex for each thread, and futexes.
//!
//! A thread locks a process-shared robust mutex in its bed and keeps it locked. When it ends, however it ends, the kernel
//! walks the list of its robust mutexes (`robust_list(7)`), sets the owner-died bit in each and wakes one waiter. That is
//! before its address space is torn down: some microseconds after the death, however much it had mapped. Locks of
//! files are dropped after that.
//!
//! | bytes of the bed | what | who writes it |
//! |---|---|---|
//! | 0 to 47 | the mutex; its first four bytes are the futex word | the owner; the kernel when it dies; watchers set the waiters bit |
//! | 56 to 63 | the generation that lies here, and a bit that says so | the owner |
//!
//! The futex word holds the owner's thread id in its own namespace. Nobody interprets it: only whether it is zero, and
//! the two highest bits. The mutex holds addresses of its owner's process; nobody else looks at them, and
//! the next owner of the bed makes the mutex anew.
//!
//! **Order.** The owner writes the generation after the mutex is locked; who looks reads the generation first. So an
//! owner-died bit that an earlier owner has left is never taken for a later one's.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::LINE;
use super::kernel::{Kernel, SLEEPS_BY_MAX};
use super::mapping::View;

/// The bit that the kernel sets when the owner has died.
const OWNER_DIED: u32 = libc::FUTEX_OWNER_DIED;
/// The bit by which the kernel knows that it has to wake somebody.
const WAITERS: u32 = libc::FUTEX_WAITERS;
/// Where the generation is.
const GENERATION_AT: u64 = 56;
/// Set in the generation's word while somebody lies here.
const LIES: u64 = 1 << 32;
/// `FUTEX2_SIZE_U32`.
const SIZE_U32: u32 = 2;
/// Between two looks where the kernel has no `futex_waitv` (before Linux 5.16), or refuses it on this memory.
const POLL: Duration = Duration::from_millis(1);

const _: () = assert!(size_of::<libc::pthread_mutex_t>() as u64 <= GENERATION_AT);

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
    fn mutex(&self, bed: u64) -> *mut libc::pthread_mutex_t {
        self.aligned(bed, LINE).cast()
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
    fn lie_down(&self, bed: u64, generation: u32) {
        let lies = self.word(bed + GENERATION_AT);
        lies.store(0, Ordering::Release);
        let mutex = self.mutex(bed);
        // SAFETY: the attributes are a local value that is initialised before it is used; the mutex lies within the mapping
        // and belongs to the caller, who has claimed the bed: nobody else has locked it or makes it anew. It stays mapped for
        // as long as it is locked, because the worker holds the mapping.
        let locked = unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            if libc::pthread_mutexattr_init(&mut attributes) != 0 {
                return;
            }
            let made = libc::pthread_mutexattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED) == 0
                && libc::pthread_mutexattr_setrobust(&mut attributes, libc::PTHREAD_MUTEX_ROBUST) == 0
                && libc::pthread_mutex_init(mutex, &attributes) == 0;
            libc::pthread_mutexattr_destroy(&mut attributes);
            made && libc::pthread_mutex_lock(mutex) == 0
        };
        if locked {
            lies.store(LIES | u64::from(generation), Ordering::Release);
        }
    }

    fn get_up(&self, bed: u64) {
        let lies = self.word(bed + GENERATION_AT);
        if lies.load(Ordering::Acquire) & LIES != 0 {
            // SAFETY: this thread has locked it in `lie_down`.
            unsafe { libc::pthread_mutex_unlock(self.mutex(bed)) };
            // No mere store: once this returns, the bed may be somebody else's.
            lies.swap(0, Ordering::SeqCst);
        }
    }

    fn has_died(&self, bed: u64, generation: u32) -> bool {
        // The generation first; see the header.
        self.word(bed + GENERATION_AT).load(Ordering::Acquire) == LIES | u64::from(generation)
            && self.futex(bed).load(Ordering::Acquire) & OWNER_DIED != 0
    }

    fn is_shown(&self, bed: u64, generation: u32) -> bool {
        self.word(bed + GENERATION_AT).load(Ordering::Acquire) == LIES | u64::from(generation)
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

    fn now(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64)
    }
}
