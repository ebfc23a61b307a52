//! A short time slice for a thread that others wait for.
//!
//! Linux's EEVDF schedules a thread that becomes ready the sooner, the shorter the slice that it asks for; its share of
//! the processors stays the same. So an exchange server that has slept, one that stands by, or one that is to die does
//! not wait behind all threads that compute. It takes no privilege (since Linux 6.12; before, it has no effect).

/// The shortest that the kernel gives.
const SLICE_NANOSECONDS: u64 = 100_000;

/// Asks for a short slice for the calling thread, unless it has another scheduling class. A kernel that refuses leaves
/// it as it is.
pub(super) fn ask_for_short_slice() {
    // SAFETY: `sched_attr` is plain data for which all zeroes is a valid value.
    let mut wanted: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: fills in a structure of ours, of the size that is given.
    let told = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut wanted, size, 0) };
    if told != 0 || wanted.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    wanted.sched_runtime = SLICE_NANOSECONDS;
    // SAFETY: reads a structure of ours, and changes only how this thread is scheduled.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
}
