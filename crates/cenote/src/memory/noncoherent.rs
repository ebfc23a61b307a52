//! The backend for memory that hosts share without coherence: every sync operation goes to memory past the
//! cache, protected data is written back before it is published.
//!
//! What each operation is made of on x86-64:
//!
//! | operation | instructions | round trips |
//! |---|---|---|
//! | `load`, `owned_peek` | `clflushopt`, `mfence`, load, `clflushopt` | 1 |
//! | `fetch_line` | `clflushopt`, `mfence`, loads | 1 |
//! | `store`, `store_seq_cst` | `clflushopt`, `mfence`, `movnti`, `mfence` | 1 |
//! | `store_line` | `clflushopt`, `mfence`, eight `movnti`, `mfence` | 1 |
//! | `compare_exchange` and the like | by [`Exchange`] | 1, here 2 |
//! | `fence_and_exchange` | the same, with no fence of its own before, where the exchange begins with one | 1, here 2 |
//! | `write_back`, `invalidate` | `clwb` or `clflushopt` a line | 0 |
//! | `fence` | `mfence` | waits for those begun |
//!
//! On a coherent machine this backend is correct and costs what it would on an incoherent one, except for the
//! device's latency; that is how its figures are measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::exchange::{CpuExchange, Exchange, Modify};
use super::flush::Flusher;
use super::mapping::View;
use super::{Kernel, LINE, Mapped, Mapping, MappingError, Memory, lines};

/// Incoherent shared memory, with compare-exchange by `X`. See the [module documentation](self).
#[derive(Clone)]
pub struct Noncoherent<X: Exchange = CpuExchange> {
    view: View,
    mapping: Arc<Mapping>,
    flusher: Flusher,
    exchange: X,
}

impl<X: Exchange> Noncoherent<X> {
    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        self.view.word(at)
    }

    #[inline]
    fn drop_line(&self, at: u64) {
        // SAFETY: the line of a word of the mapping.
        unsafe { self.flusher.flush(self.word(at & !7).as_ptr() as *const u8) };
        self.flusher.fence();
    }

    /// A read-modify-write without a comparison.
    #[inline]
    fn modify(&self, at: u64, change: Modify) -> u64 {
        self.exchange.modify(self.flusher, self.word(at), change)
    }
}

// SAFETY: all accesses go through the view of a mapping that this holds, which keeps them within it.
unsafe impl<X: Exchange> Memory for Noncoherent<X> {
    const COHERENT: bool = false;
    const NAME: &'static str = "noncoherent";

    fn reserve(&self, at: u64, len: u64, huge_from: Option<u64>) -> Result<(), MappingError> {
        self.mapping.reserve(at, len, huge_from)
    }

    fn is_there(&self, at: u64) -> bool {
        self.mapping.is_there(at)
    }

    fn is_backed(&self, end: u64) -> bool {
        self.mapping.is_backed(end)
    }

    fn kernel(&self) -> &dyn Kernel {
        &self.view
    }

    #[inline]
    unsafe fn load(&self, at: u64) -> u64 {
        self.drop_line(at);
        let word = self.word(at);
        let value = word.load(Ordering::Acquire);
        // Nothing stays behind: the line may be reused for protected data, which is read without a flush.
        // SAFETY: the line of a word of the mapping.
        unsafe { self.flusher.flush(word.as_ptr() as *const u8) };
        value
    }

    #[inline]
    unsafe fn store(&self, at: u64, value: u64) {
        let word = self.word(at);
        // Only the word is written: its neighbours on the line belong to others.
        self.drop_line(at);
        self.flusher.store_past_cache(word, value);
        self.flusher.fence();
    }

    unsafe fn store_line(&self, at: u64, line: [u64; 8]) {
        self.drop_line(at);
        for (n, word) in line.into_iter().enumerate() {
            self.flusher.store_past_cache(self.word(at + 8 * n as u64), word);
        }
        self.flusher.fence();
    }

    #[inline]
    unsafe fn store_seq_cst(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.store(at, value) }
    }

    #[inline]
    unsafe fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.exchange
            .compare_exchange(self.flusher, self.word(at), current, new)
    }

    #[inline]
    unsafe fn fence_and_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        if !X::BEGINS_WITH_FENCE {
            self.fence();
        }
        // SAFETY: the caller's promise.
        unsafe { self.compare_exchange(at, current, new) }
    }

    unsafe fn fetch_add(&self, at: u64, value: u64) -> u64 {
        self.modify(at, Modify::Add(value))
    }

    unsafe fn fetch_or(&self, at: u64, value: u64) -> u64 {
        self.modify(at, Modify::Or(value))
    }

    unsafe fn fetch_and(&self, at: u64, value: u64) -> u64 {
        self.modify(at, Modify::And(value))
    }

    #[inline]
    unsafe fn load_speculative(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    #[inline]
    unsafe fn fetch_line(&self, at: u64) -> [u64; 8] {
        self.drop_line(at);
        self.view.read_line(at)
    }

    unsafe fn fetch_lines(&self, at: u64, lines: &mut [[u64; 8]]) {
        self.invalidate(at, LINE * lines.len() as u64);
        self.fence();
        for (line, at) in lines.iter_mut().zip((at..).step_by(LINE as usize)) {
            *line = self.view.read_line(at);
        }
    }

    #[inline(always)]
    unsafe fn tagged(&self, at: u64, tag: u16) -> u32 {
        self.view.tagged(at, tag)
    }

    #[inline]
    fn prefetch(&self, at: u64) {
        // A stale copy must not stay: this drops the line now, and the reader fetches it.
        // SAFETY: the line of a word of the mapping.
        unsafe { self.flusher.flush(self.word(at & !7).as_ptr() as *const u8) };
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
        // SAFETY: the caller's promise.
        unsafe { self.load(at) }
    }

    #[inline]
    unsafe fn bytes(&self, at: u64, len: u64) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { self.view.bytes(at, len) }
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
    fn write_back(&self, at: u64, len: u64) {
        for line in lines(at, len) {
            // SAFETY: the line of a word of the mapping.
            unsafe { self.flusher.write_back(self.word(line).as_ptr() as *const u8) };
        }
    }

    #[inline]
    fn invalidate(&self, at: u64, len: u64) {
        for line in lines(at, len) {
            // SAFETY: the line of a word of the mapping.
            unsafe { self.flusher.flush(self.word(line).as_ptr() as *const u8) };
        }
    }

    #[inline]
    fn fence(&self) {
        self.flusher.fence()
    }
}

// SAFETY: the mapping is kept as it was given, and used by nothing else.
unsafe impl<X: Exchange> Mapped for Noncoherent<X> {
    fn over(mapping: Arc<Mapping>) -> Result<Self, MappingError> {
        Ok(Self {
            view: mapping.view(),
            mapping,
            flusher: Flusher::detect()?,
            exchange: X::default(),
        })
    }

    #[inline]
    fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}
