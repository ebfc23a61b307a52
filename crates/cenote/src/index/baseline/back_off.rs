//! Waiting for a word that somebody else will write.

use std::cell::Cell;

use crate::memory::Memory;

/// Looks between two moments at which others are let run.
const LOOKS: u32 = 16;

/// How often somebody has looked in vain.
#[derive(Default)]
pub struct BackOff(Cell<u32>);

impl BackOff {
    /// Looked in vain once more: lets others run now and then. How often it was.
    pub fn lose<M: Memory>(&self, mem: &M) -> u32 {
        let lost = self.0.get().saturating_add(1);
        self.0.set(lost);
        if lost.is_multiple_of(LOOKS) {
            mem.relax();
        }
        lost
    }

    /// Saw what it waited for, or waits for something else.
    pub fn restore(&self) {
        self.0.set(0);
    }
}
