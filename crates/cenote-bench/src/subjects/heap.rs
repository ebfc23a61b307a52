//! How many bytes of heap are in use, for maps that live there.
//!
//! The allocator's own figures are read before and after, so that counting costs nothing while it measures. What a
//! map has retired but not yet freed counts, as it should.

/// The bytes that the allocator has handed out, where it says so (the GNU C library does).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn bytes_in_use() -> Option<u64> {
    // SAFETY: the call reads the allocator's statistics and has no precondition.
    let info = unsafe { libc::mallinfo2() };
    Some(info.uordblks as u64 + info.hblkhd as u64)
}

/// The bytes that the allocator has handed out: not known with this C library.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn bytes_in_use() -> Option<u64> {
    None
}

/// The heap's growth since it was made.
#[derive(Debug)]
pub struct Growth(Option<u64>);

impl Growth {
    /// Counts from here.
    pub fn start() -> Self {
        Self(bytes_in_use())
    }

    /// The bytes in use now that were not at the start.
    pub fn bytes(&self) -> Option<u64> {
        Some(bytes_in_use()?.saturating_sub(self.0?))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Growth;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Held by every test that allocates much or counts what others may have freed: the figure is the process's.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static HEAP: Mutex<()> = Mutex::new(());
        HEAP.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn growth_sees_small_and_large_allocations() {
        let _alone = alone();
        let growth = Growth::start();
        let large = vec![1u8; 64 << 20];
        let small: Vec<Box<u64>> = (0..100_000).map(Box::new).collect();
        let bytes = growth.bytes().expect("glibc tells");
        assert!(bytes >= (64 << 20) + 100_000 * 16, "{bytes}");
        drop((large, small));
    }
}
