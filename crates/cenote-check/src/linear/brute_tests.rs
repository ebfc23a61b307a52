//! The search against the definition: every arrangement of every subset, on histories of up to seven calls. The seed
//! is fixed, so that a failure repeats; the smallest failing history is printed.

use super::super::samples::{DURABLE, STRICT};
use super::super::spec::map::{Map, Op, Ret};
use super::super::{Specification, Verdict, Violation};
use super::cut::{Calls, has_no_order, is_left, starts};
use super::generated::{Plan, generate, with_some_result};
use super::*;
use crate::history::Event;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

type Call = Event<Op, Ret>;

/// Whether one call must come before another.
fn is_before(first: &Call, second: &Call, durability: Durability) -> bool {
    let dead = first.lost.filter(|_| durability == Durability::Strict);
    first.returned.or(dead).is_some_and(|end| end < second.invoke)
}

fn is_allowed(order: &[&Call]) -> bool {
    let step = |state, call: &&Call| Map.step(&state, call.process, &call.op, call.result.as_ref());
    order.iter().try_fold(Map.initial(), step).is_some()
}

/// Whether some arrangement that begins with `order` is a linearization.
fn has_order<'h>(calls: &'h [Call], order: &mut Vec<&'h Call>, durability: Durability) -> bool {
    let is_in = |order: &[&Call], call: &Call| order.iter().any(|other| std::ptr::eq(*other, call));
    let is_complete = calls
        .iter()
        .all(|call| call.returned.is_none() || is_in(order, call));
    if is_complete && is_allowed(order) {
        return true;
    }
    for call in calls {
        if is_in(order, call) || order.iter().any(|earlier| is_before(call, earlier, durability)) {
            continue;
        }
        order.push(call);
        if has_order(calls, order, durability) {
            return true;
        }
        order.pop();
    }
    false
}

fn is_linearizable(calls: &[Call], durability: Durability) -> bool {
    has_order(calls, &mut Vec::new(), durability)
}

/// What was known of the calls at a step.
fn prefix(calls: &[Call], until: u64) -> Vec<Call> {
    let known = |call: &&Call| call.invoke <= until;
    let cut = |call: &Call| Event {
        result: call.result.clone().filter(|_| call.returned <= Some(until)),
        returned: call.returned.filter(|&step| step <= until),
        lost: call.lost.filter(|&step| step <= until),
        ..call.clone()
    };
    calls.iter().filter(known).map(cut).collect()
}

/// A violation ends with the shortest prefix that has no order.
fn assert_shortest(calls: &[Call], violation: &Violation, durability: Durability) {
    let last = violation
        .lines
        .iter()
        .find(|line| line.is_last)
        .expect("a last call");
    let until = last.returned.expect("a return");
    assert!(!is_linearizable(&prefix(calls, until), durability));
    assert!(is_linearizable(&prefix(calls, until - 1), durability));
}

/// Cutting a history anywhere changes nothing.
fn assert_cuts(history: &History<Op, Ret>, options: &Options, expected: bool) {
    let members: Vec<usize> = (0..history.events().len()).collect();
    let all = select(history, &members, options.durability, u64::MAX);
    for cut in 0..45 {
        let starts = starts(&Map, &all, cut, options.states_max).expect("few configurations");
        let left: Calls<'_, Map> = all.iter().filter(|call| is_left(call, cut)).cloned().collect();
        let found = !has_no_order(&Map, &left, &starts, options.states_max);
        assert_eq!(found, expected, "cut at {cut}: {starts:?}");
    }
}

fn arb_op() -> impl Strategy<Value = (Op, Ret)> {
    let (key, value) = (0..2u64, 0..2u64);
    prop_oneof![
        (
            key.clone(),
            value.clone(),
            prop_oneof![Just(Ret::Inserted), Just(Ret::Replaced)]
        )
            .prop_map(|(key, value, ret)| (Op::Put { key, value }, ret)),
        (
            key.clone(),
            value.clone(),
            prop_oneof![Just(Ret::Inserted), Just(Ret::Present)]
        )
            .prop_map(|(key, value, ret)| (Op::Insert { key, value }, ret)),
        (
            key.clone(),
            value.clone(),
            prop_oneof![
                Just(Ret::Replaced),
                Just(Ret::Missing),
                value.clone().prop_map(Ret::Differs)
            ]
        )
            .prop_map(|(key, expected, ret)| {
                let value = 1 - expected;
                (Op::Replace { key, expected, value }, ret)
            }),
        (key.clone(), prop_oneof![Just(Ret::Removed), Just(Ret::Missing)])
            .prop_map(|(key, ret)| (Op::Remove { key }, ret)),
        (key, prop_oneof![Just(Ret::Missing), value.prop_map(Ret::Found)])
            .prop_map(|(key, ret)| (Op::Get { key }, ret)),
    ]
}

fn arb_call() -> impl Strategy<Value = Call> {
    (arb_op(), 0..4u32, 0..30u64, 1..15u64, 0..8u8).prop_map(|((op, ret), process, invoke, length, fate)| {
        let end = Some(invoke + length);
        let returns = fate > 1;
        Event {
            process,
            op,
            result: returns.then_some(ret),
            invoke,
            returned: end.filter(|_| returns),
            lost: end.filter(|_| fate == 0),
        }
    })
}

/// The search and all arrangements agree.
fn assert_agreement(history: &History<Op, Ret>) {
    let calls = history.events();
    for options in [STRICT, DURABLE] {
        let expected = is_linearizable(calls, options.durability);
        let whole = check(&Map, history, &options);
        assert_eq!(whole.is_linearizable(), expected, "{options:?}: {whole}");
        let parts = check_parts(&Map, history, &options);
        assert_eq!(parts.is_linearizable(), expected, "{options:?}: {parts}");
        assert_cuts(history, &options, expected);
        if let Verdict::Violation(violation) = whole {
            assert_shortest(calls, &violation, options.durability);
        }
    }
}

fn arb_plan() -> impl Strategy<Value = Plan> {
    let durability = prop_oneof![Just(Durability::Strict), Just(Durability::Durable)];
    (1..=7usize, 1..=2u64, 2..=5u32, 0..300u64, durability).prop_map(
        |(calls, keys, processes, deaths_permille, durability)| Plan {
            calls,
            keys,
            processes,
            deaths_permille,
            durability,
        },
    )
}

fn config() -> Config {
    Config {
        cases: 2_000,
        rng_seed: RngSeed::Fixed(0x5eed_0001),
        failure_persistence: None,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_calls(calls in prop::collection::vec(arb_call(), 0..=7)) {
        assert_agreement(&History::new(calls).expect("a history"));
    }

    #[test]
    fn calls_of_a_map_and_one_other_result(plan in arb_plan(), seed in any::<u64>()) {
        let history = generate(plan, seed);
        let options = Options { durability: plan.durability, ..STRICT };
        let verdict = check(&Map, &history, &options);
        prop_assert!(verdict.is_linearizable(), "{}", verdict);
        assert_agreement(&history);
        assert_agreement(&with_some_result(&history, seed));
    }
}
