//! Hints: a bit for each frame, set for orphaned blocks that have a free object. Hints may be lost or wrong; they are checked.

use crate::memory::Memory;
use crate::pod::instance::worker::Worker;

fn hint_word<M: Memory>(worker: &Worker<M>, frame: u64) -> u64 {
    worker.geometry().hints + frame / 64 * 8
}

pub(crate) fn set_hint<M: Memory>(worker: &Worker<M>, frame: u64) {
    let (mem, at) = (worker.mem(), hint_word(worker, frame));
    if mem.load(at) & 1 << (frame % 64) == 0 {
        // NO PAIR: hint
        mem.fetch_or(at, 1 << (frame % 64));
    }
}

pub(crate) fn clear_hint<M: Memory>(worker: &Worker<M>, frame: u64) {
    // NO PAIR: hint
    worker
        .mem()
        .fetch_and(hint_word(worker, frame), !(1 << (frame % 64)));
}
