//! What one change of one slot does, and what it leaves alone when it does not happen.

use super::*;
use crate::memory::Mapped;
use crate::memory::checked::{owned_word, sync_word};
use crate::memory::{OwnedWord, SyncWord};
use crate::pod::alloc::heap::{allocate, allocate_for, allocate_secondary};
use crate::pod::alloc::slab::{Location, locate};
use crate::pod::format::block::{CELL_FREE, CELL_LIVE, ExtentState};
use crate::pod::format::geometry::FRAME;
use crate::pod::pool_for_tests::{TestPool, WORKERS, cell, is_damage, object, on_both, waiting_in};
use crate::pod::reclaim::takeover::ListHold;

/// What a slot holds at first, and after a change.
const BEFORE: u64 = 0x1000;
const AFTER: u64 = 0x2000;

/// A worker that may write, a slot and a counter.
struct Writer<'w, M: Mapped> {
    worker: &'w Worker<M>,
    slot: SyncWord,
    counter: OwnedWord,
    _hold: ListHold<'w, M>,
}

impl<'w, M: Mapped> Writer<'w, M> {
    fn new(worker: &'w Worker<M>) -> Self {
        let words = object(worker, 128);
        let hold = worker.hold_list().unwrap();
        retire::ensure_room(worker, worker.actor()).unwrap();
        let slot = sync_word(words);
        slot.store(worker.mem(), BEFORE);
        Self {
            worker,
            slot,
            counter: owned_word(words + 64),
            _hold: hold,
        }
    }

    /// From what the slot holds at first to what it holds after it.
    fn change(&self) -> Change {
        Change {
            slot: self.slot,
            current: BEFORE,
            next: AFTER,
            operation: operation::PUT,
            old: 0,
            count: None,
        }
    }

    fn held(&self) -> u64 {
        self.slot.load(self.worker.mem())
    }

    fn counted(&self) -> u64 {
        self.counter.get(self.worker.mem())
    }

    fn waiting(&self) -> Vec<u64> {
        waiting_in(self.worker, self.worker.record())
    }

    /// Operation, new, old.
    fn said(&self) -> [u64; 3] {
        let record = self.worker.record();
        [record.operation(), record.new_object(), record.old_object()].map(|word| word.get(self.worker.mem()))
    }

    /// What the record names besides.
    fn secondaries(&self) -> ([u64; 2], [u64; 2]) {
        let get = |word: OwnedWord| word.get(self.worker.mem());
        let record = self.worker.record();
        (record.secondaries().map(get), record.old_secondaries().map(get))
    }
}

fn state_of<M: Mapped>(worker: &Worker<M>, extent: u64) -> ExtentState {
    match locate(worker, extent).unwrap() {
        Location::Extent { state, .. } => state,
        Location::Slab(_) => panic!("{extent:#x} is in a slab"),
    }
}

fn a_change_of_what_the_slot_holds_happens<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    assert_eq!(publish(&worker, &writer.change()).unwrap(), Publication::Made);
    assert_eq!(writer.held(), AFTER);
}

fn a_change_of_something_else_says_what_the_slot_holds_and_does_not_happen<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    let change = Change {
        current: 0,
        count: Some((writer.counter, 5)),
        ..writer.change()
    };
    assert_eq!(publish(&worker, &change).unwrap(), Publication::Lost(BEFORE));
    assert_eq!((writer.held(), writer.counted()), (BEFORE, 0));
}

fn after_a_change_the_record_names_nothing<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (old, writer) = (object(&worker, 64), Writer::new(&worker));
    let _pin = worker.pin().unwrap();
    allocate(&worker, 64).unwrap();
    let change = Change {
        old,
        ..writer.change()
    };
    assert!(publish(&worker, &change).unwrap().is_made());
    assert_eq!(writer.said(), [operation::NONE, 0, 0]);
}

fn after_a_lost_race_the_new_object_is_still_the_callers_and_the_old_one_is_not_named<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (old, writer) = (object(&worker, 64), Writer::new(&worker));
    let _pin = worker.pin().unwrap();
    let new = allocate(&worker, 64).unwrap();
    let change = Change {
        current: 0,
        old,
        ..writer.change()
    };
    assert!(!publish(&worker, &change).unwrap().is_made());
    assert_eq!(writer.said(), [operation::NONE, new, 0]);
    assert!(writer.waiting().is_empty());
}

fn what_a_change_unlinks_waits_in_the_list_and_stays_live<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (old, writer) = (object(&worker, 64), Writer::new(&worker));
    let _pin = worker.pin().unwrap();
    let change = Change {
        old,
        ..writer.change()
    };
    assert!(publish(&worker, &change).unwrap().is_made());
    assert_eq!((writer.waiting(), cell(&worker, old)), (vec![old], CELL_LIVE));
}

fn a_change_that_unlinks_nothing_retires_nothing<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    allocate(&worker, 64).unwrap();
    assert!(publish(&worker, &writer.change()).unwrap().is_made());
    assert!(writer.waiting().is_empty());
}

fn the_counter_holds_what_the_change_says<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    for (current, next, count) in [(BEFORE, AFTER, 7), (AFTER, BEFORE, u64::MAX), (BEFORE, AFTER, 0)] {
        let change = Change {
            current,
            next,
            count: Some((writer.counter, count)),
            ..writer.change()
        };
        assert!(publish(&worker, &change).unwrap().is_made());
        assert_eq!(writer.counted(), count);
    }
}

fn a_change_that_counts_nothing_leaves_the_counter_of_the_one_before<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    let counts = Change {
        count: Some((writer.counter, 7)),
        ..writer.change()
    };
    assert!(publish(&worker, &counts).unwrap().is_made());
    writer.counter.set(&pool.mem, 8);
    let back = Change {
        current: AFTER,
        next: BEFORE,
        ..writer.change()
    };
    assert!(publish(&worker, &back).unwrap().is_made());
    assert_eq!(writer.counted(), 8);
}

fn a_published_extent_is_live<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    let new = allocate(&worker, FRAME).unwrap();
    assert_eq!(state_of(&worker, new), ExtentState::Pending);
    assert!(publish(&worker, &writer.change()).unwrap().is_made());
    assert_eq!(state_of(&worker, new), ExtentState::Live);
}

fn an_unlinked_extent_is_marked_retired<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (old, writer) = (object(&worker, FRAME), Writer::new(&worker));
    let _pin = worker.pin().unwrap();
    let change = Change {
        old,
        ..writer.change()
    };
    assert!(publish(&worker, &change).unwrap().is_made());
    assert_eq!(state_of(&worker, old), ExtentState::Retired);
}

fn a_confirmed_claim_becomes_the_change<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    let change = Change {
        count: Some((writer.counter, 3)),
        ..writer.change()
    };
    let mut held = 0;
    let confirm = || {
        held = writer.held();
        Ok(true)
    };
    assert_eq!(
        publish_claimed(&worker, &change, confirm).unwrap(),
        Claimed::Bound
    );
    assert_eq!(
        held,
        AFTER | SLOT_CLAIMED,
        "while it is not confirmed it binds nothing"
    );
    assert_eq!(
        (writer.held(), writer.counted(), writer.said()[0]),
        (AFTER, 3, operation::NONE)
    );
}

fn a_claim_that_is_not_confirmed_is_cleared_and_nothing_has_happened<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (old, writer) = (object(&worker, 64), Writer::new(&worker));
    let _pin = worker.pin().unwrap();
    let new = allocate(&worker, 64).unwrap();
    let change = Change {
        count: Some((writer.counter, 3)),
        old,
        ..writer.change()
    };
    assert_eq!(
        publish_claimed(&worker, &change, || Ok(false)).unwrap(),
        Claimed::Refused
    );
    assert_eq!((writer.held(), writer.counted()), (SLOT_CLEARED, 0));
    assert_eq!(writer.said(), [operation::NONE, new, 0]);
    assert!(writer.waiting().is_empty());
}

fn a_claim_whose_confirmation_fails_is_cleared_and_the_error_told<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    let outcome = publish_claimed(&worker, &writer.change(), || Err(Error::corrupt("a test", 8)));
    assert!(is_damage(&outcome));
    assert_eq!((writer.held(), writer.said()[0]), (SLOT_CLEARED, operation::NONE));
}

fn a_claim_that_somebody_cleared_never_becomes_the_change<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    for other in [SLOT_CLEARED, 0x7000] {
        writer.slot.store(&pool.mem, BEFORE);
        let confirm = || {
            writer.slot.store(&pool.mem, other);
            Ok(true)
        };
        assert_eq!(
            publish_claimed(&worker, &writer.change(), confirm).unwrap(),
            Claimed::Lost
        );
        assert_eq!((writer.held(), writer.said()[0]), (other, operation::NONE));
    }
}

fn a_claim_of_a_slot_that_holds_something_else_asks_for_no_confirmation<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    let change = Change {
        current: 0,
        ..writer.change()
    };
    let mut is_asked = false;
    let confirm = || {
        is_asked = true;
        Ok(true)
    };
    assert_eq!(publish_claimed(&worker, &change, confirm).unwrap(), Claimed::Lost);
    assert_eq!(
        (is_asked, writer.held(), writer.said()[0]),
        (false, BEFORE, operation::NONE)
    );
}

fn a_removal_by_nobody_or_by_oneself_is_over<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    worker.record().operation().set(&pool.mem, operation::REMOVE);
    assert!(is_removal_over(&worker, 0, sync_word(0)));
    assert!(is_removal_over(&worker, worker.me(), sync_word(0)));
    worker.record().operation().set(&pool.mem, operation::NONE);
}

fn a_removal_by_a_place_that_is_not_there_is_never_over<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    for remover in [WORKERS as u16 + 1, u16::MAX] {
        assert!(!is_removal_over(&worker, remover, sync_word(0)), "{remover}");
    }
    assert!(is_removal_over(&worker, WORKERS as u16, sync_word(0)));
}

fn a_removal_is_over_once_its_record_says_something_else_of_that_slot<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let (slot, elsewhere) = (sync_word(object(&worker, 64)), 4096);
    let record = other.record();
    for (what, at, is_over) in [
        (operation::REMOVE, slot.offset(), false),
        (operation::REMOVE, elsewhere, true),
        (operation::NONE, slot.offset(), true),
        (operation::PUT, slot.offset(), true),
        (operation::COMMITTED, slot.offset(), true),
        (operation::ABORTED, slot.offset(), true),
    ] {
        record.slot().set(&pool.mem, at);
        record.operation().set(&pool.mem, what);
        pool.mem.persist(record.operation().offset(), 16);
        assert_eq!(
            is_removal_over(&worker, other.me(), slot),
            is_over,
            "{what} at {at:#x}"
        );
    }
    record.operation().set(&pool.mem, operation::NONE);
}

fn secondary_objects_follow_the_change<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(16);
    let worker = pool.worker();
    let olds = [64, 64, 64].map(|len| object(&worker, len));
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    let news = [
        allocate(&worker, FRAME).unwrap(),
        allocate_secondary(&worker, 0, FRAME).unwrap(),
        allocate_secondary(&worker, 1, FRAME).unwrap(),
    ];
    let change = Change {
        old: olds[0],
        ..writer.change()
    };
    let made = publish_with_secondaries(&worker, &change, [olds[1], olds[2]]).unwrap();
    assert_eq!(made, Publication::Made);
    assert_eq!(news.map(|new| state_of(&worker, new)), [ExtentState::Live; 3]);
    let mut waiting = writer.waiting();
    waiting.sort_unstable();
    let mut all = olds.to_vec();
    all.sort_unstable();
    assert_eq!(waiting, all);
}

fn after_a_change_with_secondary_objects_the_record_names_none<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let olds = [64, 64].map(|len| object(&worker, len));
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    allocate(&worker, 64).unwrap();
    allocate_secondary(&worker, 0, 64).unwrap();
    let made = publish_with_secondaries(&worker, &writer.change(), olds).unwrap();
    assert_eq!(made, Publication::Made);
    assert_eq!(
        (writer.said(), writer.secondaries()),
        ([operation::NONE, 0, 0], ([0; 2], [0; 2]))
    );
}

fn secondary_objects_of_a_change_that_did_not_happen_are_still_the_callers<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let olds = [64, 64].map(|len| object(&worker, len));
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    let new = allocate(&worker, 64).unwrap();
    let secondary = allocate_secondary(&worker, 1, FRAME).unwrap();
    let change = Change {
        current: 0,
        ..writer.change()
    };
    let lost = publish_with_secondaries(&worker, &change, olds).unwrap();
    assert_eq!(lost, Publication::Lost(BEFORE));
    assert_eq!(writer.said(), [operation::NONE, new, 0]);
    assert_eq!(writer.secondaries(), ([0, secondary], [0; 2]));
    assert_eq!(state_of(&worker, secondary), ExtentState::Pending);
    assert!(writer.waiting().is_empty());
}

/// A record that says that an operation happened, of which nothing else was done.
fn committed<M: Mapped>(writer: &Writer<'_, M>, old: u64, count: u64) {
    let (record, mem) = (writer.worker.record(), writer.worker.mem());
    record.old_object().set(mem, old);
    record.counter().set(mem, writer.counter.offset());
    record.count().set(mem, count);
    record.operation().set(mem, operation::COMMITTED);
}

fn a_repeated_end_retires_nothing_twice<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (old, writer) = (object(&worker, 64), Writer::new(&worker));
    let _pin = worker.pin().unwrap();
    for _ in 0..3 {
        committed(&writer, old, 4);
        finish_committed(&worker, worker.actor(), true).unwrap();
        assert_eq!((writer.waiting(), writer.counted()), (vec![old], 4));
        assert_eq!(writer.said(), [operation::NONE, 0, 0]);
    }
}

fn a_repeated_end_with_secondary_objects_retires_nothing_twice<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let olds = [64, 64, 64].map(|len| object(&worker, len));
    let writer = Writer::new(&worker);
    let _pin = worker.pin().unwrap();
    let new = allocate_secondary(&worker, 0, FRAME).unwrap();
    for _ in 0..3 {
        let [first, second] = worker.record().old_secondaries();
        first.set(&pool.mem, olds[1]);
        second.set(&pool.mem, olds[2]);
        worker.record().secondaries()[0].set(&pool.mem, new);
        committed(&writer, olds[0], 4);
        finish_with_secondaries(&worker, worker.actor(), true).unwrap();
        assert_eq!(writer.waiting().len(), 3);
        assert_eq!(writer.secondaries(), ([0; 2], [0; 2]));
        assert_eq!(state_of(&worker, new), ExtentState::Live);
    }
}

fn a_counter_outside_the_pool_is_damage_and_nothing_is_retired<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let (old, writer) = (object(&worker, 64), Writer::new(&worker));
    let _pin = worker.pin().unwrap();
    let data = worker.geometry().data;
    for at in [data + 4, data + 1, data + 8 * FRAME, 8, !7] {
        committed(&writer, old, 4);
        worker.record().counter().set(&pool.mem, at);
        assert!(
            is_damage(&finish_committed(&worker, worker.actor(), false)),
            "{at:#x}"
        );
        assert!(writer.waiting().is_empty());
    }
    worker.record().forget(&pool.mem);
}

fn an_auxiliary_object_is_published_by_the_first_to_come<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let actor = worker.actor();
    let points = [Point::LinkIntent, Point::LinkDone];
    let allocate = || allocate_for(&worker, actor, FRAME, actor.record.aux_object(), 0).unwrap();
    let first = allocate();
    let auxiliary = publish_auxiliary(&worker, writer.slot, BEFORE, first, first, points).unwrap();
    assert_eq!(
        (auxiliary, writer.held(), state_of(&worker, first)),
        (Auxiliary::Published, first, ExtentState::Live)
    );
    let second = allocate();
    let auxiliary = publish_auxiliary(&worker, writer.slot, BEFORE, second, second, points).unwrap();
    assert_eq!((auxiliary, writer.held()), (Auxiliary::Freed, first));
    assert!(locate(&worker, second).is_err(), "the second one is free");
}

fn an_auxiliary_object_is_named_no_more_whichever_came_first<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let actor = worker.actor();
    for empty in [BEFORE, BEFORE] {
        let object = allocate_for(&worker, actor, 64, actor.record.aux_object(), 0).unwrap();
        let points = [Point::LinkIntent, Point::LinkDone];
        let auxiliary = publish_auxiliary(&worker, writer.slot, empty, object, object, points).unwrap();
        let words = [
            actor.record.aux_object(),
            actor.record.aux_word(),
            actor.record.aux_expected(),
        ];
        assert_eq!(words.map(|word| word.get(&pool.mem)), [0; 3]);
        let expected = if auxiliary == Auxiliary::Published {
            CELL_LIVE
        } else {
            CELL_FREE
        };
        assert_eq!(cell(&worker, object), expected);
    }
}

fn of_two_that_change_a_slot_at_a_time_one_does<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(16);
    let worker = pool.worker();
    let writer = Writer::new(&worker);
    let slot = writer.slot;
    for round in 0..50 {
        slot.store(&pool.mem, BEFORE);
        let change = |next: u64| {
            let worker = pool.worker();
            let _hold = worker.hold_list().unwrap();
            retire::ensure_room(&worker, worker.actor()).unwrap();
            let _pin = worker.pin().unwrap();
            let change = Change {
                slot,
                current: BEFORE,
                next,
                operation: operation::PUT,
                old: 0,
                count: None,
            };
            publish(&worker, &change).unwrap()
        };
        let outcomes = std::thread::scope(|scope| {
            let both = [0x4000, 0x5000].map(|next| scope.spawn(move || (next, change(next))));
            both.map(|thread| thread.join().unwrap())
        });
        let held = writer.held();
        for (next, outcome) in outcomes {
            let expected = match next == held {
                true => Publication::Made,
                false => Publication::Lost(held),
            };
            assert_eq!(outcome, expected, "round {round}");
        }
    }
}

on_both! {
    a_change_of_what_the_slot_holds_happens,
    a_change_of_something_else_says_what_the_slot_holds_and_does_not_happen,
    after_a_change_the_record_names_nothing,
    after_a_lost_race_the_new_object_is_still_the_callers_and_the_old_one_is_not_named,
    what_a_change_unlinks_waits_in_the_list_and_stays_live,
    a_change_that_unlinks_nothing_retires_nothing,
    the_counter_holds_what_the_change_says,
    a_change_that_counts_nothing_leaves_the_counter_of_the_one_before,
    a_published_extent_is_live,
    an_unlinked_extent_is_marked_retired,
    a_confirmed_claim_becomes_the_change,
    a_claim_that_is_not_confirmed_is_cleared_and_nothing_has_happened,
    a_claim_whose_confirmation_fails_is_cleared_and_the_error_told,
    a_claim_that_somebody_cleared_never_becomes_the_change,
    a_claim_of_a_slot_that_holds_something_else_asks_for_no_confirmation,
    a_removal_by_nobody_or_by_oneself_is_over,
    a_removal_by_a_place_that_is_not_there_is_never_over,
    a_removal_is_over_once_its_record_says_something_else_of_that_slot,
    secondary_objects_follow_the_change,
    after_a_change_with_secondary_objects_the_record_names_none,
    secondary_objects_of_a_change_that_did_not_happen_are_still_the_callers,
    a_repeated_end_retires_nothing_twice,
    a_repeated_end_with_secondary_objects_retires_nothing_twice,
    a_counter_outside_the_pool_is_damage_and_nothing_is_retired,
    an_auxiliary_object_is_published_by_the_first_to_come,
    an_auxiliary_object_is_named_no_more_whichever_came_first,
    of_two_that_change_a_slot_at_a_time_one_does,
}
