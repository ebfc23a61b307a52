//! Happens-before (Lamport, CACM 1978): which stores a thread must see.
//!
//! A thread that reads a word by an acquire finds a store of another thread, and from then on must see all that the other had stored or
//! seen before it. Where a write-back, an invalidation or a fence is missing, the reader may find something older. Whether that makes a
//! result wrong is a matter of luck, so the run ends at the read itself.
//!
//! | acquires | is checked |
//! |---|---|
//! | sync load, peek, line fetched, read-modify-write | yes |
//! | load of an owned word, bytes | yes |
//! | speculative load | no: it may be stale by any amount, and its caller finds that out |
//!
//! An exchange that only acquires does not publish what its thread still has in its store buffer.
//!
//! A thread also precedes the threads that it starts. A thread that drops a kernel lock, also by dying, precedes the one that finds it free.
//! All threads precede the audit. What threads of a process tell each other outside the pool is not known here: a stale read may be
//! missed, but each one that is reported is one.
//!
//! A *shadow* tells which write a read finds: a second machine to which the same is done, whose words are the numbers of the writes that the
//! words of the first have come from.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::world::{Stop, World};
use crate::machine::{Found, LINE, Machine, Pending, Shape, Use, Words};

/// A thread found something older than what it must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleRead {
    /// The word.
    pub at: u64,
    /// Who read it.
    pub reader: u32,
    /// Who had stored to it.
    pub writer: u32,
    /// Whether the store was lost with the writer's host.
    pub is_lost: bool,
}

impl std::fmt::Display for StaleRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            at, reader, writer, ..
        } = self;
        match self.is_lost {
            false => write!(
                f,
                "thread {reader} read the word at {at:#x} and did not find what thread {writer} had stored there, which it must see by then"
            ),
            true => write!(
                f,
                "thread {reader} read the word at {at:#x}, and what thread {writer} had stored there was lost with its host, although it had \
                 gone on after that"
            ),
        }
    }
}

/// How far a thread has come: its stores so far, and of each thread how many it must see.
#[derive(Clone, Default)]
struct View {
    stores: u32,
    /// So many of its stores must not be lost with its host, except those in `late`.
    persistent: u32,
    /// Stores that it waits for late: the word, and whether the line is being written back.
    late: Vec<(u64, Number, bool)>,
    seen: Rc<Vec<u32>>,
}

impl View {
    fn knows(&self, thread: u32, stamp: u32) -> bool {
        self.seen.get(thread as usize).is_some_and(|&seen| seen >= stamp)
    }

    /// Must see from now on what another one had stored or had to see.
    fn learn(&mut self, thread: u32, stamp: u32, seen: &Rc<Vec<u32>>) {
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
struct Write {
    thread: u32,
    stamp: u32,
    /// A thread that finds it must see so many stores of its thread.
    publishes: u32,
    seen: Rc<Vec<u32>>,
}

/// The number of a write; 0 is what memory is made of.
pub(super) type Number = u64;

/// What is known of the order of a run.
pub(super) struct Order {
    shadow: Machine,
    /// Of each word, the write that was made or took effect last.
    last: Words,
    writes: Vec<Write>,
    views: Vec<View>,
    /// The words that were lost with a host and should not have been, with the writes that were lost.
    lost: BTreeMap<u64, Number>,
    /// Of each kernel lock, what the threads that dropped it have seen.
    locks: BTreeMap<u32, View>,
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

    fn view(&mut self, thread: u32) -> &mut View {
        let place = thread as usize;
        if self.views.len() <= place {
            self.views.resize_with(place + 1, View::default);
        }
        &mut self.views[place]
    }

    /// Of one thread, what it has stored and must see, as another one learns it.
    fn teach(&mut self, from: u32, to: u32) {
        let View { stores, seen, .. } = self.view(from).clone();
        self.view(to).learn(from, stores, &seen);
    }

    /// A thread makes a store; `waiting` is the oldest of its stores that this one does not publish.
    fn write(&mut self, thread: u32, at: u64, len: u64, waiting: Option<Number>) -> Number {
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

    fn set_last(&mut self, at: u64, len: u64, number: Number) {
        for word in words(at, len) {
            self.last.set(word, number);
            self.lost.remove(&word);
        }
    }

    /// A thread goes on to what relies on all that it has stored, but for what it waits for late. Whether it has waited for its
    /// write-backs.
    fn quiesce(&mut self, thread: u32, has_waited: bool) {
        let view = self.view(thread);
        view.persistent = view.stores;
        if has_waited {
            view.late.retain(|&(.., is_begun)| !is_begun);
        }
    }

    /// The last write to a word of a host that has died was in its cache alone.
    fn lose(&mut self, word: u64) {
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
    fn check(&mut self, thread: u32, at: u64, found: Number) -> Option<StaleRead> {
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

    fn acquire(&mut self, thread: u32, found: Number) {
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

fn words(at: u64, len: u64) -> impl Iterator<Item = u64> {
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

impl World {
    /// The running thread makes a store, which may take effect later.
    pub fn makes(&mut self, at: u64, len: u64) -> Number {
        self.makes_before(at, len, None)
    }

    /// The same for a store that others may see before the store `waiting` of the same thread, and before those after `waiting`.
    pub fn makes_before(&mut self, at: u64, len: u64, waiting: Option<Number>) -> Number {
        let thread = self.current;
        self.order
            .as_mut()
            .map_or(0, |order| order.write(thread, at, len, waiting))
    }

    /// The running thread has waited for its write-backs, or does what others see at once.
    pub fn goes_on(&mut self, has_waited: bool) {
        let thread = self.current;
        if let Some(order) = &mut self.order {
            order.quiesce(thread, has_waited);
        }
    }

    /// The write that the running thread has made last, to this word, is among what it waits for late.
    pub fn is_lazy(&mut self, at: u64) {
        let thread = self.current;
        if let Some(order) = &mut self.order {
            // Not the last one of the word: an older one may have come out of a full buffer since.
            let number = order.writes.len() as Number;
            order.view(thread).late.push((at, number, false));
        }
    }

    /// The running thread begins to write lines back.
    pub fn begins(&mut self, at: u64, len: u64) {
        let thread = self.current;
        if let Some(order) = &mut self.order {
            let lines = at & !(LINE - 1)..at.saturating_add(len);
            for (word, _, is_begun) in &mut order.view(thread).late {
                *is_begun |= lines.contains(word);
            }
        }
    }

    /// A store takes effect.
    pub fn took_effect(&mut self, at: u64, len: u64, number: Number, host: Option<u32>) {
        let Some(order) = &mut self.order else {
            return;
        };
        order.set_last(at, len, number);
        if let Some(host) = host {
            order.shadow.fetch(host, at, len, Use::Shared);
        }
        for word in words(at, len) {
            match host {
                Some(host) => drop(order.shadow.store_cached(host, word, number)),
                None => order.shadow.store(word, number),
            }
        }
    }

    /// The running thread reads a range that it must see as it is; lines of it have been fetched.
    pub fn reads(&mut self, at: u64, len: u64, from: From, acquires: bool) {
        let (thread, host) = (self.current, self.host_of(self.current));
        let Some(order) = &mut self.order else {
            return;
        };
        for word in words(at, len) {
            let found = match from {
                From::Memory => order.shadow.load(word),
                From::Cache => order.shadow.load_cached(host, word, Use::Shared).0,
            };
            if let Some(stale) = order.check(thread, word, found) {
                self.stop.get_or_insert(Stop::Stale(stale));
            }
            if acquires {
                order.acquire(thread, found);
            }
        }
    }

    /// A thread starts another one.
    pub fn starts(&mut self, parent: u32, child: u32) {
        if let Some(order) = &mut self.order {
            order.teach(parent, child);
        }
    }

    /// A thread begins after all that have ended. One of the same process may not have, such as the server of exchanges.
    pub fn follows_ended(&mut self, child: u32) {
        let Self {
            order: Some(order),
            threads,
            ..
        } = self
        else {
            return;
        };
        let ended = threads.iter().enumerate().filter(|(_, thread)| !thread.alive);
        ended.for_each(|(other, _)| order.teach(other as u32, child));
    }

    /// A thread drops a kernel lock.
    pub fn drops_lock(&mut self, thread: u32, lock: u32) {
        if let Some(order) = &mut self.order {
            let View { stores, seen, .. } = order.view(thread).clone();
            order.locks.entry(lock).or_default().learn(thread, stores, &seen);
        }
    }

    /// The running thread finds a kernel lock free.
    pub fn finds_free(&mut self, lock: u32) {
        let thread = self.current;
        if let Some(order) = &mut self.order
            && let Some(dropped) = order.locks.get(&lock)
        {
            let seen = dropped.seen.clone();
            for (other, &stamp) in seen.iter().enumerate() {
                order.view(thread).learn(other as u32, stamp, &seen);
            }
        }
    }

    /// The running thread finds out that another one has ended.
    pub fn finds_ended(&mut self, other: u32) {
        let thread = self.current;
        if let Some(order) = &mut self.order {
            order.teach(other, thread);
        }
    }

    /// Lines are fetched into a host's cache.
    pub fn fetch(&mut self, host: u32, at: u64, len: u64) -> Found {
        if let Some(order) = &mut self.order {
            order.shadow.fetch(host, at, len, Use::Shared);
        }
        self.machine.fetch(host, at, len, Use::Shared)
    }

    /// A word as a host sees it through its cache.
    pub fn load_cached(&mut self, host: u32, at: u64, usage: Use) -> (u64, Found) {
        if let Some(order) = &mut self.order {
            order.shadow.load_cached(host, at, usage);
        }
        self.machine.load_cached(host, at, usage)
    }

    /// A write-back or a flush is done.
    pub fn completed(&mut self, host: u32, pending: Pending) {
        if let Some(order) = &mut self.order {
            order.shadow.complete(host, pending);
        }
        self.machine.complete(host, pending);
    }

    /// A line leaves a host's cache.
    pub fn evict_line(&mut self, host: u32, n: usize) -> Option<u64> {
        if let Some(order) = &mut self.order {
            order.shadow.evict(host, n);
        }
        self.machine.evict(host, n)
    }

    /// All dirty lines of a host reach memory.
    pub fn persist(&mut self, host: u32) {
        if let Some(order) = &mut self.order {
            order.shadow.persist(host);
        }
        self.machine.persist(host);
    }

    /// A host's cache is lost, except for some of its dirty lines. No thread has to see what was lost.
    pub fn lose_cache(&mut self, host: u32, dirty: &[u64], survive: &[u64]) {
        let survives = |line| survive.contains(&line);
        if let Some(order) = &mut self.order {
            order.shadow.lose_cache(host, survives);
            for word in dirty.iter().flat_map(|&line| words(line, LINE)) {
                order.lose(word);
            }
        }
        self.machine.lose_cache(host, survives);
    }
}
