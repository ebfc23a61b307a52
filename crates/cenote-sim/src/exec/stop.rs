//! Why a run is stopped before its threads have ended, and what was found then.

use super::op::Op;
use crate::machine::MixedUse;

/// Why a run was stopped before its threads had ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It had taken more steps than it may: a thread waits for ever, or works without getting anywhere.
    Stuck,
    /// A word was used as a sync word while a cache held it dirty.
    MixedUse(MixedUse, Op),
    /// Bytes were touched that had been given back to the file system.
    Hole(Op),
    /// Bytes changed that a thread was given to read, and still held.
    SliceChanged(SliceChanged),
    /// A thread did not find what it must see.
    Stale(StaleRead),
    /// A thread relied on something being in memory that was not.
    Unreliable(Unreliable),
    /// A thread sleeps although it was to be woken.
    Overslept(Overslept),
}

/// A thread found something older than what it must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleRead {
    /// The word.
    pub at: u64,
    /// Who read it.
    pub reader: u32,
    /// Who had stored to it.
    pub writer: u32,
    /// Whether the store was lost with the writer's host.
    pub is_lost: bool,
}

impl std::fmt::Display for StaleRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            at, reader, writer, ..
        } = self;
        match self.is_lost {
            false => write!(
                f,
                "thread {reader} read the word at {at:#x} and did not find what thread {writer} had stored there, which it must see by then"
            ),
            true => write!(
                f,
                "thread {reader} read the word at {at:#x}, and what thread {writer} had stored there was lost with its host, although it had \
                 gone on after that"
            ),
        }
    }
}

/// Bytes changed under a thread that holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceChanged {
    /// The first byte that was written.
    pub at: u64,
    /// How many.
    pub len: u64,
    /// The slice: where it begins.
    pub slice: u64,
    /// How long it is.
    pub slice_len: u64,
    /// Who holds it.
    pub reader: u32,
    /// Who has written.
    pub writer: u32,
}

impl std::fmt::Display for SliceChanged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "thread {} wrote {} bytes at {:#x} while thread {} held the {} bytes at {:#x}",
            self.writer, self.len, self.at, self.reader, self.slice_len, self.slice
        )
    }
}

/// A thread that slept although an event count had been notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overslept {
    /// The thread.
    pub thread: u32,
    /// The event count.
    pub event_count: u64,
}

impl std::fmt::Display for Overslept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { thread, event_count } = self;
        write!(
            f,
            "thread {thread} sleeps by the event count at {event_count:#x}, which was notified, and nobody wakes it"
        )
    }
}

/// Something that is in a cache and must not be, or not there alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreliable {
    /// The word, or the line.
    pub at: u64,
    /// Who relies on it.
    pub thread: u32,
    /// The host whose cache has it.
    pub host: u32,
    /// Whether it must not be there at all.
    pub is_reused: bool,
}

impl std::fmt::Display for Unreliable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { at, thread, host, .. } = self;
        match self.is_reused {
            false => write!(
                f,
                "thread {thread} relies on the word at {at:#x} being in memory, and it is in the cache of host {host} alone"
            ),
            true => write!(
                f,
                "thread {thread} gives bytes away, and the cache of host {host} has their line at {at:#x}"
            ),
        }
    }
}
