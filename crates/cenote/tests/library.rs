//! Tests that need no process of their own. One program, as each costs a link of the whole library.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

#[macro_use]
mod on_both;

mod audits;
mod beside_damage;
mod common;
mod cost;
mod damaged_maps;
mod damaged_records;
mod directory_lock;
mod dropped_groups;
mod dropping;
mod ends;
mod lease;
mod lock_files;
mod lock_names;
mod long_life;
mod objects;
mod parking;
mod readers;
mod reserves;
mod room;
mod rounds;
mod shrink;
mod supervise;
mod taken_lists;
mod tasks;
mod trust;
#[cfg(feature = "mutants")]
mod unjudged;
mod walks;
