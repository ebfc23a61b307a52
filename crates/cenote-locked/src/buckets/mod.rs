//! A hash table with a lock for each bucket (the shape of MIND-KVS in Soul, section 5). Keys are 8 bytes, values any
//! bytes up to a length.
//!
//! Layout, and why there is nothing to repair: `docs/protocols/locked-stores.md`.
//!
//! | file | concept |
//! |---|---|
//! | `shape` | sizes of a table, and where things are in a bucket |
//! | `bucket` | a bucket's words: find, put, remove, all pairs |
//! | `table` | the buckets and their locks |

mod bucket;
mod shape;
mod table;

pub use shape::{PAGE, SLOTS_MAX, Shape, VALUE_MAX};
pub use table::Table;

#[cfg(test)]
mod tests;
