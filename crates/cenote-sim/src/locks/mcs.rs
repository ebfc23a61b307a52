//! The queue lock of Mellor-Crummey and Scott (ASPLOS 1991): each waiter polls a line of its own. It has no readers.
//!
//! A thread holds one of these locks at a time, so that its queue entry serves all of them.

use cenote::sync::directory::queue::Permission;

use super::room::{Lines, Room};
use super::{Lock, Who, Words};

/// Offset in a queue entry of the number of the next thread plus one, or 0.
const NEXT: u64 = 0;
/// Offset in a queue entry of whether its thread waits.
const WAITING: u64 = 8;

/// The lock.
#[derive(Clone, Copy, Debug)]
pub struct Mcs {
    /// The number of the last thread in the queue plus one, or 0.
    tail: u64,
    entries: Lines,
}

impl Mcs {
    /// The queue entries of so many threads.
    pub fn entries(room: &mut Room, threads: u32) -> Lines {
        room.lines(threads)
    }

    /// A lock whose waiters use these entries.
    pub fn new(room: &mut Room, entries: Lines) -> Self {
        Self {
            tail: room.line(),
            entries,
        }
    }

    fn entry(&self, number: u64) -> u64 {
        self.entries.at(number as u32 - 1)
    }
}

impl Lock for Mcs {
    fn acquire<W: Words>(&self, mem: &W, who: Who, _: Permission) {
        let number = u64::from(who.thread) + 1;
        let own = self.entry(number);
        mem.store(own + NEXT, 0);
        mem.store(own + WAITING, 1);
        match mem.swap(self.tail, number) {
            0 => {}
            before => {
                mem.store(self.entry(before) + NEXT, number);
                mem.wait_until(own + WAITING, |waiting| waiting == 0);
            }
        }
    }

    fn release<W: Words>(&self, mem: &W, who: Who, _: Permission) {
        let number = u64::from(who.thread) + 1;
        let own = self.entry(number);
        let mut next = mem.load(own + NEXT);
        if next == 0 {
            if mem.compare_exchange(self.tail, number, 0) {
                return;
            }
            // Another thread is in the queue, and is about to say so.
            next = mem.wait_until(own + NEXT, |next| next != 0);
        }
        mem.store(self.entry(next) + WAITING, 0);
    }
}
