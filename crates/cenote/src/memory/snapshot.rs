//! A view of another memory for a reader without a place: it reads, stores nothing, and learns whether what it read is
//! valid.
//!
//! No other process knows of such a reader, so what it reads may be freed and reused meanwhile. Three things follow
//! (`docs/protocols/snapshots.md`):
//!
//! - **Nothing reaches the pool.** Stores, exchanges and write-backs do nothing. The mapping below may be one that
//!   cannot be written.
//! - **Every byte is read once, as words.** What the base returns as a slice is copied to memory of this process by
//!   loads of words, and stays as it was read: code that reads a slice twice finds the same. What lies outside of the
//!   pool as committed at the attempt's beginning reads as zeroes, and so does everything once the attempt is over;
//!   zeroes end every walk.
//! - **An attempt** is what one such view reads. It holds if the epoch is the same at its end as at its beginning, so
//!   that nothing reachable since then has been reused, and if the pool has not grown. A *loose* attempt goes on when
//!   the epoch moves, and reports that at its end.
//!
//! On incoherent memory each line is read afresh, and dropped from the cache right after it was read.

use std::sync::{Arc, OnceLock};

use super::{Kernel, LINE, LocalWord, MappingError, Memory, lines};
use crate::mutant::{self, Mutant};

/// What a reader without a place has to know of a pool's layout.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The word that holds the epoch, above its last bit.
    pub epoch: u64,
    /// The word that says how much is committed, and its value when that was checked, which it must keep.
    pub committed: (u64, u64),
    /// The end of what may be touched.
    pub limit: u64,
    /// Loads of words or lines until the attempt is over: a walk through changing bytes may have no end.
    pub steps: u64,
    /// Whether the attempt is over as soon as the epoch moves on.
    pub is_strict: bool,
}

/// Steps between two polls of the epoch.
const STEPS_BETWEEN_POLLS: u64 = 64;
/// Bytes that count as a step.
const STEP_BYTES: u64 = 512;

/// See the [module documentation](self). Clones belong to one attempt.
#[derive(Clone)]
pub struct Snapshot<M: Memory> {
    base: M,
    bounds: Bounds,
    attempt: Arc<Attempt>,
}

struct Attempt {
    /// The epoch when it began.
    began: u64,
    steps: LocalWord,
    is_over: LocalWord,
    copies: Copies,
}

impl<M: Memory> Snapshot<M> {
    /// Begins an attempt.
    pub fn new(base: M, bounds: Bounds) -> Self {
        // SAFETY: within the bounds of the snapshot; loaded as words, which may be shared in any way by now.
        let began = unsafe { base.load(bounds.epoch) } >> 1;
        // What is read from now on is read after the epoch.
        base.fence();
        Self {
            attempt: Arc::new(Attempt {
                began,
                steps: LocalWord::new(0),
                is_over: LocalWord::new(0),
                copies: Copies::default(),
            }),
            base,
            bounds,
        }
    }

    /// Whether what was read is valid: the epoch and the committed size are unchanged, and the attempt was not ended
    /// before.
    pub fn holds(&self) -> bool {
        if mutant::is(Mutant::SnapshotNotValidated) {
            return true;
        }
        // Everything was read before the epoch is read again.
        self.base.fence();
        !self.is_over() && self.is_all_as_it_was()
    }

    /// Whether it ended because it took too many steps.
    pub fn is_exhausted(&self) -> bool {
        self.attempt.steps.load() > self.bounds.steps
    }

    /// Whether the epoch has moved on, or the pool has grown, since it began.
    pub fn has_moved(&self) -> bool {
        self.base.fence();
        !self.is_all_as_it_was()
    }

    /// What is committed later is outside of the bounds: what lies there looks like damage.
    fn is_all_as_it_was(&self) -> bool {
        let (committed, frames) = self.bounds.committed;
        // SAFETY: within the bounds of the snapshot; loaded as words, which may be shared in any way by now.
        let (epoch, now) = unsafe { (self.base.load(self.bounds.epoch), self.base.load(committed)) };
        epoch >> 1 == self.attempt.began && now == frames
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.attempt.is_over.load() != 0
    }

    /// Counts a step; returns whether the attempt goes on.
    #[inline]
    fn goes_on(&self, bytes: u64) -> bool {
        if self.is_over() {
            return false;
        }
        let before = self.attempt.steps.load();
        let now = before + 1 + bytes / STEP_BYTES;
        self.attempt.steps.store(now);
        if before / STEPS_BETWEEN_POLLS != now / STEPS_BETWEEN_POLLS {
            let is_moved = self.bounds.is_strict && !self.is_all_as_it_was();
            let is_moved = is_moved && !mutant::is(Mutant::SnapshotNotValidated);
            if is_moved || now > self.bounds.steps {
                self.attempt.is_over.store(1);
                return false;
            }
        }
        true
    }

    #[inline]
    fn is_within(&self, at: u64, len: u64) -> bool {
        at <= self.bounds.limit && len <= self.bounds.limit - at
    }

    /// A word, or 0.
    #[inline]
    fn word(&self, at: u64) -> u64 {
        let (committed, frames) = self.bounds.committed;
        if at == committed {
            return frames;
        }
        match self.is_within(at, 8) && self.goes_on(8) {
            // It may be anything by now, shared in any way.
            // SAFETY: within the bounds of the snapshot; loaded as words, which may be shared in any way by now.
            true => unsafe { self.base.owned_peek_speculative(at) },
            false => 0,
        }
    }

    /// A line, or zeroes.
    #[inline]
    fn line(&self, at: u64) -> [u64; 8] {
        if !self.is_within(at, LINE) || !self.goes_on(LINE) {
            return [0; 8];
        }
        // SAFETY: within the bounds of the snapshot; loaded as words, which may be shared in any way by now.
        let line = unsafe { self.base.owned_peek_line_speculative(at) };
        self.forget(at, LINE);
        line
    }

    /// Drops lines that were read. They may be protected data by now, which other threads of this host read through its
    /// cache.
    #[inline]
    fn forget(&self, at: u64, len: u64) {
        if !M::COHERENT {
            self.base.invalidate(at, len);
        }
    }

    /// A copy of bytes that lie within the bounds; `None` if this process has no memory for it.
    fn copy(&self, at: u64, len: u64) -> Option<&[u8]> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(usize::try_from(len).ok()?).ok()?;
        let end = at + len;
        for line in lines(at, len) {
            // SAFETY: within the bounds of the snapshot; loaded as words, which may be shared in any way by now.
            let words = unsafe { self.base.owned_peek_line_speculative(line) };
            self.forget(line, LINE);
            for (word_at, word) in (line..).step_by(8).zip(words) {
                let skipped = at.saturating_sub(word_at).min(8) as usize;
                let kept = end.saturating_sub(word_at).min(8) as usize;
                copy.extend_from_slice(word.to_le_bytes().get(skipped..kept).unwrap_or_default());
            }
        }
        self.attempt.copies.keep(copy)
    }
}

/// What reads as nothing: more than any key or page has.
static NOTHING: [u8; 1 << 17] = [0; 1 << 17];

// SAFETY: everything is clamped to the bounds and loaded through the base, which keeps its promise; bytes are copies
// that live as long as the attempt.
unsafe impl<M: Memory> Memory for Snapshot<M> {
    const COHERENT: bool = M::COHERENT;
    const DELEGATED: bool = M::DELEGATED;
    const NAME: &'static str = M::NAME;

    fn is_delegated(&self) -> bool {
        self.base.is_delegated()
    }

    fn reserve(&self, _at: u64, _len: u64, _huge_from: Option<u64>) -> Result<(), MappingError> {
        Err(MappingError::Unsupported(
            "reserving bytes of a pool that is only read",
        ))
    }

    fn relies_on_barrier(&self) -> bool {
        false
    }

    /// Nothing is freed because of what this reader sees.
    fn barrier_everywhere(&self) -> bool {
        true
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

    fn rest(&self, time: std::time::Duration) {
        self.base.rest(time)
    }

    fn park(&self, time: std::time::Duration) {
        self.base.park(time)
    }

    unsafe fn load(&self, at: u64) -> u64 {
        self.word(at)
    }

    unsafe fn store(&self, _at: u64, _value: u64) {}

    unsafe fn store_line(&self, _at: u64, _line: [u64; 8]) {}

    unsafe fn store_seq_cst(&self, _at: u64, _value: u64) {}

    /// Never exchanges: returns what was found.
    unsafe fn compare_exchange(&self, at: u64, _current: u64, _new: u64) -> Result<u64, u64> {
        Err(self.word(at))
    }

    unsafe fn fence_and_exchange(&self, at: u64, _current: u64, _new: u64) -> Result<u64, u64> {
        Err(self.word(at))
    }

    unsafe fn exchange_as_last_server(&self, _at: u64, _current: u64, _new: u64) {}

    unsafe fn swap(&self, at: u64, _value: u64) -> u64 {
        self.word(at)
    }

    unsafe fn fetch_add(&self, at: u64, _value: u64) -> u64 {
        self.word(at)
    }

    unsafe fn fetch_or(&self, at: u64, _value: u64) -> u64 {
        self.word(at)
    }

    unsafe fn fetch_and(&self, at: u64, _value: u64) -> u64 {
        self.word(at)
    }

    unsafe fn load_speculative(&self, at: u64) -> u64 {
        self.word(at)
    }

    unsafe fn fetch_line(&self, at: u64) -> [u64; 8] {
        self.line(at)
    }

    unsafe fn tagged(&self, at: u64, tag: u16) -> u32 {
        let line = self.line(at & !(LINE - 1));
        line.iter().enumerate().fold(0, |mask, (n, word)| {
            mask | u32::from(word >> 48 == u64::from(tag)) << n
        })
    }

    fn prefetch(&self, _at: u64) {}

    unsafe fn owned_store(&self, _at: u64, _value: u64) {}

    unsafe fn owned_load(&self, at: u64) -> u64 {
        self.word(at)
    }

    unsafe fn owned_peek(&self, at: u64) -> u64 {
        self.word(at)
    }

    unsafe fn bytes(&self, at: u64, len: u64) -> &[u8] {
        if len > 0 && self.is_within(at, len) && self.goes_on(len) {
            match self.copy(at, len) {
                Some(copy) => return copy,
                None => self.attempt.is_over.store(1),
            }
        }
        match NOTHING.get(..len as usize) {
            Some(nothing) => nothing,
            // Callers check lengths against what is committed.
            None => self.attempt.copies.zeroes(len as usize),
        }
    }

    unsafe fn read_word(&self, at: u64) -> u64 {
        self.word(at)
    }

    unsafe fn copy_out(&self, at: u64, to: &mut [u8]) {
        // What this reader is given is its own copy.
        // SAFETY: the caller's promise.
        to.copy_from_slice(unsafe { self.bytes(at, to.len() as u64) });
    }

    unsafe fn write(&self, _at: u64, _data: &[u8]) {}

    unsafe fn write_word(&self, _at: u64, _value: u64) {}

    unsafe fn zero(&self, _at: u64, _len: u64) {}

    fn write_back(&self, _at: u64, _len: u64) {}

    fn invalidate(&self, _at: u64, _len: u64) {}

    fn fence(&self) {
        self.base.fence()
    }
}

/// Copies that stay where they are for as long as this lives. They are kept in blocks, each twice as large as the one
/// before.
#[derive(Default)]
struct Copies {
    count: LocalWord,
    blocks: [OnceLock<Block>; BLOCKS],
}

/// Places for copies.
type Block = Box<[OnceLock<Box<[u8]>>]>;

/// Enough for as many copies as a count of 32 bits has.
const BLOCKS: usize = 32;

impl Copies {
    /// Keeps a copy; `None` if there are too many.
    fn keep(&self, copy: Vec<u8>) -> Option<&[u8]> {
        let number = self.count.add(1) + 1;
        let (block, first) = (number.ilog2(), 1 << number.ilog2());
        let block = self.blocks.get(block as usize)?;
        let block = block.get_or_init(|| (0..first).map(|_| OnceLock::new()).collect());
        let place = block.get((number - first) as usize)?;
        Some(place.get_or_init(|| copy.into_boxed_slice()))
    }

    fn zeroes(&self, len: usize) -> &[u8] {
        self.keep(vec![0; len]).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
