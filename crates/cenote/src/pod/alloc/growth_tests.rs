//! Growth: when it asks for huge pages, and from where on.

use super::*;
use crate::memory::{Coherent, Mapped};
use crate::pod::pool_for_tests::{TestPool, on_both};

#[test]
fn large_objects_ask_once_for_several_steps_and_small_ones_always() {
    let (pool, small, large) = (
        4096,
        HugePages::for_frames(1),
        HugePages::for_frames(GROWTH_FRAMES),
    );
    // A step for small objects; one for a large object; so many steps for large objects.
    assert!(small.are_worth_it(pool, pool + GROWTH_FRAMES));
    assert!(!large.are_worth_it(pool, pool + GROWTH_FRAMES));
    assert!(large.are_worth_it(pool, pool + MANY));
    // A quarter of a small pool.
    assert!(large.are_worth_it(64, 128));
    assert!(large.are_worth_it(0, 64));
}

fn what_grew_with_small_pages_is_asked_for_later<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(1024);
    let worker = pool.worker();
    assert_eq!(huge_from(&worker, 1024, 1024), 1024, "nothing grew without them");
    assert_eq!(huge_from(&worker, 1024, 1000), 1000);
    assert_eq!(
        huge_from(&worker, 1024, 0),
        1024 - MANY,
        "the kernel copies no more than this"
    );
}

/// Incoherent memory has none.
#[test]
fn holes_stay_holes_and_what_lies_before_them_is_not_forgotten() {
    let pool = TestPool::<Coherent>::of_frames(1024);
    let worker = pool.worker();
    worker.pod().small_pages_from.store(1000);
    assert!(holes::mark(&worker, 512, 5).unwrap());
    assert_eq!(huge_from(&worker, 1024, 1000), 1024);
    reserve_frames(&worker, 1024, HugePages::EachStep, 1024).unwrap();
    assert_eq!(worker.pod().small_pages_from.load(), 1000);
}

on_both!(what_grew_with_small_pages_is_asked_for_later);
