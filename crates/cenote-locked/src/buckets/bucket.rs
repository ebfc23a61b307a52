//! A bucket's words: find, put, remove, all pairs.
//!
//! A put fills a free slot and then stores one word of the index; a remove stores one word. So a crash after any store
//! leaves what was there before or what was to be there.

use super::shape::{SLOT_HEAD, Shape};
use crate::error::{Error, Result};
use crate::words::{Load, Store};

/// Bits of a word of the index that name the slot, plus one.
const SLOT_BITS: u32 = 16;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;

/// The hash of a key. The bucket is taken from its lower bits, the tag in the index from its upper ones.
pub fn hash(key: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&key.to_le_bytes())
}

fn tag(hash: u64) -> u64 {
    hash & !SLOT_MASK
}

/// The slot that a word of the index names.
fn slot(shape: &Shape, entry: u64) -> Result<Option<u32>> {
    match entry & SLOT_MASK {
        0 => Ok(None),
        number if number <= u64::from(shape.slots) + 1 => Ok(Some(number as u32 - 1)),
        found => Err(Error::Damaged {
            what: "a slot's number in a bucket's index",
            found,
        }),
    }
}

/// Where a key is.
struct Place {
    /// The word of the index.
    index: u64,
    slot: u32,
}

fn find(shape: &Shape, words: &impl Load, key: u64) -> Result<Option<Place>> {
    let tag = tag(hash(key));
    for n in 0..shape.slots {
        let index = shape.index(n);
        let entry = words.load(index)?;
        if entry & !SLOT_MASK == tag
            && let Some(slot) = slot(shape, entry)?
            && words.load(shape.slot(slot))? == key
        {
            return Ok(Some(Place { index, slot }));
        }
    }
    Ok(None)
}

fn pair<'w>(shape: &Shape, words: &'w impl Load, slot: u32) -> Result<(u64, &'w [u8])> {
    let at = shape.slot(slot);
    let (key, len) = (words.load(at)?, words.load(at + 1)?);
    if len > shape.value_max.into() {
        return Err(Error::Damaged {
            what: "a value's length",
            found: len,
        });
    }
    let value = words.words(at + SLOT_HEAD, len.div_ceil(8))?;
    let bytes: &[u8] = bytemuck::cast_slice(value);
    Ok((key, &bytes[..len as usize]))
}

/// The value of a key.
pub fn get<'w>(shape: &Shape, words: &'w impl Load, key: u64) -> Result<Option<&'w [u8]>> {
    let found = find(shape, words, key)?;
    found
        .map(|place| Ok(pair(shape, words, place.slot)?.1))
        .transpose()
}

/// Visits all pairs.
pub fn scan(shape: &Shape, words: &impl Load, mut visit: impl FnMut(u64, &[u8])) -> Result<()> {
    for n in 0..shape.slots {
        if let Some(slot) = slot(shape, words.load(shape.index(n))?)? {
            let (key, value) = pair(shape, words, slot)?;
            visit(key, value);
        }
    }
    Ok(())
}

/// What the index names, and its first empty word.
fn used(shape: &Shape, words: &impl Load) -> Result<(u64, Option<u64>)> {
    let (mut used, mut empty) = (0_u64, None);
    for n in 0..shape.slots {
        let index = shape.index(n);
        match slot(shape, words.load(index)?)? {
            Some(slot) => used |= 1 << slot,
            None => empty = empty.or(Some(index)),
        }
    }
    Ok((used, empty))
}

/// Sets the value of a key, whether or not it is there. Returns whether it was; `None` if there is no room.
pub fn put(shape: &Shape, words: &mut impl Store, key: u64, value: &[u8]) -> Result<Option<bool>> {
    let found = find(shape, words, key)?;
    let (used, empty) = used(shape, words)?;
    let Some(index) = found.as_ref().map(|place| place.index).or(empty) else {
        return Ok(None);
    };
    // One more slot than words in the index, so one is free.
    let free = used.trailing_ones();
    if free > shape.slots {
        return Err(Error::Damaged {
            what: "the number of slots in use",
            found: free.into(),
        });
    }
    let at = shape.slot(free);
    words.store(at, key)?;
    words.store(at + 1, value.len() as u64)?;
    for (at, bytes) in (at + SLOT_HEAD..).zip(value.chunks(8)) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        words.store(at, u64::from_ne_bytes(word))?;
    }
    words.store(index, tag(hash(key)) | u64::from(free + 1))?;
    Ok(Some(found.is_some()))
}

/// Removes a key. Returns whether it was there.
pub fn remove(shape: &Shape, words: &mut impl Store, key: u64) -> Result<bool> {
    match find(shape, words, key)? {
        Some(place) => words.store(place.index, 0).map(|()| true),
        None => Ok(false),
    }
}
