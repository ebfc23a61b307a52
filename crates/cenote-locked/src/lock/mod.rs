//! A lock and the words that it covers.
//!
//! | file | concept |
//! |---|---|
//! | `directory` | directory locks of a pool |

mod directory;

use crate::error::Result;
use crate::words::{Words, WordsMut};

/// How the last exclusive owner has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Former {
    /// It has unlocked.
    Unlocked,
    /// It died, or panicked: the words may be half changed.
    Died,
}

/// A lock and the words that it covers, as one thread has them. A closure that panics counts as an owner that died.
pub trait Lock {
    /// Runs beside others that read, while nobody writes. A lock without readers runs it alone.
    ///
    /// Errors: what the lock refuses with; what the closure returns.
    fn read<R>(&self, inside: impl FnOnce(&Words<'_>, Former) -> Result<R>) -> Result<R>;

    /// Runs alone.
    ///
    /// Errors: as [`Lock::read`].
    fn write<R>(&self, inside: impl FnOnce(&mut WordsMut<'_>, Former) -> Result<R>) -> Result<R>;
}
