//! A group's frame, word by word.
//!
//! | at | | what | who writes it |
//! |---|---|---|---|
//! | 0 | P | magic, room for members and for events, salt, SHA-256 of salt and token | the creator |
//! | 64 | S | the lock | workers that change the group |
//! | 128 | S | an event count, of earlier builds | nobody |
//! | 192 | S | events counted | the lock's holder |
//! | 200 | S | places of members that were ever used | the same |
//! | 208 | S | the host whose members are being announced dead, plus one; or 0 | the same |
//! | 216 | S | how many [drops](crate::pod::names::dropping) there had been when it was made | the creator |
//! | 256 | S | commit: the number of the event that is being appended, or 0 | the same |
//! | 320 | S | what is being appended, 20 words | the same |
//! | 512 | S | members, 128 bytes each | the same; the cursor, 64 bytes in, the member |
//! | 16384 | S | events, a ring, 64 bytes each | the same |

use crate::memory::checked::sync_word;
use crate::memory::{LINE, Memory, SyncWord};
use crate::pod::format::geometry::FRAME;

/// Bytes of a group.
pub const GROUP_BYTES: u64 = FRAME;
/// "CENGROUP".
pub const MAGIC: u64 = u64::from_le_bytes(*b"CENGROUP");
/// Most members, those that have left included.
pub const MEMBERS_MAX: u64 = 124;
/// Most events.
pub const EVENTS_MAX: u64 = (GROUP_BYTES - EVENTS_AT) / LINE;
/// Words of a name.
pub const NAME_WORDS: usize = 4;
/// Bytes of the longest name of a member.
pub const MEMBER_NAME_MAX: usize = 8 * NAME_WORDS - 1;
/// Words that are committed together.
pub const PAYLOAD_WORDS: usize = 20;

const MEMBERS_AT: u64 = 512;
const MEMBER_BYTES: u64 = 2 * LINE;
const EVENTS_AT: u64 = MEMBERS_AT + MEMBERS_MAX * MEMBER_BYTES;

const _: () = assert!(EVENTS_AT == 16384 && 320 + 8 * PAYLOAD_WORDS as u64 <= MEMBERS_AT);

/// Where a group's words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout(pub u64);

impl Layout {
    /// The lock.
    pub fn lock(self) -> SyncWord {
        sync_word(self.0 + 64)
    }

    /// Events counted.
    pub fn counted(self) -> SyncWord {
        sync_word(self.0 + 192)
    }

    /// Places of members ever used.
    pub fn high(self) -> SyncWord {
        sync_word(self.0 + 200)
    }

    /// The host whose members are being announced dead: its id plus one, and its generation.
    pub fn announcing_deaths(self) -> SyncWord {
        sync_word(self.0 + 208)
    }

    /// The event that is being appended.
    pub fn commit(self) -> SyncWord {
        sync_word(self.0 + 256)
    }

    /// What is being appended.
    pub fn payload(self, n: usize) -> SyncWord {
        sync_word(self.0 + 320 + 8 * n as u64)
    }

    /// The first line of a member, below [`MEMBERS_MAX`].
    pub fn member(self, index: u64) -> Line {
        Line(self.0 + MEMBERS_AT + index * MEMBER_BYTES)
    }

    /// Events that a member has read.
    pub fn cursor(self, index: u64) -> SyncWord {
        sync_word(self.member(index).0 + LINE)
    }

    /// The line of an event, below [`EVENTS_MAX`].
    pub fn event(self, place: u64) -> Line {
        Line(self.0 + EVENTS_AT + place * LINE)
    }
}

/// Eight sync words whose first one says what they are; it is written last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(u64);

impl Line {
    /// Where it is.
    pub fn offset(self) -> u64 {
        self.0
    }

    /// One of its words.
    pub fn word(self, n: usize) -> SyncWord {
        sync_word(self.0 + 8 * n as u64)
    }

    /// Writes all of it.
    pub fn write<M: Memory>(self, mem: &M, words: [u64; 8]) {
        for n in (0..8).rev() {
            // PAIRS WITH: pod::group::layout::read
            self.word(n).store(mem, words[n]);
        }
    }

    /// Reads all of it. What is written meanwhile may be torn.
    pub fn read<M: Memory>(self, mem: &M) -> [u64; 8] {
        // PAIRS WITH: pod::group::layout::write
        std::array::from_fn(|n| self.word(n).load(mem))
    }
}

/// A name's words: its length in the first byte.
pub fn name_words(name: &str) -> [u64; NAME_WORDS] {
    let mut bytes = [0; 8 * NAME_WORDS];
    let len = name.len().min(MEMBER_NAME_MAX);
    bytes[0] = len as u8;
    bytes[1..=len].copy_from_slice(&name.as_bytes()[..len]);
    let mut words = [0; NAME_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    words
}

/// The name of some words; `None` if they are none.
pub fn name_of(words: &[u64]) -> Option<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (&len, rest) = bytes.split_first()?;
    let name = std::str::from_utf8(rest.get(..usize::from(len))?).ok()?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in ["", "a", "worker-3", "ähnlich", &"x".repeat(MEMBER_NAME_MAX)] {
            assert_eq!(name_of(&name_words(name)).as_deref(), Some(name));
        }
        assert_eq!(name_of(&[u64::MAX; NAME_WORDS]), None);
    }
}
