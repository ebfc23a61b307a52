//! A backend over another that counts, per thread, what reaches memory. Tests of the cost rule and `bench --count` use
//! it; nothing else pays for it.

use std::cell::Cell;
use std::sync::Arc;

use super::delegated::{Mailboxes, ServingLease};
use super::{Kernel, Liveness, Mapped, Mapping, MappingError, Memory, lines};

/// Operations of one thread since its last [`Counts::reset`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Sync loads and peeks: one round trip each.
    pub sync_loads: u64,
    /// Sync stores, sequentially consistent ones too.
    pub sync_stores: u64,
    /// Compare-exchanges and other read-modify-writes.
    pub exchanges: u64,
    /// Lines fetched afresh.
    pub line_fetches: u64,
    /// Protected ranges read through the cache: at most one miss a line.
    pub protected_lines: u64,
    /// Lines written back or invalidated.
    pub flushed_lines: u64,
    /// Fences.
    pub fences: u64,
}

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts {
        sync_loads: 0, sync_stores: 0, exchanges: 0, line_fetches: 0, protected_lines: 0, flushed_lines: 0, fences: 0,
    }) };
}

fn count(change: impl FnOnce(&mut Counts)) {
    COUNTS.with(|cell| {
        let mut counts = cell.get();
        change(&mut counts);
        cell.set(counts);
    });
}

impl Counts {
    /// This thread's counts.
    pub fn current() -> Self {
        COUNTS.get()
    }

    /// Starts this thread's counts anew.
    pub fn reset() {
        COUNTS.set(Self::default());
    }

    /// Lines that would come from memory if nothing was cached.
    pub fn lines_from_memory(&self) -> u64 {
        self.sync_loads + self.line_fetches + self.protected_lines
    }
}

/// Counts the operations of `M`.
#[derive(Clone)]
pub struct Counting<M: Memory>(M);

// SAFETY: the inner memory keeps the promise.
unsafe impl<M: Memory> Memory for Counting<M> {
    const COHERENT: bool = M::COHERENT;
    const DELEGATED: bool = M::DELEGATED;
    const NAME: &'static str = M::NAME;

    fn reserve(&self, at: u64, len: u64, huge_from: Option<u64>) -> Result<(), MappingError> {
        self.0.reserve(at, len, huge_from)
    }

    fn is_there(&self, at: u64) -> bool {
        self.0.is_there(at)
    }

    fn is_backed(&self, end: u64) -> bool {
        self.0.is_backed(end)
    }

    unsafe fn punch(&self, at: u64, len: u64) -> Result<(), MappingError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.punch(at, len) }
    }

    fn enter(&self, place: u32) -> bool {
        self.0.enter(place)
    }

    fn quiesce(&self) {
        self.0.quiesce()
    }

    fn pinned(&self) {
        self.0.pinned()
    }

    fn unpinned(&self) {
        self.0.unpinned()
    }

    unsafe fn store_line(&self, at: u64, line: [u64; 8]) {
        count(|c| c.sync_stores += 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.store_line(at, line) }
    }

    fn kernel(&self) -> &dyn Kernel {
        self.0.kernel()
    }

    unsafe fn load(&self, at: u64) -> u64 {
        count(|c| c.sync_loads += 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.load(at) }
    }

    unsafe fn store(&self, at: u64, value: u64) {
        count(|c| c.sync_stores += 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.store(at, value) }
    }

    unsafe fn store_seq_cst(&self, at: u64, value: u64) {
        count(|c| c.sync_stores += 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.store_seq_cst(at, value) }
    }

    unsafe fn exchange_as_last_server(&self, at: u64, current: u64, new: u64) {
        count(|c| c.exchanges += 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.exchange_as_last_server(at, current, new) }
    }

    unsafe fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        count(|c| c.exchanges += 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.compare_exchange(at, current, new) }
    }

    unsafe fn fence_and_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        count(|c| {
            c.fences += 1;
            c.exchanges += 1;
        });
        // SAFETY: the caller's promise.
        unsafe { self.0.fence_and_exchange(at, current, new) }
    }

    unsafe fn fetch_add(&self, at: u64, value: u64) -> u64 {
        count(|c| c.exchanges += 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.fetch_add(at, value) }
    }

    unsafe fn fetch_or(&self, at: u64, value: u64) -> u64 {
        count(|c| c.exchanges += 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.fetch_or(at, value) }
    }

    unsafe fn fetch_and(&self, at: u64, value: u64) -> u64 {
        count(|c| c.exchanges += 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.fetch_and(at, value) }
    }

    unsafe fn load_speculative(&self, at: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.0.load_speculative(at) }
    }

    unsafe fn fetch_line(&self, at: u64) -> [u64; 8] {
        count(|c| c.line_fetches += 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.fetch_line(at) }
    }

    unsafe fn tagged(&self, at: u64, tag: u16) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.0.tagged(at, tag) }
    }

    fn prefetch(&self, at: u64) {
        self.0.prefetch(at)
    }

    unsafe fn owned_store(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.0.owned_store(at, value) }
    }

    unsafe fn owned_store_lazily(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.0.owned_store_lazily(at, value) }
    }

    unsafe fn owned_load(&self, at: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.0.owned_load(at) }
    }

    unsafe fn owned_peek(&self, at: u64) -> u64 {
        count(|c| c.sync_loads += 1);
        // SAFETY: the caller's promise.
        unsafe { self.0.owned_peek(at) }
    }

    unsafe fn bytes(&self, at: u64, len: u64) -> &[u8] {
        count(|c| c.protected_lines += lines(at, len).count() as u64);
        // SAFETY: the caller's promise.
        unsafe { self.0.bytes(at, len) }
    }

    unsafe fn bytes_in_part(&self, at: u64, len: u64) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { self.0.bytes(at, len) }
    }

    fn reads(&self, at: u64, len: u64) {
        count(|c| c.protected_lines += lines(at, len).count() as u64);
    }

    unsafe fn copy_out(&self, at: u64, to: &mut [u8]) {
        count(|c| c.protected_lines += lines(at, to.len() as u64).count() as u64);
        // SAFETY: the caller's promise.
        unsafe { self.0.copy_out(at, to) }
    }

    unsafe fn write(&self, at: u64, data: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe { self.0.write(at, data) }
    }

    unsafe fn write_word(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.0.write_word(at, value) }
    }

    unsafe fn zero(&self, at: u64, len: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.0.zero(at, len) }
    }

    fn write_back(&self, at: u64, len: u64) {
        count(|c| c.flushed_lines += lines(at, len).count() as u64);
        self.0.write_back(at, len)
    }

    fn invalidate(&self, at: u64, len: u64) {
        count(|c| c.flushed_lines += lines(at, len).count() as u64);
        self.0.invalidate(at, len)
    }

    fn fence(&self) {
        count(|c| c.fences += 1);
        self.0.fence()
    }
}

// SAFETY: the mapping is kept as it was given, and used by nothing else.
unsafe impl<M: Mapped> Mapped for Counting<M> {
    fn over(mapping: Arc<Mapping>) -> Result<Self, MappingError> {
        M::over(mapping).map(Self)
    }

    fn mapping(&self) -> &Mapping {
        self.0.mapping()
    }

    fn serve(
        &self,
        boxes: Mailboxes,
        liveness: Box<dyn Liveness>,
        lock: u32,
        lease: Box<dyn ServingLease>,
    ) -> Result<(), MappingError> {
        self.0.serve(boxes, liveness, lock, lease)
    }
}
