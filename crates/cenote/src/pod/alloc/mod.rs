//! Frames, blocks of them, and the objects in slabs. Page: `docs/protocols/allocation.md`.

pub mod auxiliary;
pub mod buddy;
pub(in crate::pod) mod classes;
pub mod frames;
pub mod growth;
pub mod heap;
pub(in crate::pod) mod hints;
pub mod holes;
pub mod orphans;
pub(in crate::pod) mod pending;
pub(in crate::pod) mod runs;
pub mod slab;
