//! Hints: a bit for each frame, set for orphaned blocks that have a free object. Hints may be lost or wrong; they are
//! checked.

use crate::memory::Memory;
use crate::memory::checked::sync_word;
use crate::pod::instance::worker::Worker;

fn hint_word<M: Memory>(worker: &Worker<M>, frame: u64) -> u64 {
    worker.geometry().hints + frame / 64 * 8
}

pub(crate) fn set_hint<M: Memory>(worker: &Worker<M>, frame: u64) {
    let (mem, at) = (worker.mem(), hint_word(worker, frame));
    if sync_word(at).load(mem) & 1 << (frame % 64) == 0 {
        // NO PAIR: hint
        sync_word(at).fetch_or(mem, 1 << (frame % 64));
    }
}

pub(crate) fn clear_hint<M: Memory>(worker: &Worker<M>, frame: u64) {
    // NO PAIR: hint
    sync_word(hint_word(worker, frame)).fetch_and(worker.mem(), !(1 << (frame % 64)));
}
