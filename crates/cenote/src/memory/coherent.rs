//! The backend for memory that hardware keeps coherent among all sharers: processes of one machine.
//!
//! Plain atomics. Write-back and invalidate are nothing; a fetched line is eight acquire loads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::mapping::View;
use super::{Kernel, Mapped, Mapping, MappingError, Memory};

/// Coherent shared memory. See the [module documentation](self).
#[derive(Clone)]
pub struct Coherent {
    view: View,
    mapping: Arc<Mapping>,
}

impl Coherent {
    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        self.view.word(at)
    }
}

// SAFETY: all accesses go through the view of a mapping that this holds, which keeps them within it.
unsafe impl Memory for Coherent {
    const COHERENT: bool = true;
    const NAME: &'static str = "coherent";

    fn reserve(&self, at: u64, len: u64, huge_from: Option<u64>) -> Result<(), MappingError> {
        self.mapping.reserve(at, len, huge_from)
    }

    fn is_there(&self, at: u64) -> bool {
        self.mapping.is_there(at)
    }

    fn is_backed(&self, end: u64) -> bool {
        self.mapping.is_backed(end)
    }

    unsafe fn punch(&self, at: u64, len: u64) -> Result<(), MappingError> {
        self.mapping.punch(at, len)
    }

    fn kernel(&self) -> &dyn Kernel {
        &self.view
    }

    #[inline]
    unsafe fn load(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    #[inline]
    unsafe fn store(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Release)
    }

    unsafe fn store_line(&self, at: u64, line: [u64; 8]) {
        for (n, word) in line.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { self.store(at + 8 * n as u64, word) };
        }
    }

    #[inline]
    unsafe fn store_seq_cst(&self, at: u64, value: u64) {
        // A swap is a full barrier on every architecture that matters here and cheaper than store and fence.
        self.word(at).swap(value, Ordering::SeqCst);
    }

    #[inline]
    unsafe fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.word(at)
            .compare_exchange(current, new, Ordering::SeqCst, Ordering::Acquire)
    }

    #[inline]
    unsafe fn swap(&self, at: u64, value: u64) -> u64 {
        self.word(at).swap(value, Ordering::SeqCst)
    }

    #[inline]
    unsafe fn fetch_add(&self, at: u64, value: u64) -> u64 {
        self.word(at).fetch_add(value, Ordering::SeqCst)
    }

    #[inline]
    unsafe fn fetch_or(&self, at: u64, value: u64) -> u64 {
        self.word(at).fetch_or(value, Ordering::SeqCst)
    }

    #[inline]
    unsafe fn fetch_and(&self, at: u64, value: u64) -> u64 {
        self.word(at).fetch_and(value, Ordering::SeqCst)
    }

    #[inline]
    unsafe fn load_speculative(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    #[inline]
    unsafe fn fetch_line(&self, at: u64) -> [u64; 8] {
        self.view.read_line(at)
    }

    #[inline(always)]
    unsafe fn tagged(&self, at: u64, tag: u16) -> u32 {
        self.view.tagged(at, tag)
    }

    #[inline]
    fn prefetch(&self, at: u64) {
        self.view.prefetch(at)
    }

    #[inline]
    unsafe fn owned_store(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Release)
    }

    #[inline]
    unsafe fn owned_load(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    #[inline]
    unsafe fn owned_peek(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    #[inline]
    unsafe fn bytes(&self, at: u64, len: u64) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { self.view.bytes(at, len) }
    }

    #[inline]
    unsafe fn read_word(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    unsafe fn copy_out(&self, at: u64, to: &mut [u8]) {
        self.view.copy_out(at, to)
    }

    #[inline]
    unsafe fn write(&self, at: u64, data: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe { self.view.write(at, data) }
    }

    #[inline]
    unsafe fn write_word(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Relaxed)
    }

    unsafe fn zero(&self, at: u64, len: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.view.zero(at, len) }
    }

    #[inline]
    fn write_back(&self, _at: u64, _len: u64) {}

    #[inline]
    fn invalidate(&self, _at: u64, _len: u64) {}

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst)
    }
}

// SAFETY: the mapping is kept as it was given, and used by nothing else.
unsafe impl Mapped for Coherent {
    fn over(mapping: Arc<Mapping>) -> Result<Self, MappingError> {
        Ok(Self {
            view: mapping.view(),
            mapping,
        })
    }

    #[inline]
    fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}
