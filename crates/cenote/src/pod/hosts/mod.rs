//! The hosts of a pod: their agents, who watches them, how they are fenced, and which of them executes exchanges. Page:
//! `docs/protocols/hosts.md`.

pub mod agency;
pub(in crate::pod) mod beats;
pub mod fence;
pub mod monitor;
pub mod seat;
pub mod warden;
