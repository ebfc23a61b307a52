//! Slices: a change under one that a thread holds ends the run.

use cenote::memory::Memory;
use cenote_sim::exec::{Ended, Stop};

use super::harness::{FLAG, Found, Litmus, Thread, X};
use cenote::memory::{Published, SyncWord, Unpublished};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Unpublished::at(at, len) }
}

fn is_reported(found: &Found) -> bool {
    matches!(found.outcome.ended, Ended::Stopped(Stop::SliceChanged(changed)) if changed.slice == X)
}

/// Thread 0 reads `X` while it is pinned; thread 1 writes it.
fn reads_pinned(t: &Thread<'_, true>) {
    if t.number == 0 {
        t.mem.pinned();
        published(X, 8).bytes(&t.mem);
        sync_word(FLAG).load(&t.mem);
        t.mem.unpinned();
        sync_word(FLAG).load(&t.mem);
    } else {
        unpublished(X, 8).write_word(&t.mem, 1);
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
            published(X, 8).bytes(&t.mem);
            sync_word(FLAG).load(&t.mem);
        } else {
            unpublished(X, 8).write_word(&t.mem, 1);
        }
    });
    litmus.walks(500);
}
