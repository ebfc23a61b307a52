//! Processes and workers: joining, liveness, epochs, repair, failures, and what a worker's thread remembers. Also what
//! every folder above needs: crash points, event counts, back-off, limits, hooks. Pages: `docs/protocols/instances.md`,
//! `docs/protocols/reclamation.md` for epochs.

pub mod advance;
pub(in crate::pod) mod alloc_state;
pub(crate) mod back_off;
pub(in crate::pod) mod class_cache;
pub mod crash;
pub(in crate::pod) mod drain;
pub mod epoch;
pub mod event_count;
pub mod failures;
pub mod hooks;
pub(in crate::pod) mod join;
pub mod limits;
pub(in crate::pod) mod lives;
pub(in crate::pod) mod pending;
pub mod process;
pub(in crate::pod) mod reclaim_state;
pub mod recycle;
pub mod repair;
pub(in crate::pod) mod served;
pub mod waits;
pub mod word_cache;
pub mod worker;
