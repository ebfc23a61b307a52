//! What a thread asks its node for, and the answers.

use cenote::sync::directory::queue::Permission;

use crate::locks::mail::Letter;

/// An access to a word.
#[derive(Clone, Copy, Debug)]
pub enum WordOp {
    /// Reads it.
    Load,
    /// Sets it.
    Store(u64),
    /// Sets it; the answer is what was there.
    Swap(u64),
    /// Sets it to the second if it is the first; the answer is what was there.
    CompareExchange(u64, u64),
    /// Adds; the answer is what was there.
    Add(u64),
}

impl WordOp {
    /// What the line is needed for. An exchange that fails has had the line to write, as on hardware.
    pub fn needs(self) -> Permission {
        match self {
            Self::Load => Permission::Shared,
            _ => Permission::Exclusive,
        }
    }

    /// What the word becomes.
    pub fn apply(self, word: u64) -> u64 {
        match self {
            Self::Load => word,
            Self::Store(value) | Self::Swap(value) => value,
            Self::CompareExchange(current, new) => match word == current {
                true => new,
                false => word,
            },
            Self::Add(value) => word.wrapping_add(value),
        }
    }
}

/// An operation of a thread.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// An access to a word.
    Word(u64, WordOp),
    /// Reads the first word of each line of a range, or counts it up.
    Range {
        /// Where it begins.
        at: u64,
        /// How long it is.
        len: u64,
        /// Whether it is written.
        writes: bool,
    },
    /// Waits until the node's copy of a word may be another than this.
    Park(u64, u64),
    /// Lets time pass.
    Sleep(u64),
    /// Acquires a directory lock.
    Acquire(u32, Permission),
    /// Releases it.
    Release(u32),
    /// The same as `Range`, for what a directory lock covers.
    Covered {
        /// The lock.
        lock: u32,
        /// Whether it is written.
        writes: bool,
    },
    /// Sends a letter to a port.
    Send(u32, Letter),
    /// Waits for a letter at a port.
    Receive(u32),
}

/// What an operation has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    Nothing,
    /// A word.
    Word(u64),
    /// The first words of all lines, if they are the same.
    Range(Option<u64>),
    /// A letter.
    Letter(Letter),
}

/// The end of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// When it was.
    pub now: u64,
    /// How often the thread has waited for the network so far.
    pub crossings: u64,
    /// What it has found.
    pub answer: Answer,
}
