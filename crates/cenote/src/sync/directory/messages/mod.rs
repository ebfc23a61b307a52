//! The other transport of directory locks: messages to a directory at a memory node, over the same entries and queues
//! as in a pool.
//!
//! | file | concept |
//! |---|---|
//! | `message` | what is said |
//! | `region` | what a lock covers, and which of it has changed |
//! | `instant`, `lease` | time; until when a node cannot have been declared dead |
//! | `locked` | a lock at the directory: its entry, its data, the requests |
//! | `directory` | the directory: its locks and their names, and the nodes that have joined |
//! | `copy` | a lock at a node: its permission, its data, the queue if the node holds it |
//! | `client` | a node: what it has of each lock |
//! | `threads` | a node with its threads |
//! | `frame`, `wire` | messages as bytes |
//!
//! All of it is pure: told what has arrived and what time it is, it returns what is to be sent. So tests and the
//! simulator deliver, lose, repeat and reorder as they like. [`service`](super::service) has connections and threads.
//!
//! The protocol page is `docs/protocols/directory-messages.md`. No pool is needed, and none is touched.

pub mod client;
pub mod copy;
pub mod directory;
pub mod frame;
pub mod instant;
pub mod lease;
pub mod locked;
pub mod message;
pub mod region;
pub mod threads;
pub mod wire;

pub use client::Client;
pub use directory::Directory;
pub use threads::NodeState;
