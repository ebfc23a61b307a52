//! After a process has died: its slots say what it was answerable for, and what it viewed.
//!
//! Several may do this at the same time, and each step may be repeated: nothing is written to the dead one's slots.
//! When all of a table is done, the table is removed.

use std::rc::Rc;

use super::ObjectStore;
use super::layout::{DELETED, Storage, VIEWED, name_key, storage_key};
use super::slots::Table;
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::failures::Task;
use crate::pod::names::directory::{self, KIND_OBJECTS};

/// Recovers what dead processes had in slots of all stores of the pool. A store where that fails keeps no other from
/// being recovered; the failure is noted.
///
/// Cost: a load for each entry of the directory; for each store a scan of its slots' keys, and what the slots need.
pub(crate) fn recover_objects<M: Memory>(worker: &Rc<Worker<M>>) {
    let pod = worker.pod();
    let began = pod.begin_task();
    let mut is_whole = true;
    for named in directory::unnamed_of_kind(worker, KIND_OBJECTS) {
        let header = named.offset;
        let swept = worker
            .pin()
            .and_then(|_pin| ObjectStore::of(worker.clone(), named, Guidelines::SP))
            .and_then(|store| store.sweep_gone());
        match swept {
            Ok(()) | Err(Error::Dropped) => {}
            Err(error) => {
                pod.note_failure(TASK, format_args!("the object store at {header:#x}"), &error);
                is_whole = false;
            }
        }
    }
    if is_whole {
        pod.end_task(TASK, began);
    }
}

const TASK: Task = Task::Step("objects");

impl<M: Memory> ObjectStore<M> {
    /// Recovers the slots of all processes that are gone: those that have ended, too, may have left some.
    pub(super) fn sweep_gone(&self) -> Result<()> {
        let mut processes = Vec::new();
        self.for_each_table(None, |table| {
            if processes.last() != Some(&table.process) {
                processes.push(table.process);
            }
        })?;
        let pod = self.worker().pod().clone();
        let (mut outcome, mut is_any_gone) = (Ok(()), false);
        for process in processes {
            if process == pod.process_identity() {
                continue;
            }
            let swept = pod.process_is_gone(process).and_then(|is_gone| {
                if is_gone {
                    self.sweep(process)?;
                    is_any_gone = true;
                }
                Ok(())
            });
            // It keeps no other from being recovered.
            if let Err(error) = swept {
                outcome = Err(error);
            }
        }
        if is_any_gone {
            self.recounted.set(None);
            self.recount()?;
        }
        outcome
    }

    /// Recovers what a process that is gone had in slots. A table where that fails is left for later.
    fn sweep(&self, process: u64) -> Result<()> {
        let mut tables = Vec::new();
        self.for_each_table(Some(process), |table| tables.push(table))?;
        let mut outcome = Ok(());
        for table in tables {
            if let Err(error) = self.sweep_table(&table) {
                outcome = Err(error);
            }
        }
        outcome
    }

    fn sweep_table(&self, table: &Table) -> Result<()> {
        if mutant::is(Mutant::TableFirst) {
            self.map.remove(&table.key)?;
        }
        let mut outcome = Ok(());
        for (number, _) in &table.referred {
            if let Err(error) = self.recover_storage(*number, table.process) {
                outcome = Err(error);
            }
            crash_point(Point::ObjectRecovered);
        }
        outcome?;
        self.map.remove(&table.key).map(drop)
    }

    /// Removes a storage that was in a dead process's slot, if it has no name and nobody else holds it.
    fn recover_storage(&self, number: u64, process: u64) -> Result<()> {
        let is_deleted = {
            let _pin = self.map.pin()?;
            let Some(record) = self.map.record_of(&storage_key(number))? else {
                return Ok(());
            };
            let storage = Storage::of_record(self.worker(), record)?;
            let named = self.find(&name_key(&storage.id(self.mem())))?;
            let is_named =
                named.is_some_and(|named| named.number == number) && !mutant::is(Mutant::NameNotLookedUp);
            if !is_named && !mutant::is(Mutant::UnnamedKept) {
                // Another thread may have taken the name away, and be about to mark the storage: it checks when it
                // releases it.
                // PAIRS WITH: index::objects::read::mark_viewed, index::objects::delete::begin_release
                storage.state().fetch_or(self.mem(), DELETED | VIEWED);
            }
            !is_named
        };
        match is_deleted && !self.is_held(number, Some(process))? && !mutant::is(Mutant::UnnamedKept) {
            true => self.remove_storage(number).map(drop),
            false => Ok(()),
        }
    }
}
