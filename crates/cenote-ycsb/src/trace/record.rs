//! A request of a trace, and what a map does for it.
//!
//! A cache knows eleven operations, a map four actions. Reads and deletes are what they are. `set` writes. `add`
//! inserts if the key is absent, which is what it does in a cache. `replace`, `cas`, `append`, `prepend`, `incr` and
//! `decr` write, too: a trace records neither what was compared with nor whether the request succeeded, and the size
//! that it records is that of the value written. So a map does the work of a write that succeeds.

use std::fmt;
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_64;

/// What a request asks a cache for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads a value.
    Get,
    /// Reads a value and its version, for a later `cas`.
    Gets,
    /// Writes a value.
    Set,
    /// Writes a value if there is none.
    Add,
    /// Writes a value if there is one.
    Replace,
    /// Writes a value if the one there still has the version that `gets` returned.
    Cas,
    /// Adds to a value's end.
    Append,
    /// Adds to a value's front.
    Prepend,
    /// Removes a key.
    Delete,
    /// Adds to a number.
    Incr,
    /// Subtracts from a number.
    Decr,
}

impl Operation {
    /// All of them, in the order in which the Twitter traces' documentation lists them.
    pub const ALL: [Self; 11] = [
        Self::Get,
        Self::Gets,
        Self::Set,
        Self::Add,
        Self::Replace,
        Self::Cas,
        Self::Append,
        Self::Prepend,
        Self::Delete,
        Self::Incr,
        Self::Decr,
    ];

    /// The name, as it is in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Gets => "gets",
            Self::Set => "set",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Cas => "cas",
            Self::Append => "append",
            Self::Prepend => "prepend",
            Self::Delete => "delete",
            Self::Incr => "incr",
            Self::Decr => "decr",
        }
    }

    /// What a map does for it.
    pub const fn action(self) -> Action {
        match self {
            Self::Get | Self::Gets => Action::Read,
            Self::Add => Action::Insert,
            Self::Delete => Action::Delete,
            Self::Set
            | Self::Replace
            | Self::Cas
            | Self::Append
            | Self::Prepend
            | Self::Incr
            | Self::Decr => Action::Write,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == text)
            .ok_or_else(|| {
                format!(
                    "unknown operation \"{text}\": known are {}",
                    Self::ALL.map(Self::name).join(", ")
                )
            })
    }
}

/// What a map does for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Looks a key up.
    Read,
    /// Sets a key's value, whether it has one or not.
    Write,
    /// Sets a key's value if it has none.
    Insert,
    /// Removes a key.
    Delete,
}

impl Action {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Insert, Self::Delete];

    /// The name, as it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Insert => "insert",
            Self::Delete => "delete",
        }
    }
}

/// One request. What a format does not record has the value that its reader documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When it came, in seconds from some beginning.
    pub time: u64,
    /// The key as it is recorded. Its length need not be [`key_size`](Self::key_size): keys are made anonymous.
    pub key: Vec<u8>,
    /// Bytes that the key had where the trace was recorded.
    pub key_size: u32,
    /// Bytes of the value. Of a read that missed, 0.
    pub value_size: u32,
    /// The client.
    pub client: u64,
    /// What for.
    pub operation: Operation,
    /// Seconds that the value shall live; 0 for ever, or where nothing is written.
    pub ttl: u64,
}

impl Default for Record {
    /// A read of an empty key.
    fn default() -> Self {
        Self {
            time: 0,
            key: Vec::new(),
            key_size: 0,
            value_size: 0,
            client: 0,
            operation: Operation::Get,
            ttl: 0,
        }
    }
}

impl Record {
    /// The key as a number: XXH3 of its bytes. Of 100 million keys, two share a number with a probability of 0.03 %.
    pub fn key_number(&self) -> u64 {
        xxh3_64(&self.key)
    }

    /// As one step of a replay with keys of 8 bytes.
    pub fn step(&self) -> Step {
        Step {
            action: self.operation.action(),
            value_size: self.value_size,
            key: self.key_number(),
        }
    }
}

/// One step of a replay with keys of 8 bytes; 16 bytes, so that millions can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What to do.
    pub action: Action,
    /// Bytes of the value.
    pub value_size: u32,
    /// To which key.
    pub key: u64,
}
