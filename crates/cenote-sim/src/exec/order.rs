//! Happens-before (Lamport, CACM 1978): which stores a thread must see.
//!
//! A thread that reads a word by an acquire finds a store of another thread, and from then on must see all that the
//! other had stored or seen before it. Where a write-back, an invalidation or a fence is missing, the reader may find
//! something older. Whether that makes a result wrong is a matter of luck, so the run ends at the read itself.
//!
//! | acquires | is checked |
//! |---|---|
//! | sync load, peek, line fetched, read-modify-write | yes |
//! | load of an owned word, bytes | yes |
//! | speculative load | no: it may be stale by any amount, and its caller finds that out |
//!
//! An exchange that only acquires does not publish what its thread still has in its store buffer.
//!
//! A thread also precedes the threads that it starts. A thread that drops a kernel lock, also by dying, precedes the
//! one that finds it free. All threads precede the audit. What threads of a process tell each other outside the pool is
//! not known here: a stale read may be missed, but each one that is reported is one.
//!
//! A *shadow* tells which write a read finds: a second machine to which the same is done, whose words are the numbers
//! of the writes that the words of the first have come from.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::stop::StaleRead;
use crate::machine::{Machine, Shape, Words};

/// How far a thread has come: its stores so far, and of each thread how many it must see.
#[derive(Clone, Default)]
pub(super) struct View {
    pub stores: u32,
    /// So many of its stores must not be lost with its host, except those in `late`.
    pub persistent: u32,
    /// Stores that it waits for late: the word, and whether the line is being written back.
    pub late: Vec<(u64, Number, bool)>,
    pub seen: Rc<Vec<u32>>,
}

impl View {
    pub fn knows(&self, thread: u32, stamp: u32) -> bool {
        self.seen.get(thread as usize).is_some_and(|&seen| seen >= stamp)
    }

    /// Must see from now on what another one had stored or had to see.
    pub fn learn(&mut self, thread: u32, stamp: u32, seen: &Rc<Vec<u32>>) {
        if self.knows(thread, stamp) {
            return;
        }
        let mine = Rc::make_mut(&mut self.seen);
        mine.resize(mine.len().max(seen.len()).max(thread as usize + 1), 0);
        for (mine, theirs) in mine.iter_mut().zip(seen.iter()) {
            *mine = (*mine).max(*theirs);
        }
        let of_thread = &mut mine[thread as usize];
        *of_thread = stamp.max(*of_thread);
    }
}

/// One store.
pub(super) struct Write {
    pub thread: u32,
    pub stamp: u32,
    /// A thread that finds it must see so many stores of its thread.
    pub publishes: u32,
    pub seen: Rc<Vec<u32>>,
}

/// The number of a write; 0 is what memory is made of.
pub(super) type Number = u64;

/// What is known of the order of a run.
pub(super) struct Order {
    pub shadow: Machine,
    /// Of each word, the write that was made or took effect last.
    pub last: Words,
    pub writes: Vec<Write>,
    pub views: Vec<View>,
    /// The words that were lost with a host and should not have been, with the writes that were lost.
    pub lost: BTreeMap<u64, Number>,
    /// Of each kernel lock, what the threads that dropped it have seen.
    pub locks: BTreeMap<u32, View>,
}

impl Order {
    pub fn new(shape: Shape) -> Self {
        Self {
            shadow: Machine::new(shape),
            last: Words::new(shape.bytes),
            writes: Vec::new(),
            views: Vec::new(),
            lost: BTreeMap::new(),
            locks: BTreeMap::new(),
        }
    }

    pub fn view(&mut self, thread: u32) -> &mut View {
        let place = thread as usize;
        if self.views.len() <= place {
            self.views.resize_with(place + 1, View::default);
        }
        &mut self.views[place]
    }

    /// Of one thread, what it has stored and must see, as another one learns it.
    pub fn teach(&mut self, from: u32, to: u32) {
        let View { stores, seen, .. } = self.view(from).clone();
        self.view(to).learn(from, stores, &seen);
    }

    /// A thread makes a store; `waiting` is the oldest of its stores that this one does not publish.
    pub fn write(&mut self, thread: u32, at: u64, len: u64, waiting: Option<Number>) -> Number {
        let before = waiting.map(|number| self.writes[number as usize - 1].stamp - 1);
        let view = self.view(thread);
        view.stores += 1;
        let (stamp, seen) = (view.stores, view.seen.clone());
        self.writes.push(Write {
            thread,
            stamp,
            publishes: before.unwrap_or(stamp),
            seen,
        });
        let number = self.writes.len() as Number;
        self.set_last(at, len, number);
        number
    }

    pub fn set_last(&mut self, at: u64, len: u64, number: Number) {
        for word in words(at, len) {
            self.last.set(word, number);
            self.lost.remove(&word);
        }
    }

    /// A thread goes on to what relies on all that it has stored, but for what it waits for late. Whether it has waited
    /// for its write-backs.
    pub fn quiesce(&mut self, thread: u32, has_waited: bool) {
        let view = self.view(thread);
        view.persistent = view.stores;
        if has_waited {
            view.late.retain(|&(.., is_begun)| !is_begun);
        }
    }

    /// The last write to a word of a host that has died was in its cache alone.
    pub fn lose(&mut self, word: u64) {
        let (last, found) = (self.last.get(word), self.shadow.load(word));
        if last == found {
            return;
        }
        let Write { thread, stamp, .. } = self.writes[last as usize - 1];
        self.set_last(word, 8, found);
        let View { persistent, late, .. } = self.view(thread);
        if stamp <= *persistent && !late.iter().any(|&(_, number, _)| number == last) {
            self.lost.insert(word, last);
        }
    }

    /// A thread has found a write at a word. The one that it should have found, if that is another.
    pub fn check(&mut self, thread: u32, at: u64, found: Number) -> Option<StaleRead> {
        if let Some(&lost) = self.lost.get(&at) {
            return Some(StaleRead {
                at,
                reader: thread,
                writer: self.writes[lost as usize - 1].thread,
                is_lost: true,
            });
        }
        let last = self.last.get(at);
        if last == found || last == 0 {
            return None;
        }
        let Write {
            thread: writer,
            stamp,
            ..
        } = self.writes[last as usize - 1];
        let must_see = writer == thread || self.view(thread).knows(writer, stamp);
        must_see.then_some(StaleRead {
            at,
            reader: thread,
            writer,
            is_lost: false,
        })
    }

    pub fn acquire(&mut self, thread: u32, found: Number) {
        if let Some(Write {
            thread: writer,
            publishes,
            seen,
            ..
        }) = (found as usize).checked_sub(1).map(|n| &self.writes[n])
        {
            let (writer, publishes, seen) = (*writer, *publishes, seen.clone());
            if writer != thread {
                self.view(thread).learn(writer, publishes, &seen);
            }
        }
    }
}

pub(super) fn words(at: u64, len: u64) -> impl Iterator<Item = u64> {
    (at & !7..at + len).step_by(8)
}

/// Where a read finds its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// In memory.
    Memory,
    /// In the cache of the thread's host.
    Cache,
}
