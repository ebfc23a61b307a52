//! A barrier that one thread executes on behalf of all: `membarrier(2)`, in its form for several processes.
//!
//! A reader announces itself before each read; a reclaimer reads the announcements once in a while. With an ordinary
//! barrier on both sides the reader, which runs a thousand times as often, pays most. Here the reader's barrier is only
//! for the compiler, and the reclaimer has the kernel execute one on every core that runs a thread of a registered
//! process. A process that cannot register announces with a full barrier instead.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

const GLOBAL_EXPEDITED: libc::c_long = 2;
const REGISTER_GLOBAL_EXPEDITED: libc::c_long = 4;

fn membarrier(command: libc::c_long) -> bool {
    // SAFETY: the call takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Registers this process, once. Returns whether other processes' barriers reach its threads from now on.
pub fn register_barrier() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(REGISTER_GLOBAL_EXPEDITED))
}

/// Executes a full barrier on every core that runs a registered process. Returns whether it did. Costs microseconds.
pub fn barrier_everywhere() -> bool {
    register_barrier() && membarrier(GLOBAL_EXPEDITED)
}

/// Keeps the compiler from moving accesses across; the reader's side.
#[inline]
pub fn compiler_barrier() {
    compiler_fence(Ordering::SeqCst)
}
