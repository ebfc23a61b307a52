//! Slices: a change under one that a thread holds ends the run.

use cenote::memory::Memory;
use cenote_sim::exec::{Ended, Stop};

use super::harness::{FLAG, Found, Litmus, Thread, X};

fn is_reported(found: &Found) -> bool {
    matches!(found.outcome.ended, Ended::Stopped(Stop::SliceChanged(changed)) if changed.slice == X)
}

/// Thread 0 reads `X` while it is pinned; thread 1 writes it.
fn reads_pinned(t: &Thread<'_, true>) {
    if t.number == 0 {
        t.mem.pinned();
        t.mem.bytes(X, 8);
        t.mem.load(FLAG);
        t.mem.unpinned();
        t.mem.load(FLAG);
    } else {
        t.mem.write_word(X, 1);
    }
}

#[test]
fn a_change_under_a_pinned_readers_slice_is_reported() {
    let litmus = Litmus::new(2, reads_pinned);
    litmus.first(is_reported);
    // Before it is read, or after the pin, it is none.
    litmus.first(|found| found.outcome.ended == Ended::Well);
}

#[test]
fn who_is_not_pinned_holds_nothing() {
    let litmus = Litmus::new(2, |t: &Thread<'_, true>| {
        if t.number == 0 {
            t.mem.bytes(X, 8);
            t.mem.load(FLAG);
        } else {
            t.mem.write_word(X, 1);
        }
    });
    litmus.walks(500);
}
