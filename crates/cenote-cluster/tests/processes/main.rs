//! Clusters of real processes: memory nodes, a master, clients.

mod clients;
mod cluster;
mod histories;
#[cfg(feature = "ofi")]
mod ofi;
mod promises;
