//! The secret that admits to a group. The pool keeps a salt and a SHA-256 of both: a reader of the pool's file does not
//! learn the secret.

use sha2::{Digest, Sha256};

use super::layout::Layout;
use crate::memory::Memory;
use crate::memory::checked::published;
use crate::pod::Worker;

/// Where the salt is; the hash follows.
const SALT_AT: u64 = 24;

/// The words that the pool keeps of a token.
pub(super) fn hash(salt: u64, token: &[u8]) -> [u64; 4] {
    let digest = Sha256::new()
        .chain_update(salt.to_le_bytes())
        .chain_update(token)
        .finalize();
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(digest.chunks_exact(8)) {
        *word = bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    words
}

/// Whether a token is the group's.
pub(super) fn fits<M: Memory>(worker: &Worker<M>, layout: Layout, token: &[u8]) -> bool {
    let mem = worker.mem();
    let hash = hash(published(layout.0 + SALT_AT, 8).read_word(mem), token);
    let kept = (1..=4).map(|n| published(layout.0 + SALT_AT + 8 * n, 8).read_word(mem));
    hash.into_iter().zip(kept).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
