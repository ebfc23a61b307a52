//! A map that is replicated over memory nodes, as a system: nodes, a master, clients, over TCP.
//!
//! The protocols are those of [`cenote_replica`], whose page is `docs/protocols/replicated-map.md`; how to run a
//! cluster is in `docs/cluster.md`.
//!
//! | module | |
//! |---|---|
//! | [`wire`] | the bytes between a client and a node |
//! | [`node`] | a memory node |
//! | [`memory_file`] | its memory in a file, which outlives its process |
//! | [`mapped`] | memory of nodes that clients of the same machine map |
//! | [`network`] | the nodes, as a client or the master reaches them |
//! | [`near`] | modules at memory nodes: batches that are executed near the memory |
//! | [`ofi`] | verbs over libfabric |
//! | [`control`] | the protocol between clients and the master |
//! | [`session`] | a client's session with the master |
//! | [`map`] | the map for users |
//! | [`credentials`], `stream`, `tls` | what processes show to each other, and how connections are encrypted |
//! | `error` | why something did not work |
//! | [`masters`] | the masters, of which a client looks for the leader |
//! | [`store`] | one interface for pools and clusters |
//! | [`ordered`] | the ordered map for users |
//! | [`master`] | who is alive, who holds what; what is done when somebody fails |

#![deny(missing_docs)]

use std::io;

pub mod control;
pub mod credentials;
mod error;
pub mod map;
pub mod mapped;
pub mod master;
pub mod masters;
pub mod memory_file;
pub mod near;
pub mod network;
pub mod node;
pub mod ofi;
pub mod ordered;
pub mod session;
pub mod store;
mod stream;
#[cfg(feature = "tls")]
pub mod tls;
mod together;
pub mod wire;

pub use cenote_replica::client::{Replaced, Versioned};
pub use cenote_replica::object::Identity as Version;
pub use credentials::Credentials;
pub use error::{Error, Refusal, StoreError, TokenError, Unsupported};
pub use map::{Map, Options};
pub use masters::Masters;
pub use ofi::Transport;
pub use ordered::OrderedMap;
pub use store::{KeyValue, Store, StoreOptions};

/// What runs the tasks of one thread.
fn event_loop() -> io::Result<(tokio::runtime::Runtime, tokio::task::LocalSet)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok((runtime, tokio::task::LocalSet::new()))
}
