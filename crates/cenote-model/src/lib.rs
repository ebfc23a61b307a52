//! Models of protocols over the library's own code, whose states are all explored.

#![deny(missing_docs)]

pub mod queue_transfer;
pub mod snapshot;
pub mod twins;
