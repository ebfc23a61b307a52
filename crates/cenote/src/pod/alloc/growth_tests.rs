//! Growth: when it asks for huge pages, and from where on.

use super::*;
use crate::memory::{Coherent, Mapped};
use crate::pod::pool_for_tests::{TestPool, on_both};

#[test]
fn large_objects_ask_once_for_several_steps_and_small_ones_always() {
    let pool = 4096;
    // A step for small objects; one for a large object; so many steps for large objects.
    assert!(is_worth_huge_pages(pool, 1, pool + GROWTH_FRAMES));
    assert!(!is_worth_huge_pages(pool, GROWTH_FRAMES, pool + GROWTH_FRAMES));
    assert!(is_worth_huge_pages(pool, GROWTH_FRAMES, pool + MANY));
    // A quarter of a small pool.
    assert!(is_worth_huge_pages(64, GROWTH_FRAMES, 128));
    assert!(is_worth_huge_pages(0, GROWTH_FRAMES, 64));
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
    reserve_frames(&worker, 1024, 1, 1024).unwrap();
    assert_eq!(worker.pod().small_pages_from.load(), 1000);
}

on_both!(what_grew_with_small_pages_is_asked_for_later);
