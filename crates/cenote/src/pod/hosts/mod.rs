//! The hosts of a pod: their agents, their monitors, how they are fenced, and which of them executes exchanges. Page:
//! `docs/protocols/hosts.md`.

pub mod agent;
pub mod failover;
pub mod fence;
pub(in crate::pod) mod heartbeats;
pub mod lease;
pub mod monitor;
pub mod poll;
