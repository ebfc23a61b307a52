//! The lock within a pool that whoever finds its owner dead takes over, and the redo log of what is changed under it. Page:
//! `docs/protocols/allocation.md`.

pub mod lock;
pub mod redo;
