//! Memory nodes and their clients on a network in virtual time: the shipped client of `cenote-replica`, and stores that
//! it is compared with, run on it.
//!
//! | file | |
//! |---|---|
//! | [`profile`] | what things cost |
//! | [`machine`] | cards, cores, regions |
//! | [`world`] | what is on its way, and what happens next |
//! | [`port`] | the network as one client has it: verbs, requests to a machine's cores, what the master says |
//! | [`tasks`] | clients, which are futures, in one thread |
//!
//! **What is charged.** A batch: the client's time to post it; each verb: its card's time to begin it, its bytes there;
//! the way; the node's card: the same once more, and atomic verbs one after another; the answer's bytes at both cards;
//! the way back; the poll. Cards do everything in the order in which it comes. A request to a machine's cores waits for
//! a free one. Clients compute nothing else.
//!
//! **What is not.** Cards have no caches that miss, connections no state, the switch no queues. A verb of several lines
//! takes effect at once, when it arrives: torn ones, losses and late verbs are in the tests of `cenote-replica`.

pub mod machine;
pub mod port;
pub mod profile;
pub mod tasks;
pub mod world;

/// Picoseconds.
pub type Time = u64;

/// Picoseconds of a microsecond.
pub const MICROSECOND: Time = 1_000_000;
/// Picoseconds of a millisecond.
pub const MILLISECOND: Time = 1_000 * MICROSECOND;

pub use port::Port;
pub use profile::RdmaProfile;
pub use tasks::Tasks;
pub use world::{MachineId, Shared, World};
