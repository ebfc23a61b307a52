//! A backend over another for platforms on which hosts have no atomic read-modify-write in common: one server owns the sync
//! words and changes them, and all other processes ask it by [mailboxes](mailbox). Loads go to memory directly.
//!
//! Everything but read-modify-writes and sync stores is the base's. So are announcements: such a word has one writer at a time and is
//! never compared. A process asks by the boxes of its place, once it has one ([`Memory::enter`]); before that it only stores what no
//! other process sees yet.
//!
//! **Death.** A client's request is carried out once or not at all, perhaps after the client's death. So before recovery decides what a
//! dead client has done, it waits until all requests are done ([`Memory::quiesce`]). [`server`] describes a server's death.

mod client;
mod desks;
mod mailbox;
mod server;
mod serving;

use std::sync::{Arc, OnceLock};

pub use client::Client;
pub use mailbox::{MAILBOX_BYTES, Mailbox, Mailboxes, Request, Wish};
pub use server::Server;
pub use serving::{Serving, ServingLease, Words};

use super::{Kernel, Liveness, MapError, Mapped, Mapping, Memory, Noncoherent, watch_fork};

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
    fn execute(&self, at: u64, wish: Wish) -> u64 {
        let client = self.shared.client.get();
        let overdue = || {
            if let Some(serving) = self.shared.serving.get() {
                serving.look();
            }
        };
        let answer = client.and_then(|client| client.execute(&self.base, at, wish, overdue));
        answer.unwrap_or_else(|| {
            let before = self.base.load(at);
            if let Some(after) = wish.of(before) {
                self.base.store(at, after);
            }
            before
        })
    }
}

impl<M: Memory> Memory for Delegated<M> {
    const COHERENT: bool = false;
    const DELEGATED: bool = true;
    const NAME: &'static str = "delegated";

    fn reserve(&self, at: u64, len: u64, unshared: bool) -> Result<(), MapError> {
        self.base.reserve(at, len, unshared)
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
        self.execute(0, Wish::Quiesce);
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        self.base.load(at)
    }

    fn store(&self, at: u64, value: u64) {
        self.execute(at, Wish::Store(value));
    }

    #[inline]
    fn announce(&self, at: u64, value: u64) {
        self.base.announce(at, value)
    }

    fn store_line(&self, at: u64, line: [u64; 8]) {
        self.base.store_line(at, line)
    }

    fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        match self.execute(at, Wish::CompareExchange(current, new)) {
            before if before == current => Ok(before),
            before => Err(before),
        }
    }

    fn exchange_as_last_server(&self, at: u64, current: u64, new: u64) {
        if let Some(serving) = self.shared.serving.get() {
            serving.end_with(at, current, new);
        }
    }

    fn fetch_add(&self, at: u64, value: u64) -> u64 {
        self.execute(at, Wish::Add(value))
    }

    fn fetch_or(&self, at: u64, value: u64) -> u64 {
        self.execute(at, Wish::Or(value))
    }

    fn fetch_and(&self, at: u64, value: u64) -> u64 {
        self.execute(at, Wish::And(value))
    }

    #[inline]
    fn load_speculative(&self, at: u64) -> u64 {
        self.base.load_speculative(at)
    }

    #[inline]
    fn fetch_line(&self, at: u64) -> [u64; 8] {
        self.base.fetch_line(at)
    }

    #[inline]
    fn fetch_lines(&self, at: u64, lines: &mut [[u64; 8]]) {
        self.base.fetch_lines(at, lines);
    }

    #[inline(always)]
    fn tagged(&self, at: u64, tag: u16) -> u32 {
        self.base.tagged(at, tag)
    }

    #[inline]
    fn prefetch(&self, at: u64) {
        self.base.prefetch(at)
    }

    #[inline]
    fn owned_store(&self, at: u64, value: u64) {
        self.base.owned_store(at, value)
    }

    #[inline]
    fn owned_store_lazily(&self, at: u64, value: u64) {
        self.base.owned_store_lazily(at, value)
    }

    #[inline]
    fn owned_load(&self, at: u64) -> u64 {
        self.base.owned_load(at)
    }

    #[inline]
    fn owned_peek(&self, at: u64) -> u64 {
        self.base.owned_peek(at)
    }

    #[inline]
    fn bytes(&self, at: u64, len: u64) -> &[u8] {
        self.base.bytes(at, len)
    }

    #[inline]
    fn bytes_in_part(&self, at: u64, len: u64) -> &[u8] {
        self.base.bytes_in_part(at, len)
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
    fn read_word(&self, at: u64) -> u64 {
        self.base.read_word(at)
    }

    #[inline]
    fn write(&self, at: u64, data: &[u8]) {
        self.base.write(at, data)
    }

    #[inline]
    fn write_word(&self, at: u64, value: u64) {
        self.base.write_word(at, value)
    }

    fn zero(&self, at: u64, len: u64) {
        self.base.zero(at, len)
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

impl<M: Mapped> Mapped for Delegated<M> {
    fn over(mapping: Arc<Mapping>) -> Result<Self, MapError> {
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
    ) -> Result<(), MapError> {
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
