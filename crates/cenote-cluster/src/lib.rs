//! A map that is replicated over memory nodes, as a system: nodes, a master, clients, over TCP.
//!
//! The protocols are those of [`cenote_replica`], whose page is `docs/protocols/replicated-map.md`; how to run a cluster is in `docs/cluster.md`.
//!
//! | module | |
//! |---|---|
//! | [`wire`] | the bytes between a client and a node |
//! | [`node`] | a memory node |
//! | [`network`] | the nodes, as a client or the master reaches them |
//! | [`ofi`] | verbs over libfabric |
//! | [`says`] | what clients and the master say to each other |
//! | [`session`] | a client's session with the master |
//! | [`map`] | the map for users |
//! | [`master`] | who is alive, who holds what; what is done when somebody fails |

#![deny(missing_docs)]

use std::io;
use std::net::SocketAddr;

pub mod map;
pub mod master;
pub mod network;
pub mod node;
pub mod ofi;
pub mod says;
pub mod session;
pub mod wire;

pub use map::{Map, Options};
pub use ofi::Transport;

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
    #[error("the master at {master} cannot be reached: {source}; is it running, and is the token right?")]
    Master {
        /// Its address.
        master: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The master refuses.
    #[error("the master refuses: {0}")]
    Refused(String),
    /// The operating system gives no event loop.
    #[error("no event loop can be made: {0}")]
    Runtime(io::Error),
    /// The map.
    #[error(transparent)]
    Map(#[from] cenote_replica::client::Error),
    /// The master's store.
    #[error("the master's store: {0}")]
    Store(String),
}
