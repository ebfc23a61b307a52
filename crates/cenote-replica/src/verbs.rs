//! One-sided verbs: what a memory node does for a client without knowing the map. They are what a network card could
//! execute alone; over TCP a thread at the node executes them.
//!
//! Verbs go out in batches. A batch costs one round trip to each node that it names. Its verbs take effect in any
//! order, each once or not at all; reads and writes of more than 8 bytes are not atomic. A word of 8 aligned bytes is.

use std::rc::Rc;

use crate::view::{Key, NodeId};

/// A byte of a region: 14 bits of region, 32 bits of offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address(u64);

/// Bits of an offset.
const OFFSET_BITS: u32 = 32;
/// Regions that addresses can name.
pub const REGIONS_MAX: u32 = 1 << 14;
/// Bytes that objects are aligned to, and that their lengths are multiples of.
pub const GRANULE: u32 = 64;

impl Address {
    /// The byte at an offset of a region.
    pub const fn new(region: u16, offset: u32) -> Self {
        Self((region as u64) << OFFSET_BITS | offset as u64)
    }

    /// The byte of this number; `None` if no region has it.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match bits >> OFFSET_BITS < REGIONS_MAX as u64 {
            true => Some(Self(bits)),
            false => None,
        }
    }

    /// Its number, below 2^46.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Its region.
    pub const fn region(self) -> u16 {
        (self.0 >> OFFSET_BITS) as u16
    }

    /// Its offset in the region.
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    /// The first byte of its block, as blocks of so many bytes, a power of two, lie side by side in a region.
    #[must_use]
    pub const fn block(self, bytes: u32) -> Self {
        Self(self.0 & !(bytes as u64 - 1))
    }

    /// The byte so many bytes further. The caller stays inside the region.
    #[must_use]
    pub const fn plus(self, bytes: u32) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// What a node is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verb {
    /// To read so many bytes.
    Read(u32),
    /// To write bytes.
    Write(Rc<[u8]>),
    /// To replace a word if it is the expected one.
    CompareSwap {
        /// What the word has to be.
        expected: u64,
        /// What it becomes.
        new: u64,
    },
    /// To add to a word, modulo 2^64.
    FetchAdd(u64),
}

/// A verb, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The node.
    pub node: NodeId,
    /// The key that the client has for the region.
    pub key: Key,
    /// The first byte. Words are aligned.
    pub at: Address,
    /// What is to be done.
    pub verb: Verb,
}

/// What a client knows of a verb afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Completion {
    /// It has been done: these bytes were read.
    Read(Vec<u8>),
    /// It has been done.
    Written,
    /// It has been done, or found another word than it expected: the word as it was before.
    Was(u64),
    /// It has not been done, and will not be: the region has another key, or the node does not hold it.
    Refused,
    /// It has been done, or will be, or will not: the deadline ended, or the connection did.
    Unknown,
}

/// A network of memory nodes, as one client has it.
pub trait Verbs {
    /// Sends a batch, and waits for all its completions, in the order of the requests; no longer than the network's
    /// deadline. Who drops the future may leave any part of the batch done, or to be done later.
    ///
    /// Cost: one round trip.
    fn post(&self, batch: Vec<Request>) -> impl Future<Output = Vec<Completion>>;

    /// Lets a little time pass: about a round trip, or more the higher `attempt` is.
    fn pause(&self, attempt: u32) -> impl Future<Output = ()>;
}
