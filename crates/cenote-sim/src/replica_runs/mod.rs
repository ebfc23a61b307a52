//! The shipped client of the [replicated map](cenote_replica) and stores that it is compared with, on a
//! [network in virtual time](crate::rdma).
//!
//! | file | |
//! |---|---|
//! | [`store`] | what a store can do |
//! | [`shipped`] | the map itself |
//! | [`sequential`] | the same, with replicas changed one after another |
//! | [`node_allocation`] | the same, with each object allocated by a node |
//! | [`metadata_server`] | the index at a server |
//! | [`lock_based`] | locks in remote memory, records changed in place |
//! | [`place`] | how they lie on memory nodes |
//! | [`plan`] | what a run is |
//! | [`run`] | the run |
//! | [`tally`] | what is measured |
//! | [`master`] | closings after deaths |
//! | [`recovery`] | what a client's death costs |

pub mod lock_based;
pub mod master;
pub mod metadata_server;
pub mod node_allocation;
pub mod place;
pub mod plan;
pub mod recovery;
pub mod run;
pub mod sequential;
pub mod shipped;
pub mod store;
pub mod tally;
#[cfg(test)]
mod tests;

pub use plan::{Late, Phase, Plan, System, Work};
pub use run::{RunError, measure};
pub use tally::{Kind, Outcome};
