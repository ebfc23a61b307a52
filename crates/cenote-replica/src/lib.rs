//! A map that lives on memory nodes. Clients do all the work, by one-sided verbs; the nodes hold the bytes.
//!
//! The protocols are in `docs/protocols/replicated-map.md`: who writes which word, what each crash leaves, who repairs
//! it.
//!
//! | folder | |
//! |---|---|
//! | [`verbs`] | what a memory node can do for a client, and what a client knows afterwards |
//! | [`view`] | who holds which region, and under which key |
//! | [`slot`] | one replicated word, and what its values mean |
//! | [`index`] | segments, groups and buckets of such words; how they are searched, changed and split |
//! | [`object`] | records with their log entries |
//! | [`client`] | the operations of the map |
//! | [`master`] | what is done when somebody has failed |
//! | [`memory`] | blocks, size classes, and when memory is used again |

#![deny(missing_docs)]

pub mod client;
pub mod index;
pub mod master;
pub mod memory;
pub mod mutant;
pub mod object;
pub mod slot;
pub mod verbs;
pub mod view;
