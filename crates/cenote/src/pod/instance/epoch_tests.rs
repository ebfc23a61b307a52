//! What replicas of the epoch are after each function that changes them.

use super::{catch_up, current, finish};
use crate::memory::Mapped;
use crate::pod::format::superblock::EPOCH;
use crate::pod::pool_for_tests::{TestPool, WORKERS, on_both};

/// The replicas of the first records, set to these.
fn with_replicas<M: Mapped>(epochs: &[u64]) -> TestPool<M> {
    let pool = TestPool::of_frames(4);
    for (index, &epoch) in (0..).zip(epochs) {
        pool.record(index).epoch().store(&pool.mem, epoch);
    }
    pool
}

fn replicas<M: Mapped>(pool: &TestPool<M>, count: u32) -> Vec<u64> {
    (0..count)
        .map(|index| pool.record(index).epoch().load(&pool.mem))
        .collect()
}

fn who_replicates_reads_its_replica_and_who_does_not_the_epoch<M: Mapped>() {
    let pool = with_replicas::<M>(&[20]);
    EPOCH.store(&pool.mem, 21 << 1);
    assert_eq!(current(&pool.mem, pool.record(0), true), 20);
    assert_eq!(current(&pool.mem, pool.record(0), false), 21);
}

fn the_updating_bit_is_no_part_of_the_epoch<M: Mapped>() {
    let pool = with_replicas::<M>(&[20]);
    EPOCH.store(&pool.mem, 21 << 1 | 1);
    assert_eq!(current(&pool.mem, pool.record(0), false), 21);
}

fn finishing_raises_every_replica_that_is_behind<M: Mapped>() {
    let pool = with_replicas::<M>(&[20, 0, 19]);
    EPOCH.store(&pool.mem, 21 << 1 | 1);
    finish(&pool.mem, &pool.geometry, 3, 21 << 1 | 1);
    assert_eq!(replicas(&pool, 3), [21; 3]);
}

fn finishing_lowers_no_replica<M: Mapped>() {
    let pool = with_replicas::<M>(&[20, 30]);
    EPOCH.store(&pool.mem, 21 << 1 | 1);
    finish(&pool.mem, &pool.geometry, 2, 21 << 1 | 1);
    assert_eq!(replicas(&pool, 2), [21, 30]);
}

fn finishing_leaves_records_beyond_the_watermark_alone<M: Mapped>() {
    let pool = with_replicas::<M>(&[20, 20, 5]);
    finish(&pool.mem, &pool.geometry, 2, 21 << 1 | 1);
    assert_eq!(replicas(&pool, 3), [21, 21, 5]);
}

fn finishing_clears_the_updating_bit<M: Mapped>() {
    let pool = with_replicas::<M>(&[]);
    for workers in [0, WORKERS] {
        EPOCH.store(&pool.mem, 21 << 1 | 1);
        finish(&pool.mem, &pool.geometry, workers, 21 << 1 | 1);
        assert_eq!(EPOCH.load(&pool.mem), 21 << 1, "{workers} workers");
    }
}

fn finishing_late_leaves_a_later_epoch_as_it_is<M: Mapped>() {
    let pool = with_replicas::<M>(&[22, 22]);
    for later in [22 << 1, 22 << 1 | 1] {
        EPOCH.store(&pool.mem, later);
        finish(&pool.mem, &pool.geometry, 2, 21 << 1 | 1);
        assert_eq!(EPOCH.load(&pool.mem), later);
        assert_eq!(replicas(&pool, 2), [22; 2]);
    }
}

fn finishing_twice_is_finishing_once<M: Mapped>() {
    let pool = with_replicas::<M>(&[20, 21]);
    EPOCH.store(&pool.mem, 21 << 1 | 1);
    for _ in 0..2 {
        finish(&pool.mem, &pool.geometry, 2, 21 << 1 | 1);
        assert_eq!(
            (replicas(&pool, 2), EPOCH.load(&pool.mem)),
            (vec![21; 2], 21 << 1)
        );
    }
}

fn who_attaches_catches_up_also_while_the_epoch_is_being_moved_on<M: Mapped>() {
    let pool = with_replicas::<M>(&[0, 3]);
    for (index, word) in [(0, 21 << 1), (1, 21 << 1 | 1)] {
        EPOCH.store(&pool.mem, word);
        catch_up(&pool.mem, pool.record(index));
        assert_eq!(pool.record(index).epoch().load(&pool.mem), 21);
    }
}

fn catching_up_lowers_no_replica<M: Mapped>() {
    let pool = with_replicas::<M>(&[30]);
    EPOCH.store(&pool.mem, 21 << 1);
    catch_up(&pool.mem, pool.record(0));
    assert_eq!(replicas(&pool, 1), [30]);
}

fn a_worker_in_a_place_that_was_left_long_ago_has_the_present_epoch<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let place = pool.worker().actor().me - 1;
    EPOCH.store(&pool.mem, 40 << 1);
    let worker = pool.worker();
    assert_eq!(worker.actor().me - 1, place);
    assert_eq!(worker.record().epoch().load(&pool.mem), 40);
}

on_both! {
    who_replicates_reads_its_replica_and_who_does_not_the_epoch,
    the_updating_bit_is_no_part_of_the_epoch,
    finishing_raises_every_replica_that_is_behind,
    finishing_lowers_no_replica,
    finishing_leaves_records_beyond_the_watermark_alone,
    finishing_clears_the_updating_bit,
    finishing_late_leaves_a_later_epoch_as_it_is,
    finishing_twice_is_finishing_once,
    who_attaches_catches_up_also_while_the_epoch_is_being_moved_on,
    catching_up_lowers_no_replica,
    a_worker_in_a_place_that_was_left_long_ago_has_the_present_epoch,
}
