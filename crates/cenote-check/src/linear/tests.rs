//! What a verdict says, and when there is none.

use super::super::samples::{DURABLE, STRICT, done, history, lost, running};
use super::super::spec::map::{Map, Op, Ret};
use super::super::{Verdict, Violation};
use super::*;
use crate::history::Event;

fn put(key: u64, value: u64) -> Op {
    Op::Put { key, value }
}

fn get(key: u64) -> Op {
    Op::Get { key }
}

fn violation(events: Vec<Event<Op, Ret>>, options: &Options) -> Violation {
    match check_parts(&Map, &history(events), options) {
        Verdict::Violation(violation) => *violation,
        other => panic!("{other}"),
    }
}

/// Twenty calls on each of two keys, then an old value.
fn stale_read() -> Vec<Event<Op, Ret>> {
    let mut events = Vec::new();
    for n in 0..20 {
        for key in [4, 5] {
            let ret = if n == 0 { Ret::Inserted } else { Ret::Replaced };
            let step = 100 * n + 10 * key;
            events.push(done(0, (step, step + 1), put(key, n), ret));
            events.push(done(1, (step + 2, step + 3), get(key), Ret::Found(n)));
        }
    }
    events.push(done(2, (2_000, 2_020), put(5, 77), Ret::Replaced));
    events.push(done(0, (2_001, 2_010), get(5), Ret::Found(19)));
    events.push(done(0, (2_011, 2_021), get(5), Ret::Found(77)));
    events.push(done(1, (2_030, 2_031), get(5), Ret::Found(19)));
    events.push(done(1, (2_040, 2_041), put(5, 80), Ret::Replaced));
    events
}

#[test]
fn a_violation_is_small_and_names_the_key() {
    let mut events = stale_read();
    let found = violation(events.clone(), &STRICT);
    assert_eq!(
        found.to_string(),
        "not linearizable, key 5: these calls have no order
  before them: {5: 77}
  process 1   steps 2030..2031           Get { key: 5 } -> Found(19)   <- fits no order
  left out: 43 earlier calls and 0 reads"
    );
    // The same while a call of another process goes on and an older read has not returned.
    events.push(done(3, (2_005, 2_050), put(5, 90), Ret::Replaced));
    events[82].returned = Some(2_032);
    let found = violation(events, &STRICT);
    assert_eq!(
        found.to_string(),
        "not linearizable, key 5: these calls have no order
  before them: {5: 77} or {5: 77} with the effect of what began at 2005
  process 3   steps 2005..2050           Put { key: 5, value: 90 } -> Replaced
  process 1   steps 2030..2031           Get { key: 5 } -> Found(19)   <- fits no order
  left out: 42 earlier calls and 1 reads"
    );
}

/// Before step 20, the second and the third call may have taken effect or not.
#[test]
fn the_states_before_tell_what_took_effect() {
    let events = vec![
        done(0, (0, 1), put(1, 1), Ret::Inserted),
        done(1, (2, 40), put(1, 2), Ret::Replaced),
        done(2, (3, 41), get(1), Ret::Found(2)),
        done(0, (20, 21), get(1), Ret::Found(1)),
        done(0, (22, 23), get(1), Ret::Found(3)),
        done(0, (24, 60), get(1), Ret::Found(2)),
    ];
    let found = violation(events, &STRICT);
    assert_eq!(found.before, ["{1: 1}"]);
    let shown: Vec<u64> = found.lines.iter().map(|line| line.invoke).collect();
    assert_eq!(shown, [2, 22]);
}

#[test]
fn the_states_before_are_all_that_are_possible() {
    let events = vec![
        done(0, (0, 10), put(1, 1), Ret::Inserted),
        done(1, (1, 11), put(1, 2), Ret::Replaced),
        done(2, (2, 12), put(1, 3), Ret::Replaced),
        done(0, (20, 21), get(1), Ret::Found(1)),
    ];
    let found = violation(events, &STRICT);
    assert_eq!(found.before, ["{1: 2}", "{1: 3}"]);
    assert_eq!((found.lines.len(), found.earlier), (1, 3));
}

#[test]
fn the_dead_and_the_running_are_shown_as_such() {
    let events = vec![
        lost(0, (0, 5), put(1, 1)),
        running(3, 2, put(1, 3)),
        running(3, 3, get(1)),
        done(1, (6, 7), get(1), Ret::Missing),
        done(1, (8, 9), get(1), Ret::Found(1)),
    ];
    let found = violation(events, &STRICT);
    assert_eq!(
        found.to_string(),
        "not linearizable, key 1: these calls have no order
  before them: {}
  process 3   steps 2..                  Put { key: 1, value: 3 } -> ?
  process 1   steps 8..9                 Get { key: 1 } -> Found(1)   <- fits no order
  left out: 2 earlier calls and 1 reads"
    );
}

#[test]
fn a_history_of_nothing_is_linearizable() {
    let nothing = history(Vec::new());
    assert!(check(&Map, &nothing, &STRICT).is_linearizable());
    assert!(check_parts(&Map, &nothing, &STRICT).is_linearizable());
    let pending = history(vec![running(0, 0, put(1, 1)), lost(1, (1, 2), put(1, 2))]);
    for options in [STRICT, DURABLE] {
        assert!(check(&Map, &pending, &options).is_linearizable());
    }
}

/// Twenty-five pending writes have more subsets than the bound allows, and a value that no call wrote needs them all.
#[test]
fn a_search_that_is_too_long_is_given_up() {
    let mut events: Vec<Event<Op, Ret>> = (0..25).map(|n| lost(0, (n, 50), put(1, n))).collect();
    events.push(done(1, (100, 101), get(1), Ret::Found(1_000)));
    let options = Options {
        states_max: 10_000,
        ..DURABLE
    };
    let verdict = check_parts(&Map, &history(events.clone()), &options);
    assert_eq!(
        verdict.to_string(),
        "undecided, key 1: given up after 10000 configurations"
    );
    // A violation elsewhere is certain all the same.
    events.push(done(1, (200, 201), get(2), Ret::Found(1)));
    assert_eq!(violation(events, &options).key.as_deref(), Some("2"));
}
