//! Names of objects in a pool. Page: `docs/protocols/recovery.md`.

pub mod directory;
pub mod dropping;
pub mod open;
pub mod rename;
