//! The step by which a change of a bucket takes effect, by itself, so that faults can be planted in it.

use cenote_sim::own::{Memory, SyncWord};

/// How a bucket comes to refer to a new block.
pub trait Publish: 'static {
    /// What the index is called.
    const NAME: &'static str;

    /// Makes a bucket refer to the block of so many bytes at `block`, if it still refers to the one at `before`.
    /// Returns whether it did.
    fn publish<M: Memory>(mem: &M, bucket: SyncWord, before: u64, block: u64, len: u64) -> bool;
}

/// The right way: the block is in memory before the bucket refers to it, and no change that came between is lost.
pub struct Exchanged;

impl Publish for Exchanged {
    const NAME: &'static str = "buckets";

    fn publish<M: Memory>(mem: &M, bucket: SyncWord, before: u64, block: u64, len: u64) -> bool {
        mem.persist(block, len);
        bucket.compare_exchange(mem, before, block).is_ok()
    }
}

/// A fault: a store, which loses a change that came between.
pub struct Stored;

impl Publish for Stored {
    const NAME: &'static str = "buckets-stored";

    fn publish<M: Memory>(mem: &M, bucket: SyncWord, _: u64, block: u64, len: u64) -> bool {
        mem.persist(block, len);
        bucket.store(mem, block);
        true
    }
}

/// A fault, on incoherent memory: the block may still be in the writer's cache when others read it.
pub struct NotWrittenBack;

impl Publish for NotWrittenBack {
    const NAME: &'static str = "buckets-not-written-back";

    fn publish<M: Memory>(mem: &M, bucket: SyncWord, before: u64, block: u64, _: u64) -> bool {
        bucket.compare_exchange(mem, before, block).is_ok()
    }
}
