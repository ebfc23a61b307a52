//! Histories of a map, right and wrong.

use super::super::super::Verdict;
use super::super::super::linear::{Options, check_parts};
use super::super::super::samples::{DURABLE, STRICT, done, history, lost, running};
use super::*;
use crate::history::Event;

const K: u64 = 5;

fn put(value: u64) -> Op {
    Op::Put { key: K, value }
}

fn insert(value: u64) -> Op {
    Op::Insert { key: K, value }
}

fn replace(expected: u64, value: u64) -> Op {
    Op::Replace {
        key: K,
        expected,
        value,
    }
}

const REMOVE: Op = Op::Remove { key: K };
const GET: Op = Op::Get { key: K };

fn verdict(events: Vec<Event<Op, Ret>>, options: &Options) -> Verdict {
    check_parts(&Map, &history(events), options)
}

fn assert_fine(events: Vec<Event<Op, Ret>>) {
    for options in [STRICT, DURABLE] {
        let verdict = verdict(events.clone(), &options);
        assert!(verdict.is_linearizable(), "{verdict}");
    }
}

fn assert_wrong(events: Vec<Event<Op, Ret>>) {
    for options in [STRICT, DURABLE] {
        let verdict = verdict(events.clone(), &options);
        assert!(verdict.is_violation(), "{options:?}: {verdict}");
    }
}

#[test]
fn every_result_has_its_place() {
    let calls = [
        (GET, Ret::Missing),
        (REMOVE, Ret::Missing),
        (replace(1, 2), Ret::Missing),
        (insert(1), Ret::Inserted),
        (insert(2), Ret::Present),
        (replace(7, 8), Ret::Differs(1)),
        (replace(1, 3), Ret::Replaced),
        (GET, Ret::Found(3)),
        (put(4), Ret::Replaced),
        (REMOVE, Ret::Removed),
        (GET, Ret::Missing),
        (put(5), Ret::Inserted),
    ];
    let sequential = |calls: &[(Op, Ret)]| {
        let events = calls.iter().zip(0..);
        events
            .map(|((op, ret), n)| done(0, (2 * n, 2 * n + 1), op.clone(), ret.clone()))
            .collect()
    };
    assert_fine(sequential(&calls));
    let all = [
        Ret::Inserted,
        Ret::Replaced,
        Ret::Present,
        Ret::Differs(9),
        Ret::Removed,
        Ret::Found(9),
        Ret::Missing,
    ];
    for place in 0..calls.len() {
        for ret in all.iter().filter(|ret| **ret != calls[place].1) {
            let mut wrong = calls.clone();
            wrong[place].1 = ret.clone();
            assert_wrong(sequential(&wrong));
        }
    }
}

#[test]
fn concurrent_calls_have_either_order() {
    for seen in [Ret::Missing, Ret::Found(1), Ret::Found(2)] {
        let first = if seen == Ret::Found(1) {
            Ret::Replaced
        } else {
            Ret::Inserted
        };
        let second = if seen == Ret::Found(1) {
            Ret::Inserted
        } else {
            Ret::Replaced
        };
        assert_fine(vec![
            done(0, (0, 10), put(1), first),
            done(1, (1, 9), put(2), second),
            done(2, (2, 8), GET, seen),
        ]);
    }
}

#[test]
fn a_stale_read() {
    assert_wrong(vec![
        done(0, (0, 1), put(1), Ret::Inserted),
        done(0, (2, 3), put(2), Ret::Replaced),
        done(1, (4, 5), GET, Ret::Found(1)),
    ]);
}

#[test]
fn a_read_behind_a_newer_read() {
    assert_wrong(vec![
        done(0, (0, 1), put(1), Ret::Inserted),
        done(0, (2, 20), put(2), Ret::Replaced),
        done(1, (3, 4), GET, Ret::Found(2)),
        done(2, (5, 6), GET, Ret::Found(1)),
    ]);
}

#[test]
fn a_lost_update() {
    assert_wrong(vec![
        done(0, (0, 1), put(1), Ret::Inserted),
        done(0, (2, 10), replace(1, 2), Ret::Replaced),
        done(1, (3, 9), replace(1, 3), Ret::Replaced),
    ]);
}

#[test]
fn two_insertions_that_both_succeed() {
    assert_wrong(vec![
        done(0, (0, 10), insert(1), Ret::Inserted),
        done(1, (1, 9), insert(2), Ret::Inserted),
    ]);
    assert_fine(vec![
        done(0, (0, 10), insert(1), Ret::Inserted),
        done(1, (1, 9), insert(2), Ret::Inserted),
        done(2, (2, 8), REMOVE, Ret::Removed),
    ]);
}

#[test]
fn a_key_that_comes_back_after_its_removal() {
    assert_wrong(vec![
        done(0, (0, 1), put(1), Ret::Inserted),
        done(1, (2, 3), REMOVE, Ret::Removed),
        done(0, (4, 5), GET, Ret::Found(1)),
    ]);
}

#[test]
fn a_removal_that_two_take_credit_for() {
    assert_wrong(vec![
        done(0, (0, 1), put(1), Ret::Inserted),
        done(0, (2, 10), REMOVE, Ret::Removed),
        done(1, (3, 9), REMOVE, Ret::Removed),
    ]);
}

#[test]
fn what_returned_survives_the_death_of_who_called() {
    assert_wrong(vec![
        done(0, (0, 1), put(1), Ret::Inserted),
        lost(0, (2, 3), GET),
        done(1, (4, 5), GET, Ret::Missing),
    ]);
}

#[test]
fn a_dead_process_takes_effect_before_its_death_or_never() {
    for seen in [Ret::Found(1), Ret::Missing] {
        assert_fine(vec![
            lost(0, (0, 10), put(1)),
            done(1, (20, 21), GET, seen.clone()),
            done(1, (22, 23), GET, seen),
        ]);
    }
    assert_wrong(vec![
        lost(0, (0, 10), put(1)),
        done(1, (20, 21), GET, Ret::Found(1)),
        done(1, (22, 23), GET, Ret::Missing),
    ]);
}

#[test]
fn an_effect_after_the_death_is_durable_but_not_strict() {
    let events = vec![
        lost(0, (0, 10), put(1)),
        done(1, (20, 21), GET, Ret::Missing),
        done(1, (22, 23), GET, Ret::Found(1)),
    ];
    assert!(verdict(events.clone(), &STRICT).is_violation());
    assert!(verdict(events, &DURABLE).is_linearizable());
}

#[test]
fn a_running_call_takes_effect_at_any_time_and_once() {
    assert_fine(vec![
        running(0, 0, put(1)),
        done(1, (20, 21), GET, Ret::Missing),
        done(1, (22, 23), GET, Ret::Found(1)),
    ]);
    assert_wrong(vec![
        running(0, 0, put(1)),
        done(1, (20, 21), REMOVE, Ret::Removed),
        done(1, (22, 23), GET, Ret::Found(1)),
    ]);
    assert_wrong(vec![
        running(0, 24, put(1)),
        done(1, (22, 23), GET, Ret::Found(1)),
    ]);
}

#[test]
fn the_dead_depend_on_each_other() {
    let events = |seen| {
        vec![
            lost(0, (0, 10), put(1)),
            lost(1, (1, 12), replace(1, 2)),
            done(2, (20, 21), GET, seen),
        ]
    };
    assert_fine(events(Ret::Found(2)));
    let mut wrong = events(Ret::Found(2));
    wrong[1].invoke = 11;
    wrong.push(done(3, (11, 13), GET, Ret::Missing));
    wrong.push(done(3, (14, 15), GET, Ret::Missing));
    assert!(verdict(wrong.clone(), &STRICT).is_violation());
    assert!(verdict(wrong, &DURABLE).is_linearizable());
}
