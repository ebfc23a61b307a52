//! Slots: which storages a process is answerable for, or views.
//!
//! A slot is a sync word: 0, or a storage's number and whether the process *holds* the storage, or is *releasing* it or
//! has released it. Only holding keeps others from removing the storage. Recovery reads both.
//!
//! A process has tables of slots, each twice as large as the one before, up to
//! 65,536 slots. Its threads share them, as views move between
//! threads. A free slot is in a list of the process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::ObjectStore;
use super::layout::{END, SLOTS, process_of, slots_key};
use super::read::Viewed;
use crate::error::{Error, Result};
use crate::index::common::pair;
use crate::index::ordered::range::Range;
use crate::index::ordered::write::Made;
use crate::memory::checked::{sync_word, unpublished};
use crate::memory::{LINE, Memory, SyncWord};
use crate::pod::Pod;

/// Slots of a process's first table.
const SLOTS_MIN: u64 = 64;
/// The largest table has so many times as many.
const DOUBLINGS_MAX: u32 = 10;
/// A number with this bit is being released, or was; without it, held.
const RELEASING: u64 = 1 << 63;
/// The greatest number of a storage.
pub(super) const NUMBER_MAX: u64 = RELEASING - 1;

/// A storage is held, says a slot.
pub(super) fn held(number: u64) -> u64 {
    number
}

/// A storage is being released, or was, says a slot.
pub(super) fn releasing(number: u64) -> u64 {
    number | RELEASING
}

/// The storage that a slot refers to, and whether it is held; `None` for a slot that was never taken.
pub(super) fn referred(word: u64) -> Option<(u64, bool)> {
    (word != 0).then_some((word & !RELEASING, word & RELEASING == 0))
}

/// The slots of this process in a store.
#[derive(Debug, Default)]
pub struct Slots(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    free: Vec<u64>,
    tables: u32,
    /// Slots whose release has failed.
    unfinished: VecDeque<Deferred>,
}

/// A slot whose release has failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deferred {
    /// The slot.
    pub slot: SyncWord,
    /// What it refers to.
    pub number: u64,
    /// Whether it still says that it holds that.
    pub is_held: bool,
}

/// The slots of this process in the store of an id. They last as long as the process has the pool open.
pub(super) fn of_process<M: Memory>(pod: &Pod<M>, id: u64) -> Arc<Slots> {
    // No offset is that large.
    pod.kept_extension(id | 1 << 63, Slots::default)
}

impl Slots {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a slot back, which holds nothing.
    pub(super) fn give(&self, slot: SyncWord) {
        self.state().free.push(slot.offset());
    }

    /// Keeps a slot whose release failed, for later.
    pub(super) fn defer(&self, slot: SyncWord, number: u64) {
        let is_held = false;
        let deferred = Deferred {
            slot,
            number,
            is_held,
        };
        self.state().unfinished.push_back(deferred);
    }

    /// The same of a slot whose release has not begun.
    pub(super) fn defer_held(&self, slot: SyncWord, number: u64) {
        let is_held = true;
        let deferred = Deferred {
            slot,
            number,
            is_held,
        };
        self.state().unfinished.push_back(deferred);
    }

    /// Keeps a view's slot, which could not be released, for later.
    pub(crate) fn defer_view(&self, object: Viewed) {
        self.defer_held(object.slot, object.named.number);
    }

    /// One of the slots whose release failed.
    pub(super) fn deferred(&self) -> Option<Deferred> {
        self.state().unfinished.pop_front()
    }
}

/// What a table of slots holds.
pub(super) struct Table {
    /// Its process.
    pub process: u64,
    /// Its key.
    pub key: Vec<u8>,
    /// The storages of its slots, and whether they are held.
    pub referred: Vec<(u64, bool)>,
}

impl Table {
    /// The storages that its slots hold.
    pub fn held(&self) -> impl Iterator<Item = u64> {
        let is_held = |&&(_, is_held): &&(u64, bool)| is_held;
        self.referred.iter().filter(is_held).map(|(number, _)| *number)
    }
}

impl<M: Memory> ObjectStore<M> {
    /// A free slot of this process.
    ///
    /// Cost: none; if there is none, an insert that makes as many as there are.
    pub(super) fn take_slot(&self) -> Result<SyncWord> {
        loop {
            let n = {
                let mut state = self.slots.state();
                if let Some(slot) = state.free.pop() {
                    return Ok(sync_word(slot));
                }
                state.tables
            };
            let made = self.make_table(n)?;
            let mut state = self.slots.state();
            state.tables = state.tables.max(n + 1);
            state.free.extend(made);
        }
    }

    /// Makes the process's table of a number; no slots if there is one already.
    fn make_table(&self, n: u32) -> Result<Vec<u64>> {
        let mem = self.mem();
        let bytes = (8 * SLOTS_MIN) << n.min(DOUBLINGS_MAX);
        let at = std::cell::Cell::new(0);
        let make = |value: u64| {
            at.set(value.next_multiple_of(LINE));
            unpublished(at.get(), bytes).zero(mem);
            if !M::COHERENT {
                mem.write_back(at.get(), bytes);
            }
        };
        let key = slots_key(self.worker().pod().process_identity(), n);
        let made = Made {
            len: LINE - 1 + bytes,
            make: &make,
        };
        if !self.with_room(made.len, |waits| self.map.insert_made(&key, made, waits))? {
            return Ok(Vec::new());
        }
        // Slots that are taken one after the other are in different lines.
        let in_line = (0..LINE).step_by(8);
        Ok(in_line
            .flat_map(|word| {
                (at.get()..at.get() + bytes)
                    .step_by(LINE as usize)
                    .map(move |line| line + word)
            })
            .collect())
    }

    /// Calls `each` for the tables of all processes, or of one.
    ///
    /// Cost: a scan of their keys, and a load for each slot.
    pub(super) fn for_each_table(&self, process: Option<u64>, mut each: impl FnMut(Table)) -> Result<()> {
        let (worker, mem) = (self.worker(), self.mem());
        let mut from = match process {
            Some(process) => slots_key(process, 0).to_vec(),
            None => vec![SLOTS],
        };
        loop {
            let _pin = self.map.pin()?;
            let range = Range {
                from: &from,
                to: Some(&[END]),
            };
            let mut is_past = false;
            let next = self.map.step_records(range, |key, record| {
                let of = process_of(key).ok_or_else(|| Error::corrupt("the key of slots at", record))?;
                if process.is_some_and(|process| process != of) {
                    is_past = true;
                    return Ok(());
                }
                let (value, len) = pair::value_at(worker, record)?;
                let words = value.next_multiple_of(LINE)..value + len / 8 * 8;
                let referred = words
                    .step_by(8)
                    .take(((len - (LINE - 1).min(len)) / 8) as usize)
                    // PAIRS WITH: index::objects::read::hold, index::objects::write::hold_number, index::objects::write::make_beside, index::objects::delete::begin_release, index::objects::delete::finish
                    .filter_map(|at| referred(sync_word(at).load(mem)))
                    .collect();
                each(Table {
                    process: of,
                    key: key.to_vec(),
                    referred,
                });
                Ok(())
            })?;
            match next {
                Some(next) if !is_past => from = next,
                _ => return Ok(()),
            }
        }
    }
}
