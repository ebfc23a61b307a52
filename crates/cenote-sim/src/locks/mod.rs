//! Locks to compare directory locks with, on a small memory contract ([`words`]): the same code runs on a simulated
//! network ([`msi`](crate::msi)) and on every backend of the library.
//!
//! | file | concept |
//! |---|---|
//! | `words` | the contract, and the library's backends as an implementation |
//! | `room` | where locks lie: each word that is contended in a line of its own |
//! | `mcs` | the queue lock of Mellor-Crummey and Scott |
//! | `posix` | a reader-writer lock with one counter |
//! | `per_core` | a reader-writer lock with a word for each thread ("big reader") |
//! | `cohort` | C-RW-WP, a reader-writer cohort lock that prefers writers |
//! | `mail` | letters, the contract of the lock service |
//! | `service` | a lock service: managers with a queue for each lock |
//!
//! **Why a contract of its own.** [`Memory`](cenote::memory::Memory) is that of incoherent memory: write-backs,
//! flushes, protected data, deaths, sleeping. On coherent caches none of it means anything, and a lock that polls needs
//! what it does not have: to say that it polls ([`Words::wait_until`]), so that a simulator can skip the polls that
//! find nothing new. [`OnMemory`](words::OnMemory) makes it of any `Memory`.

pub mod cohort;
pub mod mail;
pub mod mcs;
pub mod per_core;
pub mod posix;
pub mod room;
pub mod service;
pub mod words;

#[cfg(test)]
mod tests;

use cenote::sync::directory::queue::Permission;

pub use words::Words;

/// Who uses a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// The thread, counted from 0.
    pub thread: u32,
    /// Its node, counted from 0.
    pub node: u32,
}

/// A lock in words.
pub trait Lock {
    /// Acquires it. A lock without readers gives it exclusively.
    fn acquire<W: Words>(&self, mem: &W, who: Who, wants: Permission);

    /// Releases it, by who has acquired it so.
    fn release<W: Words>(&self, mem: &W, who: Who, had: Permission);
}
