//! Operations that a crash cannot tear, the recovery of the dead, and how workers come and go. Page: `docs/protocols/recovery.md`.

pub(in crate::pod) mod attach;
pub mod publish;
pub mod recovery;
