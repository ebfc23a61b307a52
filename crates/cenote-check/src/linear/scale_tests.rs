//! Long histories: ten thousand calls of eight processes on eight keys, from printed seeds.

use super::super::Verdict;
use super::super::samples::{DURABLE, STRICT, done};
use super::super::spec::map::{Map, Op, Ret};
use super::super::spec::ordered::{self, OrderedMap};
use super::generated::{Plan, generate, with_result};
use super::*;
use crate::history::Event;

const PLAN: Plan = Plan {
    calls: 10_000,
    keys: 8,
    processes: 8,
    deaths_permille: 0,
    durability: Durability::Strict,
};
const SEEDS: [u64; 3] = [1, 2, 3];

/// A read late in the history, and a value that was seen and overwritten long before it.
fn stale(history: &History<Op, Ret>) -> (usize, Ret) {
    let events = history.events();
    let found =
        |event: &Event<Op, Ret>| matches!((&event.op, &event.result), (Op::Get { .. }, Some(Ret::Found(_))));
    let last = events.iter().rposition(found).expect("a read");
    let same_key = |event: &&Event<Op, Ret>| found(event) && event.op.key() == events[last].op.key();
    let first = events.iter().find(same_key).expect("a read");
    assert_ne!(first.result, events[last].result);
    (last, first.result.clone().expect("a result"))
}

fn assert_linearizable(verdict: Verdict) {
    assert!(verdict.is_linearizable(), "{verdict}");
}

/// The violation is about this call, and short enough to be read.
fn assert_violation_of(verdict: Verdict, place: usize) {
    let Verdict::Violation(violation) = verdict else {
        panic!("{verdict}");
    };
    let is_shown = violation.lines.iter().any(|line| line.event == place);
    assert!(is_shown && violation.lines.len() < 40, "{violation}");
}

#[test]
fn ten_thousand_calls_and_one_wrong_result() {
    for seed in SEEDS {
        let history = generate(PLAN, seed);
        assert_eq!(history.events().len(), PLAN.calls);
        assert_linearizable(check_parts(&Map, &history, &STRICT));

        let (place, ret) = stale(&history);
        let wrong = with_result(&history, place, ret);
        assert_violation_of(check_parts(&Map, &wrong, &STRICT), place);
        let invented = with_result(&history, place, Ret::Found(u64::MAX));
        assert_violation_of(check_parts(&Map, &invented, &STRICT), place);
    }
}

#[test]
fn ten_thousand_calls_on_one_key() {
    for seed in SEEDS {
        let history = generate(Plan { keys: 1, ..PLAN }, seed);
        assert_linearizable(check(&Map, &history, &STRICT));
        let (place, ret) = stale(&history);
        let wrong = with_result(&history, place, ret);
        assert_violation_of(check(&Map, &wrong, &STRICT), place);
    }
}

#[test]
fn ten_thousand_calls_and_many_deaths() {
    let plan = Plan {
        deaths_permille: 5,
        ..PLAN
    };
    for seed in SEEDS {
        let history = generate(plan, seed);
        assert_linearizable(check_parts(&Map, &history, &STRICT));
        assert_linearizable(check_parts(&Map, &history, &DURABLE));
        let (place, ret) = stale(&history);
        let wrong = with_result(&history, place, ret);
        assert_violation_of(check_parts(&Map, &wrong, &STRICT), place);
    }
}

#[test]
fn ten_thousand_calls_and_the_late_effects_of_the_dead() {
    let plan = Plan {
        deaths_permille: 5,
        durability: Durability::Durable,
        ..PLAN
    };
    for seed in SEEDS {
        let history = generate(plan, seed);
        assert_linearizable(check_parts(&Map, &history, &DURABLE));
        assert!(check_parts(&Map, &history, &STRICT).is_violation());
    }
}

/// The same as a map with scans, hence as a whole.
#[test]
fn ten_thousand_calls_with_a_scan() {
    let point = |event: &Event<Op, Ret>| Event {
        process: event.process,
        op: ordered::Op::Point(event.op.clone()),
        result: event.result.clone().map(ordered::Ret::Point),
        invoke: event.invoke,
        returned: event.returned,
        lost: event.lost,
    };
    let scan = |steps, bindings| {
        let op = ordered::Op::Scan { from: 0, limit: 100 };
        done(PLAN.processes, steps, op, ordered::Ret::Scan(bindings))
    };
    for seed in SEEDS {
        let mut events: Vec<_> = generate(PLAN, seed).events().iter().map(point).collect();
        events.push(scan((0, 1), Vec::new()));
        let history = History::new(events.clone()).expect("a history");
        assert_linearizable(check_parts(&OrderedMap, &history, &STRICT));

        events.push(scan((20_000, 20_010), vec![(0, u64::MAX)]));
        let history = History::new(events).expect("a history");
        assert_violation_of(check_parts(&OrderedMap, &history, &STRICT), PLAN.calls + 1);
    }
}
