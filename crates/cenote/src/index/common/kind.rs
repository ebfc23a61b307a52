//! What kind of thing a name in the directory stands for.

use crate::causes::{Found, Structure};
use crate::error::{Error, Result};
use crate::pod::names::directory::{
    KIND_BASELINE, KIND_DIRECTORY_LOCK, KIND_GROUP, KIND_HASH, KIND_LOCK, KIND_LOCKS, KIND_OBJECTS,
    KIND_ORDERED, KIND_TASKS, Named,
};

/// The offset of a named map, if it is of this kind.
pub(crate) fn of_kind(named: Named, kind: u64) -> Result<u64> {
    match named.kind == kind {
        true => Ok(named.offset),
        false => Err(other(named)),
    }
}

/// The error for a name that stands for something of another kind.
pub(crate) fn other(named: Named) -> Error {
    let kind_of = |kind| match kind {
        KIND_HASH => Found::Is(Structure::HashMap),
        KIND_ORDERED => Found::Is(Structure::OrderedMap),
        KIND_OBJECTS => Found::Is(Structure::Objects),
        KIND_TASKS => Found::Is(Structure::Tasks),
        KIND_LOCK => Found::Is(Structure::Lock),
        KIND_LOCKS => Found::Is(Structure::LockArray),
        KIND_DIRECTORY_LOCK => Found::Is(Structure::DirectoryLock),
        KIND_BASELINE => Found::Is(Structure::Baseline),
        KIND_GROUP => Found::Is(Structure::Group),
        _ => Found::Unknown,
    };
    Error::OtherKind {
        kind: kind_of(named.kind),
        name: named.name,
    }
}
