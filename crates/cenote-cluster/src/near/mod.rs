//! Modules at memory nodes: batches of the [near-memory map](cenote_near) are executed where the memory is.
//!
//! A host connects to memory nodes and asks each for some modules ([`Nodes`], which is a backend of
//! [`Modules`](cenote_near::modules::Modules)). A node lends them memory, which regions cannot have meanwhile, and has
//! worker threads execute what comes. Its event loop goes on with verbs.
//!
//! | file | |
//! |---|---|
//! | `wire` | what they say to each other |
//! | `host` | the modules of all nodes, as a host reaches them |
//! | `served` | a node's side |
//!
//! **A round** costs one round trip to each node that has something to do, all at once.
//!
//! **Whose modules they are.** Modules belong to a connection. They are empty when it begins, and are gone when it
//! ends: a host that dies leaves nothing behind. If a node dies, its modules are lost, and the round ends by
//! [`ModulesError::Lost`](cenote_near::modules::ModulesError::Lost). What they held is in the map's snapshot and log,
//! if it has those, and the map is made anew from them on nodes that are there.
//!
//! **Failure.** A node that executes says so every second, however long a batch takes. One that says nothing for
//! [`Options::silence`] counts as lost, whether it was killed, stopped or cut off. Its answers, if they come, are
//! answers on a connection that has ended. A host whose machine is lost is found out by the system's own probes of the
//! connection, within a minute.

mod host;
mod served;
#[cfg(test)]
mod tests;
mod wire;

pub use host::{NearError, Nodes, Options};
pub(crate) use served::serve;
pub use wire::Refusal;
