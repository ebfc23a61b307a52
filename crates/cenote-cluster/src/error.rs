//! Why something did not work: [`Error`], and the causes that a caller may want to tell apart.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Masters;
use crate::master::state::Unfit;
use crate::store::MAP;
use crate::wire::TOKEN_MAX;

/// Why something did not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    NoLeader(Masters),
    /// The master refuses.
    #[error("the master refuses: {0}")]
    Refused(#[from] Refusal),
    /// The master does not speak this program's protocol.
    #[error("the master does not speak this protocol: {0}")]
    Protocol(String),
    /// What was asked for does not go together, or this program was built without it.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The operating system gives no event loop.
    #[error("no event loop can be made: {0}")]
    Runtime(io::Error),
    /// The map.
    #[error(transparent)]
    Map(#[from] cenote_replica::client::Error),
    /// A pool.
    #[error(transparent)]
    Pool(#[from] cenote::Error),
    /// A text that is not the address of a cluster.
    #[error("{0}")]
    Address(String),
    /// A map that a cluster does not have.
    #[error("a cluster has one map, {MAP:?}, and none with the name {0:?}")]
    NoSuchMap(String),
    /// There is no token.
    #[error("{}: {why}", path.display())]
    Token {
        /// Where it was looked for: a file, or the name of a variable.
        path: PathBuf,
        /// Why it is none.
        why: TokenError,
    },
    /// The master's store.
    #[error("the master's store: {0}")]
    Store(#[from] StoreError),
}

/// Why a master does not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// It has no session for another client.
    #[error("there are too many clients")]
    TooManyClients,
    /// A node that is to be one of the cluster's cannot be reached.
    #[error("no memory node answers at {address}: is it running, with the same token, and TLS as here?")]
    NodeUnreachable {
        /// Where it should listen.
        address: SocketAddr,
    },
    /// A node of the cluster does not answer.
    #[error("memory node {node} does not answer")]
    NodeSilent {
        /// Its number.
        node: u32,
    },
    /// A node that is to be one of the cluster's is reached by another network than the others.
    #[error(
        "verbs go otherwise to the memory node at {address}: give all nodes and the master the same --network"
    )]
    OtherNetwork {
        /// Where it listens.
        address: SocketAddr,
    },
    /// A node that is to be one of the cluster's holds regions already.
    #[error(
        "the memory node at {address} holds regions of a cluster: start a new one, without the file of its memory if it has any"
    )]
    NodeInUse {
        /// Where it listens.
        address: SocketAddr,
    },
    /// The cluster has this node.
    #[error("the memory node at {address} is one of the cluster's")]
    NodeKnown {
        /// Where it listens.
        address: SocketAddr,
    },
    /// A node has no memory for a region.
    #[error("memory node {node} has no memory for region {region}")]
    NodeFull {
        /// The node.
        node: u32,
        /// The region.
        region: u16,
    },
    /// The nodes of a region do not answer.
    #[error("region {region} cannot be written: its memory nodes do not answer")]
    RegionUnwritable {
        /// The region.
        region: u16,
    },
    /// The cluster has no node of this number.
    #[error("there is no memory node {node}")]
    NoSuchNode {
        /// The number.
        node: u32,
    },
    /// Without this node there are fewer than copies.
    #[error(
        "without memory node {node} there are {staying}, and {replicas} copies need as many: add a node first"
    )]
    TooFewNodes {
        /// The node that is to be drained.
        node: u32,
        /// The nodes that stay.
        staying: usize,
        /// Copies of each region.
        replicas: usize,
    },
    /// The node is given up, or the cluster has none of this number.
    #[error("there is no memory node {node} that is not given up")]
    NodeGivenUp {
        /// The number.
        node: u32,
    },
    /// A node that answers is not given up.
    #[error("memory node {node} answers: drain it, or end its process first")]
    NodeAnswers {
        /// The node.
        node: u32,
    },
    /// A node that may have a lease is not given up.
    #[error("memory node {node} is silent for less than its lease, {lease:?}: say so again")]
    NodeLeased {
        /// The node.
        node: u32,
        /// The lease.
        lease: Duration,
    },
    /// The store has no cluster, and no nodes were named to make one of.
    #[error("the store knows no cluster: is its name right? For a new cluster, name its memory nodes")]
    NoCluster,
    /// No cluster of this shape can be made of these nodes.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The store has a cluster whose map cannot be.
    #[error("the map cannot lie so")]
    Layout,
    /// With several masters, clients need an address that reaches this one.
    #[error(
        "nobody reaches a master at {address}: with several masters, --advertise must say where this one is reached"
    )]
    Unadvertised {
        /// Where it listens.
        address: SocketAddr,
    },
    /// The master does not know such a request.
    #[error("a request of another kind: {why}")]
    Unknown {
        /// What it makes of it.
        why: String,
    },
}

/// What does not go together, or was not built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// TLS and verbs over libfabric.
    #[error("TLS and libfabric do not go together: libfabric sends keys and values as they are")]
    TlsOverLibfabric,
    /// Mapped memory of nodes whose verbs go over libfabric.
    #[error("the cluster's memory nodes are reached by libfabric: their memory cannot be mapped")]
    MappedOverLibfabric,
    /// Libfabric, without the feature `ofi`.
    #[error(
        "the cluster's memory nodes are reached by libfabric, and this program was built without the feature `ofi`"
    )]
    WithoutLibfabric,
    /// A store in etcd, without the feature `etcd`.
    #[error("this program was built without etcd: build it with the feature `etcd`, or name a file")]
    WithoutEtcd,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Nothing names its file.
    #[error("the options or this variable must name the file with the cluster's token")]
    Unnamed,
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[source] io::Error),
    /// The first line is empty, or too long.
    #[error("a token has 1 to {TOKEN_MAX} bytes, on the first line")]
    Length,
}

/// Why a master cannot use its store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another master leads that has its store in the same pool.
    #[error("{}: another master leads", path.display())]
    AnotherLeads {
        /// The pool.
        path: PathBuf,
    },
    /// The pool cannot be opened, read or written.
    #[error("{}: {source}", path.display())]
    Pool {
        /// The pool.
        path: PathBuf,
        /// Why.
        source: cenote::Error,
    },
    /// etcd does not answer, or refuses.
    #[error("{0}")]
    Etcd(String),
    /// What is kept cannot be read, or is not this cluster's.
    #[error("{0}")]
    Damaged(String),
    /// This master's term is over.
    #[error("{}: {why}", path.display())]
    Deposed {
        /// The pool.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// What etcd has was written in a later term than etcd counts: it is another etcd, or has lost what it had.
    #[error("{0}")]
    LaterTerm(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Response;

    #[test]
    fn refusals_come_over_the_wire() {
        for refusal in [
            Refusal::TooManyClients,
            Refusal::NodeUnreachable {
                address: SocketAddr::from(([127, 0, 0, 1], 7)),
            },
            Refusal::NodeLeased {
                node: 3,
                lease: Duration::from_millis(1500),
            },
            Refusal::Unfit(Unfit::RegionBlocks),
        ] {
            let sent = Response::Refused(refusal);
            let text = serde_json::to_string(&sent).unwrap();
            assert_eq!(serde_json::from_str::<Response>(&text).unwrap(), sent, "{text}");
        }
        let error = Error::from(Refusal::TooManyClients);
        assert_eq!(
            error.to_string(),
            "the master refuses: there are too many clients"
        );
    }
}
