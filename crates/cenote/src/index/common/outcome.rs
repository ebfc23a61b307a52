//! What writes of both maps are asked for, and what they found.

/// What an upsert found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The key was new.
    Inserted,
    /// The key had a value, which is replaced.
    Replaced,
}

/// What a compare-and-replace found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replace {
    /// The expected value, which is replaced.
    Replaced,
    /// Another value, which stays.
    Differs(Vec<u8>),
    /// No such key.
    Missing,
}

/// When a write happens.
#[derive(Clone, Copy)]
pub(in crate::index) enum When<'a> {
    Always,
    IfAbsent,
    IfEqual(&'a [u8]),
}
