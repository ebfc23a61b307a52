//! The verbs over libfabric: what a network card executes alone, or, on plain networks, the library inside the memory
//! node.
//!
//! | file | |
//! |---|---|
//! | `endpoint` | endpoints of libfabric, over a shim in C |
//! | `memory` | a memory node's regions, open to who has their keys |
//! | `link` | a client's or the master's way to one node |
//! | `absent` | the same without the feature `ofi` |
//!
//! What a node is asked for besides verbs, and how it is found, stays with the TCP connection ([`crate::wire`]).
//! `docs/protocols/libfabric.md` says what is open when, and to whom.

#[cfg(not(feature = "ofi"))]
mod absent;
#[cfg(feature = "ofi")]
mod endpoint;
#[cfg(feature = "ofi")]
mod link;
#[cfg(feature = "ofi")]
mod memory;

#[cfg(not(feature = "ofi"))]
pub(crate) use absent::{Exports, Link, Registration};
#[cfg(feature = "ofi")]
pub(crate) use endpoint::Registration;
#[cfg(feature = "ofi")]
pub(crate) use link::Link;
#[cfg(feature = "ofi")]
pub(crate) use memory::Exports;

use serde::{Deserialize, Serialize};

/// The provider for networks without cards that execute verbs.
pub const PLAIN: &str = "tcp;ofi_rxm";

/// How verbs go to the memory nodes of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// By TCP, to a thread of the node.
    #[default]
    Tcp,
    /// By libfabric.
    Ofi,
}

/// What a node says of an open region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remote {
    /// The key of its registration.
    pub key: u64,
    /// What its first byte is called.
    pub base: u64,
}

#[cfg(all(test, feature = "ofi"))]
mod tests;
