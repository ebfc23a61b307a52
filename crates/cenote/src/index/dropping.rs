//! Dropping maps, object stores, task lists and groups by their names. Who may do which step, and what a crash leaves:
//! [`pod::names::dropping`](crate::pod::names::dropping).

use std::collections::BTreeMap;
use std::rc::Rc;

use super::common::guidelines::Guidelines;
use super::hash::HashMap;
use super::objects::ObjectStore;
use super::ordered::OrderedMap;
use crate::causes::Structure;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::format::superblock::{SEAL_EVENT_COUNTS, seal_events};
use crate::pod::group;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::event_count;
use crate::pod::names::directory::{
    self, Entry, KIND_GROUP, KIND_HASH, KIND_OBJECTS, KIND_ORDERED, KIND_TASKS, Named,
};
use crate::pod::names::dropping::{self, Claim, Claimed, MOMENTS, MOMENTS_OF_OTHERS};
use crate::pod::tasks::TaskList;

/// What has become of what was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Dropped {
    /// Its memory is free, or is as soon as retired memory is.
    Freed,
    /// Somebody uses it still: a reader, or a view of an object. Its memory comes back later.
    InUse,
}

/// Drops what a name stands for.
#[cfg_attr(feature = "internals", visibility::make(pub))]
pub(crate) fn drop_named<M: Memory>(worker: &Rc<Worker<M>>, name: &str) -> Result<Dropped> {
    let absent = || Error::NoSuch {
        kind: Structure::Droppable,
        name: name.to_owned(),
    };
    directory::check_name(name)?;
    let can_be = |named: &Named| match named.kind {
        KIND_HASH | KIND_ORDERED | KIND_OBJECTS | KIND_TASKS | KIND_GROUP => Ok(()),
        _ => Err(super::common::kind::other(named.clone())),
    };
    let marked = dropping::mark(worker, name, can_be)?.ok_or_else(absent)?;
    let mut dropped = Dropped::Freed;
    let entries: Vec<Entry> = directory::dropped(worker).collect();
    for entry in entries {
        match entry.at == marked {
            true => dropped = finish(worker, entry, MOMENTS)?,
            // What is wrong with others is for those who look after them to say.
            false => drop(finish(worker, entry, MOMENTS_OF_OTHERS)),
        }
    }
    Ok(dropped)
}

/// Takes apart what was dropped, and is not used any more. Returns how many structures are left.
#[cfg_attr(feature = "internals", visibility::make(pub))]
pub(crate) fn finish_dropped<M: Memory>(worker: &Rc<Worker<M>>) -> Result<u32> {
    let entries: Vec<Entry> = directory::dropped(worker).collect();
    let mut left = 0;
    let mut failed = None;
    for entry in entries {
        match finish(worker, entry, MOMENTS_OF_OTHERS) {
            Ok(Dropped::Freed) => {}
            Ok(Dropped::InUse) => left += 1,
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(left), Err)
}

fn finish<M: Memory>(worker: &Rc<Worker<M>>, entry: Entry, moments: u32) -> Result<Dropped> {
    match dropping::claim(worker, &entry)? {
        Claimed::Structure(claim) => {
            let epoch = claim.epoch();
            wake_sleepers(worker, &claim);
            match claim.wait_for_users(epoch, moments)? {
                true => take_apart(worker, claim),
                false => Ok(Dropped::InUse),
            }
        }
        Claimed::ByAnother => Ok(Dropped::InUse),
        Claimed::Over => Ok(Dropped::Freed),
    }
}

/// Wakes those who wait for events of groups, or for objects, to be told that theirs was dropped. That has been told.
fn wake_sleepers<M: Memory>(worker: &Rc<Worker<M>>, claim: &Claim<'_, M>) {
    match claim.entry().kind {
        KIND_GROUP => group::notify_all(worker.mem()),
        KIND_OBJECTS => {
            (0..SEAL_EVENT_COUNTS).for_each(|hash| event_count::notify_all(worker.mem(), seal_events(hash)));
        }
        _ => {}
    }
}

/// Takes apart what others have dropped, without waiting: for a background thread.
#[derive(Default)]
pub(crate) struct Finisher {
    /// Since when what was dropped is watched, by its entry and by what tells it from others there.
    epochs: BTreeMap<(u64, u64), u64>,
}

impl Finisher {
    /// Takes apart what is not used any more.
    ///
    /// Cost: a load for each entry of the directory; of what was dropped, as of [`Claim::is_unused_since`].
    pub fn tick<M: Memory>(&mut self, worker: &Rc<Worker<M>>) {
        let entries: Vec<Entry> = directory::dropped(worker).collect();
        let watched = std::mem::take(&mut self.epochs);
        for entry in entries {
            // What fails is tried again.
            let _ = self.look_after(worker, &entry, &watched);
        }
    }

    fn look_after<M: Memory>(
        &mut self,
        worker: &Rc<Worker<M>>,
        entry: &Entry,
        watched: &BTreeMap<(u64, u64), u64>,
    ) -> Result<()> {
        let Claimed::Structure(claim) = dropping::claim(worker, entry)? else {
            return Ok(());
        };
        let which = (entry.at, claim.number());
        let epoch = match watched.get(&which) {
            Some(epoch) => *epoch,
            None => {
                let epoch = claim.epoch();
                wake_sleepers(worker, &claim);
                epoch
            }
        };
        self.epochs.insert(which, epoch);
        if claim.is_unused_since(epoch)? && take_apart(worker, claim)? == Dropped::Freed {
            self.epochs.remove(&which);
        }
        Ok(())
    }
}

/// Takes a structure apart that nobody uses any more, unless its objects are viewed.
fn take_apart<M: Memory>(worker: &Rc<Worker<M>>, claim: Claim<'_, M>) -> Result<Dropped> {
    if !claim.entry().is_gone() && !clear(worker, &claim)? {
        return Ok(Dropped::InUse);
    }
    crash_point(Point::DropTaken);
    claim.finish().map(|()| Dropped::Freed)
}

/// Whether all but the header is unlinked.
fn clear<M: Memory>(worker: &Rc<Worker<M>>, claim: &Claim<'_, M>) -> Result<bool> {
    let (worker, header) = (worker.clone(), claim.entry().offset);
    match claim.entry().kind {
        KIND_HASH => HashMap::at(worker, header, Guidelines::SP)?.clear()?,
        KIND_ORDERED => return OrderedMap::at(worker, header, Guidelines::SP)?.clear(),
        KIND_TASKS => TaskList::at(worker, header)?.clear()?,
        // It is nothing but a header.
        KIND_GROUP => {}
        KIND_OBJECTS => {
            let store = ObjectStore::at(worker.clone(), header, Guidelines::SP)?;
            if store.is_any_held()? && !mutant::is(Mutant::DropViewsUnasked) {
                return Ok(false);
            }
            drop(store);
            return OrderedMap::at(worker, header, Guidelines::SP)?.clear();
        }
        _ => {
            return Err(Error::corrupt(
                "the kind of what was dropped, at",
                claim.entry().at,
            ));
        }
    }
    Ok(true)
}
