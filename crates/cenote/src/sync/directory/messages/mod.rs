//! The other transport of directory locks: messages to a directory at a memory node, over the same entries and queues as in a pool.
//!
//! | file | concept |
//! |---|---|
//! | `message` | what is said |
//! | `locked` | a lock at the directory: its entry, its data, the requests |
//! | `directory` | the directory: its locks and the nodes that have joined |
//! | `copy` | a lock at a node: its permission, its data, the queue if the node holds it |
//! | `client` | a node: what it has of each lock |
//! | `frame`, `wire` | messages as bytes |
//! | `stream` | frames out of bytes that come in pieces |
//! | `link` | a connection, whatever it is made of |
//! | `hub` | a directory at work, in a thread |
//! | `channel` | connections within a process |
//! | `socket` | connections between processes |
//! | `remote` | a process as a node |
//! | `handle` | the handle for users, and its guards |
//!
//! `locked`, `directory`, `copy` and `client` are pure: they are told what has arrived, and return what is to be sent. So tests deliver, lose, repeat and reorder as they like.
//!
//! The protocol page is `docs/protocols/directory-messages.md`. No pool is needed, and none is touched.

pub mod channel;
pub mod client;
pub mod copy;
pub mod directory;
pub mod frame;
pub mod handle;
pub mod hub;
pub mod link;
pub mod locked;
pub mod message;
pub mod remote;
pub mod socket;
pub mod stream;
mod wire;

pub use client::Client;
pub use directory::Directory;
pub use handle::RemoteLock;
pub use remote::{RemoteError, RemoteNode};
