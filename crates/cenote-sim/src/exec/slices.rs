//! Slices of protected data that threads hold: no thread may change what is under them.
//!
//! A slice is read without steps, so a change under it would be seen by accident only. Therefore each change of memory,
//! when it takes effect, is compared with all held slices; one that overlaps any of them ends the run. Two kinds are
//! held:
//!
//! - what a thread was given while it was pinned, until it is not any more; on coherent memory alone, because elsewhere
//!   a thread may come to reused memory by a stale word, and finds that out afterwards. Its own changes do not count:
//!   it may read what it has not published yet. A subject that reads under a pin what it is about to free has this
//!   switched off;
//! - what a subject says that it holds ([`Held`]): a value that a map has handed out. No thread may change that.

use super::held::{Held, Slices};
use super::stop::{SliceChanged, Stop};
use super::world::World;

impl World {
    /// The running thread is pinned, once more.
    pub fn pin(&mut self) {
        self.threads[self.current as usize].slices.pins += 1;
    }

    /// The running thread is pinned once less.
    pub fn unpin(&mut self) {
        let thread = self.current;
        let slices = &mut self.threads[thread as usize].slices;
        slices.pins = slices.pins.saturating_sub(1);
        if slices.pins == 0 {
            slices.given.clear();
            self.forget(thread);
        }
    }

    /// The running thread is given bytes.
    pub fn give(&mut self, at: u64, len: u64) {
        let thread = self.current;
        let slices = &mut self.threads[thread as usize].slices;
        let is_known = |given: &(u64, u64)| given.0 <= at && at + len <= given.0 + given.1;
        if self.watches_given && slices.pins > 0 && !slices.given.iter().any(is_known) {
            slices.given.push((at, len));
            self.remember(thread);
        }
    }

    /// The running thread holds bytes from now on, if they are simulated memory.
    pub fn hold(&mut self, bytes: &[u8]) -> Held {
        let thread = self.current;
        let host = self.host_of(thread);
        let Some(at) = self.machine.offset_of(host, bytes) else {
            return Held(None);
        };
        let range = (at, bytes.len() as u64);
        self.threads[thread as usize].slices.held.push(range);
        self.remember(thread);
        Held(Some(range))
    }

    /// The running thread does not hold them any longer.
    pub fn release(&mut self, held: Held) {
        let thread = self.current;
        let all = &mut self.threads[thread as usize].slices.held;
        if let Some(place) = held
            .0
            .and_then(|range| all.iter().position(|other| *other == range))
        {
            all.swap_remove(place);
        }
        self.forget(thread);
    }

    /// A thread has ended or died.
    pub fn put_down(&mut self, thread: u32) {
        self.threads[thread as usize].slices = Slices::default();
        self.forget(thread);
    }

    fn remember(&mut self, thread: u32) {
        if !self.reading.contains(&thread) {
            self.reading.push(thread);
        }
    }

    fn forget(&mut self, thread: u32) {
        let Slices { given, held, .. } = &self.threads[thread as usize].slices;
        if given.is_empty() && held.is_empty() {
            self.reading.retain(|&other| other != thread);
        }
    }

    /// Memory has changed, or a host's view of it.
    pub fn note_change(&mut self, writer: u32, at: u64, len: u64) {
        for n in 0..self.reading.len() {
            let reader = self.reading[n];
            let Slices { given, held, .. } = &self.threads[reader as usize].slices;
            let given = given.iter().filter(|_| writer != reader);
            let meets = |range: &&(u64, u64)| range.0 < at + len && at < range.0 + range.1;
            if let Some(&(slice, slice_len)) = held.iter().chain(given).find(meets) {
                let changed = SliceChanged {
                    at,
                    len,
                    slice,
                    slice_len,
                    reader,
                    writer,
                };
                self.stop.get_or_insert(Stop::SliceChanged(changed));
            }
        }
    }
}
