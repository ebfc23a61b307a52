//! Histories of locks, right and wrong.

use super::super::super::Verdict;
use super::super::super::linear::check_parts;
use super::super::super::samples::{STRICT, done, history, lost, running};
use super::*;
use crate::history::Event;

fn op(action: Action) -> Op {
    Op { lock: 7, action }
}

fn did(process: u32, steps: (u64, u64), action: Action) -> Event<Op, Ret> {
    done(process, steps, op(action), Ret::Done)
}

fn tried(process: u32, steps: (u64, u64), action: Action, ret: Ret) -> Event<Op, Ret> {
    done(process, steps, op(action), ret)
}

fn verdict(events: Vec<Event<Op, Ret>>) -> Verdict {
    check_parts(&Locks, &history(events), &STRICT)
}

fn assert_fine(events: Vec<Event<Op, Ret>>) {
    let verdict = verdict(events);
    assert!(verdict.is_linearizable(), "{verdict}");
}

fn assert_wrong(events: Vec<Event<Op, Ret>>) {
    assert!(verdict(events).is_violation());
}

#[test]
fn owners_take_turns() {
    assert_fine(vec![
        did(0, (0, 1), Action::Acquire),
        did(1, (2, 20), Action::Acquire),
        tried(2, (3, 4), Action::TryAcquire, Ret::Refused),
        did(0, (5, 6), Action::Release),
        did(1, (21, 22), Action::Release),
        tried(2, (23, 24), Action::TryAcquire, Ret::Acquired),
        running(0, 25, op(Action::Acquire)),
    ]);
}

#[test]
fn two_owners() {
    assert_wrong(vec![
        did(0, (0, 1), Action::Acquire),
        did(1, (2, 3), Action::Acquire),
        did(0, (4, 5), Action::Release),
    ]);
    assert_wrong(vec![
        did(0, (0, 1), Action::Acquire),
        tried(1, (2, 3), Action::TryAcquire, Ret::Acquired),
    ]);
}

#[test]
fn a_refusal_by_a_free_lock() {
    assert_wrong(vec![
        did(0, (0, 1), Action::Acquire),
        did(0, (2, 3), Action::Release),
        tried(1, (4, 5), Action::TryAcquire, Ret::Refused),
    ]);
}

#[test]
fn a_release_by_somebody_else() {
    assert_wrong(vec![
        did(0, (0, 1), Action::Acquire),
        did(1, (2, 3), Action::Release),
    ]);
    assert_wrong(vec![did(1, (2, 3), Action::ReleaseShared)]);
    assert_wrong(vec![
        did(0, (0, 1), Action::AcquireShared),
        did(0, (2, 3), Action::Release),
    ]);
}

#[test]
fn sharers_keep_an_exclusive_owner_out() {
    let shared = vec![
        did(0, (0, 1), Action::AcquireShared),
        did(1, (2, 3), Action::AcquireShared),
        tried(2, (4, 5), Action::TryAcquire, Ret::Refused),
        did(0, (6, 7), Action::ReleaseShared),
        tried(2, (8, 9), Action::TryAcquire, Ret::Refused),
        did(1, (10, 11), Action::ReleaseShared),
        tried(2, (12, 13), Action::TryAcquire, Ret::Acquired),
        tried(0, (14, 15), Action::TryAcquireShared, Ret::Refused),
    ];
    assert_fine(shared.clone());
    for at in [2, 4] {
        let mut wrong = shared.clone();
        wrong[at].result = Some(Ret::Acquired);
        assert_wrong(wrong);
    }
}

#[test]
fn a_dead_owner_is_recovered_before_the_next_owns() {
    let recover = did(1, (4, 5), Action::Recover { dead: 0 });
    let next = did(1, (6, 7), Action::Acquire);
    assert_fine(vec![
        did(0, (0, 1), Action::Acquire),
        recover.clone(),
        next.clone(),
    ]);
    assert_wrong(vec![did(0, (0, 1), Action::Acquire), next.clone()]);
    assert_fine(vec![
        lost(0, (0, 1), op(Action::Acquire)),
        recover.clone(),
        next.clone(),
    ]);
    assert_fine(vec![recover.clone(), next.clone()]);
    // What is taken away is the dead one's, not another's.
    assert_wrong(vec![
        did(2, (0, 1), Action::Acquire),
        recover.clone(),
        next.clone(),
    ]);
    assert_fine(vec![
        did(0, (0, 1), Action::AcquireShared),
        did(2, (2, 3), Action::AcquireShared),
        recover,
        tried(3, (8, 9), Action::TryAcquire, Ret::Refused),
    ]);
}

/// An acquisition whose caller died at step 3 cannot own the lock that was free at step 5.
#[test]
fn the_dead_do_not_acquire() {
    assert_wrong(vec![
        lost(0, (0, 3), op(Action::Acquire)),
        tried(1, (4, 5), Action::TryAcquire, Ret::Acquired),
        did(1, (6, 7), Action::Release),
        tried(1, (8, 9), Action::TryAcquire, Ret::Refused),
    ]);
}
