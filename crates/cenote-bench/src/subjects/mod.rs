//! What is measured: a [`Subject`] is a store under test, a [`Session`] is one thread's use of it.
//!
//! The measuring code is generic over both and is compiled once for each subject, so that a call costs what the
//! subject costs. To add a subject: a file here that implements the two traits, and a line in
//! `entries` in `hash.rs`.
//!
//! Each peer is used in its best honest form: the fastest sensible hasher, the cheapest safe way to read and to
//! write an 8-byte value. [`Subject::FORM`] says which, and is printed.

pub mod baseline;
pub mod cenote;
pub mod dashmap;
pub mod hasher;
pub mod heap;
pub mod lmdb;
pub mod ordered;
pub mod redb;
pub mod redis;
pub mod scc;
pub mod trees;

use std::fmt;
use std::path::Path;
use tempfile::TempDir;

/// A store under test; dropping it gives back all that it took.
pub trait Subject: Sized {
    /// The name in the first column.
    const NAME: &'static str;
    /// How it is used, in few words: the hasher, the transactions, the transport. Name and form are unique together.
    const FORM: &'static str;
    /// The most operations of each kind that one round measures, so that slow stores do not make the run long.
    const LIMITS: Limits = Limits::NONE;
    /// Whether [`Session::get_many`] does more than repeat [`Session::get`].
    const BATCHES: bool = false;
    /// Whether there is a [`Session::scan`].
    const SCANS: bool = false;

    /// One thread's use of the store; may borrow from it and hold its guards.
    type Session<'s>: Session
    where
        Self: 's;

    /// An empty store that grows as it is loaded.
    fn create() -> Result<Self, Failure>;

    /// Starts using the store.
    fn session(&mut self) -> Result<Self::Session<'_>, Failure>;

    /// The bytes of memory that hold the records, where that is known.
    fn bytes(&mut self) -> Result<Option<u64>, Failure>;
}

/// A store that a directory holds, for other processes to open.
pub trait Shared: Subject {
    /// An empty store in a directory.
    fn create_in(directory: &Path) -> Result<Self, Failure>;

    /// Opens the store of a directory. [`Failure::Missing`] if another process has it open and none else may.
    fn open_in(directory: &Path) -> Result<Self, Failure>;
}

/// One thread's operations. Each is what an application would call that cares for speed.
pub trait Session {
    /// Adds a key that is not there yet.
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure>;

    /// Writes a key, whether it is there or not.
    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure>;

    /// Reads a key.
    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure>;

    /// Reads several keys; `values` has the length of `keys`, and every element of it is written.
    #[inline]
    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), Failure> {
        for (key, value) in keys.iter().zip(values) {
            *value = self.get(*key)?;
        }
        Ok(())
    }

    /// The sum of the values of so many keys in ascending order, from one on; less if there are less.
    fn scan(&mut self, _from: u64, _count: usize) -> Result<u64, Failure> {
        Err(Failure::Broken("this store has no order".to_owned()))
    }

    /// Adds records as fast as the store can, outside the measurement.
    fn fill(&mut self, records: &[(u64, u64)]) -> Result<(), Failure> {
        records
            .iter()
            .try_for_each(|&(key, value)| self.insert(key, value))
    }
}

/// The most operations that one round measures.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Timed inserts into the empty store; the rest of the records is filled in untimed.
    pub inserts: usize,
    /// Timed reads.
    pub gets: usize,
    /// Timed updates.
    pub updates: usize,
}

impl Limits {
    /// As many as asked for.
    pub const NONE: Self = Self {
        inserts: usize::MAX,
        gets: usize::MAX,
        updates: usize::MAX,
    };
}

/// A directory of this process's own in `place`.
pub fn temporary(kind: &str, place: &Path) -> Result<TempDir, Failure> {
    Ok(tempfile::Builder::new().prefix(&prefix(kind)).tempdir_in(place)?)
}

/// How the names of such directories start.
fn prefix(kind: &str) -> String {
    format!("cenote-bench-{kind}-{}-", std::process::id())
}

/// Why a subject was not measured.
#[derive(Debug)]
pub enum Failure {
    /// It is not on this machine; the text says how to get it. Its row says so and the run goes on.
    Missing(String),
    /// It is there and failed, or answered wrongly. The run ends.
    Broken(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(text) | Self::Broken(text) => f.write_str(text),
        }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    #[cold]
    fn from(error: E) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Fails with a text unless something holds.
pub fn check(holds: bool, otherwise: &str) -> Result<(), Failure> {
    if holds {
        Ok(())
    } else {
        Err(Failure::Broken(otherwise.to_owned()))
    }
}

/// The failure of a read that found nothing.
#[cold]
pub fn absent(key: u64) -> Failure {
    Failure::Broken(format!("key {key:#x} is not there"))
}

#[cfg(test)]
mod tests;
