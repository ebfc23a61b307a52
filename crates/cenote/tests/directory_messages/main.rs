//! Lock services at work: between threads, over connections that lose and reorder, over sockets, between processes;
//! leases; peers that are slow or hostile. The protocol itself is checked on a simulated network, in
//! `crates/cenote-sim`.

mod handles;
mod leases;
mod lossy;
mod peers;
mod processes;
