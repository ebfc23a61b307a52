//! A simulated machine of nodes whose caches a directory keeps coherent: MSI over a network, in virtual time.
//!
//! It is the second memory model beside [`machine`](crate::machine), whose caches are incoherent. Each load, store or
//! read-modify-write that finds no line, or not the permission, is a *coherence transaction*: a request to the
//! directory, invalidations of those that have the line, their acknowledgements, and the answer with the data (Soul,
//! sections 2.1 and 4.1). Data really moves: each cache and the memory have copies of their own, so that a fault of the
//! protocol is a stale value.
//!
//! The directory has a second kind of entries, directory locks ([`cenote::sync::directory`]), whose entry and queue are
//! the library's own code: a lock and the data that it covers are one line of any length, held for as long as a thread
//! wants (Soul, section 3).
//!
//! | file | concept |
//! |---|---|
//! | `profile` | what things cost |
//! | `agenda` | events in the order of time |
//! | `data` | what a line or a lock's region holds |
//! | `message` | what nodes, directory and memory tell each other |
//! | `network` | links and hops; counts of bytes |
//! | `cache` | a node's lines |
//! | `directory` | the entries of lines |
//! | `home` | a directory lock's entry, at the directory |
//! | `holder` | a directory lock at a node |
//! | `op` | what a thread asks its node for |
//! | `machine/` | all of these together |
//! | `cpu`, `run` | threads, as coroutines |
//!
//! **Limits.** Caches are as large as what is used. Threads of a node share its cache at one price, wherever the line
//! is in the node. The directory serves requests for different lines at once, those for one line in the order in which
//! they arrive.

mod agenda;
mod cache;
mod cpu;
mod data;
mod directory;
mod holder;
mod home;
mod machine;
mod message;
mod network;
mod op;
mod profile;
mod run;

#[cfg(test)]
mod tests;

pub use cpu::Cpu;
pub use machine::{Counts, Machine, Shape};
pub use profile::{Costs, NetworkProfile};
pub use run::{Body, Stuck, run, run_watched};
