//! Indexes: written once against the memory contract. Reads of maps take no lock, a view of an
//! object takes a mutex of its process for its slot; writes take a lock only to get or move memory. A
//! value is replaced by a new object, but for the small values of maps that are made to
//! [overwrite them](common::guidelines::Guidelines::out_of_place).

#[cfg(feature = "baselines")]
pub mod baseline;
pub mod common;
#[cfg(feature = "baselines")]
mod compared;
pub mod dropping;
pub mod hash;
pub mod objects;
pub mod ordered;

use crate::memory::Memory;
use crate::pod::group;
use crate::pod::instance::hooks::{Hooks, Step};
use crate::sync::recovery::recover_held;

/// The functions that the indexes and locks hand in to the pod layer.
pub fn hooks<M: Memory>() -> Hooks<M> {
    Hooks {
        finish_root: hash::resize::finish_root,
        drain_extent: hash::resize::drain_extent,
        extent_lines: hash::resize::extent_lines,
        recover_held: recover_held::<M>,
        inner: crate::pod::inner_hooks(),
        steps: &[Step {
            name: "groups",
            run: group::died,
        }],
    }
}
