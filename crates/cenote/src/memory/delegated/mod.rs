//! A backend over another for platforms on which hosts have no atomic read-modify-write in common: one server owns the
//! sync words and changes them, and all other processes ask it by [mailboxes](mailbox). Loads go to memory directly.
//!
//! Everything but read-modify-writes and sync stores is the base's. So are sequentially consistent stores: such a word
//! has one writer at a time and is never compared. A process asks by the boxes of its place, once it has one
//! ([`Memory::enter`]); before that it only stores what no other process sees yet.
//!
//! **Death.** A client's request is carried out once or not at all, perhaps after the client's death. So before
//! recovery decides what a dead client has done, it waits until all requests are done ([`Memory::quiesce`]). [`server`]
//! describes a server's death.

mod client;
mod mailbox;
mod own_boxes;
mod server;
mod serving;

use std::sync::{Arc, OnceLock};

pub use client::Client;
pub use mailbox::{MAILBOX_BYTES, Mailbox, Mailboxes, Request, Wish};
pub use server::Server;
pub use serving::{Serving, ServingLease, Words};

use super::{Kernel, Liveness, Mapped, Mapping, MappingError, Memory, Noncoherent, watch_fork};

/// Memory whose read-modify-writes are executed by a server. See the [module documentation](self).
#[derive(Clone)]
pub struct Delegated<M: Memory = Noncoherent> {
    base: M,
    shared: Arc<Shared>,
}

/// What all handles of a process share; the thread that serves ends with the last of them.
#[derive(Default)]
struct Shared {
    client: OnceLock<Client>,
    serving: OnceLock<Serving>,
}

impl<M: Memory> Delegated<M> {
    /// Has a wish carried out: by the base as long as this process has no place, and no other process has the pool.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn execute(&self, at: u64, wish: Wish) -> u64 {
        let client = self.shared.client.get();
        let overdue = || {
            if let Some(serving) = self.shared.serving.get() {
                serving.poll();
            }
        };
        // SAFETY: the caller's promise.
        let answer = client.and_then(|client| unsafe { client.execute(&self.base, at, wish, overdue) });
        answer.unwrap_or_else(|| {
            // SAFETY: the caller's promise.
            let before = unsafe { self.base.load(at) };
            if let Some(after) = wish.of(before) {
                // SAFETY: the caller's promise.
                unsafe { self.base.store(at, after) };
            }
            before
        })
    }
}

// SAFETY: the base keeps the promise; a server keeps it for this process.
unsafe impl<M: Memory> Memory for Delegated<M> {
    const COHERENT: bool = false;
    const DELEGATED: bool = true;
    const NAME: &'static str = "delegated";

    fn reserve(&self, at: u64, len: u64, huge_from: Option<u64>) -> Result<(), MappingError> {
        self.base.reserve(at, len, huge_from)
    }

    fn is_there(&self, at: u64) -> bool {
        self.base.is_there(at)
    }

    fn is_backed(&self, end: u64) -> bool {
        self.base.is_backed(end)
    }

    fn kernel(&self) -> &dyn Kernel {
        self.base.kernel()
    }

    fn pause(&self) {
        self.base.pause()
    }

    fn relax(&self) {
        self.base.relax()
    }

    fn enter(&self, place: u32) -> bool {
        let client = self.shared.client.get();
        client.is_none_or(|client| client.enter(&self.base, place))
    }

    fn quiesce(&self) {
        // SAFETY: the wish changes no word.
        unsafe { self.execute(0, Wish::Quiesce) };
    }

    #[inline]
    unsafe fn load(&self, at: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.base.load(at) }
    }

    unsafe fn store(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.execute(at, Wish::Store(value)) };
    }

    #[inline]
    unsafe fn store_seq_cst(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.base.store_seq_cst(at, value) }
    }

    unsafe fn store_line(&self, at: u64, line: [u64; 8]) {
        // SAFETY: the caller's promise.
        unsafe { self.base.store_line(at, line) }
    }

    unsafe fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        // SAFETY: the caller's promise.
        match unsafe { self.execute(at, Wish::CompareExchange(current, new)) } {
            before if before == current => Ok(before),
            before => Err(before),
        }
    }

    unsafe fn exchange_as_last_server(&self, at: u64, current: u64, new: u64) {
        if let Some(serving) = self.shared.serving.get() {
            // SAFETY: the caller's promise.
            unsafe { serving.end_with(at, current, new) };
        }
    }

    unsafe fn fetch_add(&self, at: u64, value: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.execute(at, Wish::Add(value)) }
    }

    unsafe fn fetch_or(&self, at: u64, value: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.execute(at, Wish::Or(value)) }
    }

    unsafe fn fetch_and(&self, at: u64, value: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.execute(at, Wish::And(value)) }
    }

    #[inline]
    unsafe fn load_speculative(&self, at: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.base.load_speculative(at) }
    }

    #[inline]
    unsafe fn fetch_line(&self, at: u64) -> [u64; 8] {
        // SAFETY: the caller's promise.
        unsafe { self.base.fetch_line(at) }
    }

    #[inline]
    unsafe fn fetch_lines(&self, at: u64, lines: &mut [[u64; 8]]) {
        // SAFETY: the caller's promise.
        unsafe { self.base.fetch_lines(at, lines) };
    }

    #[inline(always)]
    unsafe fn tagged(&self, at: u64, tag: u16) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.base.tagged(at, tag) }
    }

    #[inline]
    fn prefetch(&self, at: u64) {
        self.base.prefetch(at)
    }

    #[inline]
    unsafe fn owned_store(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.base.owned_store(at, value) }
    }

    #[inline]
    unsafe fn owned_store_lazily(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.base.owned_store_lazily(at, value) }
    }

    #[inline]
    unsafe fn owned_load(&self, at: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.base.owned_load(at) }
    }

    #[inline]
    unsafe fn owned_peek(&self, at: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.base.owned_peek(at) }
    }

    #[inline]
    unsafe fn bytes(&self, at: u64, len: u64) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { self.base.bytes(at, len) }
    }

    #[inline]
    unsafe fn bytes_in_part(&self, at: u64, len: u64) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { self.base.bytes_in_part(at, len) }
    }

    #[inline]
    fn reads(&self, at: u64, len: u64) {
        self.base.reads(at, len);
    }

    #[inline]
    fn reads_private(&self, lines: u64) {
        self.base.reads_private(lines);
    }

    #[inline]
    unsafe fn read_word(&self, at: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.base.read_word(at) }
    }

    unsafe fn copy_out(&self, at: u64, to: &mut [u8]) {
        // SAFETY: the caller's promise.
        unsafe { self.base.copy_out(at, to) }
    }

    #[inline]
    unsafe fn write(&self, at: u64, data: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe { self.base.write(at, data) }
    }

    #[inline]
    unsafe fn write_word(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.base.write_word(at, value) }
    }

    unsafe fn zero(&self, at: u64, len: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.base.zero(at, len) }
    }

    #[inline]
    fn write_back(&self, at: u64, len: u64) {
        self.base.write_back(at, len)
    }

    #[inline]
    fn invalidate(&self, at: u64, len: u64) {
        self.base.invalidate(at, len)
    }

    #[inline]
    fn fence(&self) {
        self.base.fence()
    }
}

// SAFETY: the mapping is kept as it was given, and used by nothing else.
unsafe impl<M: Mapped> Mapped for Delegated<M> {
    fn over(mapping: Arc<Mapping>) -> Result<Self, MappingError> {
        Ok(Self {
            base: M::over(mapping)?,
            shared: Arc::default(),
        })
    }

    #[inline]
    fn mapping(&self) -> &Mapping {
        self.base.mapping()
    }

    fn serve(
        &self,
        boxes: Mailboxes,
        liveness: Box<dyn Liveness>,
        lock: u32,
        lease: Box<dyn ServingLease>,
    ) -> Result<(), MappingError> {
        let limit = self.mapping().len();
        let serving = Serving::start(
            self.base.clone(),
            boxes,
            limit,
            liveness,
            lock,
            lease,
            watch_fork()?,
        )?;
        let _ = self.shared.client.set(Client::new(boxes));
        let _ = self.shared.serving.set(serving);
        Ok(())
    }
}
