//! Indexes: written once against the memory contract, lock-free, out of place.

pub mod hash;
