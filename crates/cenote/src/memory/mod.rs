//! The memory contract: the only way in which the rest of the library touches a pool.
//!
//! A pool is shared by *hosts*, each a domain in which hardware keeps caches coherent. Between hosts nothing
//! is coherent unless a backend says so. Four ways of sharing follow, and each word of a pool is shared in
//! exactly one of them for as long as its block is in use:
//!
//! | way | typed cell | writer | reader on another host |
//! |---|---|---|---|
//! | sync word | [`SyncWord`] | anyone, atomically, past the cache | anyone, past the cache |
//! | single writer | [`OwnedWord`] | its owner, through the cache, then written back | [`OwnedWord::peek`], afresh |
//! | guarded data | [`Guarded`] | the thread that has its lock, through the cache, then written back | the thread that has its lock, through the cache, whose lines it dropped when it got the lock |
//! | protected data | [`Unpublished`], then [`Published`] | once, before publication, then written back | through the cache, no flush |
//!
//! **Ordering.** `load` is an acquire, `store` a release, `store_seq_cst` and the read-modify-writes are
//! sequentially consistent. [`Memory::fence`] completes all write-backs and invalidations begun by this thread
//! and orders everything before it with everything after it.
//!
//! **Offsets.** Every operation takes an offset from the start of the pool and keeps it within the addresses that are
//! reserved for the pool, so that no offset can touch memory outside it. Callers check offsets against what the pool
//! has *committed* first (the trust rule): to touch what is not there would end the process.
//!
//! **Safety.** Accessors that touch values are unsafe, and their callers promise what [`Memory`] says. Typed cells
//! carry that promise: the code that makes a cell is answerable for its offset, the code that uses it is not. A layer
//! above memory makes cells where offsets have been checked, mostly in the types of its records, and is safe to use
//! from there on.
//!
//! The contract and its costs are described in `docs/memory-model.md`; litmus tests and the conformance suite
//! that every backend passes are in `conformance_tests.rs`.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // this layer is where they are allowed

mod backing;
mod barrier;
mod boot_clock;
mod cells;
pub(crate) mod checked;
mod child;
mod coherent;
mod counting;
mod death_slot;
pub mod delegated;
mod descriptor;
mod exchange;
mod file_size;
mod flush;
mod fork;
mod kernel;
mod kill;
mod leaked_guards;
mod liveness;
mod local_word;
mod mapped;
mod mapping;
mod noncoherent;
mod opening;
mod racy_read;
mod reader_liveness;
mod robust_mutex;
mod schedule;
mod snapshot;
mod thread_key;
mod time_slice;
mod unfit;
mod unnamed_file;

#[cfg(test)]
mod conformance_tests;

pub use backing::{Backing, Device};
pub use barrier::compiler_barrier;
pub use boot_clock::time_since_boot;
pub use cells::{Guarded, OwnedWord, Published, SyncWord, Unpublished, WordLine};
pub(crate) use child::kill_group;
pub use child::{Signal, WatchedChild, await_any, crash};
pub use coherent::Coherent;
pub use counting::{Counting, Counts};
pub use delegated::Delegated;
pub use exchange::{CpuExchange, Exchange, Modify};
pub use flush::FlushKind;
pub use fork::{CloseOnFork, ForkWatch, forked, on_fork_close, watch_fork};
pub use kernel::{DeathSlot, Kernel, Registration, SLEEPS_BY_MAX};
pub(crate) use kill::Sigkill;
pub use kill::{FileId, Killer, ProcessName};
pub use leaked_guards::{Counted, Guards};
pub use liveness::Liveness;
pub(crate) use liveness::{FileLock, Use};
pub use local_word::{LocalWord, zeroed_words};
pub use mapped::{MappedFile, mapped_at};
pub use mapping::{Mapping, MappingError};
pub use noncoherent::Noncoherent;
pub use opening::Distrust;
pub(crate) use opening::{Trust, open, open_to_read};
pub use racy_read::read_once;
pub(crate) use reader_liveness::ReaderLiveness;
pub use schedule::{Priority, die_with_parent, lock_code, raise_priority};
pub use snapshot::{Bounds, Snapshot};
pub use thread_key::ThreadKey;
pub use unfit::{Unfit, WrongLockFile};
pub(crate) use unnamed_file::NamelessFile;

use crate::mutant::{self, Mutant};

/// Bytes of a cache line, the unit of write-back and of ownership.
pub const LINE: u64 = 64;

/// One memory backend. See the [module documentation](self) for the contract.
///
/// # The caller's promise
///
/// Accessors that touch the values of a pool are unsafe. Their caller promises that `at` lies within what the pool has
/// committed, that it is a multiple of 8 for a word and of 64 for a line, and that the word or the bytes are shared in
/// the way of the accessor, and in no other, for as long as their block is in use. Offsets that were read from the pool
/// are checked first. [`SyncWord`], [`OwnedWord`], [`WordLine`], [`Published`] and [`Unpublished`] carry the promise,
/// so that few others make it.
///
/// Operations that touch no value are safe: what writes back, drops, prefetches, reserves and asks keeps within the
/// addresses of the pool whatever the offset is.
///
/// # Safety
///
/// An implementer promises that the accessors do what the contract says, for memory that stays where it is for as long
/// as a clone of it lives: words are accessed as atomics, the bytes that [`Memory::bytes`] returns stay valid and are
/// those of the range, and no operation, whatever its offset, touches memory that is not the pool's.
pub unsafe trait Memory: Clone + Send + Sync + 'static {
    /// Whether hardware keeps every sharer's cache coherent. Code that exists only because caches may be stale
    /// (flush rounds, long-lived announcements) is compiled out where this is true.
    const COHERENT: bool;

    /// Whether a server executes read-modify-writes, so that all processes that share a pool must ask it.
    const DELEGATED: bool = false;

    /// The same for this value: the simulator knows it only when it runs.
    #[inline]
    fn is_delegated(&self) -> bool {
        Self::DELEGATED
    }

    /// The backend's name, as stored in pools and printed by tools.
    const NAME: &'static str;

    /// Reserves a range, so that touching it cannot fail. With `huge_from`, because no other process has the pool open,
    /// the kernel may take longer and make huge pages of what lies between that offset and the range's end; what lies
    /// before the range was reserved already.
    fn reserve(&self, at: u64, len: u64, huge_from: Option<u64>) -> Result<(), MappingError>;

    /// Whether there is memory behind all offsets below `end`. A signal ends a process that touches bytes which the
    /// file does not have.
    ///
    /// Cost: a system call where there is a file.
    fn is_backed(&self, _end: u64) -> bool {
        true
    }

    /// Whether there is memory behind a word. For a thread that has no descriptor of the file, as the
    /// [exchange server](Delegated) has none.
    ///
    /// Cost: a system call.
    fn is_there(&self, _at: u64) -> bool {
        true
    }

    /// Gives a reserved range back. Until it is reserved again, nobody may touch it; afterwards its contents are
    /// undefined.
    ///
    /// # Safety
    ///
    /// Nobody uses the range, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn punch(&self, _at: u64, _len: u64) -> Result<(), MappingError> {
        Err(MappingError::Unsupported("giving bytes of a pool back"))
    }

    /// Whether this process's threads may announce without a barrier, because [`Memory::barrier_everywhere`] reaches
    /// them.
    fn relies_on_barrier(&self) -> bool {
        barrier::register_barrier()
    }

    /// Executes a full barrier on every core that runs a process which relies on it. Returns whether it did.
    fn barrier_everywhere(&self) -> bool {
        barrier::barrier_everywhere()
    }

    /// This process has taken a place in the pool, which no other living one has. Returns whether the memory has what
    /// the place needs.
    fn enter(&self, _place: u32) -> bool {
        true
    }

    /// Returns when no read-modify-write of a thread that is dead now can take effect any more.
    fn quiesce(&self) {}

    /// What the operating system knows of threads, and how threads sleep.
    fn kernel(&self) -> &dyn Kernel;

    /// The protected data that this thread is given from now on stays unchanged until [`Memory::unpinned`]. Does
    /// nothing on real memory; a simulated one checks it.
    #[inline(always)]
    fn pinned(&self) {}

    /// This thread no longer holds anything that it was given since [`Memory::pinned`].
    #[inline(always)]
    fn unpinned(&self) {}

    /// This thread is about to signal other threads of its process by a [`LocalWord`], ordered after all that it has
    /// stored. Does nothing on real memory, where both kinds of words keep one order; a simulated one does not see
    /// local words.
    #[inline(always)]
    fn tells_own_process(&self) {}

    /// The caller relies on all stores to these bytes having reached memory. Does nothing on real memory; a simulated
    /// one checks it.
    #[inline(always)]
    fn must_be_in_memory(&self, _at: u64, _len: u64) {}

    /// The caller relies on no host having lines of these bytes in its cache, because they get another owner. Does
    /// nothing on real memory; a simulated one checks it.
    #[inline(always)]
    fn must_not_be_cached(&self, _at: u64, _len: u64) {}

    /// The caller waits for another thread that needs a moment.
    fn pause(&self) {
        std::hint::spin_loop()
    }

    /// The caller has waited for long: other threads may run.
    fn relax(&self) {
        std::thread::yield_now()
    }

    /// The caller has waited for very long: sleeps for this time at most.
    fn rest(&self, time: std::time::Duration) {
        std::thread::sleep(time)
    }

    /// The same, but unparking the thread ends the sleep. The caller gives back what was not meant for it: it unparks
    /// itself once it has what it waited for, as the thread may have been unparked by its user.
    fn park(&self, time: std::time::Duration) {
        std::thread::park_timeout(time)
    }

    /// Sync word: acquire load. One memory round trip where caches are incoherent.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    #[cfg_attr(feature = "mutants", track_caller)]
    unsafe fn load(&self, at: u64) -> u64;

    /// Sync word: release store.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn store(&self, at: u64, value: u64);

    /// Stores the eight words of the line at `at` (a multiple of 64) past the cache, in ascending order. A reader that
    /// fetches the line may find some stored and others not. Nothing of the line stays in this host's cache. One round
    /// trip.
    ///
    /// # Safety
    ///
    /// The line is of sync or owned words, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn store_line(&self, at: u64, line: [u64; 8]);

    /// Sync word: a store that is ordered before every later load of this thread.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn store_seq_cst(&self, at: u64, value: u64);

    /// Sync word: compare-exchange; `Err` holds what was found instead.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    #[cfg_attr(feature = "mutants", track_caller)]
    unsafe fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64>;

    /// Sync word: a compare-exchange that orders nothing before it: this thread's earlier stores may be seen after it.
    /// For words that claim a piece of work, not for words that say it is done. Real memory executes the same
    /// instruction as for the other, so words of the process ([`LocalWord`]) stay in order with it; the simulator does
    /// reorder.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    #[inline]
    unsafe fn compare_exchange_acquire(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        // SAFETY: the caller's promise.
        unsafe { self.compare_exchange(at, current, new) }
    }

    /// Sync word: [`Memory::fence`], then [`Memory::compare_exchange`]: earlier write-backs are complete before the
    /// word changes. One wait where an exchange begins with a fence anyway, else two.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    #[inline]
    #[cfg_attr(feature = "mutants", track_caller)]
    unsafe fn fence_and_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.fence();
        // Everything before is ordered by the fence.
        // SAFETY: the caller's promise.
        unsafe { self.compare_exchange_acquire(at, current, new) }
    }

    /// Sync word: the exchange server's last read-modify-write, which gives the service up. Where this process is about
    /// to become the server, it waits until it is; it executes none for others afterwards. On other memory an ordinary
    /// compare-exchange.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn exchange_as_last_server(&self, at: u64, current: u64, new: u64) {
        // SAFETY: the caller's promise.
        let _ = unsafe { self.compare_exchange(at, current, new) };
    }

    /// Sync word: sets it, returns what was there before. Where there is no such instruction, a loop of
    /// compare-exchanges.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn swap(&self, at: u64, value: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { swap_by_exchanges(self, at, value) }
    }

    /// Sync word: wrapping add, returns what was there before.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn fetch_add(&self, at: u64, value: u64) -> u64;

    /// Sync word: bitwise or, returns what was there before.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn fetch_or(&self, at: u64, value: u64) -> u64;

    /// Sync word: bitwise and, returns what was there before.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn fetch_and(&self, at: u64, value: u64) -> u64;

    /// A load of a sync word through the cache. The value may be stale by any amount; the caller must be able to find
    /// that out.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn load_speculative(&self, at: u64) -> u64;

    /// The eight words of the line at `at` (a multiple of 64), each at least as new as this call and read in
    /// ascending order. One flush and one miss where caches are incoherent.
    ///
    /// # Safety
    ///
    /// The line is of sync or owned words, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn fetch_line(&self, at: u64) -> [u64; 8];

    /// [`Memory::fetch_line`] for adjacent lines, all requested at once. Each is read in ascending order; the lines are
    /// not ordered among each other.
    ///
    /// # Safety
    ///
    /// The lines are of sync or owned words, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn fetch_lines(&self, at: u64, lines: &mut [[u64; 8]]) {
        for (line, at) in lines.iter_mut().zip((at..).step_by(LINE as usize)) {
            // SAFETY: the caller's promise.
            *line = unsafe { self.fetch_line(at) };
        }
    }

    /// Which of the eight words of the line at `at` have `tag` as their highest 16 bits, as a mask, the first word
    /// lowest. They are read as by [`Memory::load_speculative`].
    ///
    /// # Safety
    ///
    /// The line is of sync words, by the [caller's promise](Memory#the-callers-promise).
    #[inline]
    unsafe fn tagged(&self, at: u64, tag: u16) -> u32 {
        (0..8).fold(0, |mask, n| {
            // SAFETY: the caller's promise.
            mask | u32::from(unsafe { self.load_speculative(at + 8 * n) } >> 48 == u64::from(tag)) << n
        })
    }

    /// A hint that the line at `at` will be fetched soon.
    fn prefetch(&self, at: u64);

    /// Single-writer word: its owner's store, through the cache (release). Not visible to other hosts before it
    /// is written back.
    ///
    /// # Safety
    ///
    /// The word is an owned word of the caller, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn owned_store(&self, at: u64, value: u64);

    /// The same, for a store that may reach memory late: the owner's other stores before the next fence that follows a
    /// write-back of the line may overtake it, and recovery is right either way. If any other store is lost with its
    /// host although its owner went on, the simulator reports a fault.
    ///
    /// # Safety
    ///
    /// The word is an owned word of the caller, by the [caller's promise](Memory#the-callers-promise).
    #[inline]
    unsafe fn owned_store_lazily(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.owned_store(at, value) }
    }

    /// Single-writer word: its owner's load, through the cache.
    ///
    /// # Safety
    ///
    /// The word is an owned word of the caller, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn owned_load(&self, at: u64) -> u64;

    /// Single-writer word: anybody else's load, afresh (acquire).
    ///
    /// # Safety
    ///
    /// The word is an owned word, by the [caller's promise](Memory#the-callers-promise).
    #[cfg_attr(feature = "mutants", track_caller)]
    unsafe fn owned_peek(&self, at: u64) -> u64;

    /// The same, for a word that its owner may have changed and not written back: the caller finds out by other means,
    /// or is right with either value.
    ///
    /// # Safety
    ///
    /// The word is an owned word, by the [caller's promise](Memory#the-callers-promise).
    #[inline]
    unsafe fn owned_peek_speculative(&self, at: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.owned_peek(at) }
    }

    /// The same, for all of a line at `at` (a multiple of 64), read in ascending order.
    ///
    /// # Safety
    ///
    /// The line is of owned words, by the [caller's promise](Memory#the-callers-promise).
    #[inline]
    unsafe fn owned_peek_line_speculative(&self, at: u64) -> [u64; 8] {
        // SAFETY: the caller's promise.
        unsafe { self.fetch_line(at) }
    }

    /// Protected data: the bytes, through the cache. They must have been published, or belong to the caller.
    ///
    /// A reference to bytes that change is undefined behaviour in Rust. No process that uses the pool as it should
    /// changes protected data; one that is hostile or faulty may. A program that does not trust the pool's other
    /// writers uses [`Memory::copy_out`].
    ///
    /// # Safety
    ///
    /// The bytes are protected data, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn bytes(&self, at: u64, len: u64) -> &[u8];

    /// [`Memory::bytes`] for a caller that reads only some of them, and reports which by [`Memory::reads`]. The same on
    /// real memory; a simulated clock charges what is read.
    ///
    /// # Safety
    ///
    /// The bytes are protected data, by the [caller's promise](Memory#the-callers-promise).
    #[inline(always)]
    unsafe fn bytes_in_part(&self, at: u64, len: u64) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { self.bytes(at, len) }
    }

    /// The caller reads this part of what [`Memory::bytes_in_part`] has given it. Does nothing on real memory.
    #[inline(always)]
    fn reads(&self, _at: u64, _len: u64) {}

    /// The caller reads this many lines of its process's own memory, not the pool's. Does nothing on real memory; a
    /// simulated clock charges a hit for each.
    #[inline(always)]
    fn reads_private(&self, _lines: u64) {}

    /// Protected data: copies the bytes out, without making a reference to them. Bytes that somebody changes meanwhile
    /// arrive old or new, each word or byte by itself. For data of co-users who are not trusted, and for what may be
    /// damaged.
    ///
    /// # Safety
    ///
    /// The bytes are protected data, by the [caller's promise](Memory#the-callers-promise), but may change meanwhile.
    unsafe fn copy_out(&self, at: u64, to: &mut [u8]);

    /// Protected data: one word, as [`Memory::bytes`] has it.
    ///
    /// # Safety
    ///
    /// The word is protected data, by the [caller's promise](Memory#the-callers-promise).
    #[inline]
    unsafe fn read_word(&self, at: u64) -> u64 {
        // SAFETY: the caller's promise.
        read_once(unsafe { self.bytes(at, 8) }, 0)
    }

    /// Protected data that is not published yet: copies `data` in.
    ///
    /// # Safety
    ///
    /// The bytes are unpublished, and the caller's alone, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn write(&self, at: u64, data: &[u8]);

    /// Protected data that is not published yet: one word.
    ///
    /// # Safety
    ///
    /// The word is unpublished, and the caller's alone, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn write_word(&self, at: u64, value: u64);

    /// Protected data that is not published yet: zeroes. `at` and `len` are multiples of 8.
    ///
    /// # Safety
    ///
    /// The bytes are unpublished, and the caller's alone, by the [caller's promise](Memory#the-callers-promise).
    unsafe fn zero(&self, at: u64, len: u64);

    /// Begins to write the lines of a range back to memory. Complete after [`Memory::fence`].
    #[cfg_attr(feature = "mutants", track_caller)]
    fn write_back(&self, at: u64, len: u64);

    /// Drops the lines of a range from this host's cache (writing them back first if they are dirty). Complete
    /// after [`Memory::fence`].
    #[cfg_attr(feature = "mutants", track_caller)]
    fn invalidate(&self, at: u64, len: u64);

    /// Completes this thread's write-backs and invalidations; orders all its memory operations.
    #[cfg_attr(feature = "mutants", track_caller)]
    fn fence(&self);

    /// Writes a range back and waits for it; later stores of this thread cannot reach memory before it.
    /// Costs nothing on coherent memory, where stores are seen in program order.
    #[inline]
    #[cfg_attr(feature = "mutants", track_caller)]
    fn persist(&self, at: u64, len: u64) {
        if !Self::COHERENT {
            self.write_back(at, len);
            if !mutant::is(Mutant::PersistWithoutFence) {
                self.fence();
            }
        }
    }
}

/// [`Memory::swap`] by compare-exchanges.
///
/// # Safety
///
/// As for [`Memory::swap`].
pub unsafe fn swap_by_exchanges<M: Memory>(mem: &M, at: u64, value: u64) -> u64 {
    // SAFETY: the caller's promise.
    let mut before = unsafe { mem.load(at) };
    // SAFETY: the caller's promise.
    while let Err(found) = unsafe { mem.compare_exchange(at, before, value) } {
        before = found;
    }
    before
}

/// A backend over a mapping of a file, or of memory of this process alone.
///
/// # Safety
///
/// `mapping` is the mapping that was taken over, and nothing else writes to its bytes in another way than [`Memory`]
/// says: the pool is opened, created and closed through it.
pub unsafe trait Mapped: Memory {
    /// Takes over a mapping.
    fn over(mapping: std::sync::Arc<Mapping>) -> Result<Self, MappingError>;

    /// The mapping below.
    fn mapping(&self) -> &Mapping;

    /// Starts what must run in each process that has a pool open, before it takes a place. Where a server executes
    /// read-modify-writes, that is a thread which is the server or stands by, until the last handle is dropped. The
    /// server needs the lock of this number and the server lease.
    fn serve(
        &self,
        _boxes: delegated::Mailboxes,
        _liveness: Box<dyn Liveness>,
        _lock: u32,
        _lease: Box<dyn delegated::ServingLease>,
    ) -> Result<(), MappingError> {
        Ok(())
    }
}

/// Memory that a pool can be on: [`Coherent`], [`Noncoherent`] or [`Delegated`].
///
/// A bound for code that works on pools of any kind. Nobody else can implement it.
pub trait Backend: Mapped {}

impl<M: Mapped> Backend for M {}

/// The lines that a byte range touches, as offsets; none if it is empty.
pub(crate) fn lines(at: u64, len: u64) -> impl Iterator<Item = u64> {
    let end = at.saturating_add(len);
    let first = if len == 0 { end } else { at & !(LINE - 1) };
    (first..end).step_by(LINE as usize)
}
