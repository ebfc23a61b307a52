//! Publication: a thread that reads a sync word and then drops its copy of the data sees what was written, written back
//! and fenced before the sync word was stored. Each step is needed where caches are incoherent, and none where they are
//! coherent.

use cenote::memory::Memory;

use super::guarantees::never;
use super::harness::{FLAG, Litmus, Registers, Thread, X};
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

/// Which steps of publication are taken.
#[derive(Clone, Copy)]
pub struct Steps {
    /// Thread 0 writes `X` back.
    pub writes_back: bool,
    /// It fences before it stores the flag.
    pub fences: bool,
    /// Thread 1 reads the flag.
    pub looks: bool,
    /// It drops its copy of `X` before it reads that.
    pub invalidates: bool,
}

/// Thread 0 publishes `X` by `FLAG`; thread 1, whose cache has an old copy, sees the flag and reads.
pub fn publication<const C: bool>(t: &Thread<'_, C>, steps: Steps) {
    if t.number == 0 {
        unpublished(X, 8).write_word(&t.mem, 7);
        if steps.writes_back {
            t.mem.write_back(X, 8);
        }
        if steps.fences {
            t.mem.fence();
        }
        sync_word(FLAG).store(&t.mem, 1);
        t.mem.fence();
    } else {
        sync_word(X).load_speculative(&t.mem);
        if steps.looks {
            t.find(0, sync_word(FLAG).load(&t.mem));
        }
        if steps.invalidates {
            t.mem.invalidate(X, 8);
            t.mem.fence();
        }
        t.find(1, u64::from(published(X, 1).bytes(&t.mem)[0]));
    }
}

/// All of them.
pub const ALL_STEPS: Steps = Steps {
    writes_back: true,
    fences: true,
    looks: true,
    invalidates: true,
};
/// The flag is there, the data is not.
const UNPUBLISHED: Registers = [1, 0, 0, 0];

/// Publication without one of its steps.
pub const WITHOUT_ONE: [fn(&Thread<'_, false>); 3] = [
    |t| {
        publication(
            t,
            Steps {
                writes_back: false,
                ..ALL_STEPS
            },
        )
    },
    |t| {
        publication(
            t,
            Steps {
                fences: false,
                ..ALL_STEPS
            },
        )
    },
    |t| {
        publication(
            t,
            Steps {
                invalidates: false,
                ..ALL_STEPS
            },
        )
    },
];

#[test]
fn published_data_is_seen() {
    let litmus = Litmus::new(2, |t: &Thread<'_, false>| publication(t, ALL_STEPS));
    never(
        &litmus,
        |found| *found == UNPUBLISHED,
        &[[0; 4], [0, 7, 0, 0], [1, 7, 0, 0]],
    );
}

#[test]
fn publication_needs_each_of_its_steps() {
    for threads in WITHOUT_ONE {
        let litmus = Litmus::new(2, threads);
        assert!(litmus.all(2).contains_key(&UNPUBLISHED));
        litmus.first(|found| found.registers == UNPUBLISHED);
    }
}

#[test]
fn coherent_publication_needs_none() {
    let litmus = Litmus::new(2, |t: &Thread<'_, true>| {
        publication(
            t,
            Steps {
                writes_back: false,
                fences: false,
                looks: true,
                invalidates: false,
            },
        )
    });
    never(
        &litmus,
        |found| *found == UNPUBLISHED,
        &[[0; 4], [0, 7, 0, 0], [1, 7, 0, 0]],
    );
}
