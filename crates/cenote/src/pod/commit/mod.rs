//! Operations that a crash cannot tear, recovery, and how workers attach and detach. Page:
//! `docs/protocols/recovery.md`.

pub(in crate::pod) mod attach;
pub mod publish;
pub mod recovery;
