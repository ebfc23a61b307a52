//! Happens-before: a read that must see a store, and does not, ends the run; and no other read does.

use cenote::memory::Memory;
use cenote_sim::exec::{Ended, Stop};

use super::harness::{FLAG, Found, Litmus, Thread, X};

fn is_reported(found: &Found) -> bool {
    matches!(found.outcome.ended, Ended::Stopped(Stop::Stale(stale)) if (stale.at, stale.reader, stale.writer) == (X, 2, 1))
}

fn ends_well(found: &Found) -> bool {
    found.outcome.ended == Ended::Well
}

/// What thread 0 does between its store to `X` and the one to `FLAG`, and thread 1 between its look at `FLAG` and the second one at `X`.
#[derive(Clone, Copy, Default)]
struct Steps {
    writes_back: bool,
    fences: bool,
    invalidates: bool,
    looks_at_all: bool,
}

const ALL: Steps = Steps {
    writes_back: true,
    fences: true,
    invalidates: true,
    looks_at_all: true,
};

fn publishes(t: &Thread<'_, false>, steps: Steps) {
    if t.number == 0 {
        t.mem.write_word(X, 7);
        if steps.writes_back {
            t.mem.write_back(X, 8);
        }
        if steps.fences {
            t.mem.fence();
        }
        t.mem.store(FLAG, 1);
    } else {
        t.mem.load_speculative(X);
        if steps.looks_at_all {
            t.mem.load(FLAG);
        }
        if steps.invalidates {
            t.mem.invalidate(X, 8);
            t.mem.fence();
        }
        t.mem.bytes(X, 8);
    }
}

#[test]
fn what_is_published_is_seen() {
    let all = |t: &Thread<'_, false>| publishes(t, ALL);
    Litmus::new(2, all).checking_order().walks(3_000);
}

#[test]
fn each_step_of_publication_that_is_left_out_is_reported() {
    let without: [fn(&Thread<'_, false>); 3] = [
        |t| {
            publishes(
                t,
                Steps {
                    writes_back: false,
                    ..ALL
                },
            )
        },
        |t| publishes(t, Steps { fences: false, ..ALL }),
        |t| {
            publishes(
                t,
                Steps {
                    invalidates: false,
                    ..ALL
                },
            )
        },
    ];
    for threads in without {
        let litmus = Litmus::new(2, threads).checking_order();
        litmus.first(is_reported);
        litmus.first(ends_well);
    }
}

#[test]
fn who_has_not_looked_need_not_see() {
    let none = |t: &Thread<'_, false>| publishes(t, Steps::default());
    Litmus::new(2, none).checking_order().walks(3_000);
}

/// Thread 0 stores `X` and exchanges `FLAG`; thread 1 looks at both. A store is held back for longer than it takes to look.
fn exchanges(t: &Thread<'_, true>, exchange: fn(&Thread<'_, true>) -> Result<u64, u64>) {
    if t.number == 0 {
        t.mem.store(X, 7);
        let _ = exchange(t);
        t.mem.pause();
        t.mem.pause();
    } else {
        t.find(0, t.mem.load(FLAG));
        t.find(1, t.mem.load(X));
    }
}

#[test]
fn an_exchange_that_only_acquires_publishes_nothing() {
    let acquires = |t: &Thread<'_, true>| exchanges(t, |t| t.mem.compare_exchange_acquire(FLAG, 0, 1));
    let seen = Litmus::new(2, acquires).checking_order().walks(3_000);
    // Nobody is to count on it, so that is no fault.
    assert!(seen.contains_key(&[1, 0, 0, 0]), "{seen:?}");
    let publishes = |t: &Thread<'_, true>| exchanges(t, |t| t.mem.compare_exchange(FLAG, 0, 1));
    let seen = Litmus::new(2, publishes).checking_order().walks(3_000);
    assert!(!seen.contains_key(&[1, 0, 0, 0]), "{seen:?}");
}

#[test]
fn what_was_seen_before_an_exchange_that_only_acquires_must_be_seen_after_it() {
    let exchanges = |t: &Thread<'_, false>| {
        if t.number == 0 {
            t.mem.write_word(X, 7);
            t.mem.fence();
            let _ = t.mem.compare_exchange_acquire(FLAG, 0, 1);
        } else {
            t.mem.load(FLAG);
            t.mem.owned_peek(X);
        }
    };
    // It is in the cache of thread 0, no more.
    Litmus::new(2, exchanges).checking_order().first(is_reported);
}

#[test]
fn what_a_lost_cache_took_with_it_need_not_be_seen() {
    let loses = |t: &Thread<'_, false>| {
        if t.number == 0 {
            t.mem.write_word(X, 7);
            t.mem.store(FLAG, 1);
            t.mem.load(FLAG);
        }
    };
    let litmus = Litmus {
        audit: |t| t.find(0, t.mem.owned_peek(X)),
        ..Litmus::new(1, loses).dies_at(2).checking_order()
    };
    let seen = litmus.walks(500);
    assert!(
        seen.contains_key(&[0; 4]),
        "the store is lost in no run: {seen:?}"
    );
}
