//! Events in the order of time; those of one time in the order in which they were planned.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event with its time.
struct Planned<E> {
    at: u64,
    number: u64,
    event: E,
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Planned<E> {}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Planned<E> {
    /// The earliest is the greatest, as the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// What is to happen, and the time now.
pub struct Agenda<E> {
    now: u64,
    planned: u64,
    heap: BinaryHeap<Planned<E>>,
}

impl<E> Agenda<E> {
    pub fn new() -> Self {
        Self {
            now: 0,
            planned: 0,
            heap: BinaryHeap::new(),
        }
    }

    /// The time of the event that happened last.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Plans an event, at once if its time has passed.
    pub fn plan(&mut self, at: u64, event: E) {
        self.planned += 1;
        self.heap.push(Planned {
            at: at.max(self.now),
            number: self.planned,
            event,
        });
    }

    /// The next event happens.
    pub fn next(&mut self) -> Option<E> {
        let planned = self.heap.pop()?;
        self.now = planned.at;
        Some(planned.event)
    }
}
