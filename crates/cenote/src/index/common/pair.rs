//! Objects of maps that hold a pair: a key and its value, written once.
//!
//! | | bytes |
//! |---|---|
//! | small | key (8), value (8) |
//! | other | key length (8), value length (8), key, value |

use crate::error::{Error, Result};
use crate::memory::checked::{published, unpublished};
use crate::memory::{Memory, read_once};
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::alloc::slab::check_fits;

/// The longest key, in bytes.
pub const KEY_MAX: usize = 1 << 16;
const HEADER: u64 = 16;

/// Whether a pair is stored as a small object.
#[inline]
pub fn is_small(key: &[u8], value: &[u8]) -> bool {
    key.len() == 8 && value.len() == 8
}

/// Bytes that a pair's object needs.
#[inline]
pub fn size(key: &[u8], value: &[u8]) -> u64 {
    if is_small(key, value) {
        16
    } else {
        size_of(key.len() as u64, value.len() as u64)
    }
}

/// Bytes that an object needs that is not small.
#[inline]
pub fn size_of(key_len: u64, value_len: u64) -> u64 {
    HEADER + key_len + value_len
}

/// Writes the lengths and the key of an object that is not small to unpublished memory, and begins their write-back.
/// Returns where the value is to be.
pub fn write_key<M: Memory>(mem: &M, at: u64, key: &[u8], value_len: u64) -> u64 {
    unpublished(at, 8).write_word(mem, key.len() as u64);
    unpublished(at + 8, 8).write_word(mem, value_len);
    unpublished(at + HEADER, key.len() as u64).write(mem, key);
    if !M::COHERENT {
        mem.write_back(at, HEADER + key.len() as u64);
    }
    at + HEADER + key.len() as u64
}

/// Where the value of the object at an offset is, which must not be small, and its length. The value is not read.
pub fn value_at<M: Memory>(worker: &Worker<M>, at: u64) -> Result<(u64, u64)> {
    let (key_len, len) = lens(worker, at)?;
    Ok((at + HEADER + key_len, len - HEADER - key_len))
}

/// The word of the first 8 bytes.
#[inline]
pub fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

/// Writes a pair to unpublished memory, and begins its write-back: complete with the fence of `pod::commit::publish`.
#[inline]
pub fn write<M: Memory>(mem: &M, at: u64, key: &[u8], value: &[u8]) {
    if is_small(key, value) {
        unpublished(at, 8).write_word(mem, word(key));
        unpublished(at + 8, 8).write_word(mem, word(value));
        if !M::COHERENT && !mutant::is(Mutant::ObjectNotWrittenBack) {
            mem.write_back(at, 16);
        }
        return;
    }
    unpublished(at, 8).write_word(mem, key.len() as u64);
    unpublished(at + 8, 8).write_word(mem, value.len() as u64);
    unpublished(at + HEADER, key.len() as u64).write(mem, key);
    unpublished(at + HEADER + key.len() as u64, value.len() as u64).write(mem, value);
    if !M::COHERENT {
        let is_part = mutant::is(Mutant::ObjectPartlyWrittenBack);
        mem.write_back(at, if is_part { 8 } else { size(key, value) });
    }
}

/// A published pair.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'m> {
    /// The key.
    pub key: &'m [u8],
    /// The value.
    pub value: &'m [u8],
}

/// The key of the object at an offset, which must not be small.
pub fn key_at<M: Memory>(worker: &Worker<M>, at: u64) -> Result<&[u8]> {
    let (key_len, _) = lens(worker, at)?;
    Ok(published(at + HEADER, key_len).bytes(worker.mem()))
}

/// The pair of the object at an offset, which must not be small. Everything read is checked.
#[inline]
pub fn read_at<M: Memory>(worker: &Worker<M>, at: u64) -> Result<Pair<'_>> {
    let (key_len, len) = lens(worker, at)?;
    let bytes = published(at, len).bytes(worker.mem());
    let (key, value) = bytes[HEADER as usize..].split_at(key_len as usize);
    Ok(Pair { key, value })
}

/// A copy of the value of the object at an offset, which must not be small; no reference to its bytes is made.
pub fn copy_value<M: Memory>(worker: &Worker<M>, at: u64) -> Result<Vec<u8>> {
    let (key_len, len) = lens(worker, at)?;
    let value_at = HEADER + key_len;
    Ok(published(at + value_at, len - value_at).copied(worker.mem()))
}

/// The lengths of the key and of the whole object at an offset, which must not be small.
#[inline(always)]
fn lens<M: Memory>(worker: &Worker<M>, at: u64) -> Result<(u64, u64)> {
    worker.check("a map's object", at, HEADER)?;
    let header = published(at, HEADER).bytes(worker.mem());
    let (key_len, value_len) = (read_once(header, 0), read_once(header, 8));
    if key_len > KEY_MAX as u64 {
        return Err(Error::corrupt("a key's length", at));
    }
    let len = value_len
        .checked_add(HEADER + key_len)
        .ok_or_else(|| Error::corrupt("a value's length", at + 8))?;
    worker.check("a value's length", at, len)?;
    Ok((key_len, len))
}

/// Fails if the object at an offset, which must not be small, has no room for the lengths that it says. For audits.
pub fn check_lengths<M: Memory>(worker: &Worker<M>, at: u64) -> Result<()> {
    let (_, len) = lens(worker, at)?;
    check_fits(worker, "the lengths of a key and its value", at, len)
}

/// Whether the small object at a committed offset has `key`.
#[inline(always)]
pub fn has_small_key<M: Memory>(mem: &M, at: u64, key: &[u8]) -> bool {
    <[u8; 8]>::try_from(key).is_ok_and(|key| published(at, 8).read_word(mem) == u64::from_le_bytes(key))
}
