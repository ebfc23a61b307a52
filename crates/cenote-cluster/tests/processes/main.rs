//! Clusters of real processes: memory nodes, a master, clients.

mod clients;
mod cluster;
#[cfg(feature = "etcd")]
mod elected;
#[cfg(feature = "tls")]
mod encrypted;
mod histories;
mod promises;
