//! What kind of thing a name in the directory stands for.

use crate::error::{Error, Result};
use crate::pod::names::directory::{
    KIND_BASELINE, KIND_GROUP, KIND_HASH, KIND_LOCK, KIND_LOCKS, KIND_ORDERED, KIND_TASKS, Named,
};

/// The offset of a named map, if it is of this kind.
pub(crate) fn of_kind(named: Named, kind: u64) -> Result<u64> {
    let kind_of = |kind| match kind {
        KIND_HASH => "a hash map",
        KIND_ORDERED => "an ordered map",
        KIND_TASKS => "a task list",
        KIND_LOCK => "a lock",
        KIND_LOCKS => "an array of locks",
        KIND_BASELINE => "an index made for comparison",
        KIND_GROUP => "a group",
        _ => "of a kind that this version does not know",
    };
    match named.kind == kind {
        true => Ok(named.offset),
        false => Err(Error::OtherKind {
            kind: kind_of(named.kind),
            name: named.name,
        }),
    }
}
