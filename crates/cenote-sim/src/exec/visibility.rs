//! What happens in a run, as [the order](super::order) of its stores learns of it.

use super::order::{From, Number, View, words};
use super::stop::Stop;
use super::world::World;
use crate::machine::{Found, LINE, Pending, Use};

impl World {
    /// The running thread makes a store, which may take effect later.
    pub fn makes(&mut self, at: u64, len: u64) -> Number {
        self.makes_before(at, len, None)
    }

    /// The same for a store that others may see before the store `waiting` of the same thread, and before those after
    /// `waiting`.
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

    /// A thread begins after all that have ended. One of the same process may not have, such as the server of
    /// exchanges.
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
