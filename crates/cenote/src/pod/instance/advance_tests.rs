//! When the epoch moves on, and what holds it back.

use super::{advance, least, reclaimable_below, somebody_relies_on_it};
use crate::memory::{Coherent, Mapped};
use crate::pod::Worker;
use crate::pod::format::record::{IDLE, Phase, ProcessRecord, State};
use crate::pod::format::superblock::{EPOCH, HELD_BACK, WORKERS_HIGH};
use crate::pod::pool_for_tests::{TestPool, on_both};

/// The epoch in these tests, unless they say otherwise.
const NOW: u64 = 20;

/// A pool with this worker, at that epoch.
fn at_now<M: Mapped>() -> (TestPool<M>, Worker<M>) {
    let pool = TestPool::of_frames(4);
    EPOCH.store(&pool.mem, NOW << 1);
    HELD_BACK.store(&pool.mem, 0);
    let worker = pool.worker();
    // On incoherent memory it has announced when it attached.
    worker.record().announced().store(&pool.mem, IDLE);
    (pool, worker)
}

fn epoch<M: Mapped>(pool: &TestPool<M>) -> u64 {
    let word = EPOCH.load(&pool.mem);
    assert_eq!(word & 1, 0, "replicas are being updated");
    word >> 1
}

/// A worker that has announced an epoch, and stays.
fn reader<M: Mapped>(pool: &TestPool<M>, announced: u64) -> Worker<M> {
    let reader = pool.worker();
    reader.record().announced().store(&pool.mem, announced);
    reader
}

fn without_readers_the_least_announcement_is_the_epoch<M: Mapped>() {
    let (_pool, worker) = at_now::<M>();
    assert_eq!(least(&worker), NOW);
}

fn the_least_of_several_announcements_counts<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let _readers = [NOW, NOW - 3, NOW - 1].map(|announced| reader(&pool, announced));
    assert_eq!(least(&worker), NOW - 3);
}

fn who_has_announced_nothing_is_not_waited_for<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let _reader = reader(&pool, IDLE);
    assert_eq!(least(&worker), NOW);
}

fn announcements_beyond_the_watermark_are_not_looked_at<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let high = WORKERS_HIGH.load(&pool.mem) as u32;
    pool.record(high).announced().store(&pool.mem, NOW - 5);
    assert_eq!(least(&worker), NOW);
    pool.record(high - 1).announced().store(&pool.mem, NOW - 4);
    assert_eq!(least(&worker), NOW - 4);
}

fn a_watermark_beyond_the_table_is_the_tables_end<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    WORKERS_HIGH.store(&pool.mem, u64::MAX);
    assert_eq!(least(&worker), NOW);
    advance(&worker);
    assert_eq!(epoch(&pool), NOW + 1);
}

fn an_epoch_that_all_have_announced_moves_on_by_one<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let _reader = reader(&pool, NOW);
    assert_eq!(advance(&worker), NOW);
    assert_eq!(epoch(&pool), NOW + 1);
}

fn moving_on_raises_the_replicas_of_all_workers<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let other = pool.worker();
    advance(&worker);
    for record in [worker.record(), other.record()] {
        assert_eq!(record.epoch().load(&pool.mem), NOW + 1);
    }
}

fn one_old_announcement_holds_the_epoch_back<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let reader = reader(&pool, NOW - 1);
    for _ in 0..3 {
        assert_eq!(advance(&worker), NOW - 1);
        assert_eq!(epoch(&pool), NOW);
    }
    reader.record().announced().store(&pool.mem, IDLE);
    advance(&worker);
    assert_eq!(epoch(&pool), NOW + 1);
}

fn a_pin_lets_the_epoch_move_on_once<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let reader = pool.worker();
    let _pin = reader.pin().unwrap();
    let announced: Vec<u64> = (0..4).map(|_| advance(&worker)).collect();
    assert_eq!((announced, epoch(&pool)), (vec![NOW; 4], NOW + 1));
}

fn the_announcement_of_a_dead_worker_holds_the_epoch_back<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let dead = pool.worker();
    std::mem::forget(dead.pin().unwrap());
    pool.kill(dead);
    for _ in 0..3 {
        advance(&worker);
    }
    assert_eq!(epoch(&pool), NOW + 1);
}

fn an_advance_that_was_begun_is_finished_before_the_next<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let other = pool.worker();
    // The announcement allows no further step, so that the first is seen alone.
    let _reader = reader(&pool, NOW);
    EPOCH.store(&pool.mem, (NOW + 1) << 1 | 1);
    advance(&worker);
    assert_eq!(epoch(&pool), NOW + 1);
    for record in [worker.record(), other.record()] {
        assert_eq!(record.epoch().load(&pool.mem), NOW + 1);
    }
}

fn an_epoch_that_is_held_back_is_noted_once<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let _reader = reader(&pool, NOW - 1);
    advance(&worker);
    assert_eq!(HELD_BACK.load(&pool.mem) as u32, NOW as u32);
    // The time of the first look stays.
    let first = 7 << 32 | NOW;
    HELD_BACK.store(&pool.mem, first);
    advance(&worker);
    assert_eq!(HELD_BACK.load(&pool.mem), first);
}

fn an_epoch_that_moves_on_is_not_noted<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    advance(&worker);
    assert_eq!(HELD_BACK.load(&pool.mem), 0);
}

fn what_can_be_reused_once_can_be_from_then_on<M: Mapped>() {
    let (_pool, worker) = at_now::<M>();
    let seen = [5, 9, 7, 0, 10].map(|least| reclaimable_below(&worker, least));
    assert_eq!(seen, [5, 9, 9, 9, 10]);
}

fn each_worker_keeps_in_mind_what_it_has_seen_itself<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let other = pool.worker();
    reclaimable_below(&worker, 15);
    assert_eq!(reclaimable_below(&other, 9), 9);
}

fn an_epoch_at_the_end_of_its_word_ends_nothing<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    for word in [u64::MAX, u64::MAX - 1] {
        EPOCH.store(&pool.mem, word);
        assert_eq!(advance(&worker), u64::MAX >> 1);
        // It is all that a damaged word may do: to begin again.
        assert!(epoch(&pool) <= 1);
    }
}

fn who_may_rely_on_the_barrier_is_in_the_entries_that_are_not_free<M: Mapped>() {
    let (pool, worker) = at_now::<M>();
    let own = ProcessRecord::new(&pool.geometry, worker.pod().index());
    let other = ProcessRecord::new(&pool.geometry, worker.pod().index() + 1);
    let set = |record: ProcessRecord, relies| {
        record.relies_on_barrier().set(&pool.mem, relies);
        pool.mem.persist(record.relies_on_barrier().offset(), 8);
    };
    set(own, 0);
    set(other, 1);
    assert!(!somebody_relies_on_it(&worker));
    let free = other.state().load(&pool.mem);
    let alive = State {
        phase: Phase::Alive,
        ..State::free(3)
    };
    other.state().store(&pool.mem, alive.encode());
    assert!(somebody_relies_on_it(&worker));
    other.state().store(&pool.mem, free);
    set(own, 1);
    assert!(somebody_relies_on_it(&worker));
}

#[test]
fn an_announcement_ends_with_the_last_of_the_nested_pins() {
    let (_pool, worker) = at_now::<Coherent>();
    let announced = || worker.record().announced().load(worker.mem());
    let outer = worker.pin().unwrap();
    let inner = worker.pin().unwrap();
    assert_eq!(announced(), NOW);
    drop(inner);
    assert_eq!(announced(), NOW);
    drop(outer);
    assert_eq!(announced(), IDLE);
}

on_both! {
    without_readers_the_least_announcement_is_the_epoch,
    the_least_of_several_announcements_counts,
    who_has_announced_nothing_is_not_waited_for,
    announcements_beyond_the_watermark_are_not_looked_at,
    a_watermark_beyond_the_table_is_the_tables_end,
    an_epoch_that_all_have_announced_moves_on_by_one,
    moving_on_raises_the_replicas_of_all_workers,
    one_old_announcement_holds_the_epoch_back,
    a_pin_lets_the_epoch_move_on_once,
    the_announcement_of_a_dead_worker_holds_the_epoch_back,
    an_advance_that_was_begun_is_finished_before_the_next,
    an_epoch_that_is_held_back_is_noted_once,
    an_epoch_that_moves_on_is_not_noted,
    what_can_be_reused_once_can_be_from_then_on,
    each_worker_keeps_in_mind_what_it_has_seen_itself,
    an_epoch_at_the_end_of_its_word_ends_nothing,
    who_may_rely_on_the_barrier_is_in_the_entries_that_are_not_free,
}
