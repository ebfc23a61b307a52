//! Which thread of a process has which of its mailboxes: a *desk* is a box, as the threads share it. All words here are the process's own.
//!
//! | a desk's word | |
//! |---|---|
//! | 0 | free |
//! | 1 | a thread has it |
//! | 2 + n | handed over to the thread that waits under the number n, which has not taken it so far |
//!
//! **In turn.** Who finds no desk free queues and rests. Who gives one back hands it over to the first of the queue, and wakes it: if it were free for a
//! moment, a thread that asks again and again would have it before one that has to wake up, for ever.
//!
//! **A thread that dies alone.** One that has a desk keeps it for as long as its process lives. One that queues is handed a desk and does not take it:
//! another one that waits takes that after [`PATIENCE`] rests. One that dies with the queue's lock leaves it locked: then nobody is handed
//! anything any more; desks become free, and who waits looks now and then. So nobody waits for that lock.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread::Thread;

use super::client::{SHORTEST, longer};
use crate::memory::{LocalWord, Memory};

const FREE: u64 = 0;
const TAKEN: u64 = 1;
const HANDED: u64 = 2;
/// Rests after which a desk that was handed over and not taken is another one's.
const PATIENCE: u32 = 50;

/// The desks of a process.
#[derive(Debug)]
pub(super) struct Desks {
    states: Vec<LocalWord>,
    numbers: LocalWord,
    queue: Mutex<VecDeque<(u64, Thread)>>,
}

impl Desks {
    pub(super) fn new(count: usize) -> Self {
        Self {
            states: (0..count).map(|_| LocalWord::new(FREE)).collect(),
            numbers: LocalWord::new(0),
            queue: Mutex::default(),
        }
    }

    /// Takes one, and waits until there is one.
    pub(super) fn take<M: Memory>(&self, mem: &M) -> usize {
        self.exchange_any(FREE).unwrap_or_else(|| self.take_in_turn(mem))
    }

    fn exchange_any(&self, from: u64) -> Option<usize> {
        self.states.iter().position(|state| state.exchange(from, TAKEN))
    }

    fn take_in_turn<M: Memory>(&self, mem: &M) -> usize {
        let number = self.numbers.add(1);
        let mut time = SHORTEST;
        // Rests for which the queue was locked; a desk that somebody else was handed, and rests for which it was not taken.
        let (mut locked, mut left, mut untaken) = (0, FREE, 0);
        loop {
            if let Ok(mut queue) = self.queue.try_lock() {
                locked = 0;
                let desk = match untaken < PATIENCE {
                    true => self.exchange_any(FREE),
                    false => self.exchange_any(left),
                };
                if desk.is_some() {
                    queue.retain(|&(other, _)| other != number);
                } else if !queue.iter().any(|&(other, _)| other == number) {
                    queue.push_back((number, std::thread::current()));
                }
                if let Some(desk) = desk {
                    return desk;
                }
            } else {
                locked += 1;
                if locked > PATIENCE
                    && let Some(desk) = self.exchange_any(FREE)
                {
                    return desk;
                }
            }
            mem.rest(time);
            time = longer(time);
            if let Some(desk) = self.exchange_any(HANDED + number) {
                return desk;
            }
            let handed = self
                .states
                .iter()
                .map(LocalWord::load)
                .find(|&state| state >= HANDED);
            match handed {
                Some(state) if state == left => untaken += 1,
                _ => (left, untaken) = (handed.unwrap_or(FREE), 0),
            }
        }
    }

    /// Gives one back.
    pub(super) fn give_back(&self, desk: usize) {
        let next = match self.queue.try_lock() {
            Ok(mut queue) => {
                let next = queue.pop_front();
                if next.is_none() {
                    // Whoever queues looks once more, under the lock.
                    self.states[desk].store(FREE);
                }
                next
            }
            Err(_) => {
                self.states[desk].store(FREE);
                None
            }
        };
        if let Some((number, thread)) = next {
            self.states[desk].store(HANDED + number);
            thread.unpark();
        }
    }
}
