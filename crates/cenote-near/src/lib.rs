//! An ordered map whose pointers are chased where the memory is: in *modules*, each of which has memory and a small
//! processor.
//!
//! The host sends batches of operations, and all modules execute their parts in one round. Which module has which keys
//! follows the load: subranges of keys that become busy are split and moved, or pulled to the host, until modules are
//! about equally busy. The protocol is in `docs/protocols/near-memory.md`, with its sources.
//!
//! | folder | |
//! |---|---|
//! | [`modules`] | the contract with modules, and what implements it: worker threads; thousands of simulated modules in virtual time |
//! | [`device`] | what a module executes for the map: a skiplist in an arena, and the commands on it |
//! | [`map`] | the map on the host: where keys are, batches, redistribution |
//! | `hotness` | a model of how hot subranges will be, for their heights; feature `hotness` |
//! | [`durable`] | a snapshot and a log, so that a map outlives its process |
//! | [`baseline`] | other ways to divide a map over modules, to compare with |
//!
//! ```
//! use cenote_near::map::{Answer, Config, Map, Operation};
//! use cenote_near::modules::Threads;
//!
//! let mut map = Map::threads(Config::default(), 4, 2)?;
//! let answers = map.execute(&[Operation::Insert(7, 70), Operation::Get(7), Operation::Predecessor(9)])?;
//! assert_eq!(answers[1], Answer::Value(Some(70)));
//! assert_eq!(answers[2], Answer::Pair(Some((7, 70))));
//! # let _: &Map<Threads<_>> = &map;
//! # Ok::<(), cenote_near::map::MapError>(())
//! ```

#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

pub mod baseline;
pub mod device;
pub mod durable;
#[cfg(feature = "hotness")]
pub mod hotness;
pub mod map;
pub mod modules;
