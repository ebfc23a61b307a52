//! Indexes: written once against the memory contract, lock-free, out of place.

pub mod hash;

use crate::memory::Memory;
use crate::pod::process::Hooks;

/// What the indexes hand in to the pod layer.
pub fn hooks<M: Memory>() -> Hooks<M> {
    Hooks {
        finish_root: hash::resize::finish_root,
        drain_range: hash::resize::drain_range,
        range_lines: hash::resize::range_lines,
    }
}
