//! The words of a lock's regions, one region after another.

use super::{Load, Store};
use crate::error::{Error, Result};

/// The words that are covered, to read.
pub struct Words<'a> {
    first: &'a [u64],
    rest: &'a [u64],
}

/// The words that are covered, to change.
pub struct WordsMut<'a> {
    first: &'a mut [u64],
    rest: &'a mut [u64],
}

/// Bytes that make no word are left out. Regions begin at multiples of 64; bytes that do not begin at one of 8 have no
/// words.
fn words(bytes: &[u8]) -> &[u64] {
    bytemuck::try_cast_slice(&bytes[..bytes.len() & !7]).unwrap_or_default()
}

fn words_mut(bytes: &mut [u8]) -> &mut [u64] {
    let whole = bytes.len() & !7;
    bytemuck::try_cast_slice_mut(&mut bytes[..whole]).unwrap_or_default()
}

impl<'a> Words<'a> {
    /// The words of two regions, each at a multiple of 8.
    pub fn new(first: &'a [u8], rest: &'a [u8]) -> Self {
        Self {
            first: words(first),
            rest: words(rest),
        }
    }
}

impl<'a> WordsMut<'a> {
    /// The words of two regions, each at a multiple of 8.
    pub fn new(first: &'a mut [u8], rest: &'a mut [u8]) -> Self {
        Self {
            first: words_mut(first),
            rest: words_mut(rest),
        }
    }

    /// The same, to read.
    pub fn as_words(&self) -> Words<'_> {
        Words {
            first: self.first,
            rest: self.rest,
        }
    }
}

#[cold]
fn beyond(at: u64, covered: u64) -> Error {
    Error::Beyond { at, covered }
}

#[inline]
fn range<'a>(first: &'a [u64], rest: &'a [u64], at: u64, len: u64) -> Result<&'a [u64]> {
    let (region, from) = match at.checked_sub(first.len() as u64) {
        None => (first, at),
        Some(from) => (rest, from),
    };
    let found = from
        .checked_add(len)
        .and_then(|end| region.get(from as usize..end as usize));
    found.ok_or_else(|| beyond(at.saturating_add(len), (first.len() + rest.len()) as u64))
}

impl Load for Words<'_> {
    fn covered(&self) -> u64 {
        (self.first.len() + self.rest.len()) as u64
    }

    #[inline]
    fn load(&self, at: u64) -> Result<u64> {
        let found = match at.checked_sub(self.first.len() as u64) {
            None => self.first.get(at as usize),
            Some(at) => self.rest.get(at as usize),
        };
        found.copied().ok_or_else(|| beyond(at, self.covered()))
    }

    #[inline]
    fn words(&self, at: u64, len: u64) -> Result<&[u64]> {
        range(self.first, self.rest, at, len)
    }
}

impl Load for WordsMut<'_> {
    fn covered(&self) -> u64 {
        self.as_words().covered()
    }

    #[inline]
    fn load(&self, at: u64) -> Result<u64> {
        self.as_words().load(at)
    }

    #[inline]
    fn words(&self, at: u64, len: u64) -> Result<&[u64]> {
        range(self.first, self.rest, at, len)
    }
}

impl Store for WordsMut<'_> {
    #[inline]
    fn store(&mut self, at: u64, value: u64) -> Result<()> {
        let covered = self.covered();
        let word = match at.checked_sub(self.first.len() as u64) {
            None => self.first.get_mut(at as usize),
            Some(at) => self.rest.get_mut(at as usize),
        };
        let word: *mut u64 = word.ok_or_else(|| beyond(at, covered))?;
        // SAFETY: the word was a reference until now. Volatile, so that the compiler leaves stores in their order: who
        // dies has made a beginning of them.
        unsafe { word.write_volatile(value) };
        Ok(())
    }
}
