//! The undo record: what words held before a transaction changed them. It lies among the words that it is about, so
//! that the lock's next owner finds it.
//!
//! A count, and pairs of a word's place and its old value. A store writes the pair, counts it, and then stores: a crash
//! leaves no changed word without a pair that counts. A transaction is complete once the count is 0. To roll back is to
//! write the old values, from the last pair to the first, and count each off: it can be repeated from any step.

use super::{Load, Store};
use crate::error::{Error, Result};

/// Where an undo record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The word of the count; the pairs follow.
    at: u64,
    /// The most pairs.
    capacity: u64,
}

impl Record {
    /// The record with its count at a word, with room for so many pairs.
    pub const fn new(at: u64, capacity: u64) -> Self {
        Self { at, capacity }
    }

    /// Words that it takes.
    pub const fn len(self) -> u64 {
        1 + 2 * self.capacity
    }

    /// Whether it has room for nothing.
    pub const fn is_empty(self) -> bool {
        self.capacity == 0
    }

    fn pair(self, n: u64) -> u64 {
        self.at + 1 + 2 * n
    }

    /// How many pairs count: not 0 if a transaction has begun and has not ended.
    ///
    /// Errors: [`Error::Damaged`], [`Error::Beyond`].
    pub fn count(self, words: &impl Load) -> Result<u64> {
        match words.load(self.at)? {
            count if count <= self.capacity => Ok(count),
            found => Err(Error::Damaged {
                what: "the count of the undo record",
                found,
            }),
        }
    }

    /// Writes back what all pairs say. Returns how many there were.
    ///
    /// Errors: [`Error::Damaged`], [`Error::Beyond`].
    pub fn roll_back(self, words: &mut impl Store) -> Result<u64> {
        let count = self.count(words)?;
        for n in (0..count).rev() {
            let at = words.load(self.pair(n))?;
            let old = words.load(self.pair(n) + 1)?;
            if (self.at..self.at + self.len()).contains(&at) {
                return Err(Error::Damaged {
                    what: "a word's place in the undo record",
                    found: at,
                });
            }
            words.store(at, old)?;
            words.store(self.at, n)?;
        }
        Ok(count)
    }
}

/// Words under an undo record that was empty before. It ends with [`Transaction::commit`] or
/// [`Transaction::roll_back`]; without either, the changes stay, and so does the record of them.
pub struct Transaction<'w, W: Store> {
    words: &'w mut W,
    record: Record,
    count: u64,
}

impl<'w, W: Store> Transaction<'w, W> {
    /// Begins. What a transaction before has left is rolled back first.
    ///
    /// Errors: [`Error::Damaged`], [`Error::Beyond`].
    pub fn begin(words: &'w mut W, record: Record) -> Result<Self> {
        record.roll_back(words)?;
        Ok(Self {
            words,
            record,
            count: 0,
        })
    }

    /// The changes stay.
    ///
    /// Errors: [`Error::Beyond`].
    pub fn commit(self) -> Result<()> {
        self.words.store(self.record.at, 0)
    }

    /// The words are as they were before.
    ///
    /// Errors: [`Error::Damaged`], [`Error::Beyond`].
    pub fn roll_back(self) -> Result<()> {
        self.record.roll_back(self.words).map(drop)
    }
}

impl<W: Store> Load for Transaction<'_, W> {
    fn covered(&self) -> u64 {
        self.words.covered()
    }

    #[inline]
    fn load(&self, at: u64) -> Result<u64> {
        self.words.load(at)
    }

    #[inline]
    fn words(&self, at: u64, len: u64) -> Result<&[u64]> {
        self.words.words(at, len)
    }
}

impl<W: Store> Store for Transaction<'_, W> {
    /// Errors: [`Error::UndoFull`], [`Error::Beyond`].
    #[inline]
    fn store(&mut self, at: u64, value: u64) -> Result<()> {
        let old = self.words.load(at)?;
        if old == value {
            return Ok(());
        }
        let Record { at: counts, capacity } = self.record;
        if self.count == capacity {
            return Err(Error::UndoFull(capacity));
        }
        let pair = self.record.pair(self.count);
        self.words.store(pair, at)?;
        self.words.store(pair + 1, old)?;
        self.words.store(counts, self.count + 1)?;
        self.count += 1;
        self.words.store(at, value)
    }
}
