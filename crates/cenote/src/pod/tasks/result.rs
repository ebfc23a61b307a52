//! Results: committed exactly once, read in place, forgotten when they are no longer needed.
//!
//! A result is an object of the pool: its length (8 bytes), its bytes. A task's slot holds 0, then the result's offset,
//! and after it was forgotten the mark of the worker that forgot it; it never goes back. So of all workers that commit
//! one, the first is the one whose compare-exchange finds 0.
//!
//! **Crash.** The operation record says what is published where (`publish`): recovery finishes it, or gives the object
//! back. Only the slot decides whether a commit has happened, or, if the result was forgotten since, the evidence that
//! the forgetting worker has left.

use std::ops::Deref;

use super::TaskList;
use crate::causes::Counted;
use crate::error::{Error, Result};
use crate::memory::checked::{published, unpublished, word_line};
use crate::memory::{LINE, Memory};

use crate::mutant::{self, Mutant};
use crate::pod::alloc::heap;
use crate::pod::commit::publish::{Change, publish};
use crate::pod::format::record::operation;
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::worker::Pin;
use crate::pod::reclaim::collect;
use crate::pod::reclaim::room::with_room;

/// Bytes before a result's own.
pub(super) const HEADER: u64 = 8;
/// Marks a slot whose result was forgotten; the mark of the worker that did so is above it.
const FORGOTTEN: u64 = 0b100;
/// Results lie at multiples of this.
const ALIGN: u64 = 16;

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is the task's result now.
    First,
    /// There was another result before, which stays.
    Second,
}

/// The contents of a task's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Open,
    Result(u64),
    Forgotten,
    Damaged,
}

impl Slot {
    pub(super) fn decode(word: u64) -> Self {
        match word {
            0 => Self::Open,
            word if word.is_multiple_of(ALIGN) => Self::Result(word),
            word if word & (ALIGN - 1) == FORGOTTEN => Self::Forgotten,
            _ => Self::Damaged,
        }
    }
}

/// A task's result, in place. It pins, so keep it briefly.
pub struct TaskResult<'l, M: Memory> {
    bytes: &'l [u8],
    _pin: Pin<'l, M>,
}

impl<M: Memory> Deref for TaskResult<'_, M> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl<M: Memory> TaskList<M> {
    /// Sets a task's result, if it has none.
    ///
    /// Cost: a load of the slot; if that is open, an object, and one compare-exchange as for a write to a map. A task
    /// that has its result costs the load alone.
    ///
    /// Errors: [`Error::OutOfRange`](crate::Error::OutOfRange), [`Error::Full`](crate::Error::Full),
    /// [`Error::Dropped`](crate::Error::Dropped).
    pub fn commit(&self, task: u64, result: &[u8]) -> Result<Committed> {
        self.check_task(task)?;
        with_room(&self.worker, || self.attempt(task, result))
    }

    fn attempt(&self, task: u64, result: &[u8]) -> Result<Committed> {
        let (worker, mem) = (&*self.worker, self.worker.mem());
        let slot = self.layout.slot(task);
        let _hold = collect::begin_write(worker)?;
        let _pin = self.pin()?;
        if slot.load(mem) != 0 && !mutant::is(Mutant::ResultReplaced) {
            return Ok(Committed::Second);
        }
        let len = result.len() as u64;
        let object = heap::allocate(worker, HEADER + len)?;
        unpublished(object, 8).write_word(mem, len);
        unpublished(object + HEADER, result.len() as u64).write(mem, result);
        if !M::COHERENT && !mutant::is(Mutant::ResultNotWrittenBack) {
            // Complete before it is published: `publish` waits.
            mem.write_back(object, HEADER + len);
        }
        crash_point(Point::TasksWritten);
        let current = match mutant::is(Mutant::ResultReplaced) {
            true => slot.load(mem),
            false => 0,
        };
        let change = Change {
            slot,
            current,
            next: object,
            operation: operation::PUT,
            old: current,
            count: Some((self.share, self.share.get(mem).wrapping_add(1))),
        };
        if publish(worker, &change)?.is_made() {
            crash_point(Point::TasksCommitted);
            return Ok(Committed::First);
        }
        if !mutant::is(Mutant::SecondResultKept) {
            heap::discard(worker)?;
        }
        Ok(Committed::Second)
    }

    /// A task's result; `None` if it has none, or if that was forgotten.
    ///
    /// Cost: a load of the slot, and the result's lines.
    ///
    /// Errors: [`Error::OutOfRange`](crate::Error::OutOfRange), [`Error::Dropped`](crate::Error::Dropped).
    pub fn result(&self, task: u64) -> Result<Option<TaskResult<'_, M>>> {
        self.check_task(task)?;
        let pin = self.pin()?;
        let slot = self.layout.slot(task);
        // PAIRS WITH: pod::commit::publish::exchange
        match Slot::decode(slot.load(self.worker.mem())) {
            Slot::Open | Slot::Forgotten => Ok(None),
            Slot::Damaged => Err(Error::corrupt("a task's slot", slot.offset())),
            Slot::Result(object) => Ok(Some(TaskResult {
                bytes: self.bytes_of(object)?,
                _pin: pin,
            })),
        }
    }

    /// Whether a task has its result, forgotten or not. Cost: a load.
    ///
    /// Errors: [`Error::OutOfRange`](crate::Error::OutOfRange), [`Error::Dropped`](crate::Error::Dropped).
    pub fn has_result(&self, task: u64) -> Result<bool> {
        self.check_task(task)?;
        let _pin = self.pin()?;
        Ok(self.layout.slot(task).load(self.worker.mem()) != 0)
    }

    /// Frees a task's result, which no worker will read any more. The task stays done. Returns whether there was one to
    /// free.
    ///
    /// Cost: a load, one compare-exchange, and the retiring and freeing of an object.
    ///
    /// Errors: [`Error::OutOfRange`](crate::Error::OutOfRange), [`Error::Dropped`](crate::Error::Dropped).
    pub fn forget(&self, task: u64) -> Result<bool> {
        self.check_task(task)?;
        with_room(&self.worker, || self.attempt_to_forget(task))
    }

    fn attempt_to_forget(&self, task: u64) -> Result<bool> {
        let worker = &*self.worker;
        let _hold = collect::begin_write(worker)?;
        let _pin = self.pin()?;
        let slot = self.layout.slot(task);
        let current = slot.load(worker.mem());
        let object = match Slot::decode(current) {
            Slot::Open | Slot::Forgotten => return Ok(false),
            Slot::Damaged => return Err(Error::corrupt("a task's slot", slot.offset())),
            Slot::Result(object) => object,
        };
        let change = Change {
            slot,
            current,
            next: u64::from(worker.me()) << 16 | FORGOTTEN,
            operation: operation::REMOVE,
            old: object,
            count: None,
        };
        Ok(publish(worker, &change)?.is_made())
    }

    /// Forgets all results. No other worker uses the list. A damaged slot keeps no other result.
    ///
    /// Cost: that of [`TaskList::forget`] for each result, and a line fetch for each eight tasks.
    pub(crate) fn clear(&self) -> Result<()> {
        let mut cleared = Ok(());
        let mut task = 0;
        while task < self.len() {
            let slot = self.layout.slot(task).offset();
            let line = {
                let _pin = self.pin()?;
                word_line(slot & !(LINE - 1)).fetch(self.worker.mem())
            };
            let first = (slot % LINE / 8) as usize;
            let end = (task + (8 - first) as u64).min(self.len());
            for (task, word) in (task..end).zip(&line[first..]) {
                if !matches!(Slot::decode(*word), Slot::Open | Slot::Forgotten) {
                    cleared = cleared.and(self.forget(task).map(drop));
                }
            }
            task = end;
        }
        cleared
    }

    pub(super) fn bytes_of(&self, object: u64) -> Result<&[u8]> {
        let (worker, mem) = (&*self.worker, self.worker.mem());
        worker.check("a task's result", object, HEADER)?;
        let len = published(object, 8).read_word(mem);
        let all = len
            .checked_add(HEADER)
            .ok_or_else(|| Error::corrupt("the length of a task's result", object))?;
        worker.check("the length of a task's result", object, all)?;
        Ok(published(object + HEADER, len).bytes(mem))
    }

    fn check_task(&self, task: u64) -> Result<()> {
        match task < self.len() {
            true => Ok(()),
            false => Err(Error::OutOfRange {
                what: Counted::Task,
                index: task,
                count: self.len(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_one_of_four() {
        assert_eq!(Slot::decode(0), Slot::Open);
        assert_eq!(Slot::decode(0x20_0040), Slot::Result(0x20_0040));
        assert_eq!(Slot::decode(7 << 16 | FORGOTTEN), Slot::Forgotten);
        assert_eq!(Slot::decode(0x20_0041), Slot::Damaged);
    }
}
