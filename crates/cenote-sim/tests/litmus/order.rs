//! Happens-before: a read that must see a store, and does not, ends the run; and no other read does.

use cenote::memory::Memory;
use cenote_sim::exec::{Ended, Stop};

use super::harness::{FLAG, Found, Litmus, Thread, X};
use super::publication::{ALL_STEPS, Steps, WITHOUT_ONE, publication};
use cenote::memory::{OwnedWord, SyncWord, Unpublished};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

/// An owned word.
#[inline(always)]
fn owned_word(at: u64) -> OwnedWord {
    // SAFETY: an owned word of simulated memory, which checks each access.
    unsafe { OwnedWord::at(at) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Unpublished::at(at, len) }
}

fn is_reported(found: &Found) -> bool {
    matches!(found.outcome.ended, Ended::Stopped(Stop::Stale(stale)) if (stale.at, stale.reader, stale.writer) == (X, 2, 1))
}

fn ends_well(found: &Found) -> bool {
    found.outcome.ended == Ended::Well
}

#[test]
fn what_is_published_is_seen() {
    let all = |t: &Thread<'_, false>| publication(t, ALL_STEPS);
    Litmus::new(2, all).checking_order().walks(3_000);
}

#[test]
fn each_step_of_publication_that_is_left_out_is_reported() {
    for threads in WITHOUT_ONE {
        let litmus = Litmus::new(2, threads).checking_order();
        litmus.first(is_reported);
        litmus.first(ends_well);
    }
}

#[test]
fn who_has_not_looked_need_not_see() {
    let none = |t: &Thread<'_, false>| {
        publication(
            t,
            Steps {
                writes_back: false,
                fences: false,
                looks: false,
                invalidates: false,
            },
        )
    };
    Litmus::new(2, none).checking_order().walks(3_000);
}

/// Thread 0 stores `X` and exchanges `FLAG`; thread 1 reads both. The store is held back for longer than the reads
/// take.
fn exchanges(t: &Thread<'_, true>, exchange: fn(&Thread<'_, true>) -> Result<u64, u64>) {
    if t.number == 0 {
        sync_word(X).store(&t.mem, 7);
        let _ = exchange(t);
        t.mem.pause();
        t.mem.pause();
    } else {
        t.find(0, sync_word(FLAG).load(&t.mem));
        t.find(1, sync_word(X).load(&t.mem));
    }
}

#[test]
fn an_exchange_that_only_acquires_publishes_nothing() {
    let acquires =
        |t: &Thread<'_, true>| exchanges(t, |t| sync_word(FLAG).compare_exchange_acquire(&t.mem, 0, 1));
    let seen = Litmus::new(2, acquires).checking_order().walks(3_000);
    // No reader may rely on it, so that is no fault.
    assert!(seen.contains_key(&[1, 0, 0, 0]), "{seen:?}");
    let publishes = |t: &Thread<'_, true>| exchanges(t, |t| sync_word(FLAG).compare_exchange(&t.mem, 0, 1));
    let seen = Litmus::new(2, publishes).checking_order().walks(3_000);
    assert!(!seen.contains_key(&[1, 0, 0, 0]), "{seen:?}");
}

#[test]
fn what_was_seen_before_an_exchange_that_only_acquires_must_be_seen_after_it() {
    let exchanges = |t: &Thread<'_, false>| {
        if t.number == 0 {
            unpublished(X, 8).write_word(&t.mem, 7);
            t.mem.fence();
            let _ = sync_word(FLAG).compare_exchange_acquire(&t.mem, 0, 1);
        } else {
            sync_word(FLAG).load(&t.mem);
            owned_word(X).peek(&t.mem);
        }
    };
    // It is in the cache of thread 0, no more.
    Litmus::new(2, exchanges).checking_order().first(is_reported);
}

#[test]
fn what_a_lost_cache_took_with_it_need_not_be_seen() {
    let loses = |t: &Thread<'_, false>| {
        if t.number == 0 {
            unpublished(X, 8).write_word(&t.mem, 7);
            sync_word(FLAG).store(&t.mem, 1);
            sync_word(FLAG).load(&t.mem);
        }
    };
    let litmus = Litmus {
        audit: |t| t.find(0, owned_word(X).peek(&t.mem)),
        ..Litmus::new(1, loses).dies_at(2).checking_order()
    };
    let seen = litmus.walks(500);
    assert!(
        seen.contains_key(&[0; 4]),
        "the store is lost in no run: {seen:?}"
    );
}

/// Thread 0 stores `X` and goes on behind a fence, until it dies with its host; thread 1 reads `X`.
fn goes_on(t: &Thread<'_, false>, store: fn(&Thread<'_, false>)) {
    if t.number == 0 {
        store(t);
        t.mem.fence();
        (0..4).for_each(|_| t.mem.pause());
    } else {
        (0..16).for_each(|_| t.find(0, owned_word(X).peek(&t.mem)));
    }
}

#[test]
fn a_store_whose_thread_went_on_is_not_lost_with_its_host() {
    let kept = |t: &Thread<'_, false>| {
        goes_on(t, |t| {
            owned_word(X).set(&t.mem, 7);
            t.mem.write_back(X, 8);
        })
    };
    Litmus::new(2, kept).dies_at(4).checking_order().walks(3_000);
    let lost = |t: &Thread<'_, false>| goes_on(t, |t| owned_word(X).set(&t.mem, 7));
    let litmus = Litmus::new(2, lost).dies_at(4).checking_order();
    litmus.first(|found| {
        is_reported(found)
            && matches!(found.outcome.ended, Ended::Stopped(Stop::Stale(stale)) if stale.is_lost)
    });
    litmus.first(ends_well);
}

#[test]
fn a_store_that_is_waited_for_late_may_be_lost() {
    let late = |t: &Thread<'_, false>| goes_on(t, |t| owned_word(X).set_lazily(&t.mem, 7));
    Litmus::new(2, late).dies_at(4).checking_order().walks(3_000);
}

/// A store buffer that is full lets an older store of the same word out, after the newest one was made.
#[test]
fn of_many_stores_that_are_waited_for_late_the_last_one_may_be_lost() {
    let late =
        |t: &Thread<'_, false>| goes_on(t, |t| (0..12).for_each(|n| owned_word(X).set_lazily(&t.mem, n)));
    Litmus::new(2, late).dies_at(15).checking_order().walks(3_000);
}
