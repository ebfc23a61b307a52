//! Batches and chunks that were left in the middle, and the head of a list.

use super::tests::{at_tag, block_at, cells, ends, retire_some, retire_these, short_chunks};
use super::*;
use crate::memory::Mapped;
use crate::pod::format::block::Block;
use crate::pod::format::geometry::FRAME;
use crate::pod::pool_for_tests::{TestPool, is_damage, object, on_both, waiting_in};

/// What a worker that was freeing these entries of its list says when it dies.
fn dies_freeing<M: Mapped>(pool: &TestPool<M>, dead: Worker<M>, which: u64, is_decided: bool) -> Actor {
    let record = dead.record();
    let (_, tail) = ends(&dead);
    record.freeing_which().set(&pool.mem, which);
    record
        .freeing()
        .set(&pool.mem, tail.chunk | if is_decided { DECIDED } else { 0 });
    if is_decided {
        for index in indexes(which) {
            let (word, _) = entry(tail.chunk, index);
            word.set(&pool.mem, word.get(&pool.mem) | GONE);
        }
    }
    record.write_back(&pool.mem);
    pool.kill(dead)
}

fn mark<M: Memory>(worker: &Worker<M>, object: u64, from: u16, to: u16) {
    match locate(worker, object).unwrap() {
        Location::Slab(cell) => drop(cell.change(worker.mem(), from, to)),
        Location::Extent { .. } => panic!("an extent"),
    }
}

fn a_named_batch_is_freed_however_much_of_it_is_marked<M: Mapped>() {
    for marked in 0..=3 {
        let pool = at_tag::<M>(8);
        let (worker, dead) = (pool.worker(), pool.worker());
        let objects = retire_some(&dead, 3);
        for &object in &objects[..marked] {
            mark(&dead, object, CELL_LIVE, dead.me());
        }
        let actor = dies_freeing(&pool, dead, 0b111, false);
        finish_freeing(&worker, actor).unwrap();
        assert_eq!(cells(&worker, &objects), [CELL_FREE; 3], "{marked} marked");
        assert!(waiting_in(&worker, actor.record).is_empty());
        assert_eq!(actor.record.freeing().get(&pool.mem), 0);
    }
}

fn of_a_decided_batch_only_what_is_marked_is_freed<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let (worker, dead) = (pool.worker(), pool.worker());
    let objects = retire_some(&dead, 3);
    // The second is somebody's again, the third is free.
    mark(&dead, objects[0], CELL_LIVE, dead.me());
    mark(&dead, objects[2], CELL_LIVE, CELL_FREE);
    let actor = dies_freeing(&pool, dead, 0b111, true);
    finish_freeing(&worker, actor).unwrap();
    assert_eq!(cells(&worker, &objects), [CELL_FREE, CELL_LIVE, CELL_FREE]);
}

fn what_is_not_in_the_batch_stays<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let (worker, dead) = (pool.worker(), pool.worker());
    let objects = retire_some(&dead, 3);
    let actor = dies_freeing(&pool, dead, 0b101, false);
    finish_freeing(&worker, actor).unwrap();
    assert_eq!(cells(&worker, &objects), [CELL_FREE, CELL_LIVE, CELL_FREE]);
    assert_eq!(waiting_in(&worker, actor.record), [objects[1]]);
}

fn a_batch_that_is_not_named_yet_is_none<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let (worker, dead) = (pool.worker(), pool.worker());
    let objects = retire_some(&dead, 2);
    dead.record().freeing_which().set(&pool.mem, 0b11);
    dead.record().write_back(&pool.mem);
    let actor = pool.kill(dead);
    finish_freeing(&worker, actor).unwrap();
    assert_eq!(waiting_in(&worker, actor.record), objects);
    assert_eq!(cells(&worker, &objects), [CELL_LIVE; 2]);
}

fn finishing_a_batch_twice_is_finishing_it_once<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let (worker, dead) = (pool.worker(), pool.worker());
    let objects = retire_some(&dead, 2);
    let actor = dies_freeing(&pool, dead, 0b11, false);
    let named = actor.record.freeing().get(&pool.mem);
    finish_freeing(&worker, actor).unwrap();
    // It was decided when the first who finished it died, and one object is somebody's by now.
    mark(&worker, objects[0], CELL_FREE, CELL_LIVE);
    actor.record.freeing().set(&pool.mem, named | DECIDED);
    finish_freeing(&worker, actor).unwrap();
    assert_eq!(cells(&worker, &objects), [CELL_LIVE, CELL_FREE]);
    assert_eq!(actor.record.freeing().get(&pool.mem), 0);
}

fn an_extent_that_was_being_freed_is_freed_unless_it_is_another_by_now<M: Mapped>() {
    for (is_decided, owner, expected) in [(false, 0, None), (true, 0, None), (true, 1, Some(()))] {
        let pool = at_tag::<M>(8);
        let (worker, dead) = (pool.worker(), pool.worker());
        let extent = object(&dead, FRAME);
        retire_these(&dead, &[extent]);
        let word = table_word(&worker, worker.geometry().frame_of(extent));
        let actor = dies_freeing(&pool, dead, 1, is_decided);
        let retired = Block::Extent {
            frames: 1,
            state: ExtentState::Retired,
            owner: actor.me + owner,
        };
        word.store(&pool.mem, retired.encode());
        finish_freeing(&worker, actor).unwrap();
        let found = expected.map_or(Block::Free, |()| retired);
        assert_eq!(block_at(&worker, extent), found, "{is_decided} {owner}");
    }
}

fn a_batch_that_cannot_be_one_is_damage<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 1);
    let (actor, chunk) = (worker.actor(), ends(&worker).1.chunk);
    let end = worker.geometry().data + 8 * FRAME;
    let _hold = worker.hold_list().unwrap();
    for (freeing, which) in [
        (chunk, 1 << 63),
        (chunk | DECIDED, u64::MAX),
        (end, 1),
        (64, 1),
        (end - 512, 1),
    ] {
        actor.record.freeing_which().set(&pool.mem, which);
        actor.record.freeing().set(&pool.mem, freeing);
        assert!(
            is_damage(&finish_freeing(&worker, actor)),
            "{freeing:#x} {which:#x}"
        );
        assert_eq!(cells(&worker, &objects), [CELL_LIVE]);
    }
    actor.record.freeing().set(&pool.mem, 0);
}

/// A worker whose list has two chunks, of which the first is exhausted.
fn with_exhausted_chunk<M: Mapped>(pool: &TestPool<M>) -> (Worker<M>, u64) {
    let worker = pool.worker_with(short_chunks::<M>());
    retire_some(&worker, 6);
    let (head, _) = ends(&worker);
    for index in 0..5 {
        let (word, _) = entry(head.chunk, index);
        set(&worker, word, word.get(&pool.mem) | GONE);
    }
    (worker, head.chunk)
}

fn an_exhausted_chunk_leaves_the_list_and_waits_in_it<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let (worker, chunk) = with_exhausted_chunk(&pool);
    let _hold = worker.hold_list().unwrap();
    move_head(&worker, worker.actor()).unwrap();
    let (head, tail) = ends(&worker);
    assert_eq!((head.chunk, head.index), (tail.chunk, 0));
    assert_eq!(waiting_in(&worker, worker.record()).last(), Some(&chunk));
    assert_eq!(worker.record().retiring().get(&pool.mem), 0);
}

fn a_chunk_that_was_being_retired_is_entered_once_from_whatever_step<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let (worker, chunk) = with_exhausted_chunk(&pool);
    let _hold = worker.hold_list().unwrap();
    for _ in 0..3 {
        worker.record().retiring().set(&pool.mem, chunk | 1);
        finish_chunk(&worker, worker.actor(), chunk, true).unwrap();
        let waiting = waiting_in(&worker, worker.record());
        assert_eq!(waiting.iter().filter(|&&waits| waits == chunk).count(), 1);
        assert_eq!(worker.record().retiring().get(&pool.mem), 0);
    }
}

fn a_chunk_without_a_next_one_that_can_be_is_damage<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let (worker, chunk) = with_exhausted_chunk(&pool);
    let _hold = worker.hold_list().unwrap();
    let (before, next) = (ends(&worker), next_of(chunk).get(&pool.mem));
    for damaged in [0, next | 1, worker.geometry().data + 8 * FRAME] {
        set(&worker, next_of(chunk), damaged);
        assert!(
            is_damage(&finish_chunk(&worker, worker.actor(), chunk, false)),
            "{damaged:#x}"
        );
        assert_eq!(ends(&worker), before);
    }
    set(&worker, next_of(chunk), next);
}

fn a_head_does_not_pass_what_waits<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker();
    retire_some(&worker, 4);
    let (head, tail) = ends(&worker);
    let _hold = worker.hold_list().unwrap();
    for (gone, index) in [(1, 0), (0, 2), (3, 2), (2, 4)] {
        set(&worker, entry(tail.chunk, gone).0, GONE);
        move_head(&worker, worker.actor()).unwrap();
        assert_eq!(ends(&worker).0, Position { index, ..head });
    }
}

on_both! {
    a_named_batch_is_freed_however_much_of_it_is_marked,
    of_a_decided_batch_only_what_is_marked_is_freed,
    what_is_not_in_the_batch_stays,
    a_batch_that_is_not_named_yet_is_none,
    finishing_a_batch_twice_is_finishing_it_once,
    an_extent_that_was_being_freed_is_freed_unless_it_is_another_by_now,
    a_batch_that_cannot_be_one_is_damage,
    an_exhausted_chunk_leaves_the_list_and_waits_in_it,
    a_chunk_that_was_being_retired_is_entered_once_from_whatever_step,
    a_chunk_without_a_next_one_that_can_be_is_damage,
    a_head_does_not_pass_what_waits,
}
