//! Clusters of real processes: memory nodes, a master, clients.

mod clients;
mod cluster;
#[cfg(feature = "etcd")]
mod elected;
#[cfg(feature = "tls")]
mod encrypted;
mod eras;
mod files;
mod histories;
mod machines;
mod mapped;
mod near;
#[cfg(feature = "ofi")]
mod ofi;
mod ordered;
mod partitions;
mod promises;
