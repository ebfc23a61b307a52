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
//! | [`masters`] | the masters, of which a client looks for the leader |
//! | [`store`] | one interface for pools and clusters |
//! | [`ordered`] | the ordered map for users |
//! | [`master`] | who is alive, who holds what; what is done when somebody fails |

#![deny(missing_docs)]

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

pub mod control;
pub mod credentials;
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

/// Why something did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The master cannot be reached.
    #[error(
        "the master at {master} cannot be reached: {source}; is it running, is the token right, and do both sides use TLS or neither?"
    )]
    Master {
        /// Its address.
        master: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A certificate, a key or an authority is unfit.
    #[error("the identity for TLS: {0}")]
    Identity(String),
    /// No master leads.
    #[error("none of the masters at {0} leads: is a majority of etcd running?")]
    NoLeader(String),
    /// The master refuses.
    #[error("the master refuses: {0}")]
    Refused(String),
    /// The operating system gives no event loop.
    #[error("no event loop can be made: {0}")]
    Runtime(io::Error),
    /// The map.
    #[error(transparent)]
    Map(#[from] cenote_replica::client::Error),
    /// A pool.
    #[error(transparent)]
    Pool(#[from] cenote::Error),
    /// A name that names nothing here.
    #[error("{0}")]
    Name(String),
    /// There is no token.
    #[error("{}: {why}", path.display())]
    Token {
        /// Where it was looked for.
        path: PathBuf,
        /// Why it is none.
        why: String,
    },
    /// The master's store.
    #[error("the master's store: {0}")]
    Store(String),
}
