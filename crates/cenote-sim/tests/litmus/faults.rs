//! Every fault that the machine claims to produce is produced.

use cenote::memory::Memory;
use cenote_sim::exec::{Ended, Kind, Op, Stop};

use super::harness::{FLAG, Litmus, NEIGHBOUR, NEXT_LINE, Thread, X, Y, outcomes};
use cenote::memory::{SyncWord, Unpublished, WordLine};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

/// A line of words.
#[inline(always)]
fn word_line(at: u64) -> WordLine {
    // SAFETY: a line of words of simulated memory, which checks each access.
    unsafe { WordLine::at(at) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Unpublished::at(at, len) }
}

type T<'a> = Thread<'a, false>;

/// Thread 1 reads `X` through its cache, learns that thread 0 has stored it, and reads it again.
fn reads_twice(t: &T<'_>) {
    if t.number == 0 {
        sync_word(X).store(&t.mem, 1);
        sync_word(FLAG).store(&t.mem, 1);
    } else {
        t.find(0, sync_word(X).load_speculative(&t.mem));
        t.find(1, sync_word(FLAG).load(&t.mem));
        t.find(2, sync_word(X).load_speculative(&t.mem));
    }
}

#[test]
fn a_cached_load_is_stale() {
    let litmus = Litmus::new(2, reads_twice);
    assert!(litmus.all(2).contains_key(&[0, 1, 0, 0]));
    litmus.first(|found| found.registers == [0, 1, 0, 0]);
}

#[test]
fn an_evicted_clean_line_is_fetched_again() {
    let litmus = Litmus::new(2, reads_twice);
    // Nothing but an eviction can make the second look differ from the first.
    assert!(!litmus.all(4).contains_key(&[0, 1, 1, 0]));
    litmus.first(|found| found.registers == [0, 1, 1, 0]);
}

#[test]
fn an_unwritten_store_is_lost_at_a_crash() {
    let mut litmus = Litmus::new(1, |t: &T<'_>| {
        unpublished(X, 8).write_word(&t.mem, 1);
        sync_word(FLAG).store(&t.mem, 1);
        t.mem.pause();
    })
    .dies_at(2);
    litmus.audit = |t| {
        t.find(0, sync_word(X).load(&t.mem));
        t.find(1, sync_word(FLAG).load(&t.mem));
    };
    assert_eq!(outcomes(&litmus.all(0)), [[0, 1, 0, 0]]);
    assert_eq!(outcomes(&litmus.walks(100)), [[0, 1, 0, 0], [1, 1, 0, 0]]);
    // Host 0 has had a process before: the one that prepared.
    litmus.hosts = vec![0];
    assert_eq!(outcomes(&litmus.walks(100)), [[0, 1, 0, 0], [1, 1, 0, 0]]);
    litmus.persists_at_crash = true;
    assert_eq!(outcomes(&litmus.walks(100)), [[1, 1, 0, 0]]);
}

#[test]
fn any_subset_of_dirty_lines_survives_a_crash() {
    let mut litmus = Litmus::new(1, |t: &T<'_>| {
        unpublished(X, 8).write_word(&t.mem, 1);
        unpublished(Y, 8).write_word(&t.mem, 1);
        t.mem.pause();
    })
    .dies_at(2);
    litmus.audit = |t| {
        t.find(0, sync_word(X).load(&t.mem));
        t.find(1, sync_word(Y).load(&t.mem));
    };
    assert_eq!(
        outcomes(&litmus.walks(200)),
        [[0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]]
    );
}

#[test]
fn a_write_back_overwrites_a_neighbour() {
    let mut litmus = Litmus::new(2, |t: &T<'_>| {
        if t.number == 0 {
            unpublished(X, 8).write_word(&t.mem, 1);
            t.mem.write_back(X, 8);
            t.mem.fence();
        } else {
            sync_word(NEIGHBOUR).store(&t.mem, 1);
        }
    });
    litmus.audit = |t| {
        t.find(0, sync_word(X).load(&t.mem));
        t.find(1, sync_word(NEIGHBOUR).load(&t.mem));
    };
    assert_eq!(outcomes(&litmus.all(1)), [[1, 0, 0, 0], [1, 1, 0, 0]]);
    litmus.first(|found| found.registers == [1, 0, 0, 0]);
}

/// Thread 0 begins to write `X` back; register 1 says whether it has come to its fence when thread 1 reads.
fn looks_before_the_fence(t: &T<'_>) {
    if t.number == 0 {
        unpublished(X, 8).write_word(&t.mem, 1);
        t.mem.write_back(X, 8);
        sync_word(FLAG).store(&t.mem, 1);
        sync_word(FLAG).store(&t.mem, 2);
        t.mem.fence();
    } else {
        let before = sync_word(FLAG).load(&t.mem);
        let found = word_line(X).fetch(&t.mem)[0];
        if before == 1 && sync_word(FLAG).load(&t.mem) == 1 {
            t.find(0, 1 + found);
        }
    }
}

#[test]
fn a_write_back_completes_before_its_fence_or_at_it() {
    let litmus = Litmus::new(2, looks_before_the_fence);
    litmus.first(|found| found.registers[0] == 1);
    litmus.first(|found| found.registers[0] == 2 && found.without_evictions());
    assert_eq!(outcomes(&litmus.all(4)), [[0, 0, 0, 0], [1, 0, 0, 0]]);
}

#[test]
fn an_eviction_shows_a_dirty_line_that_nobody_writes_back() {
    let litmus = Litmus::new(2, |t: &T<'_>| {
        if t.number == 0 {
            unpublished(X, 8).write_word(&t.mem, 1);
            sync_word(FLAG).store(&t.mem, 1);
            sync_word(FLAG).store(&t.mem, 2);
        } else {
            t.find(0, word_line(X).fetch(&t.mem)[0]);
        }
    });
    assert_eq!(outcomes(&litmus.all(4)), [[0; 4]]);
    litmus.first(|found| found.registers[0] == 1);
}

#[test]
fn mixed_use_of_a_word_is_reported() {
    let litmus = Litmus::new(2, |t: &T<'_>| {
        if t.number == 0 {
            unpublished(X, 8).write_word(&t.mem, 1);
        } else {
            sync_word(X).load(&t.mem);
        }
    });
    litmus.first(|found| match &found.outcome.ended {
        Ended::Stopped(Stop::MixedUse(mixed, op)) => {
            assert_eq!((mixed.at, mixed.host), (X, 1));
            *op == Op::word(Kind::Load, X, 0)
        }
        _ => false,
    });
}

#[test]
fn a_prefetched_line_is_stale() {
    let mut litmus = Litmus::new(2, |t: &T<'_>| {
        if t.number == 0 {
            sync_word(NEXT_LINE).store(&t.mem, 1);
            sync_word(FLAG).store(&t.mem, 1);
        } else {
            sync_word(X).load_speculative(&t.mem);
            t.find(0, sync_word(FLAG).load(&t.mem));
            t.find(1, sync_word(NEXT_LINE).load_speculative(&t.mem));
        }
    });
    let stale = [1, 0, 0, 0];
    assert!(!litmus.all(4).contains_key(&stale));
    assert!(!litmus.walks(500).contains_key(&stale));
    litmus.prefetches = true;
    assert!(litmus.all(2).contains_key(&stale));
    litmus.first(|found| found.registers == stale);
}
