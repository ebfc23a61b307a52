//! Applications on locks that cover data: a hash table with a lock for each bucket, and a store with one lock for
//! everything under TPC-C.
//!
//! `docs/protocols/locked-stores.md` has layout, undo record and who repairs what. In short: both change what a lock
//! covers by stores of whole words, in an order in which any beginning of them can be repaired. The table publishes
//! each change by one store. The store logs each word's old value before it changes it, and the next owner rolls back
//! what a dead one has left.
//!
//! | folder | concept |
//! |---|---|
//! | [`lock`] | a lock and the words that it covers; directory locks as one |
//! | [`words`] | reading and storing words; the undo record; what an access has touched |
//! | [`buckets`] | the hash table |
//! | [`tpcc`] | the store: tables, the five transactions, the conditions of consistency |
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

pub mod buckets;
mod error;
pub mod lock;
pub mod tpcc;
pub mod words;

pub use error::{Error, Result};
