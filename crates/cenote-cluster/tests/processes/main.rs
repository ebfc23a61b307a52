//! Clusters of real processes: memory nodes, a master, clients.

mod clients;
mod cluster;
mod histories;
mod ordered;
mod promises;
