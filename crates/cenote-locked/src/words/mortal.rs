//! Words whose owner dies after some stores; for tests of repairs.

use super::{Load, Store};
use crate::error::{Error, Result};

/// Words of which only so many stores are made: then their owner is dead.
pub struct Mortal<'w, W> {
    /// The words.
    pub words: &'w mut W,
    /// Stores that it will make.
    pub left: u64,
}

/// What a dead owner returns.
pub fn died() -> Error {
    Error::Lock("its owner has died".to_owned())
}

impl<W: Load> Load for Mortal<'_, W> {
    fn covered(&self) -> u64 {
        self.words.covered()
    }

    fn load(&self, at: u64) -> Result<u64> {
        self.words.load(at)
    }

    fn words(&self, at: u64, len: u64) -> Result<&[u64]> {
        self.words.words(at, len)
    }
}

impl<W: Store> Store for Mortal<'_, W> {
    fn store(&mut self, at: u64, value: u64) -> Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(died)?;
        self.words.store(at, value)
    }
}
