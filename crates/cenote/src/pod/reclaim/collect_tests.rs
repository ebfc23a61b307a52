//! What is freed and when, what is not, and batches and chunks that were left in the middle.

use super::*;
use crate::memory::checked::sync_word;
use crate::memory::{Coherent, Mapped, Noncoherent};
use crate::pod::alloc::auxiliary::clear_auxiliary;
use crate::pod::alloc::heap::{allocate, allocate_for};
use crate::pod::format::block::Block;
use crate::pod::format::geometry::FRAME;
use crate::pod::format::record::{IDLE, Phase};
use crate::pod::format::superblock::EPOCH;
use crate::pod::instance::hooks::{Hooks, Progress};
use crate::pod::instance::limits::{CHUNK_ENTRIES_MIN, Limits};
use crate::pod::pool_for_tests::{TestPool, cell, hooks, is_damage, object, on_both, waiting_in};
use crate::pod::reclaim::flush::FlushServer;
use crate::pod::reclaim::retire::{chunks, retire};

/// The epoch in which these tests retire.
const TAG: u64 = 33;
/// Least announcements by which nothing of that can be reused, and all of it.
const EARLY: u64 = TAG + 1;
const LATE: u64 = TAG + 2;

pub(super) fn at_tag<M: Mapped>(frames: u64) -> TestPool<M> {
    let pool = TestPool::of_frames(frames);
    EPOCH.store(&pool.mem, TAG << 1);
    pool
}

pub(super) fn short_chunks<M: Memory>() -> Limits {
    Limits {
        chunk_entries: CHUNK_ENTRIES_MIN,
        ..Limits::usual::<M>()
    }
}

/// Retires these, which nobody refers to any more, with the tag of these tests.
pub(super) fn retire_these<M: Memory>(worker: &Worker<M>, objects: &[u64]) {
    let _hold = worker.hold_list().unwrap();
    for &object in objects {
        ensure_room(worker, worker.actor()).unwrap();
        retire(worker, worker.actor(), object).unwrap();
        let (_, tail) = ends(worker);
        set(worker, entry(tail.chunk, tail.index - 1).1, TAG);
    }
}

pub(super) fn retire_some<M: Memory>(worker: &Worker<M>, count: usize) -> Vec<u64> {
    let objects: Vec<u64> = (0..count).map(|_| object(worker, 64)).collect();
    retire_these(worker, &objects);
    objects
}

pub(super) fn ends<M: Memory>(worker: &Worker<M>) -> (Position, Position) {
    span(worker, worker.record()).unwrap()
}

/// What some passes free; on incoherent memory a flush round needs two of them.
fn collected<M: Memory>(worker: &Worker<M>, least: u64) -> u64 {
    let scans = (0..3).map(|_| collect(worker, worker.actor(), least).unwrap());
    scans.sum()
}

pub(super) fn cells<M: Memory>(worker: &Worker<M>, objects: &[u64]) -> Vec<u16> {
    objects.iter().map(|&object| cell(worker, object)).collect()
}

pub(super) fn block_at<M: Memory>(worker: &Worker<M>, extent: u64) -> Block {
    let frame = worker.geometry().frame_of(extent);
    Block::decode(table_word(worker, frame).load(worker.mem()))
}

fn of_nothing_nothing_is_freed<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker();
    assert_eq!(collected(&worker, u64::MAX), 0, "without a list");
    {
        let _hold = worker.hold_list().unwrap();
        ensure_room(&worker, worker.actor()).unwrap();
    }
    let before = ends(&worker);
    assert_eq!(collected(&worker, u64::MAX), 0, "of an empty list");
    assert_eq!(free_all(&worker).unwrap(), 0);
    assert_eq!(ends(&worker), before);
}

fn an_object_is_freed_two_epochs_after_it_was_retired_and_no_sooner<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 1);
    for least in [0, 1, TAG, EARLY] {
        assert_eq!(collected(&worker, least), 0, "{least}");
        assert_eq!(cells(&worker, &objects), [CELL_LIVE]);
    }
    assert_eq!(collected(&worker, LATE), 1);
    assert_eq!(cells(&worker, &objects), [CELL_FREE]);
}

fn a_tag_at_the_end_of_its_word_is_never_old_enough<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker();
    retire_some(&worker, 1);
    let (_, tail) = ends(&worker);
    for tag in [u64::MAX, u64::MAX - 1] {
        set(&worker, entry(tail.chunk, 0).1, tag);
        assert_eq!(collected(&worker, u64::MAX), 0);
    }
}

fn what_was_freed_is_in_no_list_and_named_by_no_batch<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 5);
    assert_eq!(collected(&worker, LATE), 5);
    assert_eq!(cells(&worker, &objects), [CELL_FREE; 5]);
    assert!(waiting_in(&worker, worker.record()).is_empty());
    let (head, tail) = ends(&worker);
    assert_eq!(head, tail);
    assert_eq!(worker.record().freeing().get(&pool.mem), 0);
}

fn what_may_still_be_read_holds_back_what_was_retired_after_it<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 4);
    let (_, tail) = ends(&worker);
    set(&worker, entry(tail.chunk, 1).1, EARLY);
    assert_eq!(collected(&worker, LATE), 1);
    assert_eq!(waiting_in(&worker, worker.record()), objects[1..]);
}

#[test]
fn where_nothing_else_is_left_also_what_lies_behind_it_is_freed() {
    let pool = at_tag::<Coherent>(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 4);
    let (_, tail) = ends(&worker);
    set(&worker, entry(tail.chunk, 0).1, u64::MAX);
    EPOCH.store(&pool.mem, 100 << 1);
    assert_eq!(free_all(&worker).unwrap(), 3);
    assert_eq!(waiting_in(&worker, worker.record()), objects[..1]);
}

#[test]
fn a_reader_keeps_what_was_retired_since_it_announced() {
    let pool = at_tag::<Coherent>(8);
    let (worker, reader) = (pool.worker(), pool.worker());
    let pin = reader.pin().unwrap();
    let objects = retire_some(&worker, 2);
    assert_eq!(free_all(&worker).unwrap(), 0);
    assert_eq!(cells(&worker, &objects), [CELL_LIVE; 2]);
    drop(pin);
    assert_eq!(free_all(&worker).unwrap(), 2);
}

#[test]
fn nothing_is_freed_before_every_process_has_dropped_its_lines() {
    let pool = at_tag::<Noncoherent>(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let objects = retire_some(&worker, 2);
    assert_eq!(collected(&worker, LATE), 0);
    assert_eq!(cells(&worker, &objects), [CELL_LIVE; 2]);
    FlushServer::default().tick(&other, 1);
    assert_eq!(collected(&worker, LATE), 2);
}

fn a_freed_extent_is_frames_again<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker();
    let extent = object(&worker, 2 * FRAME);
    retire_these(&worker, &[extent]);
    assert_eq!(collected(&worker, LATE), 1);
    assert_eq!(block_at(&worker, extent), Block::Free);
}

fn an_extent_that_another_has_retired_is_freed_by_who_has_the_list<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker();
    let extent = object(&worker, FRAME);
    retire_these(&worker, &[extent]);
    let by_another = Block::Extent {
        frames: 1,
        state: ExtentState::Retired,
        owner: worker.me() + 1,
    };
    table_word(&worker, worker.geometry().frame_of(extent)).store(&pool.mem, by_another.encode());
    assert_eq!(collected(&worker, LATE), 1);
    assert_eq!(block_at(&worker, extent), Block::Free);
}

/// On incoherent memory a round over such a list is never begun.
#[test]
fn entries_that_can_be_no_objects_are_forgotten_and_the_others_freed() {
    let pool = at_tag::<Coherent>(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 5);
    let (_, tail) = ends(&worker);
    let data = worker.geometry().data;
    for (index, damaged) in [(1, data + 100 * FRAME), (2, 64), (3, data + 7 * FRAME)] {
        set(&worker, entry(tail.chunk, index).0, damaged);
    }
    collected(&worker, LATE);
    assert_eq!(
        cells(&worker, &objects),
        [CELL_FREE, CELL_LIVE, CELL_LIVE, CELL_LIVE, CELL_FREE]
    );
    assert!(waiting_in(&worker, worker.record()).is_empty());
}

fn an_object_that_is_free_already_is_not_freed_again<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 2);
    let Location::Slab(first) = locate(&worker, objects[0]).unwrap() else {
        panic!("not in a slab");
    };
    first.change(&pool.mem, CELL_LIVE, CELL_FREE);
    collected(&worker, LATE);
    assert_eq!(cells(&worker, &objects), [CELL_FREE; 2]);
    assert!(waiting_in(&worker, worker.record()).is_empty());
}

#[test]
fn one_pass_goes_through_no_more_chunks_than_it_may() {
    let pool = at_tag::<Coherent>(8);
    let limits = Limits {
        collect_chunks: 2,
        ..short_chunks::<Coherent>()
    };
    let worker = pool.worker_with(limits);
    retire_some(&worker, 18);
    assert_eq!(collect(&worker, worker.actor(), LATE).unwrap(), 10);
}

#[test]
fn one_pass_goes_through_a_chunk_at_least() {
    let pool = at_tag::<Coherent>(8);
    let limits = Limits {
        collect_chunks: 0,
        ..short_chunks::<Coherent>()
    };
    let worker = pool.worker_with(limits);
    retire_some(&worker, 6);
    assert_eq!(collect(&worker, worker.actor(), LATE).unwrap(), 5);
}

#[test]
fn who_frees_all_frees_the_lists_own_chunks_too() {
    let pool = at_tag::<Coherent>(8);
    let worker = pool.worker_with(short_chunks::<Coherent>());
    let objects = retire_some(&worker, 40);
    assert!(chunks(&worker, worker.record()).unwrap().len() >= 8);
    EPOCH.store(&pool.mem, 100 << 1);
    collect_all(&worker).unwrap();
    assert_eq!(cells(&worker, &objects), [CELL_FREE; 40]);
    assert_eq!(chunks(&worker, worker.record()).unwrap().len(), 1);
    assert!(waiting_in(&worker, worker.record()).is_empty());
}

#[test]
fn a_list_that_is_a_cycle_is_damage_and_freeing_it_has_an_end() {
    let pool = at_tag::<Coherent>(2);
    // A pass ends where the one before it did not: not after as many chunks as the cycle has.
    let limits = Limits {
        collect_chunks: 3,
        ..short_chunks::<Coherent>()
    };
    let worker = pool.worker_with(limits);
    retire_some(&worker, 6);
    let (head, tail) = ends(&worker);
    // Its end is elsewhere, and has no room for the chunks that the head would leave.
    let (chunk, waits) = (object(&worker, CHUNK_BYTES), object(&worker, 64));
    for index in 0..CHUNK_ENTRIES_MIN {
        set(&worker, entry(chunk, index).1, u64::MAX);
        set(&worker, entry(chunk, index).0, waits);
    }
    set(&worker, next_of(tail.chunk), head.chunk);
    let record = worker.record();
    let index = CHUNK_ENTRIES_MIN;
    set_position(&worker, record.tail(), Position { chunk, index });
    EPOCH.store(&pool.mem, 100 << 1);
    let _hold = worker.hold_list().unwrap();
    assert!(is_damage(&free_own(&worker)));
    record.head().set(&pool.mem, 0);
    record.tail().set(&pool.mem, 0);
}

#[test]
fn what_can_be_reused_is_allocated_again_without_being_freed() {
    let pool = at_tag::<Coherent>(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 3);
    EPOCH.store(&pool.mem, 100 << 1);
    collect_now(&worker).unwrap();
    assert_eq!(cells(&worker, &objects), [CELL_LIVE; 3]);
    let _hold = worker.hold_list().unwrap();
    let again = allocate(&worker, 64).unwrap();
    assert!(objects.contains(&again));
    assert_eq!(waiting_in(&worker, worker.record()).len(), 2);
}

#[test]
fn what_is_not_needed_from_one_pass_to_the_next_is_freed() {
    let pool = at_tag::<Coherent>(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 4);
    EPOCH.store(&pool.mem, 100 << 1);
    collect_now(&worker).unwrap();
    // There must be something new to look at.
    retire_some(&worker, 1);
    collect_now(&worker).unwrap();
    let free = cells(&worker, &objects)
        .iter()
        .filter(|&&cell| cell == CELL_FREE)
        .count();
    assert_eq!(free, 2, "half of it");
}

#[test]
fn a_write_collects_after_so_many_retirements() {
    let pool = at_tag::<Coherent>(8);
    let limits = Limits {
        collect_every: 3,
        ..Limits::usual::<Coherent>()
    };
    let worker = pool.worker_with(limits);
    retire_some(&worker, 2);
    EPOCH.store(&pool.mem, 100 << 1);
    drop(begin_write(&worker).unwrap());
    assert_eq!(worker.reclaim.retired_since.get(), 2, "not yet");
    retire_some(&worker, 1);
    drop(begin_write(&worker).unwrap());
    assert_eq!(worker.reclaim.retired_since.get(), 0);
}

fn a_write_has_room_for_what_it_retires<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker_with(short_chunks::<M>());
    for _ in 0..12 {
        let object = object(&worker, 64);
        let _hold = begin_write(&worker).unwrap();
        let (_, tail) = ends(&worker);
        assert!(tail.chunk != 0 && !lacks(&worker, tail, ROOM));
        retire(&worker, worker.actor(), object).unwrap();
    }
}

/// An extent says in its first word how many links it has still.
fn drain_links<M: Memory>(worker: &Worker<M>, _: Actor, extent: u64, left: &mut u64) -> Result<Progress> {
    let links = sync_word(extent).load(worker.mem());
    let followed = links.min(*left);
    *left -= followed;
    sync_word(extent).store(worker.mem(), links - followed);
    Ok(match links == followed {
        true => Progress::Complete,
        false => Progress::Partial,
    })
}

/// A retired extent with so many links.
fn linked_extent<M: Memory>(worker: &Worker<M>, links: u64) -> u64 {
    let _hold = worker.hold_list().unwrap();
    let actor = worker.actor();
    let extent = allocate_for(worker, actor, FRAME, actor.record.aux_object(), 7).unwrap();
    clear_auxiliary(worker, actor);
    sync_word(extent).store(worker.mem(), links);
    retire_these(worker, &[extent]);
    extent
}

fn with_drains<M: Mapped>(pool: &TestPool<M>) -> Worker<M> {
    let limits = Limits {
        drain_links: 4,
        ..Limits::usual::<M>()
    };
    let hooks = Hooks {
        drain_extent: drain_links,
        ..hooks()
    };
    Worker::attach(&pool.join_with(limits, hooks), false).unwrap()
}

#[test]
fn a_write_follows_a_few_links_of_an_extent_and_the_next_one_goes_on() {
    let pool = at_tag::<Coherent>(8);
    let worker = with_drains(&pool);
    let extent = linked_extent(&worker, 10);
    let behind = retire_some(&worker, 1);
    EPOCH.store(&pool.mem, 100 << 1);
    for left in [6, 2] {
        collect_now(&worker).unwrap();
        assert_eq!(sync_word(extent).load(&pool.mem), left);
        assert!(matches!(block_at(&worker, extent), Block::Extent { .. }));
        assert!(
            worker.reclaim.recycler.take(3).is_none(),
            "what comes after it waits"
        );
    }
    collect_now(&worker).unwrap();
    assert_eq!(block_at(&worker, extent), Block::Free);
    assert_eq!(waiting_in(&worker, worker.record()), behind);
}

fn who_frees_an_extent_for_good_follows_all_its_links<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = with_drains(&pool);
    let extent = linked_extent(&worker, 1000);
    assert_eq!(collected(&worker, LATE), 1);
    assert_eq!(
        (sync_word(extent).load(&pool.mem), block_at(&worker, extent)),
        (0, Block::Free)
    );
}

fn an_extent_without_a_tag_is_not_drained<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = with_drains(&pool);
    let extent = object(&worker, FRAME);
    sync_word(extent).store(&pool.mem, 9);
    retire_these(&worker, &[extent]);
    assert_eq!(collected(&worker, LATE), 1);
    assert_eq!(sync_word(extent).load(&pool.mem), 9);
}

fn a_dead_worker_that_holds_memory_back_is_recovered_by_who_collects<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let (worker, dead) = (pool.worker(), pool.worker());
    std::mem::forget(dead.pin().unwrap());
    let place = u32::from(pool.kill(dead).me) - 1;
    collect_now(&worker).unwrap();
    assert_eq!(pool.state(place).phase, Phase::Free);
    assert_eq!(pool.record(place).announced().load(&pool.mem), IDLE);
}

fn a_living_worker_that_holds_memory_back_is_left_alone<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let (worker, reader) = (pool.worker(), pool.worker());
    let pin = reader.pin().unwrap();
    let state = pool.state(u32::from(reader.me()) - 1);
    for _ in 0..3 {
        collect_now(&worker).unwrap();
    }
    assert_eq!(pool.state(u32::from(reader.me()) - 1), state);
    assert_ne!(reader.record().announced().load(&pool.mem), IDLE);
    drop(pin);
}

#[test]
fn who_retires_nothing_frees_what_its_place_came_with() {
    let pool = at_tag::<Coherent>(8);
    let reader = pool.worker();
    let objects = {
        let worker = pool.worker();
        let objects = retire_some(&worker, 3);
        reader.record().announced().store(&pool.mem, 1);
        objects
    };
    let next = pool.worker();
    assert!(next.reclaim.has_adopted.get());
    collect_adopted(&next).unwrap();
    assert_eq!(cells(&next, &objects), [CELL_LIVE; 3], "somebody reads");
    reader.record().announced().store(&pool.mem, IDLE);
    EPOCH.store(&pool.mem, 100 << 1);
    collect_adopted(&next).unwrap();
    assert_eq!(
        (cells(&next, &objects), next.reclaim.has_adopted.get()),
        (vec![CELL_FREE; 3], false)
    );
}

fn room_is_made_for_chunks_only_where_it_lacks<M: Mapped>() {
    let pool = at_tag::<M>(8);
    let worker = pool.worker_with(short_chunks::<M>());
    let _hold = worker.hold_list().unwrap();
    assert!(!make_way(&worker, worker.actor()), "without a list");
    retire_some(&worker, 5);
    assert!(!make_way(&worker, worker.actor()), "one chunk is not left");
    retire_some(&worker, 5);
    assert!(make_way(&worker, worker.actor()));
    assert!(!make_way(&worker, worker.actor()), "there is room");
}

#[test]
fn the_bits_of_a_batch_are_its_entries() {
    assert_eq!(indexes(0).count(), 0);
    assert_eq!(indexes(0b1001).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(indexes(u64::MAX).count() as u64, CHUNK_ENTRIES);
}

on_both! {
    of_nothing_nothing_is_freed,
    an_object_is_freed_two_epochs_after_it_was_retired_and_no_sooner,
    a_tag_at_the_end_of_its_word_is_never_old_enough,
    what_was_freed_is_in_no_list_and_named_by_no_batch,
    what_may_still_be_read_holds_back_what_was_retired_after_it,
    a_freed_extent_is_frames_again,
    an_extent_that_another_has_retired_is_freed_by_who_has_the_list,
    an_object_that_is_free_already_is_not_freed_again,
    a_write_has_room_for_what_it_retires,
    who_frees_an_extent_for_good_follows_all_its_links,
    an_extent_without_a_tag_is_not_drained,
    a_dead_worker_that_holds_memory_back_is_recovered_by_who_collects,
    a_living_worker_that_holds_memory_back_is_left_alone,
    room_is_made_for_chunks_only_where_it_lacks,
}
