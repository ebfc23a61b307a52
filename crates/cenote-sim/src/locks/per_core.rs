//! A reader-writer lock with a word for each thread, in a line of its own (the "big reader" lock of Linux): a reader
//! takes its own word, a writer takes all of them, in order.

use cenote::sync::directory::queue::Permission;

use super::room::{Lines, Room};
use super::{Lock, Who, Words};

/// The lock.
#[derive(Clone, Copy, Debug)]
pub struct PerCore {
    words: Lines,
}

impl PerCore {
    /// A lock of so many threads.
    pub fn new(room: &mut Room, threads: u32) -> Self {
        Self {
            words: room.lines(threads),
        }
    }
}

fn take<W: Words>(mem: &W, at: u64) {
    while !mem.compare_exchange(at, 0, 1) {
        mem.wait_until(at, |word| word == 0);
    }
}

impl Lock for PerCore {
    fn acquire<W: Words>(&self, mem: &W, who: Who, wants: Permission) {
        match wants {
            Permission::Shared => take(mem, self.words.at(who.thread)),
            Permission::Exclusive => self.words.all().for_each(|at| take(mem, at)),
        }
    }

    fn release<W: Words>(&self, mem: &W, who: Who, had: Permission) {
        match had {
            Permission::Shared => mem.store(self.words.at(who.thread), 0),
            Permission::Exclusive => self.words.all().for_each(|at| mem.store(at, 0)),
        }
    }
}
