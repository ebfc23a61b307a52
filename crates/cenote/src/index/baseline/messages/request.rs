//! Requests and answers, as the words of a line.
//!
//! | word | request | answer |
//! |---|---|---|
//! | 0 | the client's count of requests, the server's place, the verb; written last | the count; written last |
//! | 1 | the key | the outcome |
//! | 2 | the value | the value |
//! | 3 | as word 0; written first | |
//!
//! Only its owner writes a line, from its end; it is read from its beginning. A server writes another answer only if
//! the client has sent another request, so word 0 suffices to identify an answer. A request may be overwritten while it
//! is read, if the client gave it up; then words 0 and 3 differ, and the line counts as no request: the client will
//! refer to the new one.

use crate::causes::Shortage;
use crate::error::{Error, Result};
use crate::index::common::outcome::Put;
use crate::memory::checked::{owned_word, word_line};
use crate::memory::{Memory, OwnedWord};

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Put,
    Insert,
    Remove,
}

const VERBS: [Verb; 4] = [Verb::Get, Verb::Put, Verb::Insert, Verb::Remove];

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub count: u64,
    pub server: u32,
    pub verb: Verb,
    pub key: u64,
    pub value: u64,
}

const COUNT_SHIFT: u32 = 24;

impl Request {
    /// Writes it into the client's line, and begins the write-back; a fence completes it. If the client's host dies
    /// before the fence, the line may be as it was, with the request before: nothing refers to this one yet.
    pub fn write<M: Memory>(self, mem: &M, line: u64) {
        let head = self.count << COUNT_SHIFT | u64::from(self.server) << 8 | self.verb as u64;
        write(line, [head, self.key, self.value, head], |word, value| {
            word.set_lazily(mem, value)
        });
        begin_write_back(mem, line);
    }

    /// The request in a client's line; `None` if there is none yet, or the client is writing another one.
    ///
    /// Cost: one round trip.
    pub fn read<M: Memory>(mem: &M, line: u64) -> Result<Option<Self>> {
        let [head, key, value, tail, ..] = word_line(line).fetch(mem);
        if head == 0 || head != tail {
            return Ok(None);
        }
        match VERBS.get((head & 0xff) as usize) {
            Some(&verb) => Ok(Some(Self {
                count: head >> COUNT_SHIFT,
                server: (head >> 8) as u32 & 0xffff,
                verb,
                key,
                value,
            })),
            None => Err(Error::corrupt("a request", line)),
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The key is not there, or was not before.
    Missing,
    /// The key is there, or was before, with this value if that was asked.
    Present(u64),
    /// There was no room.
    Full,
    /// Not known: the server died.
    Unknown,
}

impl Answer {
    /// Writes the answer to a request into the line for its client, and writes it back.
    ///
    /// Cost: one round trip on incoherent memory.
    pub fn write<M: Memory>(self, mem: &M, line: u64, count: u64) {
        let (what, value) = match self {
            Self::Missing => (0, 0),
            Self::Present(value) => (1, value),
            Self::Full => (2, 0),
            Self::Unknown => (3, 0),
        };
        write(line, [count, what, value, 0], |word, value| word.set(mem, value));
        begin_write_back(mem, line);
        if !M::COHERENT {
            mem.fence();
        }
    }

    /// The answer to the request of this count, if it is there.
    ///
    /// Cost: one round trip.
    pub fn read<M: Memory>(mem: &M, line: u64, count: u64) -> Result<Option<Self>> {
        let [answered, what, value, ..] = word_line(line).fetch(mem);
        if answered != count {
            return Ok(None);
        }
        Ok(Some(match what {
            0 => Self::Missing,
            1 => Self::Present(value),
            2 => Self::Full,
            3 => Self::Unknown,
            _ => return Err(Error::corrupt("an answer", line)),
        }))
    }

    /// Whether the key is there, or was before.
    pub fn is_present(self) -> Result<bool> {
        self.value().map(|value| value.is_some())
    }

    /// The key's value.
    pub fn value(self) -> Result<Option<u64>> {
        match self {
            Self::Missing => Ok(None),
            Self::Present(value) => Ok(Some(value)),
            Self::Full => Err(Error::Full {
                needed: 16,
                why: Shortage::Server,
                largest: None,
            }),
            Self::Unknown => Err(Error::Unanswered),
        }
    }

    /// The answer to a put.
    pub fn of_put(put: Put) -> Self {
        match put {
            Put::Inserted => Self::Missing,
            Put::Replaced => Self::Present(0),
        }
    }

    /// The answer about a key that was there before, or was not.
    pub fn of_presence(was_there: bool) -> Self {
        match was_there {
            true => Self::Present(0),
            false => Self::Missing,
        }
    }
}

/// Writes a line's words, the first one last.
fn write(line: u64, words: [u64; 4], set: impl Fn(OwnedWord, u64)) {
    for (n, word) in words.into_iter().enumerate().rev() {
        set(owned_word(line + 8 * n as u64), word);
    }
}

fn begin_write_back<M: Memory>(mem: &M, line: u64) {
    if !M::COHERENT {
        mem.write_back(line, 8);
    }
}
