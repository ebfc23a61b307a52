//! Store buffers: what a thread has stored and others do not see yet (x86-TSO: Owens, Sarkar and Sewell, TPHOLs 2009).
//!
//! A thread's plain stores (sync stores that are not sequentially consistent, owned words, unpublished data) become
//! visible to others in the order in which it made them, some at once and some later; its own loads find them at once.
//! So a load may be done before an older store is seen. Empty is a buffer after a fence, a sequentially consistent
//! store, a read-modify-write, a system call, a thread's end or death (what it has executed takes effect), and, for all
//! threads, after the asymmetric barrier. Otherwise an entry leaves when the policy says so, when there are
//! [`ENTRIES_MAX`] others, or after [`STEPS_MAX`] steps of the run: no store waits for ever.
//!
//! Where a load needs what the buffer has only in parts, or a write-back the line, what is older leaves first. That is
//! allowed at any time. In runs that keep time, and where the policy explores all schedules, nothing is buffered.

use std::collections::VecDeque;

use super::order::Number;
use super::store_buffer::{Data, Entry, Way};
use super::world::{Event, Thread, World};
use crate::machine::{Found, LINE};
use crate::policy::Fault;

/// Entries of one thread.
const ENTRIES_MAX: usize = 8;
/// Steps of the run that an entry may wait.
const STEPS_MAX: u64 = 4096;

impl World {
    fn buffer(&mut self, thread: u32) -> &mut VecDeque<Entry> {
        &mut self.threads[thread as usize].stores.0
    }

    /// Whether others may not see all that the running thread has stored.
    pub fn has_buffered(&self) -> bool {
        !self.threads[self.current as usize].stores.0.is_empty()
    }

    /// The oldest store of the running thread that others may not see.
    pub fn oldest_buffered(&self) -> Option<Number> {
        let Thread { stores, .. } = &self.threads[self.current as usize];
        stores.0.front().map(|entry| entry.number)
    }

    /// The running thread stores something.
    pub fn put(&mut self, at: u64, data: Data, way: Way) -> Found {
        let thread = self.current;
        let number = self.makes(at, data.len());
        let is_empty = self.threads[thread as usize].stores.0.is_empty();
        if is_empty {
            if self.clock.is_some() || self.fault(Fault::Buffer, 2) == 0 {
                return self.take_effect(thread, at, &data, way, number);
            }
            self.buffering.push(thread);
        }
        let since = self.steps;
        let entry = Entry {
            at,
            data,
            way,
            number,
            since,
        };
        self.buffer(thread).push_back(entry);
        if self.buffer(thread).len() > ENTRIES_MAX {
            self.drain_one(thread);
        }
        Found::Hit
    }

    fn take_effect(&mut self, thread: u32, at: u64, data: &Data, way: Way, number: Number) -> Found {
        self.note_change(thread, at, data.len());
        let host = self.host_of(thread);
        self.took_effect(at, data.len(), number, (way == Way::Cache).then_some(host));
        match (way, data) {
            (Way::Memory, Data::Word(value)) => {
                self.machine.store(at, *value);
                Found::Hit
            }
            (Way::Memory, Data::Bytes(bytes)) => {
                self.machine.store_bytes(at, bytes);
                Found::Hit
            }
            (Way::Cache, Data::Word(value)) => self.machine.store_cached(host, at, *value),
            (Way::Cache, Data::Bytes(bytes)) => self.machine.write(host, at, bytes),
        }
    }

    /// A thread's oldest store takes effect.
    fn drain_one(&mut self, thread: u32) {
        let Some(entry) = self.buffer(thread).pop_front() else {
            return;
        };
        if self.buffer(thread).is_empty() {
            self.buffering.retain(|&other| other != thread);
        }
        if entry.way == Way::Memory {
            self.check_word(entry.at);
        }
        self.take_effect(thread, entry.at, &entry.data, entry.way, entry.number);
        let at = entry.at;
        self.note(Event::Drained { thread, at });
    }

    /// All of a thread's stores take effect.
    pub fn drain(&mut self, thread: u32) {
        while !self.threads[thread as usize].stores.0.is_empty() {
            self.drain_one(thread);
        }
    }

    /// All of the running thread's stores take effect.
    pub fn drain_own(&mut self) {
        self.drain(self.current);
    }

    /// All stores take effect.
    pub fn drain_everybody(&mut self) {
        while let Some(&thread) = self.buffering.first() {
            self.drain(thread);
        }
    }

    /// All threads' stores to a range take effect, and all older ones with them.
    pub fn drain_all_of(&mut self, at: u64, len: u64) {
        let running = self.current;
        for thread in self.buffering.clone() {
            self.current = thread;
            self.drain_extent(at, len);
        }
        self.current = running;
    }

    /// The running thread's stores to a range take effect, and all older ones with them.
    pub fn drain_extent(&mut self, at: u64, len: u64) {
        let thread = self.current;
        let touches = |entry: &Entry| entry.touches(at, len);
        while self.threads[thread as usize].stores.0.iter().any(touches) {
            self.drain_one(thread);
        }
    }

    /// The lines of a range are about to be written back or dropped: the running thread's stores to them come first.
    pub fn drain_lines(&mut self, at: u64, len: u64) {
        if !self.threads[self.current as usize].stores.0.is_empty() && len > 0 {
            let from = at & !(LINE - 1);
            self.drain_extent(from, (at.saturating_add(len) - from).next_multiple_of(LINE));
        }
    }

    /// What the running thread has stored to a word and others do not see. If that is not all of the word, or if it was
    /// stored in another way, it takes effect first.
    pub fn forwarded(&mut self, at: u64, way: Way) -> Option<u64> {
        let Thread { stores, .. } = &self.threads[self.current as usize];
        match stores.0.iter().rev().find(|entry| entry.touches(at, 8)) {
            Some(Entry {
                at: found,
                data: Data::Word(value),
                way: stored,
                ..
            }) if *found == at && *stored == way => Some(*value),
            Some(_) => {
                self.drain_extent(at, 8);
                None
            }
            None => None,
        }
    }

    /// What happens to buffers by itself, before an operation.
    pub fn disturb_buffers(&mut self) {
        if self.buffering.is_empty() {
            return;
        }
        let chosen = self.fault(Fault::Drain, self.buffering.len() as u32 + 1);
        if chosen > 0 {
            self.drain_one(self.buffering[chosen as usize - 1]);
        }
        let latest = self.steps.saturating_sub(STEPS_MAX);
        let is_late = |thread: &&u32| {
            let oldest = self.threads[**thread as usize].stores.0.front();
            oldest.is_some_and(|entry| entry.since < latest)
        };
        if let Some(&late) = self.buffering.iter().find(is_late) {
            self.drain_one(late);
        }
    }
}
