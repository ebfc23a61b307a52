//! A simulated thread, as the code that it runs sees it.

use std::cell::Cell;

use cenote::sync::directory::queue::Permission;
use corosensei::Yielder;

use super::op::{Answer, Op, Reply, WordOp};
use crate::locks::mail::{Letter, Mail};
use crate::locks::words::Words;

/// A thread of a node.
pub struct Cpu<'y> {
    yielder: &'y Yielder<Reply, Op>,
    now: Cell<u64>,
    crossings: Cell<u64>,
}

impl<'y> Cpu<'y> {
    pub(super) fn new(yielder: &'y Yielder<Reply, Op>, begun: Reply) -> Self {
        Self {
            yielder,
            now: Cell::new(begun.now),
            crossings: Cell::new(begun.crossings),
        }
    }

    fn ask(&self, op: Op) -> Answer {
        let reply = self.yielder.suspend(op);
        self.now.set(reply.now);
        self.crossings.set(reply.crossings);
        reply.answer
    }

    fn word(&self, at: u64, op: WordOp) -> u64 {
        match self.ask(Op::Word(at, op)) {
            Answer::Word(word) => word,
            _ => 0,
        }
    }

    fn range(&self, op: Op) -> Option<u64> {
        match self.ask(op) {
            Answer::Range(found) => found,
            _ => None,
        }
    }

    /// The time, in picoseconds.
    pub fn now_ps(&self) -> u64 {
        self.now.get()
    }

    /// How often this thread has waited for the network: for a coherence transaction of its node, a directory lock or a
    /// letter from another node.
    pub fn crossings(&self) -> u64 {
        self.crossings.get()
    }

    /// Lets time pass.
    pub fn sleep_ps(&self, time: u64) {
        self.ask(Op::Sleep(time));
    }

    /// Reads the first word of each line of a range. Returns it if all are the same.
    pub fn read(&self, at: u64, len: u64) -> Option<u64> {
        let writes = false;
        self.range(Op::Range { at, len, writes })
    }

    /// Counts the first word of each line of a range up. Returns it as it was if all were the same.
    pub fn count_up(&self, at: u64, len: u64) -> Option<u64> {
        let writes = true;
        self.range(Op::Range { at, len, writes })
    }

    /// Acquires a directory lock.
    pub fn acquire(&self, lock: u32, wants: Permission) {
        self.ask(Op::Acquire(lock, wants));
    }

    /// Releases a directory lock.
    pub fn release(&self, lock: u32) {
        self.ask(Op::Release(lock));
    }

    /// [`Cpu::read`] of what a directory lock covers. Nothing is found if the node does not have the lock.
    pub fn read_covered(&self, lock: u32) -> Option<u64> {
        let writes = false;
        self.range(Op::Covered { lock, writes })
    }

    /// [`Cpu::count_up`] of what a directory lock covers. Nothing is found, and nothing changed, if the node does not
    /// have the lock to write.
    pub fn count_up_covered(&self, lock: u32) -> Option<u64> {
        let writes = true;
        self.range(Op::Covered { lock, writes })
    }
}

impl Words for Cpu<'_> {
    fn load(&self, at: u64) -> u64 {
        self.word(at, WordOp::Load)
    }

    fn store(&self, at: u64, value: u64) {
        self.word(at, WordOp::Store(value));
    }

    fn swap(&self, at: u64, value: u64) -> u64 {
        self.word(at, WordOp::Swap(value))
    }

    fn compare_exchange(&self, at: u64, current: u64, new: u64) -> bool {
        self.word(at, WordOp::CompareExchange(current, new)) == current
    }

    fn fetch_add(&self, at: u64, value: u64) -> u64 {
        self.word(at, WordOp::Add(value))
    }

    /// Polls, without the polls that would find the node's copy unchanged.
    fn wait_until(&self, at: u64, is: impl Fn(u64) -> bool) -> u64 {
        loop {
            let found = self.load(at);
            if is(found) {
                return found;
            }
            self.ask(Op::Park(at, found));
        }
    }
}

impl Mail for Cpu<'_> {
    fn send(&self, port: u32, letter: Letter) {
        self.ask(Op::Send(port, letter));
    }

    fn receive(&self, port: u32) -> Letter {
        match self.ask(Op::Receive(port)) {
            Answer::Letter(letter) => letter,
            _ => Letter::default(),
        }
    }
}
