//! Retired objects, from their entry in a list to the moment when their memory is free. Page:
//! `docs/protocols/reclamation.md`.

pub mod backlog;
pub mod collect;
pub mod flush;
mod permission;
pub mod retire;
pub mod room;
pub mod takeover;
pub mod vacant;
pub(in crate::pod) mod would_fit;
