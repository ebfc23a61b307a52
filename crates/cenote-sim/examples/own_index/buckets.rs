//! An index: eight buckets, each a word that refers to a block of pairs which never changes.
//!
//! | what | shared as | |
//! |---|---|---|
//! | a bucket, a root of the arena | sync word | the offset of its block; 0 before there is one |
//! | a block | protected data | how many pairs, then each key and value |
//!
//! A reader loads the bucket and reads the block. A writer reads it too, writes a copy with its change, and
//! [publishes](super::publish) it: the copy is written back, then a compare-exchange makes the bucket refer to it. If
//! another writer was faster, it begins again.
//!
//! **Linearizability.** A call that changes the map takes effect at its exchange, every other at its last load of the
//! bucket. Blocks are never used again, so a bucket that is as it was means that its pairs are.
//!
//! **Crash.** Before the exchange nobody knows the copy, and its bytes are lost to the arena; after it nothing is left
//! to do. Nobody waits for anybody.

use std::marker::PhantomData;
use std::rc::Rc;

use cenote_sim::own::{
    Arena, Error, Guidelines, Index, LINE, Memory, Published, Put, Result, SyncWord, Unpublished, WordMap,
    Worker,
};

use super::publish::Publish;

/// "BUCKETS".
const MAGIC: u64 = u64::from_le_bytes(*b"BUCKETS\0");
/// Bytes of the arena for each record: blocks are not reused, so room for a few changes.
const RECORD_BYTES: u64 = 16 * LINE;
/// The most records that the arena is made for.
const RECORDS_MAX: u64 = 1 << 24;
/// What hashes are shifted by: an arena has eight roots.
const SHIFT: u32 = 64 - 3;

/// The index.
pub struct OnBuckets<P>(PhantomData<P>);

impl<P: Publish> Index for OnBuckets<P> {
    type On<M: Memory> = Buckets<M, P>;
}

/// The index as one thread has it open. See the [module documentation](self).
pub struct Buckets<M: Memory, P> {
    arena: Arena<M>,
    publish: PhantomData<P>,
}

/// Bytes that are published.
fn published(at: u64, len: u64) -> Published {
    // SAFETY: part of a block in the arena, as the caller has checked. A bucket referred to it, so it does not change
    // any more.
    unsafe { Published::at(at, len) }
}

/// A word of a block that is being written.
fn unpublished(at: u64) -> Unpublished {
    // SAFETY: a word of lines that the caller has just taken from the arena.
    unsafe { Unpublished::at(at, 8) }
}

/// A key's value among pairs.
fn value_of(pairs: &[(u64, u64)], key: u64) -> Option<u64> {
    pairs
        .iter()
        .find_map(|&(other, value)| (other == key).then_some(value))
}

impl<M: Memory, P: Publish> Buckets<M, P> {
    fn mem(&self) -> &M {
        self.arena.worker().mem()
    }

    /// A key's bucket. An error in a child of the process that opened the index: the child has no place in the pool.
    fn bucket(&self, key: u64) -> Result<SyncWord> {
        match self.arena.worker().is_forked() {
            true => Err(Error::Forked),
            false => Ok(self.arena.root(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT)),
        }
    }

    /// The pairs of a block. What was read from the pool is checked before it is followed.
    fn pairs(&self, block: u64) -> Result<Vec<(u64, u64)>> {
        if block == 0 {
            return Ok(Vec::new());
        }
        let what = "a block of pairs,";
        let damaged = || Error::Corrupt { what, at: block };
        if !block.is_multiple_of(LINE) || !self.arena.has(block, LINE) {
            return Err(damaged());
        }
        let count = published(block, 8).read_word(self.mem());
        let len = count.checked_mul(16).ok_or_else(damaged)?;
        if !self.arena.has(block + 8, len) {
            return Err(damaged());
        }
        let (words, _) = published(block + 8, len).bytes(self.mem()).as_chunks::<8>();
        let (pairs, _) = words.as_chunks::<2>();
        Ok(pairs
            .iter()
            .map(|&[key, value]| (u64::from_le_bytes(key), u64::from_le_bytes(value)))
            .collect())
    }

    /// Writes a block. Returns where it is, and its length.
    fn write(&self, pairs: &[(u64, u64)]) -> Result<(u64, u64)> {
        let len = 8 + 16 * pairs.len() as u64;
        let block = self.arena.take(len)?;
        let words = pairs.iter().flat_map(|&(key, value)| [key, value]);
        for (at, word) in (block..)
            .step_by(8)
            .zip(std::iter::once(pairs.len() as u64).chain(words))
        {
            unpublished(at).write_word(self.mem(), word);
        }
        Ok((block, len))
    }

    /// Gives a key the value that `wanted` says, which is told the one it has. Returns that.
    fn change(&self, key: u64, wanted: impl Fn(Option<u64>) -> Option<u64>) -> Result<Option<u64>> {
        let bucket = self.bucket(key)?;
        loop {
            let before = bucket.load(self.mem());
            let mut pairs = self.pairs(before)?;
            let had = value_of(&pairs, key);
            let wants = wanted(had);
            if wants == had {
                return Ok(had);
            }
            pairs.retain(|&(other, _)| other != key);
            pairs.extend(wants.map(|value| (key, value)));
            let (block, len) = self.write(&pairs)?;
            if P::publish(self.mem(), bucket, before, block, len) {
                return Ok(had);
            }
            self.mem().pause();
        }
    }
}

impl<M: Memory, P: Publish> WordMap<M> for Buckets<M, P> {
    const NAME: &'static str = P::NAME;
    const IS_ORDERED: bool = false;

    fn open_or_create(worker: Rc<Worker<M>>, name: &str, _: Guidelines, records: u64) -> Result<Self> {
        let bytes = records.min(RECORDS_MAX) * RECORD_BYTES;
        Ok(Self {
            arena: Arena::open_or_create(worker, name, MAGIC, bytes)?,
            publish: PhantomData,
        })
    }

    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        let block = self.bucket(key)?.load(self.mem());
        Ok(value_of(&self.pairs(block)?, key))
    }

    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        Ok(match self.change(key, |_| Some(value))? {
            Some(_) => Put::Replaced,
            None => Put::Inserted,
        })
    }

    fn insert_u64(&self, key: u64, value: u64) -> Result<bool> {
        let had = self.change(key, |had| had.or(Some(value)))?;
        Ok(had.is_none())
    }

    fn remove_u64(&self, key: u64) -> Result<bool> {
        let had = self.change(key, |_| None)?;
        Ok(had.is_some())
    }

    fn scan_u64(&self, _: u64, _: impl FnMut(u64, u64) -> bool) -> Result<()> {
        Ok(())
    }
}
