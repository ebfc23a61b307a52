//! How a read-modify-write reaches memory whose caches are not coherent: a seam of its own.
//!
//! Platforms differ: some execute a compare-exchange in the memory device, some have none across hosts. The
//! [`Noncoherent`](super::Noncoherent) backend is generic over this trait. [`CpuExchange`] uses the CPU's own
//! atomic between two flushes. That is atomic among the cores of one host, and across hosts only where the
//! platform makes it so; it is right for measuring and for machines that are in truth coherent.

use std::sync::atomic::{AtomicU64, Ordering};

use super::flush::Flusher;

/// A way to execute read-modify-writes on sync words in memory.
pub trait Exchange: Clone + Default + Send + Sync + 'static {
    /// Replaces `current` by `new`; `Err` holds what was found instead. Complete in memory on return.
    fn compare_exchange(
        &self,
        flusher: Flusher,
        word: &AtomicU64,
        current: u64,
        new: u64,
    ) -> Result<u64, u64>;
}

/// The CPU's atomic, with the line flushed before and after.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuExchange;

impl Exchange for CpuExchange {
    #[inline]
    fn compare_exchange(
        &self,
        flusher: Flusher,
        word: &AtomicU64,
        current: u64,
        new: u64,
    ) -> Result<u64, u64> {
        let line = word.as_ptr() as *const u8;
        flusher.flush(line);
        flusher.fence();
        let result = word.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst);
        flusher.flush(line);
        flusher.fence();
        result
    }
}
