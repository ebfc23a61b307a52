//! Each cost by itself, in picoseconds of the profile `cxl-remote`.

use super::*;
use crate::machine::Capacity;

const MISS: u64 = 383_000;
const SYNC: u64 = 311_000;
const EXCHANGE: u64 = 474_000;
const SERVICE: u64 = 140_600;
const COMPUTE: u64 = 1_000;
const TRANSFER: u64 = 140_000;

fn clock(threads: u32) -> Clock {
    clock_of(threads, false)
}

fn clock_of(threads: u32, coherent: bool) -> Clock {
    let shape = Shape {
        coherent,
        hosts: 2,
        bytes: 1 << 20,
        cache_lines: Capacity {
            shared: 1000,
            own: 1000,
        },
        prefetches: false,
        has_membarrier: true,
        persists_at_crash: false,
        coherent_bytes: 0,
        blind_exchanges: false,
    };
    let mut clock = Clock::new(&Profile::load("cxl-remote").unwrap(), &shape);
    for thread in 0..threads {
        clock.begin(thread, 0);
    }
    clock
}

/// A line's way through a link.
fn device_line() -> u64 {
    costs::Costs::new(&Profile::load("cxl-remote").unwrap()).device_line
}

/// What an operation on a word takes.
fn spent(clock: &mut Clock, thread: u32, kind: Kind, at: u64, found: Found) -> u64 {
    let before = clock.now_ps(thread);
    clock.charge(thread, 0, Op::word(kind, at, 0), found);
    clock.now_ps(thread) - before - COMPUTE
}

#[test]
fn sync_operations_on_one_line_take_turns() {
    let mut clock = clock(4);
    let line = device_line();
    assert_eq!(spent(&mut clock, 0, Kind::Load, 64, Found::Hit), SYNC);
    assert_eq!(spent(&mut clock, 1, Kind::Store, 72, Found::Hit), 2 * SYNC);
    assert_eq!(
        spent(&mut clock, 2, Kind::FetchLine, 64, Found::Missed(1)),
        3 * SYNC
    );
    // Those of another line wait for the links alone.
    assert_eq!(spent(&mut clock, 3, Kind::Load, 128, Found::Hit), 3 * line + SYNC);
}

#[test]
fn exchanges_queue_by_address() {
    let mut clock = clock(3);
    let line = device_line();
    assert_eq!(
        spent(&mut clock, 0, Kind::CompareExchange, 64, Found::Hit),
        EXCHANGE
    );
    assert_eq!(
        spent(&mut clock, 1, Kind::FetchModify, 64, Found::Hit),
        // The queue is free again before its line is through.
        EXCHANGE + SERVICE.max(line)
    );
    assert_eq!(
        spent(&mut clock, 2, Kind::CompareExchange, 128, Found::Hit),
        EXCHANGE + 2 * line
    );
}

#[test]
fn lines_pass_links_one_after_another() {
    let mut clock = clock(4);
    let line = device_line();
    assert_eq!(spent(&mut clock, 0, Kind::Read, 64, Found::Hit), 5_000);
    assert_eq!(spent(&mut clock, 1, Kind::Speculate, 64, Found::Missed(1)), MISS);
    assert_eq!(
        spent(&mut clock, 2, Kind::Read, 128, Found::Missed(2)),
        MISS + 2 * line
    );
    // Another host has a link of its own, but the device is the same.
    let before = clock.now_ps(3);
    clock.charge(3, 1, Op::word(Kind::Write, 4096, 0), Found::Missed(1));
    assert_eq!(clock.now_ps(3) - before - COMPUTE, MISS + 3 * line);
}

#[test]
fn a_fence_waits_for_what_was_begun() {
    let mut clock = clock(1);
    let fence = 10_000;
    assert_eq!(spent(&mut clock, 0, Kind::Fence, 0, Found::Missed(0)), fence);
    assert_eq!(spent(&mut clock, 0, Kind::WriteBack, 64, Found::Hit), 0);
    assert_eq!(
        spent(&mut clock, 0, Kind::Fence, 0, Found::Missed(1)),
        MISS - COMPUTE + fence
    );
    assert_eq!(spent(&mut clock, 0, Kind::Invalidate, 64, Found::Hit), 0);
    assert_eq!(
        spent(&mut clock, 0, Kind::Fence, 0, Found::Missed(1)),
        30_000 - COMPUTE + fence
    );
}

#[test]
fn the_least_clock_runs() {
    let mut clock = clock(3);
    assert_eq!(clock.first(0, false), Some(0));
    assert_eq!(clock.first(0, true), Some(0));
    clock.spend_ps(0, 10);
    assert_eq!(clock.first(0, true), Some(1));
    clock.spend_ps(1, 20);
    clock.end(2);
    assert_eq!(clock.first(1, true), Some(0));
    // A thread begins with its parent, one without a parent now.
    clock.spend_ps(0, 5);
    clock.begin(3, 0);
    clock.begin(4, 2);
    assert_eq!((clock.now_ps(3), clock.now_ps(4)), (15, 10));
    clock.end(0);
    assert_eq!(clock.first(0, false), Some(4));
    clock.end(4);
    assert_eq!(clock.first(4, false), Some(3));
    clock.end(3);
    assert_eq!(clock.first(3, false), Some(1));
    clock.end(1);
    assert_eq!(clock.first(1, false), None);
    clock.begin(5, 0);
    assert_eq!((clock.now_ps(5), clock.latest_ps()), (20, 20));
}

#[test]
fn coherent_caches_pass_lines_on() {
    let mut clock = clock_of(2, true);
    let hit = 5_000;
    let mut access = |thread: u32, host: u32, kind| {
        let before = clock.now_ps(thread);
        clock.charge(thread, host, Op::word(kind, 0, 0), Found::Hit);
        clock.now_ps(thread) - before - COMPUTE
    };
    assert_eq!(access(0, 0, Kind::Load), MISS);
    assert_eq!(access(0, 0, Kind::CompareExchange), hit);
    assert_eq!(access(0, 0, Kind::Load), hit);
    // From the other host's cache, not from memory.
    assert_eq!(access(1, 1, Kind::Store), TRANSFER);
    assert!((TRANSFER..2 * TRANSFER).contains(&access(0, 0, Kind::Load)));
    assert_eq!(access(1, 1, Kind::Load), hit);
}

#[test]
fn who_wants_a_line_waits_behind_those_who_wanted_it() {
    let mut clock = clock_of(3, true);
    let store = Op::word(Kind::Store, 0, 0);
    let mut access = |thread: u32, host: u32| {
        clock.charge(thread, host, store, Found::Hit);
        clock.now_ps(thread) - COMPUTE
    };
    // The first from memory; the others one after another, though the first has it again only behind them.
    assert_eq!(access(0, 0), MISS);
    assert_eq!(access(1, 1), TRANSFER);
    assert_eq!(access(0, 0), MISS + COMPUTE + TRANSFER);
    clock.pause(2);
    assert_eq!(clock.now_ps(2), COMPUTE + 35_000);
}

/// A line that has come to be written stays for a moment, drawn anew each time, though another host is to have it next.
#[test]
fn a_line_stays_for_a_moment() {
    let again = |kind: Kind, pause: bool| {
        let mut clock = clock_of(2, true);
        let word = Op::word(kind, 0, 0);
        let rounds = 3000;
        let hits = (0..rounds).filter(|_| {
            clock.pause(0);
            clock.pause(1);
            clock.charge(1, 1, word, Found::Hit);
            assert_ne!(clock.charge(0, 0, word, Found::Hit), Found::Hit);
            clock.pause(1);
            clock.charge(1, 1, word, Found::Hit);
            if pause {
                clock.pause(0);
            }
            clock.charge(0, 0, word, Found::Hit) == Found::Hit
        });
        hits.count() as f64 / f64::from(rounds)
    };
    // A locked operation computes for a hit's time before the next one begins.
    let after_exchange = again(Kind::CompareExchange, false);
    assert!((after_exchange - 3.0 / 9.0).abs() < 0.03, "{after_exchange}");
    let after_store = again(Kind::Store, false);
    assert!((after_store - 8.0 / 9.0).abs() < 0.03, "{after_store}");
    assert_eq!(again(Kind::Store, true), 0.0);
}

#[test]
fn waiting_for_others_is_told_apart() {
    let mut clock = clock(2);
    let line = device_line();
    let of = |clock: &Clock, thread: u32, name: &str| {
        let shares = clock.spent(thread).shares(1);
        let share = shares.iter().find(|share| share.part == name).copied();
        share.map_or((0, 0), |share| {
            (
                (share.ns * 1e3).round() as u64,
                (share.queued_ns * 1e3).round() as u64,
            )
        })
    };
    spent(&mut clock, 0, Kind::Load, 64, Found::Hit);
    spent(&mut clock, 1, Kind::Load, 64, Found::Hit);
    assert_eq!(of(&clock, 0, "sync loads"), (SYNC + COMPUTE, 0));
    assert_eq!(of(&clock, 1, "sync loads"), (2 * SYNC + COMPUTE, SYNC));
    // Both write back at once: the second one's line waits for the first one's.
    let mut clock = clock_of(2, false);
    for thread in 0..2 {
        spent(&mut clock, thread, Kind::WriteBack, 64, Found::Hit);
    }
    for (thread, queued) in [(0, 0), (1, line)] {
        spent(&mut clock, thread, Kind::Fence, 0, Found::Missed(1));
        assert_eq!(of(&clock, thread, "fences").1, queued);
        assert_eq!(clock.spent(thread).lines(), 1);
    }
    // Nothing is lost: the parts are all that the clock has moved.
    let sum: f64 = clock.spent(1).shares(1).iter().map(|share| share.ns).sum();
    assert_eq!((sum * 1e3).round() as u64, clock.now_ps(1));
}
