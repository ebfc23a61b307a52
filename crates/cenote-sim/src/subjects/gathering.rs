//! Threads that wait for each other, so that what they do together begins in the same state in every schedule.

use std::cell::Cell;
use std::rc::Rc;

use crate::exec::Context;

/// Where a run's threads wait for each other.
#[derive(Clone)]
pub struct Gathering {
    missing: Rc<Cell<u32>>,
}

impl Gathering {
    /// A place for so many threads; with 0 no thread waits.
    pub fn new(threads: u32) -> Self {
        Self {
            missing: Rc::new(Cell::new(threads)),
        }
    }

    /// Waits for the others. The last one tells the policy.
    pub fn arrive<const C: bool>(&self, context: &Context<C>) {
        match self.missing.get() {
            0 => return,
            1 => context.gathered(),
            _ => {}
        }
        self.missing.set(self.missing.get() - 1);
        context.wait_for(&self.missing);
    }
}
