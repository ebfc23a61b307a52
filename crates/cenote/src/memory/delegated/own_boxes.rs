//! Which thread of a process has which of its mailboxes. All words here are the process's own.
//!
//! | a box's word | |
//! |---|---|
//! | 0 | free |
//! | 1 | a thread has it |
//! | 2 + n | handed over to the waiting thread of number n, which has not taken it yet |
//!
//! **In turn.** A thread that finds no box free queues and rests. A thread that gives one back hands it to the first in
//! the queue and wakes it. If the box were free for a moment, a thread that asks again and again would always get it
//! before one that has to wake up.
//!
//! **A thread that dies alone.** If it has a box, the box stays taken for as long as its process lives. If it queues,
//! it is handed a box and never takes it: after [`TIMEOUT`] rests another waiting thread does. If it dies with the
//! queue's lock, the lock stays locked: then nothing is handed over any more; boxes become free, and waiting threads
//! poll for them. So no thread ever waits for that lock.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread::Thread;

use super::client::{SHORTEST, longer};
use crate::memory::{LocalWord, Memory};

const FREE: u64 = 0;
const TAKEN: u64 = 1;
const HANDED: u64 = 2;
/// Rests after which another thread may take a box that was handed over and not taken.
const TIMEOUT: u32 = 50;

/// The waiting threads, with their numbers.
type Queue = VecDeque<(u64, Thread)>;

/// The mailboxes of a process, as its threads share them.
#[derive(Debug)]
pub(super) struct OwnBoxes {
    states: Vec<LocalWord>,
    numbers: LocalWord,
    queue: Mutex<Queue>,
}

impl OwnBoxes {
    pub(super) fn new(count: usize) -> Self {
        Self {
            states: (0..count).map(|_| LocalWord::new(FREE)).collect(),
            numbers: LocalWord::new(0),
            queue: Mutex::default(),
        }
    }

    /// Takes a box, and waits until there is one.
    pub(super) fn take<M: Memory>(&self, mem: &M) -> usize {
        self.exchange_any(FREE).unwrap_or_else(|| {
            let taken = self.take_in_turn(mem);
            // One of the times that it was unparked may have been meant for its user.
            std::thread::current().unpark();
            taken
        })
    }

    fn exchange_any(&self, from: u64) -> Option<usize> {
        self.states.iter().position(|state| state.exchange(from, TAKEN))
    }

    fn take_in_turn<M: Memory>(&self, mem: &M) -> usize {
        let number = self.numbers.add(1);
        let mut time = SHORTEST;
        // Rests while the queue was locked; a box that was handed to another thread, and rests while that one did not
        // take it.
        let (mut locked, mut left, mut rests_not_taken) = (0, FREE, 0);
        loop {
            if let Ok(mut queue) = self.queue.try_lock() {
                locked = 0;
                let from = if rests_not_taken < TIMEOUT { FREE } else { left };
                if let Some(taken) = self.take_or_queue(&mut queue, number, from) {
                    return taken;
                }
            } else {
                locked += 1;
                if locked > TIMEOUT
                    && let Some(taken) = self.exchange_any(FREE)
                {
                    return taken;
                }
            }
            mem.park(time);
            time = longer(time);
            if let Some(taken) = self.exchange_any(HANDED + number) {
                return taken;
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

    /// Takes a box whose word is `from`, or one handed to this thread; else queues.
    fn take_or_queue(&self, queue: &mut Queue, number: u64, from: u64) -> Option<usize> {
        // It may have been handed one since it last looked: then it is no longer in the queue, and must not queue
        // again.
        let taken = self
            .exchange_any(HANDED + number)
            .or_else(|| self.exchange_any(from));
        if taken.is_some() {
            queue.retain(|&(other, _)| other != number);
        } else if !queue.iter().any(|&(other, _)| other == number) {
            queue.push_back((number, std::thread::current()));
        }
        taken
    }

    /// Gives a box back.
    pub(super) fn give_back(&self, number: usize) {
        let next = match self.queue.try_lock() {
            Ok(mut queue) => {
                let next = queue.pop_front();
                // A thread that is about to queue looks once more, under the lock.
                self.states[number].store(next.as_ref().map_or(FREE, |(number, _)| HANDED + number));
                next
            }
            Err(_) => {
                self.states[number].store(FREE);
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

    /// Else it would be handed another box later and not take it: that box would be idle for [`TIMEOUT`] rests of
    /// another thread.
    #[test]
    fn who_is_handed_a_box_as_it_is_about_to_queue_takes_it_and_does_not_queue_again() {
        let boxes = OwnBoxes::new(1);
        assert_eq!(boxes.exchange_any(FREE), Some(0));
        let take = |number| boxes.take_or_queue(&mut boxes.queue.lock().unwrap(), number, FREE);
        assert_eq!(take(7), None);
        // It has slept, has not been handed one, and is about to lock the queue again.
        assert_eq!(boxes.exchange_any(HANDED + 7), None);
        boxes.give_back(0);
        let taken = take(7).or_else(|| boxes.exchange_any(HANDED + 7));
        assert_eq!(taken, Some(0));
        boxes.give_back(0);
        let state = boxes.states[0].load();
        assert_eq!((state, boxes.queue.lock().unwrap().len()), (FREE, 0));
    }
}
