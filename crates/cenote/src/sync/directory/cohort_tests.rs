//! The cohort alone: whom it serves, and when it yields.

use super::*;
use crate::sync::directory::node::Node;

fn cohort(has: Permission) -> Local {
    let mut local = Local {
        node: Node::new(0),
        ..Local::default()
    };
    local.granted(has, 0);
    local
}

/// How many of so many threads get the lock to write, one after another, once another node asks for it.
fn passes(threads: u64) -> u64 {
    let mut local = cohort(Permission::Exclusive);
    local.is_asked = true;
    (1..=threads).for_each(|thread| local.wait(thread, Permission::Exclusive));
    let serves = |thread: &u64| {
        let is_served = local.enter_in_turn(*thread);
        local.leave(*thread);
        is_served
    };
    (1..=threads).take_while(serves).count() as u64
}

#[test]
fn another_node_that_asks_gets_the_lock_after_so_many_passes() {
    assert_eq!(passes(10 * u64::from(PASSES)), u64::from(PASSES));
}

/// The planted fault that this shows.
#[test]
#[cfg(feature = "mutants")]
fn a_cohort_that_does_not_count_keeps_the_lock() {
    crate::mutant::choose(Some(Mutant::DirectoryPassesUnbounded));
    assert_eq!(passes(10 * u64::from(PASSES)), 10 * u64::from(PASSES));
    crate::mutant::choose(None);
}

#[test]
fn threads_of_a_node_come_in_turn() {
    let mut local = cohort(Permission::Exclusive);
    assert!(local.is_open(Permission::Shared));
    local.enter(1, Permission::Shared);
    local.wait(2, Permission::Exclusive);
    // Behind the writer, though it could read with the first.
    assert!(!local.is_open(Permission::Shared));
    local.wait(3, Permission::Shared);
    assert!(!local.enter_in_turn(2) && !local.enter_in_turn(3));
    local.leave(1);
    assert!(!local.enter_in_turn(3) && local.enter_in_turn(2));
    assert!(!local.enter_in_turn(3));
    local.leave(2);
    assert!(local.enter_in_turn(3));
}

#[test]
fn the_driver_asks_for_what_the_first_waiter_thread_wants_and_yields_when_asked() {
    let mut local = Local::default();
    assert_eq!(local.next_step(true), Step::Nothing);
    local.wait(1, Permission::Shared);
    assert_eq!(local.next_step(false), Step::Request(Permission::Shared));
    local.is_pending = true;
    assert_eq!(
        (local.next_step(false), local.next_step(true)),
        (Step::Nothing, Step::Poll)
    );
    local.granted(Permission::Shared, 0);
    local.is_asked = true;
    // The thread that waited comes first.
    assert_eq!(local.next_step(false), Step::Nothing);
    assert!(local.enter_in_turn(1));
    assert_eq!(local.next_step(false), Step::Nothing);
    local.leave(1);
    assert_eq!(local.next_step(false), Step::Yield(Permission::Shared));
}

#[test]
fn a_thread_that_dies_alone_is_forgotten_and_told_of_if_it_wrote() {
    let mut local = cohort(Permission::Exclusive);
    local.enter(1, Permission::Exclusive);
    local.wait(2, Permission::Shared);
    local.wait(3, Permission::Exclusive);
    local.lose(2);
    assert_eq!(local.former, 0);
    local.lose(1);
    assert_eq!(local.former, 1);
    assert!(local.enter_in_turn(3));
}
