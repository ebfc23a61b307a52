//! Waiting for a word that another thread will write.

use std::cell::Cell;

use crate::memory::Memory;

/// Polls between two yields.
const POLLS: u32 = 16;

/// How many polls have failed.
#[derive(Default)]
pub struct BackOff(Cell<u32>);

impl BackOff {
    /// Called after a failed poll: pauses, or yields now and then. Returns how many polls have failed.
    pub fn lose<M: Memory>(&self, mem: &M) -> u32 {
        let lost = self.0.get().saturating_add(1);
        self.0.set(lost);
        if lost.is_multiple_of(POLLS) {
            mem.relax();
        }
        lost
    }

    /// Called when a poll has succeeded, or the caller waits for something else.
    pub fn restore(&self) {
        self.0.set(0);
    }
}
