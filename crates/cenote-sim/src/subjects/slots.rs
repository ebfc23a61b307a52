//! What must hold of workers' slots when no thread runs.

use cenote::pod::Worker;
use cenote::pod::format::lock_slots::{SLOTS, Slot, SlotState, Turn};

use super::Log;
use crate::exec::SimMemory;

/// Checks that every slot is at rest.
pub fn all_at_rest<const C: bool>(worker: &Worker<SimMemory<C>>, log: &Log) {
    for place in 0..worker.pod().workers_high() {
        for n in 0..SLOTS {
            let slot = Slot::new(worker.geometry(), place, n);
            let stand = Turn(slot.turn().load(worker.mem())).state();
            if stand != SlotState::Rest {
                log.fault(format!("slot {n} of worker {place} is {stand:?} for ever"));
            }
        }
    }
}
