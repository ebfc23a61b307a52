//! Cells at offsets that the layers above have checked.
//!
//! The crate's rule (`docs/memory-model.md`, "Who promises what"): an offset that is given here follows from the pool's
//! geometry, or was checked against what the pool has committed when it was read; it is aligned; and its word or bytes
//! are shared in this one way for as long as their block is in use. `docs/pool-format.md` says in which way each is. So
//! these functions are the crate's own: what others may call is `unsafe`, in [`cells`](super::cells).

use super::{Guarded, OwnedWord, Published, SyncWord, Unpublished, WordLine};

/// A sync word.
#[inline(always)]
pub(crate) const fn sync_word(at: u64) -> SyncWord {
    // SAFETY: the crate's rule, above.
    unsafe { SyncWord::at(at) }
}

/// An owned word.
#[inline(always)]
pub(crate) const fn owned_word(at: u64) -> OwnedWord {
    // SAFETY: the crate's rule, above.
    unsafe { OwnedWord::at(at) }
}

/// A line of words.
#[inline(always)]
pub(crate) const fn word_line(at: u64) -> WordLine {
    // SAFETY: the crate's rule, above.
    unsafe { WordLine::at(at) }
}

/// Protected data.
#[inline(always)]
pub(crate) const fn published(at: u64, len: u64) -> Published {
    // SAFETY: the crate's rule, above.
    unsafe { Published::at(at, len) }
}

/// Bytes that nobody but the caller has seen.
#[inline(always)]
pub(crate) const fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: the crate's rule, above.
    unsafe { Unpublished::at(at, len) }
}

/// Bytes under a lock.
#[inline(always)]
pub(crate) const fn guarded(at: u64, len: u64) -> Guarded {
    // SAFETY: the crate's rule, above; the lock's guard makes it.
    unsafe { Guarded::at(at, len) }
}
