//! What recovery makes of all that a worker has left besides its operation: locks, reserves, an auxiliary object, its
//! list.

use super::tests::{one, retire_by};
use super::*;
use crate::memory::Mapped;
use crate::memory::checked::sync_word;
use crate::pod::alloc::auxiliary::link_auxiliary;
use crate::pod::alloc::heap::{allocate_for, mark_live};
use crate::pod::format::block::{CELL_FREE, CELL_LIVE};
use crate::pod::format::chunk::{Position, count_of, entry};
use crate::pod::format::class::TABLE;
use crate::pod::format::geometry::FRAME;
use crate::pod::pool_for_tests::{TestPool, cell, is_damage, object, on_both, waiting_in};

fn locks_of_the_dead_are_free_and_those_of_the_living_are_not<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, dead) = (pool.worker(), pool.worker());
    let identity = dead.identity();
    pool.kill(dead);
    DIRECTORY_LOCK.store(&pool.mem, worker.identity());
    for lock in [HEAP_LOCK, TRIM_LOCK] {
        lock.store(&pool.mem, identity);
    }
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    assert_eq!((HEAP_LOCK.load(&pool.mem), TRIM_LOCK.load(&pool.mem)), (0, 0));
    assert_eq!(DIRECTORY_LOCK.load(&pool.mem), worker.identity());
    DIRECTORY_LOCK.store(&pool.mem, 0);
}

fn reserves_of_the_dead_are_free<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, dead) = (pool.worker(), pool.worker());
    let object = object(&dead, 64);
    let dead = pool.kill(dead);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    for class in 0..CLASSES {
        assert_eq!(dead.record.reserve(class).peek(&pool.mem), 0);
    }
    assert_eq!(cell(&worker, object), CELL_LIVE, "what is used stays");
    let word = table_word(&worker, worker.geometry().frame_of(object));
    assert!(matches!(
        Block::decode(word.load(&pool.mem)),
        Block::Slab { owner: 0, .. }
    ));
}

/// One who dies with an auxiliary object of this length, which `word` would publish as `expected`.
fn dies_with_auxiliary<M: Mapped>(pool: &TestPool<M>, len: u64, owned: bool) -> (Actor, u64, u64) {
    let dead = pool.worker();
    let word = object(&dead, 64);
    let actor = dead.actor();
    let _hold = dead.hold_list().unwrap();
    let auxiliary = allocate_for(&dead, actor, len, actor.record.aux_object(), 0).unwrap();
    drop(_hold);
    link_auxiliary(&dead, actor, word | if owned { OWNED_LINK } else { 0 }, auxiliary);
    actor.record.write_back(&pool.mem);
    (pool.kill(dead), word, auxiliary)
}

fn auxiliary_words<M: Mapped>(pool: &TestPool<M>, record: WorkerRecord) -> [u64; 3] {
    [record.aux_object(), record.aux_word(), record.aux_expected()].map(|word| word.peek(&pool.mem))
}

fn an_auxiliary_object_that_nothing_refers_to_is_freed<M: Mapped>() {
    for owned in [false, true] {
        let pool = TestPool::<M>::of_frames(8);
        let worker = pool.worker();
        let (dead, _, object) = dies_with_auxiliary(&pool, 64, owned);
        assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
        assert_eq!(cell(&worker, object), CELL_FREE);
        assert_eq!(auxiliary_words(&pool, dead.record), [0; 3]);
    }
}

fn an_auxiliary_object_that_is_linked_stays<M: Mapped>() {
    for owned in [false, true] {
        let pool = TestPool::<M>::of_frames(8);
        let worker = pool.worker();
        let (dead, word, object) = dies_with_auxiliary(&pool, 64, owned);
        sync_word(word).store(&pool.mem, object);
        assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
        assert_eq!(cell(&worker, object), CELL_LIVE);
        assert_eq!(auxiliary_words(&pool, dead.record), [0; 3]);
    }
}

fn an_auxiliary_extent_is_live_if_it_is_linked_and_else_free<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (_, word, linked) = dies_with_auxiliary(&pool, FRAME, false);
    let (_, _, unlinked) = dies_with_auxiliary(&pool, FRAME, false);
    sync_word(word).store(&pool.mem, linked);
    assert_eq!(recover_dead(&worker).unwrap().workers, 2);
    let place = locate(&worker, linked).unwrap();
    assert!(matches!(
        place,
        Location::Extent {
            state: ExtentState::Live,
            ..
        }
    ));
    assert!(locate(&worker, unlinked).is_err());
}

fn an_auxiliary_extent_that_is_live_was_published_whatever_its_word_says_by_now<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (_, word, extent) = dies_with_auxiliary(&pool, FRAME, false);
    mark_live(&worker, extent).unwrap();
    sync_word(word).store(&pool.mem, 0x7000);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    assert!(matches!(
        locate(&worker, extent).unwrap(),
        Location::Extent { .. }
    ));
}

fn an_auxiliary_link_that_can_be_none_is_told_and_nothing_freed<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (dead, _, object) = dies_with_auxiliary(&pool, 64, false);
    let end = pool.geometry.data + 8 * FRAME;
    for word in [2, 4, end, end | OWNED_LINK, u64::MAX] {
        dead.record.aux_word().set(&pool.mem, word);
        pool.mem.persist(dead.record.aux_word().offset(), 8);
        let recovered = recover_dead(&worker).unwrap();
        assert_eq!((recovered.failed, recovered.workers), (1, 0), "{word:#x}");
        assert_eq!(cell(&worker, object), CELL_LIVE);
    }
}

fn a_line_that_was_being_taken_out_of_a_chain_is_out_and_free<M: Mapped>() {
    for is_out in [false, true] {
        let pool = TestPool::<M>::of_frames(8);
        let (worker, dead) = (pool.worker(), pool.worker());
        let (line, link) = (object(&dead, 64), sync_word(object(&dead, 64)));
        let next = 0x7000;
        sync_word(line + 56).store(&pool.mem, next);
        link.store(&pool.mem, line);
        let record = dead.record();
        record.aux_object().set(&pool.mem, line | DRAINING);
        record.aux_word().set(&pool.mem, link.offset());
        record.aux_expected().set(&pool.mem, line);
        record.write_back(&pool.mem);
        if is_out {
            link.store(&pool.mem, next);
            let Location::Slab(cell) = locate(&dead, line).unwrap() else {
                panic!("not in a slab");
            };
            cell.change(&pool.mem, CELL_LIVE, dead.me());
        }
        let dead = pool.kill(dead);
        assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
        assert_eq!((link.load(&pool.mem), cell(&worker, line)), (next, CELL_FREE));
        assert_eq!(auxiliary_words(&pool, dead.record), [0; 3]);
    }
}

/// One with so many objects in its list.
fn with_list<M: Mapped>(pool: &TestPool<M>, count: usize) -> (Worker<M>, Vec<u64>) {
    let dead = pool.worker();
    let objects: Vec<u64> = (0..count).map(|_| object(&dead, 64)).collect();
    for &object in &objects {
        retire_by(&dead, object);
    }
    (dead, objects)
}

fn tail_of<M: Mapped>(pool: &TestPool<M>, record: WorkerRecord) -> Position {
    Position::decode(record.tail().peek(&pool.mem))
}

fn a_list_of_the_dead_is_left_to_others_who_are_told<M: Mapped>() {
    for count in [0, 3] {
        let pool = TestPool::<M>::of_frames(8);
        let worker = pool.worker();
        let (dead, objects) = with_list(&pool, count);
        dead.record().write_back(&pool.mem);
        let dead = pool.kill(dead);
        let before = ORPHANS.load(&pool.mem);
        assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
        assert_eq!(waiting_in(&worker, dead.record), objects);
        assert_eq!(ORPHANS.load(&pool.mem) - before, u64::from(count > 0));
    }
}

fn a_chunk_that_was_linked_is_the_last_one<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (dead, objects) = with_list(&pool, 3);
    let (chunk, tail) = (object(&dead, CHUNK_BYTES), tail_of(&pool, dead.record()));
    retire::set(&dead, count_of(tail.chunk), tail.index);
    retire::set(&dead, next_of(tail.chunk), chunk);
    dead.record().write_back(&pool.mem);
    let dead = pool.kill(dead);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    assert_eq!(tail_of(&pool, dead.record), Position { chunk, index: 0 });
    assert_eq!(waiting_in(&worker, dead.record), objects);
}

fn a_first_chunk_that_was_linked_is_the_last_one_too<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, dead) = (pool.worker(), pool.worker());
    let chunk = object(&dead, CHUNK_BYTES);
    dead.record().head().set(&pool.mem, chunk);
    dead.record().write_back(&pool.mem);
    let dead = pool.kill(dead);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    assert_eq!(tail_of(&pool, dead.record), Position { chunk, index: 0 });
}

fn a_spare_chunk_that_was_appended_is_spare_no_more<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (dead, _) = with_list(&pool, 3);
    let tail = tail_of(&pool, dead.record());
    dead.record().spare().set(&pool.mem, tail.chunk);
    dead.record().write_back(&pool.mem);
    let dead = pool.kill(dead);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    assert_eq!(dead.record.spare().peek(&pool.mem), 0);
}

fn a_spare_chunk_outlives_its_worker<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (dead, _) = with_list(&pool, 3);
    let spare = dead.record().spare().get(&pool.mem);
    dead.record().write_back(&pool.mem);
    let dead = pool.kill(dead);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    assert!(spare != 0);
    assert_eq!(dead.record.spare().peek(&pool.mem), spare);
}

fn a_head_behind_its_tail_is_taken_back_to_it<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (dead, _) = with_list(&pool, 3);
    let tail = tail_of(&pool, dead.record());
    for index in 0..3 {
        let (object, _) = entry(tail.chunk, index);
        retire::set(&dead, object, 0);
    }
    let record = dead.record();
    record.head().set(&pool.mem, tail.encode());
    record
        .tail()
        .set(&pool.mem, Position { index: 0, ..tail }.encode());
    record.write_back(&pool.mem);
    let dead = pool.kill(dead);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    let head = dead.record.head().peek(&pool.mem);
    assert_eq!(Position::decode(head), Position { index: 0, ..tail });
}

fn a_batch_that_the_dead_was_freeing_is_free<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (dead, objects) = with_list(&pool, 3);
    let record = dead.record();
    record.freeing_which().set(&pool.mem, 0b011);
    record.freeing().set(&pool.mem, tail_of(&pool, record).chunk);
    record.write_back(&pool.mem);
    let dead = pool.kill(dead);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    let cells: Vec<u16> = objects.iter().map(|&object| cell(&worker, object)).collect();
    assert_eq!(cells, [CELL_FREE, CELL_FREE, CELL_LIVE]);
    assert_eq!(waiting_in(&worker, dead.record), objects[2..]);
}

fn a_list_that_leads_out_of_the_pool_is_told_and_left<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (dead, _) = with_list(&pool, 1);
    let tail = pool.geometry.data + 8 * FRAME;
    dead.record().tail().set(&pool.mem, tail);
    dead.record().write_back(&pool.mem);
    let dead = pool.kill(dead);
    let recovered = recover_dead(&worker).unwrap();
    assert_eq!((recovered.failed, recovered.workers), (1, 0));
    assert_eq!(dead.record.tail().peek(&pool.mem), tail);
}

fn who_leaves_announces_nothing_more<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    other.record().announced().store(&pool.mem, 5);
    leave(&worker, other.actor());
    assert_eq!(other.record().announced().load(&pool.mem), IDLE);
}

fn an_object_is_reserved_only_where_its_reserve_and_its_block_say_so<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let taken = object(&worker, 64);
    let Location::Slab(place) = locate(&worker, taken).unwrap() else {
        panic!("not in a slab");
    };
    // The reserve has the three cells that follow.
    let size = u64::from(TABLE[place.class].size);
    let actor = worker.actor();
    let reserved: Vec<bool> = (0..5)
        .map(|n| is_reserved(&worker, actor, taken + n * size).unwrap())
        .collect();
    assert_eq!(reserved, [false, true, true, true, false]);
    assert!(!is_reserved(&worker, other.actor(), taken + size).unwrap());
    assert!(is_damage(&is_reserved(
        &worker,
        actor,
        pool.geometry.data + 8 * FRAME
    )));
    let extent = object(&worker, FRAME);
    assert!(!is_reserved(&worker, actor, extent).unwrap());
}

on_both! {
    locks_of_the_dead_are_free_and_those_of_the_living_are_not,
    reserves_of_the_dead_are_free,
    an_auxiliary_object_that_nothing_refers_to_is_freed,
    an_auxiliary_object_that_is_linked_stays,
    an_auxiliary_extent_is_live_if_it_is_linked_and_else_free,
    an_auxiliary_extent_that_is_live_was_published_whatever_its_word_says_by_now,
    an_auxiliary_link_that_can_be_none_is_told_and_nothing_freed,
    a_line_that_was_being_taken_out_of_a_chain_is_out_and_free,
    a_list_of_the_dead_is_left_to_others_who_are_told,
    a_chunk_that_was_linked_is_the_last_one,
    a_first_chunk_that_was_linked_is_the_last_one_too,
    a_spare_chunk_that_was_appended_is_spare_no_more,
    a_spare_chunk_outlives_its_worker,
    a_head_behind_its_tail_is_taken_back_to_it,
    a_batch_that_the_dead_was_freeing_is_free,
    a_list_that_leads_out_of_the_pool_is_told_and_left,
    who_leaves_announces_nothing_more,
    an_object_is_reserved_only_where_its_reserve_and_its_block_say_so,
}
