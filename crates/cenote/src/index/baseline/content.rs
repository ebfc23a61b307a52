//! The content of a node: words that the holder of its lock changes in place, through the cache (pcc-indexes, section
//! 4.1).
//!
//! Readers drop the lines before they read, and load the node's [word](super::version) afterwards: what they read
//! counts if the word has not changed. A writer drops the lines too, before it takes the lock; as the word has not
//! changed until then, what it reads is not out of date. It writes back what it has changed before it releases.
//!
//! The word that guards a node has a line of its own. Nodes do not share lines.
//!
//! On coherent memory dropping and writing back do nothing.

use crate::memory::Memory;
use crate::memory::checked::owned_word;

/// Makes the next reads of some bytes come from memory. Cost: one fence, on incoherent memory.
#[inline]
pub fn refresh<M: Memory>(mem: &M, at: u64, len: u64) {
    if !M::COHERENT {
        mem.invalidate(at, len);
        mem.fence();
    }
}

/// Reads one word. Later reads are ordered after it.
#[inline]
pub fn get<M: Memory>(mem: &M, at: u64) -> u64 {
    match M::COHERENT {
        // An acquire load. On incoherent memory a load past the cache, which ends every read of a node, orders the
        // loads before it.
        true => owned_word(at).peek(mem),
        false => owned_word(at).get(mem),
    }
}
