//! Which thread of a process has which of its mailboxes. A *desk* is a box as the threads share it. All words here are the process's own.
//!
//! | a desk's word | |
//! |---|---|
//! | 0 | free |
//! | 1 | a thread has it |
//! | 2 + n | handed over to the waiting thread of number n, which has not taken it yet |
//!
//! **In turn.** A thread that finds no desk free queues and rests. A thread that gives one back hands it to the first in the queue and wakes it.
//! If the desk were free for a moment, a thread that asks again and again would always get it before one that has to wake up.
//!
//! **A thread that dies alone.** If it has a desk, the desk stays taken for as long as its process lives. If it queues, it is handed a desk and
//! never takes it: after [`TIMEOUT`] rests another waiting thread does. If it dies with the queue's lock, the lock stays locked: then nothing
//! is handed over any more; desks become free, and waiting threads poll for them. So no thread ever waits for that lock.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread::Thread;

use super::client::{SHORTEST, longer};
use crate::memory::{LocalWord, Memory};

const FREE: u64 = 0;
const TAKEN: u64 = 1;
const HANDED: u64 = 2;
/// Rests after which another thread may take a desk that was handed over and not taken.
const TIMEOUT: u32 = 50;

/// The waiting threads, with their numbers.
type Queue = VecDeque<(u64, Thread)>;

/// The desks of a process.
#[derive(Debug)]
pub(super) struct Desks {
    states: Vec<LocalWord>,
    numbers: LocalWord,
    queue: Mutex<Queue>,
}

impl Desks {
    pub(super) fn new(count: usize) -> Self {
        Self {
            states: (0..count).map(|_| LocalWord::new(FREE)).collect(),
            numbers: LocalWord::new(0),
            queue: Mutex::default(),
        }
    }

    /// Takes a desk, and waits until there is one.
    pub(super) fn take<M: Memory>(&self, mem: &M) -> usize {
        self.exchange_any(FREE).unwrap_or_else(|| {
            let desk = self.take_in_turn(mem);
            // One of the times that it was unparked may have been meant for its user.
            std::thread::current().unpark();
            desk
        })
    }

    fn exchange_any(&self, from: u64) -> Option<usize> {
        self.states.iter().position(|state| state.exchange(from, TAKEN))
    }

    fn take_in_turn<M: Memory>(&self, mem: &M) -> usize {
        let number = self.numbers.add(1);
        let mut time = SHORTEST;
        // Rests while the queue was locked; a desk that was handed to another thread, and rests while that one did not take it.
        let (mut locked, mut left, mut rests_not_taken) = (0, FREE, 0);
        loop {
            if let Ok(mut queue) = self.queue.try_lock() {
                locked = 0;
                let from = if rests_not_taken < TIMEOUT { FREE } else { left };
                if let Some(desk) = self.look_in_queue(&mut queue, number, from) {
                    return desk;
                }
            } else {
                locked += 1;
                if locked > TIMEOUT
                    && let Some(desk) = self.exchange_any(FREE)
                {
                    return desk;
                }
            }
            mem.park(time);
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
                Some(state) if state == left => rests_not_taken += 1,
                _ => (left, rests_not_taken) = (handed.unwrap_or(FREE), 0),
            }
        }
    }

    /// Takes a desk whose word is `from`, or one handed to this thread; else queues.
    fn look_in_queue(&self, queue: &mut Queue, number: u64, from: u64) -> Option<usize> {
        // It may have been handed one since it last looked: then it is no longer in the queue, and must not queue again.
        let desk = self
            .exchange_any(HANDED + number)
            .or_else(|| self.exchange_any(from));
        if desk.is_some() {
            queue.retain(|&(other, _)| other != number);
        } else if !queue.iter().any(|&(other, _)| other == number) {
            queue.push_back((number, std::thread::current()));
        }
        desk
    }

    /// Gives a desk back.
    pub(super) fn give_back(&self, desk: usize) {
        let next = match self.queue.try_lock() {
            Ok(mut queue) => {
                let next = queue.pop_front();
                // A thread that is about to queue looks once more, under the lock.
                self.states[desk].store(next.as_ref().map_or(FREE, |(number, _)| HANDED + number));
                next
            }
            Err(_) => {
                self.states[desk].store(FREE);
                None
            }
        };
        if let Some((_, thread)) = next {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else it would be handed another desk later and not take it: that desk would be idle for [`TIMEOUT`] rests of another thread.
    #[test]
    fn who_is_handed_a_desk_as_it_is_about_to_queue_takes_it_and_does_not_queue_again() {
        let desks = Desks::new(1);
        assert_eq!(desks.exchange_any(FREE), Some(0));
        let look = |number| desks.look_in_queue(&mut desks.queue.lock().unwrap(), number, FREE);
        assert_eq!(look(7), None);
        // It has slept, has not been handed one, and is about to lock the queue again.
        assert_eq!(desks.exchange_any(HANDED + 7), None);
        desks.give_back(0);
        let desk = look(7).or_else(|| desks.exchange_any(HANDED + 7));
        assert_eq!(desk, Some(0));
        desks.give_back(0);
        let state = desks.states[0].load();
        assert_eq!((state, desks.queue.lock().unwrap().len()), (FREE, 0));
    }
}
