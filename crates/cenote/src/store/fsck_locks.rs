//! What `fsck` checks of locks: those that entries of the directory refer to, with a name or without, and those of
//! arrays.

use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pod::names::directory::{self, KIND_LOCK};
use crate::pod::{Worker, names::rename};
use crate::sync::array::Array;
use crate::sync::directory::layout::Layout;
use crate::sync::directory::transition;
use crate::sync::inspect::inspect;
use crate::sync::object::Object;

/// Checks the locks that entries refer to, and calls `mark` for each. Returns what is wrong with them, or with those
/// that have names.
pub(super) fn walk<M: Memory>(worker: &Worker<M>, mut mark: impl FnMut(u64)) -> Vec<Error> {
    let mut problems = Vec::new();
    // In this order: an entry refers to a lock before it names it.
    let named = directory::of_kind(worker, KIND_LOCK);
    let had = rename::objects(worker);
    for offset in had.iter().copied() {
        mark(offset);
        let inspected = Object::at(worker, offset).and_then(|object| inspect(worker, object));
        problems.extend(inspected.err());
    }
    let strays = named.iter().filter(|offset| !had.contains(offset));
    problems.extend(strays.map(|offset| Error::corrupt("a named lock that no entry has", *offset)));
    problems
}

/// Checks the locks of an array, and calls `mark` for the array.
pub(super) fn walk_array<M: Memory>(worker: &Worker<M>, offset: u64, mark: impl FnOnce(u64)) -> Result<()> {
    mark(offset);
    let array = Array::at(worker, offset)?;
    array.check_fits(worker)?;
    (0..array.count()).try_for_each(|index| array.lock(worker, index).map(drop))
}

/// Checks a directory lock, and calls `mark` for it.
pub(super) fn walk_directory<M: Memory>(
    worker: &Worker<M>,
    offset: u64,
    mark: impl FnOnce(u64),
) -> Result<()> {
    mark(offset);
    let layout = Layout::at(worker, offset)?;
    layout.check_fits(worker)?;
    match M::COHERENT {
        true => Object::at(worker, layout.inner())
            .and_then(|object| inspect(worker, object))
            .map(drop),
        false => transition::read(worker, layout).map(drop),
    }
}
