//! Retired lists: what is entered, what is found, where they end, and what a damaged one does.

use super::*;
use crate::memory::Mapped;
use crate::pod::alloc::heap::allocate;
use crate::pod::format::superblock::EPOCH;
use crate::pod::instance::limits::{CHUNK_ENTRIES_MIN, Limits};
use crate::pod::pool_for_tests::{TestPool, cell, is_damage, object, on_both, waiting_in};

/// Thresholds with the shortest chunks: five entries, and there is another one.
fn short_chunks<M: Memory>() -> Limits {
    Limits {
        chunk_entries: CHUNK_ENTRIES_MIN,
        ..Limits::usual::<M>()
    }
}

fn ends<M: Memory>(worker: &Worker<M>) -> (Position, Position) {
    span(worker, worker.record()).unwrap()
}

fn set_tail<M: Memory>(worker: &Worker<M>, tail: Position) {
    set_position(worker, worker.record().tail(), tail);
}

/// Retires so many new objects of 64 bytes.
fn retire_some<M: Memory>(worker: &Worker<M>, count: usize) -> Vec<u64> {
    let objects: Vec<u64> = (0..count).map(|_| object(worker, 64)).collect();
    let _hold = worker.hold_list().unwrap();
    for &object in &objects {
        ensure_room(worker, worker.actor()).unwrap();
        retire(worker, worker.actor(), object).unwrap();
    }
    objects
}

/// Has all entries of the last chunk gone.
fn have_gone<M: Memory>(worker: &Worker<M>) {
    let (_, tail) = ends(worker);
    for index in 0..tail.index {
        let (word, _) = entry(tail.chunk, index);
        set(worker, word, word.get(worker.mem()) | GONE);
    }
}

fn a_list_with_room_has_a_chunk_and_no_entry<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    ensure_room(&worker, worker.actor()).unwrap();
    let (head, tail) = ends(&worker);
    assert!(tail.chunk != 0);
    assert_eq!((head, tail.index), (tail, 0));
    assert!(waiting_in(&worker, worker.record()).is_empty());
}

fn who_has_room_has_a_spare_chunk_besides<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    ensure_room(&worker, worker.actor()).unwrap();
    let spare = spare(&worker, worker.record()).unwrap();
    assert!(spare.is_some_and(|spare| spare != ends(&worker).1.chunk));
    assert_eq!(worker.record().aux_object().get(&pool.mem), 0);
}

fn room_that_there_is_is_not_made_again<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    ensure_room(&worker, worker.actor()).unwrap();
    let before = ends(&worker);
    ensure_room(&worker, worker.actor()).unwrap();
    assert_eq!(ends(&worker), before);
}

fn a_retired_object_is_found_and_stays_live<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 3);
    for object in objects {
        assert!(find(&worker, worker.actor(), object).unwrap().is_some());
        assert_eq!(cell(&worker, object), CELL_LIVE);
    }
}

fn what_was_not_retired_is_not_found<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    assert!(
        find(&worker, worker.actor(), 4096).unwrap().is_none(),
        "without a list"
    );
    retire_some(&worker, 3);
    let other = object(&worker, 64);
    assert!(find(&worker, worker.actor(), other).unwrap().is_none());
}

fn an_entry_that_is_gone_is_not_found<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 2);
    let word = find(&worker, worker.actor(), objects[0]).unwrap().unwrap();
    set(&worker, word, objects[0] | GONE);
    assert!(find(&worker, worker.actor(), objects[0]).unwrap().is_none());
    assert_eq!(waiting_in(&worker, worker.record()), objects[1..]);
}

#[test]
fn an_entry_is_gone_if_it_says_so_or_nothing() {
    assert!(says_gone(0) && says_gone(GONE) && says_gone(4096 | GONE));
    assert!(!says_gone(4096));
}

fn an_entry_has_the_epoch_of_its_retirement<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let object = object(&worker, 64);
    let _hold = worker.hold_list().unwrap();
    ensure_room(&worker, worker.actor()).unwrap();
    EPOCH.store(&pool.mem, 33 << 1);
    retire(&worker, worker.actor(), object).unwrap();
    let (_, tail) = ends(&worker);
    assert_eq!(entry(tail.chunk, tail.index - 1).1.get(&pool.mem), 33);
}

fn retired_objects_wait_in_their_order_over_several_chunks<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker_with(short_chunks::<M>());
    let objects = retire_some(&worker, 23);
    assert_eq!(waiting_in(&worker, worker.record()), objects);
    // Five in each: then there is room for no whole operation more.
    assert_eq!(chunks(&worker, worker.record()).unwrap().len(), 5);
    for object in objects {
        assert!(find(&worker, worker.actor(), object).unwrap().is_some());
    }
}

fn what_is_retired_once_more_has_one_entry<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 1);
    let _hold = worker.hold_list().unwrap();
    retire_if_not(&worker, worker.actor(), objects[0]).unwrap();
    assert_eq!(waiting_in(&worker, worker.record()), objects);
}

fn a_retired_extent_names_its_retirer_and_keeps_its_tag<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let actor = worker.actor();
    let _hold = worker.hold_list().unwrap();
    ensure_room(&worker, actor).unwrap();
    let extent = allocate_for(&worker, actor, 2 * FRAME, actor.record.aux_object(), 5).unwrap();
    clear_auxiliary(&worker, actor);
    retire(&worker, actor, extent).unwrap();
    let retired = Block::Extent {
        frames: 2,
        state: ExtentState::Retired,
        owner: actor.me,
    };
    let word = table_word(&worker, worker.geometry().frame_of(extent)).load(&pool.mem);
    assert_eq!(word, retired.encode() | 5 << 8);
}

fn what_a_worker_retires_counts_towards_its_next_pass<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    retire_some(&worker, 3);
    assert_eq!(worker.reclaim.retired_since.get(), 3);
    let (bytes, extent) = (
        worker.reclaim.retired_bytes_since.get(),
        object(&worker, 2 * FRAME),
    );
    let _hold = worker.hold_list().unwrap();
    retire(&worker, worker.actor(), extent).unwrap();
    assert_eq!(worker.reclaim.retired_bytes_since.get() - bytes, 2 * FRAME);
}

fn only_what_begins_with_a_frame_may_be_an_extent<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let data = worker.geometry().data;
    assert!(may_be_extent(&worker, data) && may_be_extent(&worker, data + 3 * FRAME));
    for at in [data + 16, data + 64, data + FRAME - 16, data - 16] {
        assert!(!may_be_extent(&worker, at), "{at:#x}");
    }
}

fn an_entry_without_room_for_it_is_damage<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let object = object(&worker, 64);
    let _hold = worker.hold_list().unwrap();
    let actor = worker.actor();
    set_tail(&worker, Position { chunk: 0, index: 0 });
    assert!(is_damage(&push(&worker, actor, object)), "no chunk");
    ensure_room(&worker, actor).unwrap();
    let (_, tail) = ends(&worker);
    let full = Position {
        index: CHUNK_ENTRIES,
        ..tail
    };
    set_tail(&worker, full);
    assert!(is_damage(&push(&worker, actor, object)), "a full chunk");
    assert_eq!(ends(&worker).1, full);
    set_tail(&worker, tail);
}

fn a_list_whose_entries_are_gone_begins_anew<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    retire_some(&worker, 3);
    have_gone(&worker);
    let (_, tail) = ends(&worker);
    let _hold = worker.hold_list().unwrap();
    assert!(begin_anew(&worker, worker.actor()));
    let start = Position { index: 0, ..tail };
    assert_eq!(ends(&worker), (start, start));
    let words = (0..3).map(|index| entry(tail.chunk, index).0.get(&pool.mem));
    assert_eq!(
        words.collect::<Vec<_>>(),
        [0; 3],
        "what lies behind the tail is no entry"
    );
}

fn a_list_in_which_one_entry_waits_does_not_begin_anew<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 3);
    let _hold = worker.hold_list().unwrap();
    for kept in 0..3 {
        have_gone(&worker);
        let (_, tail) = ends(&worker);
        set(&worker, entry(tail.chunk, kept).0, objects[kept as usize]);
        assert!(!begin_anew(&worker, worker.actor()), "entry {kept}");
        assert_eq!(ends(&worker).1, tail);
    }
}

fn what_the_head_has_passed_does_not_keep_a_list_from_beginning_anew<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    retire_some(&worker, 3);
    let (_, tail) = ends(&worker);
    set_position(&worker, worker.record().head(), tail);
    let _hold = worker.hold_list().unwrap();
    assert!(begin_anew(&worker, worker.actor()));
}

fn a_list_without_entries_or_chunks_does_not_begin_anew<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    assert!(!begin_anew(&worker, worker.actor()));
    ensure_room(&worker, worker.actor()).unwrap();
    let before = ends(&worker);
    assert!(!begin_anew(&worker, worker.actor()));
    assert_eq!(ends(&worker), before);
}

/// A flush round says where it ends in the list.
#[test]
fn a_list_that_a_flush_round_is_under_way_for_does_not_begin_anew() {
    let pool = TestPool::<crate::memory::Noncoherent>::of_frames(8);
    let worker = pool.worker();
    retire_some(&worker, 3);
    have_gone(&worker);
    let _hold = worker.hold_list().unwrap();
    let [.., round] = worker.record().flush_request();
    set(&worker, round, 1 << 16);
    assert!(!begin_anew(&worker, worker.actor()));
    set(&worker, round, 0);
    assert!(begin_anew(&worker, worker.actor()));
}

fn room_in_a_list_whose_entries_are_gone_needs_no_chunk<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker_with(short_chunks::<M>());
    retire_some(&worker, 5);
    have_gone(&worker);
    let (_, tail) = ends(&worker);
    let _hold = worker.hold_list().unwrap();
    ensure_room(&worker, worker.actor()).unwrap();
    assert_eq!(ends(&worker).1, Position { index: 0, ..tail });
}

/// A pool without room for another chunk, and a worker with a full one, of which nothing can be freed.
fn without_room<M: Mapped>(pool: &TestPool<M>) -> (Worker<M>, Worker<M>, Vec<u64>) {
    let reader = pool.worker();
    let worker = pool.worker_with(short_chunks::<M>());
    let spares: Vec<u64> = (0..5).map(|_| object(&worker, 64)).collect();
    let objects = [retire_some(&worker, 5), spares].concat();
    reader.record().announced().store(&pool.mem, 1);
    let actor = worker.actor();
    let hold = worker.hold_list().unwrap();
    for len in [FRAME, CHUNK_BYTES] {
        let attempt = |_: &u32| {
            let outcome = allocate_for(&worker, actor, len, actor.record.aux_object(), 0);
            clear_auxiliary(&worker, actor);
            outcome.is_ok()
        };
        let taken = (0..1000).take_while(attempt).count();
        assert!(taken < 1000, "the pool is never full");
    }
    drop(hold);
    (worker, reader, objects)
}

fn in_a_full_pool_the_spare_chunk_makes_room<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let (worker, _reader, objects) = without_room(&pool);
    let _hold = worker.hold_list().unwrap();
    let spare_was = worker.record().spare().get(&pool.mem);
    ensure_room(&worker, worker.actor()).unwrap();
    let (_, tail) = ends(&worker);
    assert_eq!((tail.chunk, tail.index), (spare_was, 0));
    assert_eq!(worker.record().spare().get(&pool.mem), 0);
    assert_eq!(waiting_in(&worker, worker.record()), objects[..5]);
}

fn in_a_full_pool_without_a_spare_chunk_there_is_no_room_and_nothing_is_lost<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let (worker, _reader, objects) = without_room(&pool);
    let _hold = worker.hold_list().unwrap();
    let actor = worker.actor();
    ensure_room(&worker, actor).unwrap();
    for &object in &objects[5..] {
        retire(&worker, actor, object).unwrap();
    }
    let before = ends(&worker);
    assert!(matches!(ensure_room(&worker, actor), Err(Error::Full { .. })));
    assert_eq!(ends(&worker), before);
    assert_eq!(waiting_in(&worker, actor.record), objects);
}

fn a_tail_that_fell_behind_is_mended<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    retire_some(&worker, 4);
    let (_, tail) = ends(&worker);
    for behind in 0..=4 {
        set_tail(
            &worker,
            Position {
                index: tail.index - behind,
                ..tail
            },
        );
        mend_tail(&worker, worker.actor()).unwrap();
        assert_eq!(ends(&worker).1, tail, "by {behind}");
    }
}

fn a_mended_tail_is_in_its_chunk<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    retire_some(&worker, 1);
    let (_, tail) = ends(&worker);
    for index in 0..CHUNK_ENTRIES {
        set(&worker, entry(tail.chunk, index).0, GONE);
    }
    mend_tail(&worker, worker.actor()).unwrap();
    let end = Position {
        index: CHUNK_ENTRIES,
        ..tail
    };
    assert_eq!(ends(&worker).1, end);
}

fn others_see_what_is_behind_a_tail_that_fell_behind<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let objects = retire_some(&worker, 4);
    let (_, tail) = ends(&worker);
    set_tail(&worker, Position { index: 1, ..tail });
    assert_eq!(waiting_in(&other, worker.record()), objects);
    set_tail(&worker, tail);
}

fn a_scan_ends_when_the_scanner_says_so<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let objects = retire_some(&worker, 4);
    let mut seen = Vec::new();
    pending_while(&worker, worker.record(), |object, _| {
        seen.push(object);
        seen.len() < 2
    })
    .unwrap();
    assert_eq!(seen, objects[..2]);
}

fn a_record_that_nobody_ever_had_has_no_list<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let record = pool.record(5);
    assert!(waiting_in(&worker, record).is_empty());
    assert!(chunks(&worker, record).unwrap().is_empty());
}

fn all_that_waits_is_counted_whichever_worker_retired_it<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    retire_some(&worker, 3);
    retire_some(&other, 2);
    assert_eq!(waiting(&worker), 5);
}

fn a_list_that_leads_out_of_the_pool_is_damage<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    retire_some(&worker, 1);
    let (head, tail) = ends(&worker);
    let data = worker.geometry().data;
    for chunk in [64, data - 64, data + 8 * FRAME - 512, data + 8 * FRAME, !63] {
        let outside = Position { chunk, index: 0 };
        set_tail(&worker, outside);
        assert!(is_damage(&span(&worker, worker.record())), "{chunk:#x}");
        assert!(is_damage(&ensure_room(&worker, worker.actor())), "{chunk:#x}");
        assert!(is_damage(&find(&worker, worker.actor(), 4096)), "{chunk:#x}");
        set_tail(&worker, tail);
        set_position(&worker, worker.record().head(), outside);
        assert!(
            is_damage(&pending(&worker, worker.record(), |_| {})),
            "{chunk:#x}"
        );
        assert!(is_damage(&chunks(&worker, worker.record())), "{chunk:#x}");
        set_position(&worker, worker.record().head(), head);
    }
}

fn a_list_that_is_a_cycle_is_damage_and_has_an_end<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(2);
    let worker = pool.worker_with(short_chunks::<M>());
    retire_some(&worker, 6);
    let (head, tail) = ends(&worker);
    let elsewhere = object(&worker, CHUNK_BYTES);
    set(&worker, next_of(tail.chunk), head.chunk);
    set_tail(
        &worker,
        Position {
            chunk: elsewhere,
            index: 0,
        },
    );
    assert!(is_damage(&find(&worker, worker.actor(), 4096)));
    assert!(is_damage(&pending(&worker, worker.record(), |_| {})));
    assert!(is_damage(&chunks(&worker, worker.record())));
    set(&worker, next_of(tail.chunk), 0);
    set_tail(&worker, tail);
}

fn a_link_to_the_middle_of_a_chunk_is_damage<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker_with(short_chunks::<M>());
    retire_some(&worker, 6);
    let (head, tail) = ends(&worker);
    for next in [tail.chunk | 1, tail.chunk + 32] {
        set(&worker, next_of(head.chunk), next);
        assert!(is_damage(&find(&worker, worker.actor(), 4096)), "{next:#x}");
    }
    set(&worker, next_of(head.chunk), tail.chunk);
}

fn a_chunk_that_says_more_than_it_has_room_for_is_read_to_its_end<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker_with(short_chunks::<M>());
    retire_some(&worker, 6);
    let (head, tail) = ends(&worker);
    assert_eq!(count_in(&worker, head.chunk, tail), 5);
    set(&worker, count_of(head.chunk), u64::MAX);
    assert_eq!(count_in(&worker, head.chunk, tail), CHUNK_ENTRIES);
    set(&worker, count_of(head.chunk), 5);
}

fn a_spare_chunk_is_a_live_object_of_a_chunks_size<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let chunk = object(&worker, CHUNK_BYTES);
    let other = object(&worker, 64);
    let extent = object(&worker, FRAME);
    let record = worker.record();
    assert_eq!(as_spare(&worker, record, 0).unwrap(), None);
    assert_eq!(as_spare(&worker, record, chunk).unwrap(), Some(chunk));
    let data = worker.geometry().data;
    for at in [
        other,
        extent,
        chunk + 64,
        data + 8 * FRAME,
        data - CHUNK_BYTES,
        !63,
    ] {
        assert!(is_damage(&as_spare(&worker, record, at)), "{at:#x}");
    }
    let Location::Slab(cell) = locate(&worker, chunk).unwrap() else {
        panic!("not in a slab");
    };
    cell.change(&pool.mem, CELL_LIVE, worker.me());
    assert!(
        is_damage(&as_spare(&worker, record, chunk)),
        "one that is being freed"
    );
    cell.change(&pool.mem, worker.me(), CELL_LIVE);
}

fn retiring_for_a_dead_worker_enters_into_its_list<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, dead) = (pool.worker(), pool.worker());
    let objects = retire_some(&dead, 2);
    let one_more = object(&dead, 64);
    let actor = pool.kill(dead);
    retire(&worker, actor, one_more).unwrap();
    assert_eq!(
        waiting_in(&worker, actor.record),
        [objects, vec![one_more]].concat()
    );
    assert!(waiting_in(&worker, worker.record()).is_empty());
    assert_eq!(
        worker.reclaim.retired_since.get(),
        0,
        "it is nothing that the other has retired itself"
    );
}

fn an_object_that_an_operation_holds_is_in_no_list<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    ensure_room(&worker, worker.actor()).unwrap();
    let object = allocate(&worker, 64).unwrap();
    assert!(find(&worker, worker.actor(), object).unwrap().is_none());
}

on_both! {
    a_list_with_room_has_a_chunk_and_no_entry,
    who_has_room_has_a_spare_chunk_besides,
    room_that_there_is_is_not_made_again,
    a_retired_object_is_found_and_stays_live,
    what_was_not_retired_is_not_found,
    an_entry_that_is_gone_is_not_found,
    an_entry_has_the_epoch_of_its_retirement,
    retired_objects_wait_in_their_order_over_several_chunks,
    what_is_retired_once_more_has_one_entry,
    a_retired_extent_names_its_retirer_and_keeps_its_tag,
    what_a_worker_retires_counts_towards_its_next_pass,
    only_what_begins_with_a_frame_may_be_an_extent,
    an_entry_without_room_for_it_is_damage,
    a_list_whose_entries_are_gone_begins_anew,
    a_list_in_which_one_entry_waits_does_not_begin_anew,
    what_the_head_has_passed_does_not_keep_a_list_from_beginning_anew,
    a_list_without_entries_or_chunks_does_not_begin_anew,
    room_in_a_list_whose_entries_are_gone_needs_no_chunk,
    in_a_full_pool_the_spare_chunk_makes_room,
    in_a_full_pool_without_a_spare_chunk_there_is_no_room_and_nothing_is_lost,
    a_tail_that_fell_behind_is_mended,
    a_mended_tail_is_in_its_chunk,
    others_see_what_is_behind_a_tail_that_fell_behind,
    a_scan_ends_when_the_scanner_says_so,
    a_record_that_nobody_ever_had_has_no_list,
    all_that_waits_is_counted_whichever_worker_retired_it,
    a_list_that_leads_out_of_the_pool_is_damage,
    a_list_that_is_a_cycle_is_damage_and_has_an_end,
    a_link_to_the_middle_of_a_chunk_is_damage,
    a_chunk_that_says_more_than_it_has_room_for_is_read_to_its_end,
    a_spare_chunk_is_a_live_object_of_a_chunks_size,
    retiring_for_a_dead_worker_enters_into_its_list,
    an_object_that_an_operation_holds_is_in_no_list,
}
