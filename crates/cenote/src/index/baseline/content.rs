//! What a node holds: words that the holder of its lock changes in place, through the cache (pcc-indexes, section 4.1).
//!
//! Readers have the lines dropped before they read, and look at the node's [word](super::version) afterwards: what was read
//! counts if that has not changed. A writer drops the lines too, before it takes the lock; as the word has not changed until
//! then, what it reads is not out of date. What it has changed is written back before it releases.
//!
//! The word that guards a node has a line of its own. Lines of one node are never part of another.
//!
//! On coherent memory dropping and writing back are nothing.

use crate::memory::Memory;

/// Has the next reads of a range come from memory. Cost: one fence, on incoherent memory.
#[inline]
pub fn refresh<M: Memory>(mem: &M, at: u64, len: u64) {
    if !M::COHERENT {
        mem.invalidate(at, len);
        mem.fence();
    }
}

/// One word. What is read later is read after it.
#[inline]
pub fn get<M: Memory>(mem: &M, at: u64) -> u64 {
    match M::COHERENT {
        // An acquire load. On incoherent memory a load past the cache, which ends every look, orders the ones before it.
        true => mem.owned_peek(at),
        false => mem.owned_load(at),
    }
}
