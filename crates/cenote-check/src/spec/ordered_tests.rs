//! Histories of an ordered map, right and wrong.

use super::super::super::Verdict;
use super::super::super::linear::{Options, check_parts};
use super::super::super::samples::{DURABLE, STRICT, done, history, lost};
use super::*;
use crate::history::Event;

fn put(key: u64, value: u64) -> Op {
    Op::Point(map::Op::Put { key, value })
}

const INSERTED: Ret = Ret::Point(map::Ret::Inserted);
const REPLACED: Ret = Ret::Point(map::Ret::Replaced);
const ALL: Op = Op::Scan { from: 0, limit: 10 };

fn verdict(events: Vec<Event<Op, Ret>>, options: &Options) -> Verdict {
    check_parts(&OrderedMap, &history(events), options)
}

fn three_keys() -> Vec<Event<Op, Ret>> {
    vec![
        done(0, (0, 1), put(3, 30), INSERTED),
        done(0, (2, 3), put(1, 10), INSERTED),
        done(0, (4, 5), put(2, 20), INSERTED),
    ]
}

#[test]
fn scans_are_ordered_and_bounded() {
    for (from, limit, bindings) in [
        (0, 10, vec![(1, 10), (2, 20), (3, 30)]),
        (2, 10, vec![(2, 20), (3, 30)]),
        (2, 1, vec![(2, 20)]),
        (4, 10, vec![]),
        (0, 0, vec![]),
    ] {
        let mut events = three_keys();
        events.push(done(1, (6, 7), Op::Scan { from, limit }, Ret::Scan(bindings)));
        let verdict = verdict(events, &STRICT);
        assert!(verdict.is_linearizable(), "{verdict}");
    }
    for bindings in [
        vec![(2, 20), (1, 10), (3, 30)],
        vec![(1, 10), (3, 30)],
        vec![(1, 10), (2, 20), (3, 30), (4, 40)],
        vec![(1, 10), (2, 21), (3, 30)],
    ] {
        let mut events = three_keys();
        events.push(done(1, (6, 7), ALL, Ret::Scan(bindings)));
        assert!(verdict(events, &STRICT).is_violation());
    }
}

#[test]
fn a_look_before_a_key_finds_the_greatest_below_it() {
    for (key, found, is_right) in [
        (3, vec![(2, 20)], true),
        (9, vec![(3, 30)], true),
        (1, vec![], true),
        (3, vec![(3, 30)], false),
        (3, vec![(1, 10)], false),
        (3, vec![], false),
    ] {
        let mut events = three_keys();
        events.push(done(1, (6, 7), Op::Before { key }, Ret::Scan(found)));
        let verdict = verdict(events, &STRICT);
        assert_eq!(verdict.is_linearizable(), is_right, "before {key}: {verdict}");
    }
}

/// A write does not return what was there; a value that was overwritten may not come back.
#[test]
fn writes_are_puts_that_do_not_tell() {
    for (found, is_right) in [((1, 11), true), ((1, 10), false)] {
        let mut events = three_keys();
        let write = Op::Point(map::Op::Write { key: 1, value: 11 });
        events.push(done(0, (6, 7), write, Ret::Point(map::Ret::Done)));
        events.push(done(1, (8, 9), Op::Before { key: 2 }, Ret::Scan(vec![found])));
        assert_eq!(verdict(events, &STRICT).is_linearizable(), is_right);
    }
}

/// One process writes key 1, then key 2; a scan that overlaps both sees the second write without the first.
#[test]
fn a_torn_scan() {
    let events = |seen: &[(u64, u64)]| {
        vec![
            done(0, (0, 1), put(1, 10), INSERTED),
            done(0, (2, 3), put(2, 20), INSERTED),
            done(0, (11, 12), put(1, 11), REPLACED),
            done(0, (13, 14), put(2, 21), REPLACED),
            done(1, (10, 15), ALL, Ret::Scan(seen.to_vec())),
        ]
    };
    for whole in [[(1, 10), (2, 20)], [(1, 11), (2, 20)], [(1, 11), (2, 21)]] {
        assert!(verdict(events(&whole), &STRICT).is_linearizable());
    }
    let torn = verdict(events(&[(1, 10), (2, 21)]), &STRICT);
    assert!(torn.is_violation(), "{torn}");
}

#[test]
fn two_scans_agree_on_the_order_of_writes() {
    let mut events = vec![
        done(0, (0, 20), put(1, 10), INSERTED),
        done(1, (1, 21), put(2, 20), INSERTED),
        done(2, (2, 19), ALL, Ret::Scan(vec![(1, 10)])),
        done(3, (3, 18), ALL, Ret::Scan(vec![(2, 20)])),
    ];
    assert!(verdict(events.clone(), &STRICT).is_violation());
    events[3].result = Some(Ret::Scan(vec![]));
    assert!(verdict(events, &STRICT).is_linearizable());
}

#[test]
fn the_dead_and_a_scan() {
    let mut events = three_keys();
    events.push(lost(1, (10, 12), put(2, 99)));
    events.push(done(2, (20, 21), ALL, Ret::Scan(vec![(1, 10), (2, 20), (3, 30)])));
    events.push(done(2, (22, 23), ALL, Ret::Scan(vec![(1, 10), (2, 99), (3, 30)])));
    assert!(verdict(events.clone(), &STRICT).is_violation());
    assert!(verdict(events, &DURABLE).is_linearizable());
}

#[test]
fn only_scans_keep_a_history_whole() {
    let key = |verdict| match verdict {
        Verdict::Violation(violation) => violation.key,
        other => panic!("{other}"),
    };
    let mut events = three_keys();
    events.push(done(0, (6, 7), put(2, 21), INSERTED));
    assert_eq!(key(verdict(events.clone(), &STRICT)), Some("2".to_owned()));
    events.push(lost(1, (8, 9), ALL));
    assert_eq!(key(verdict(events, &STRICT)), None);
}

#[test]
fn a_result_of_another_operation_fits_nothing() {
    let scan = vec![done(0, (0, 1), ALL, INSERTED)];
    assert!(verdict(scan, &STRICT).is_violation());
    let point = vec![done(0, (0, 1), put(1, 1), Ret::Scan(vec![]))];
    assert!(verdict(point, &STRICT).is_violation());
}

#[test]
fn what_looks_say_of_each_key_is_checked_without_their_order() {
    let key_by_key = |look: Op, found: Vec<(u64, u64)>| {
        let mut events = three_keys();
        events.push(done(1, (6, 7), look, Ret::Scan(found)));
        let all = history(events);
        check_parts(&OrderedMap, &by_key(&all).expect("a history"), &STRICT)
    };
    for (look, found) in [
        (ALL, vec![(1, 10), (2, 20), (3, 30)]),
        (Op::Scan { from: 2, limit: 1 }, vec![(2, 20)]),
        (Op::Scan { from: 0, limit: 0 }, vec![]),
        (Op::Before { key: 3 }, vec![(2, 20)]),
        (Op::Before { key: 1 }, vec![]),
    ] {
        let verdict = key_by_key(look, found);
        assert!(verdict.is_linearizable(), "{verdict}");
    }
    for (look, found) in [
        (ALL, vec![(1, 10), (3, 30)]),
        (ALL, vec![(1, 10), (2, 21), (3, 30)]),
        (ALL, vec![(1, 10), (2, 20), (3, 30), (4, 40)]),
        (Op::Scan { from: 0, limit: 2 }, vec![(1, 10), (3, 30)]),
        (Op::Before { key: 3 }, vec![(1, 10)]),
        (Op::Before { key: 3 }, vec![]),
    ] {
        assert!(key_by_key(look, found).is_violation());
    }
}

#[test]
fn key_by_key_two_looks_that_see_two_puts_in_two_orders_pass() {
    let looks = |first: Vec<(u64, u64)>, second: Vec<(u64, u64)>| {
        history(vec![
            done(0, (0, 9), put(1, 10), INSERTED),
            done(1, (0, 9), put(2, 20), INSERTED),
            done(2, (1, 2), ALL, Ret::Scan(first)),
            done(3, (1, 2), ALL, Ret::Scan(second)),
        ])
    };
    let crossed = looks(vec![(1, 10)], vec![(2, 20)]);
    assert!(check_parts(&OrderedMap, &crossed, &STRICT).is_violation());
    let by_key = by_key(&crossed).expect("a history");
    assert!(check_parts(&OrderedMap, &by_key, &STRICT).is_linearizable());
}

#[test]
fn looks_that_no_state_gives_are_malformed() {
    let is_right =
        |look: Op, found: Vec<(u64, u64)>| is_well_formed(&done(0, (0, 1), look, Ret::Scan(found)));
    let scan = |from, limit| Op::Scan { from, limit };
    assert!(is_right(scan(2, 2), vec![(2, 20), (3, 30)]));
    assert!(is_right(scan(2, 0), vec![]));
    assert!(is_right(Op::Before { key: 3 }, vec![(2, 20)]));
    for (look, found) in [
        (scan(0, 5), vec![(2, 20), (1, 10)]),
        (scan(0, 5), vec![(1, 10), (1, 10)]),
        (scan(2, 5), vec![(1, 10)]),
        (scan(0, 1), vec![(1, 10), (2, 20)]),
        (scan(0, 0), vec![(1, 10)]),
        (Op::Before { key: 5 }, vec![(6, 60)]),
        (Op::Before { key: 5 }, vec![(1, 10), (2, 20)]),
    ] {
        assert!(!is_right(look, found));
    }
    assert!(!is_well_formed(&done(0, (0, 1), ALL, INSERTED)));
}
