//! Units, blocks of them, and the objects in slabs. Page: `docs/protocols/allocation.md`.

pub mod abandoned;
pub mod auxiliary;
pub mod buddy;
pub(in crate::pod) mod classes;
pub mod growth;
pub mod heap;
pub(in crate::pod) mod hints;
pub mod holes;
pub(in crate::pod) mod runs;
pub mod slab;
pub(in crate::pod) mod takes;
pub mod units;
