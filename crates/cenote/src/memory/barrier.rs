//! A barrier that one thread executes on behalf of all: `membarrier(2)`, in its form for several processes.
//!
//! A reader announces itself before each read; a reclaimer reads the announcements once in a while. With an ordinary
//! barrier on both sides the reader, which runs a thousand times as often, pays most. Here the reader's barrier is only
//! for the compiler, and the reclaimer has the kernel execute one on every core that runs a thread of a registered
//! process. A process that cannot register announces with a full barrier instead.

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence};

const GLOBAL_EXPEDITED: libc::c_long = 2;
const REGISTER_GLOBAL_EXPEDITED: libc::c_long = 4;

fn membarrier(command: libc::c_long) -> bool {
    // SAFETY: the call takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Whether this process is registered: [`UNKNOWN`], [`REFUSED`] or [`REGISTERED`].
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const REFUSED: u8 = 1;
const REGISTERED: u8 = 2;

/// Registers this process. Returns whether other processes' barriers reach its threads from now on.
///
/// The first call takes milliseconds if the process has several threads. One that comes meanwhile registers as well,
/// which changes nothing, and does not wait for the first: in the child of a fork its thread may not be.
pub fn register_barrier() -> bool {
    let known = STATE.load(Ordering::Acquire);
    if known != UNKNOWN {
        return known == REGISTERED;
    }
    let is_registered = membarrier(REGISTER_GLOBAL_EXPEDITED);
    STATE.store(
        if is_registered { REGISTERED } else { REFUSED },
        Ordering::Release,
    );
    is_registered
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
