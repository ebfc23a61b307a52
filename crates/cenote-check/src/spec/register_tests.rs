//! Histories of registers, right and wrong.

use super::super::super::Verdict;
use super::super::super::linear::{check, check_parts};
use super::super::super::samples::{STRICT, done, history, lost};
use super::*;
use crate::history::Event;

const ZERO: Registers = Registers { initial: 0 };

fn op(register: u64, access: Access) -> Op {
    Op { register, access }
}

fn compare_exchange(expected: u64, value: u64) -> Op {
    op(0, Access::CompareExchange { expected, value })
}

const READ: Op = Op {
    register: 0,
    access: Access::Read,
};

fn verdict(events: Vec<Event<Op, Ret>>) -> Verdict {
    check_parts(&ZERO, &history(events), &STRICT)
}

#[test]
fn registers_begin_with_their_initial_value() {
    let read = |value| history(vec![done(0, (0, 1), READ, Ret::Found(value))]);
    let nine = Registers { initial: 9 };
    assert!(check(&nine, &read(9), &STRICT).is_linearizable());
    assert!(check(&nine, &read(0), &STRICT).is_violation());
}

#[test]
fn one_of_two_exchanges_wins() {
    let events = |second| {
        vec![
            done(0, (0, 10), compare_exchange(0, 1), Ret::Exchanged),
            done(1, (1, 9), compare_exchange(0, 2), second),
        ]
    };
    assert!(verdict(events(Ret::Differs(1))).is_linearizable());
    assert!(verdict(events(Ret::Exchanged)).is_violation());
    assert!(verdict(events(Ret::Differs(3))).is_violation());
}

#[test]
fn an_exchange_that_fails_for_no_reason() {
    assert!(verdict(vec![done(0, (0, 1), compare_exchange(0, 1), Ret::Differs(0))]).is_violation());
}

/// Reads of one register see its writes in one order (coherence). The example with four readers is Lamport's.
#[test]
fn readers_agree_on_the_order_of_two_writes() {
    let mut events = vec![
        done(0, (0, 30), op(0, Access::Write(1)), Ret::Written),
        done(1, (1, 31), op(0, Access::Write(2)), Ret::Written),
        done(2, (2, 3), READ, Ret::Found(1)),
        done(2, (4, 20), READ, Ret::Found(2)),
        done(3, (5, 6), READ, Ret::Found(2)),
    ];
    assert!(verdict(events.clone()).is_linearizable());
    events.push(done(3, (7, 8), READ, Ret::Found(1)));
    assert!(verdict(events).is_violation());
}

/// Each register alone is fine in every order; together they still are, because linearizability is local.
#[test]
fn store_buffering_is_not_linearizable() {
    let write = |process, register, steps| done(process, steps, op(register, Access::Write(1)), Ret::Written);
    let read =
        |process, register, steps, value| done(process, steps, op(register, Access::Read), Ret::Found(value));
    let events = vec![
        write(0, 0, (0, 1)),
        write(1, 1, (2, 3)),
        read(0, 1, (4, 5), 0),
        read(1, 0, (6, 7), 0),
    ];
    assert!(verdict(events.clone()).is_violation());
    assert!(check(&ZERO, &history(events), &STRICT).is_violation());
}

#[test]
fn the_write_of_a_dead_process() {
    let events = |first, second| {
        vec![
            lost(0, (0, 5), op(0, Access::Write(1))),
            done(1, (6, 7), READ, Ret::Found(first)),
            done(1, (8, 9), READ, Ret::Found(second)),
        ]
    };
    assert!(verdict(events(0, 0)).is_linearizable());
    assert!(verdict(events(1, 1)).is_linearizable());
    assert!(verdict(events(0, 1)).is_violation());
    assert!(verdict(events(1, 0)).is_violation());
}
