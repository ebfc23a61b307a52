//! Words that a lock covers: how they are read and stored, the undo record, and what an access has touched.
//!
//! | file | concept |
//! |---|---|
//! | `covered` | the words of a lock's regions |
//! | `undo` | a transaction's old values, so that it can be rolled back |
//! | `recorder` | which lines an access has touched |
//! | `mortal` | words whose owner dies after some stores, for tests |

mod covered;
#[cfg(test)]
pub(crate) mod mortal;
mod recorder;
mod undo;

pub use covered::{Words, WordsMut};
pub use recorder::{LINE_WORDS, Recorder, Touch};
pub use undo::{Record, Transaction};

use crate::error::Result;

/// Words that can be read. They are counted from 0.
pub trait Load {
    /// How many there are.
    fn covered(&self) -> u64;

    /// A word.
    ///
    /// Errors: [`Error::Beyond`](crate::Error::Beyond).
    fn load(&self, at: u64) -> Result<u64>;

    /// So many words from one on. No range lies in two regions.
    ///
    /// Errors: [`Error::Beyond`](crate::Error::Beyond).
    fn words(&self, at: u64, len: u64) -> Result<&[u64]>;
}

/// Words that can be changed.
pub trait Store: Load {
    /// Sets a word. A writer that dies has made all stores up to one, and none after it.
    ///
    /// Errors: [`Error::Beyond`](crate::Error::Beyond).
    fn store(&mut self, at: u64, value: u64) -> Result<()>;
}

/// Sets words from one on.
///
/// Errors: [`Error::Beyond`](crate::Error::Beyond).
pub fn store_all(to: &mut impl Store, at: u64, values: &[u64]) -> Result<()> {
    (at..)
        .zip(values)
        .try_for_each(|(at, value)| to.store(at, *value))
}

/// The bytes of a text in words, with zeroes behind it; what has no room is cut off.
pub fn text_of<const WORDS: usize>(text: &[u8]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    let len = text.len().min(bytes.len());
    bytes[..len].copy_from_slice(&text[..len]);
    words
}

/// The text in words, without the zeroes behind it.
pub fn text_in(words: &[u64]) -> &[u8] {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    &bytes[..end]
}

#[cfg(test)]
mod tests;
