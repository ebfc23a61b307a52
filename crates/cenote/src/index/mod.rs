//! Indexes: written once against the memory contract, lock-free, out of place.

#[cfg(feature = "baselines")]
pub mod baseline;
pub mod hash;
pub mod ordered;

use crate::causes::{Found, Structure};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::group;
use crate::pod::instance::hooks::{Hooks, Step};
use crate::pod::names::directory::{
    KIND_BASELINE, KIND_GROUP, KIND_HASH, KIND_LOCK, KIND_LOCKS, KIND_ORDERED, KIND_TASKS, Named,
};
use crate::sync::recovery::recover_held;

/// The offset of a named map, if it is of this kind.
pub(crate) fn of_kind(named: Named, kind: u64) -> Result<u64> {
    let kind_of = |kind| match kind {
        KIND_HASH => Found::Is(Structure::HashMap),
        KIND_ORDERED => Found::Is(Structure::OrderedMap),
        KIND_TASKS => Found::Is(Structure::Tasks),
        KIND_LOCK => Found::Is(Structure::Lock),
        KIND_LOCKS => Found::Is(Structure::LockArray),
        KIND_BASELINE => Found::Is(Structure::Baseline),
        KIND_GROUP => Found::Is(Structure::Group),
        _ => Found::Unknown,
    };
    match named.kind == kind {
        true => Ok(named.offset),
        false => Err(Error::OtherKind {
            kind: kind_of(named.kind),
            name: named.name,
        }),
    }
}

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
