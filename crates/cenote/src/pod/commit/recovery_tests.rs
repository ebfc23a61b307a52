//! What recovery makes of a worker that died at each step of each kind of operation. With what the other tests of
//! recovery share.

use super::*;
use crate::memory::{Mapped, SyncWord};
use crate::pod::alloc::heap::{allocate, allocate_secondary};
use crate::pod::alloc::pending::commit_pending;
use crate::pod::format::block::{CELL_FREE, CELL_LIVE};
use crate::pod::format::geometry::FRAME;
use crate::pod::pool_for_tests::{TestPool, cell, object, on_both, waiting_in};

/// What a slot holds before a change, and after it.
const BEFORE: u64 = 0x1000;
const AFTER: u64 = 0x2000;
/// What the counter holds after it.
const COUNT: u64 = 7;

/// A worker that is about to die in an operation, and what that is about.
pub(super) struct Dying<M: Mapped> {
    pub(super) worker: Worker<M>,
    slot: SyncWord,
    counter: OwnedWord,
    new: u64,
    old: u64,
}

impl<M: Mapped> Dying<M> {
    /// It has allocated an object, and said nothing else.
    pub(super) fn new(pool: &TestPool<M>) -> Self {
        let worker = pool.worker();
        let words = object(&worker, 128);
        let slot = sync_word(words);
        slot.store(&pool.mem, BEFORE);
        let old = object(&worker, 64);
        let new = {
            let _hold = worker.hold_list().unwrap();
            retire::ensure_room(&worker, worker.actor()).unwrap();
            allocate(&worker, 64).unwrap()
        };
        Self {
            worker,
            slot,
            counter: owned_word(words + 64),
            new,
            old,
        }
    }

    /// It has said what it is about to do, in this order; of that only so many words.
    pub(super) fn says(self, kind: u64, words: usize) -> Self {
        let (record, mem) = (self.worker.record(), self.worker.mem());
        let said = [
            (record.slot(), self.slot.offset()),
            (record.expected(), AFTER),
            (record.old_object(), self.old),
            (record.counter(), self.counter.offset()),
            (record.count(), COUNT),
            (record.operation(), kind),
        ];
        for (word, value) in &said[..words] {
            word.set(mem, *value);
        }
        self
    }

    /// The same, all of it. What it has allocated has left the reserve by then.
    pub(super) fn intends(self, kind: u64) -> Self {
        commit_pending(&self.worker);
        self.says(kind, ALL)
    }

    /// It has removed: it publishes nothing.
    pub(super) fn without_new(self) -> Self {
        heap::discard(&self.worker).unwrap();
        Self { new: 0, ..self }
    }

    /// It dies.
    pub(super) fn dies(self, pool: &TestPool<M>) -> Scene {
        self.worker.record().write_back(&pool.mem);
        Scene {
            slot: self.slot,
            counter: self.counter,
            new: self.new,
            old: self.old,
            dead: pool.kill(self.worker),
        }
    }
}

/// Words of an operation.
const ALL: usize = 6;

/// What somebody who died has left.
pub(super) struct Scene {
    pub(super) slot: SyncWord,
    pub(super) counter: OwnedWord,
    pub(super) new: u64,
    pub(super) old: u64,
    pub(super) dead: Actor,
}

impl Scene {
    pub(super) fn is_recovered<M: Mapped>(&self, pool: &TestPool<M>) {
        let record = self.dead.record;
        assert_eq!(pool.state(place_of(self.dead)).phase, Phase::Free);
        assert_eq!(record.announced().load(&pool.mem), IDLE);
        let words = [record.operation(), record.new_object(), record.old_object()];
        assert_eq!(words.map(|word| word.peek(&pool.mem)), [0; 3]);
    }

    /// The operation is done: counted, its old object waits, its new one is live and nobody's to free.
    pub(super) fn has_happened<M: Mapped>(&self, worker: &Worker<M>) {
        let waiting = waiting_in(worker, self.dead.record);
        assert_eq!(waiting.iter().filter(|&&object| object == self.old).count(), 1);
        assert_eq!(self.counter.peek(worker.mem()), COUNT);
        if self.new != 0 {
            assert!(!waiting.contains(&self.new));
            assert_eq!(cell(worker, self.new), CELL_LIVE);
        }
    }

    /// Nothing is done but that its new object is free, or waits to be.
    pub(super) fn has_not_happened<M: Mapped>(&self, worker: &Worker<M>) {
        let waiting = waiting_in(worker, self.dead.record);
        assert!(!waiting.contains(&self.old));
        assert_eq!(cell(worker, self.old), CELL_LIVE);
        assert_eq!(self.counter.peek(worker.mem()), 0);
        if self.new != 0 {
            let waits = waiting.iter().filter(|&&object| object == self.new).count();
            let is_free = cell(worker, self.new) == CELL_FREE;
            assert_eq!(
                waits + usize::from(is_free),
                1,
                "{waits} entries, free: {is_free}"
            );
        }
    }
}

pub(super) fn place_of(actor: Actor) -> u32 {
    u32::from(actor.me) - 1
}

/// Of one dead process with one worker.
pub(super) fn one(finished: u32, undone: u32) -> Recovered {
    Recovered {
        processes: 1,
        workers: 1,
        finished,
        undone,
        failed: 0,
    }
}

fn where_nobody_died_nothing_is_recovered<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let dying = Dying::new(&pool).intends(operation::PUT);
    let before = [&other, &dying.worker].map(|worker| worker.record().state().load(&pool.mem));
    assert_eq!(recover_dead(&worker).unwrap(), Recovered::default());
    let after = [&other, &dying.worker].map(|worker| worker.record().state().load(&pool.mem));
    assert_eq!(after, before);
    assert_eq!(dying.worker.record().operation().get(&pool.mem), operation::PUT);
    dying.worker.record().operation().set(&pool.mem, operation::NONE);
}

fn who_died_in_no_operation_leaves_a_free_place<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, dead) = (pool.worker(), pool.worker());
    let (process, generation) = (dead.pod().index(), dead.generation());
    let dead = pool.kill(dead);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    assert_eq!(pool.state(place_of(dead)), State::free(generation));
    let entry = ProcessRecord::new(&pool.geometry, process)
        .state()
        .load(&pool.mem);
    assert_eq!(State::decode(entry).phase, Phase::Free);
}

fn what_was_recovered_is_not_recovered_again<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    scene.slot.store(&pool.mem, AFTER);
    assert_eq!(recover_dead(&worker).unwrap(), one(1, 0));
    for _ in 0..2 {
        assert_eq!(recover_dead(&worker).unwrap(), Recovered::default());
        scene.is_recovered(&pool);
        scene.has_happened(&worker);
    }
}

fn a_put_whose_slot_holds_it_is_finished<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    scene.slot.store(&pool.mem, AFTER);
    assert_eq!(recover_dead(&worker).unwrap(), one(1, 0));
    scene.is_recovered(&pool);
    scene.has_happened(&worker);
    assert_eq!(scene.slot.load(&pool.mem), AFTER);
}

fn a_put_whose_slot_is_frozen_or_moved_is_finished<M: Mapped>() {
    for bits in [0b01, 0b11] {
        let pool = TestPool::<M>::of_frames(8);
        let worker = pool.worker();
        let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
        scene.slot.store(&pool.mem, AFTER | bits);
        assert_eq!(recover_dead(&worker).unwrap(), one(1, 0));
        scene.has_happened(&worker);
        assert_eq!(scene.slot.load(&pool.mem), AFTER | bits);
    }
}

fn a_put_that_did_not_reach_its_slot_is_undone<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
    scene.is_recovered(&pool);
    scene.has_not_happened(&worker);
    assert_eq!(scene.slot.load(&pool.mem), BEFORE);
}

fn a_claim_of_the_dead_is_cleared_and_its_put_undone<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    scene.slot.store(&pool.mem, AFTER | SLOT_CLAIMED);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
    scene.has_not_happened(&worker);
    assert_eq!(scene.slot.load(&pool.mem), SLOT_CLEARED);
}

fn a_claim_of_somebody_else_is_left_as_it_is<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    let others = 0x3000 | SLOT_CLAIMED;
    scene.slot.store(&pool.mem, others);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
    assert_eq!(scene.slot.load(&pool.mem), others);
}

fn a_put_that_another_is_about_to_unlink_is_finished<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    let named = other.record().old_object();
    named.set(&pool.mem, scene.new);
    pool.mem.persist(named.offset(), 8);
    assert_eq!(recover_dead(&worker).unwrap(), one(1, 0));
    scene.has_happened(&worker);
    named.set(&pool.mem, 0);
}

/// Enters an object into a worker's list.
pub(super) fn retire_by<M: Mapped>(worker: &Worker<M>, object: u64) {
    let _hold = worker.hold_list().unwrap();
    retire::ensure_room(worker, worker.actor()).unwrap();
    retire::retire(worker, worker.actor(), object).unwrap();
}

fn a_put_that_another_has_retired_is_finished<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    retire_by(&other, scene.new);
    assert_eq!(recover_dead(&worker).unwrap(), one(1, 0));
    scene.has_happened(&worker);
    assert_eq!(waiting_in(&worker, other.record()), [scene.new]);
}

fn an_entry_that_is_gone_is_no_evidence<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    retire_by(&other, scene.new);
    let entry = retire::find(&other, other.actor(), scene.new).unwrap().unwrap();
    retire::set(&other, entry, scene.new | GONE);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
    scene.has_not_happened(&worker);
}

fn the_own_list_of_the_dead_is_no_evidence<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let dying = Dying::new(&pool).intends(operation::PUT);
    // It was taken from there, and its entry is not gone yet.
    retire_by(&dying.worker, dying.new);
    dying.worker.record().new_object().set(&pool.mem, dying.new);
    let scene = dying.says(operation::PUT, ALL).dies(&pool);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
    scene.has_not_happened(&worker);
}

fn what_was_recycled_and_published_is_in_the_list_no_more<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let dying = Dying::new(&pool).intends(operation::PUT);
    retire_by(&dying.worker, dying.new);
    dying.worker.record().new_object().set(&pool.mem, dying.new);
    let scene = dying.says(operation::PUT, ALL).dies(&pool);
    scene.slot.store(&pool.mem, AFTER);
    assert_eq!(recover_dead(&worker).unwrap(), one(1, 0));
    scene.has_happened(&worker);
}

fn a_removal_whose_slot_holds_its_tombstone_is_finished<M: Mapped>() {
    for bits in [0, 0b01, 0b11] {
        let pool = TestPool::<M>::of_frames(8);
        let worker = pool.worker();
        let scene = Dying::new(&pool)
            .without_new()
            .intends(operation::REMOVE)
            .dies(&pool);
        scene.slot.store(&pool.mem, AFTER | bits);
        assert_eq!(recover_dead(&worker).unwrap(), one(1, 0));
        scene.is_recovered(&pool);
        scene.has_happened(&worker);
    }
}

fn a_removal_whose_slot_holds_something_else_is_undone<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let scene = Dying::new(&pool)
        .without_new()
        .intends(operation::REMOVE)
        .dies(&pool);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
    scene.is_recovered(&pool);
    scene.has_not_happened(&worker);
}

fn a_committed_operation_is_finished_whatever_its_slot_holds_by_now<M: Mapped>() {
    for held in [BEFORE, 0, AFTER | SLOT_CLAIMED] {
        let pool = TestPool::<M>::of_frames(8);
        let worker = pool.worker();
        let scene = Dying::new(&pool).intends(operation::COMMITTED).dies(&pool);
        scene.slot.store(&pool.mem, held);
        assert_eq!(recover_dead(&worker).unwrap(), one(1, 0));
        scene.has_happened(&worker);
        assert_eq!(scene.slot.load(&pool.mem), held);
    }
}

fn an_aborted_operation_is_undone_whatever_its_slot_holds<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let scene = Dying::new(&pool).intends(operation::ABORTED).dies(&pool);
    scene.slot.store(&pool.mem, AFTER);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
    scene.is_recovered(&pool);
    scene.has_not_happened(&worker);
}

fn an_operation_that_was_not_said_to_the_end_is_undone<M: Mapped>() {
    for words in 0..ALL {
        let pool = TestPool::<M>::of_frames(8);
        let worker = pool.worker();
        let scene = Dying::new(&pool).says(operation::PUT, words).dies(&pool);
        // Whatever that holds: the record says that nothing is going on.
        scene.slot.store(&pool.mem, AFTER);
        assert_eq!(recover_dead(&worker).unwrap(), one(0, 1), "{words} words");
        scene.is_recovered(&pool);
        scene.has_not_happened(&worker);
    }
}

fn a_removal_that_was_not_said_to_the_end_is_none<M: Mapped>() {
    for words in 0..ALL {
        let pool = TestPool::<M>::of_frames(8);
        let worker = pool.worker();
        let dying = Dying::new(&pool).without_new();
        let scene = dying.says(operation::REMOVE, words).dies(&pool);
        scene.slot.store(&pool.mem, AFTER);
        assert_eq!(recover_dead(&worker).unwrap(), one(0, 0), "{words} words");
        scene.is_recovered(&pool);
        scene.has_not_happened(&worker);
    }
}

fn an_object_that_is_named_and_has_not_left_the_reserve_is_free<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let dying = Dying::new(&pool);
    heap::discard(&dying.worker).unwrap();
    dying.worker.record().new_object().set(&pool.mem, dying.new);
    let scene = dying.dies(&pool);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
    assert_eq!(cell(&worker, scene.new), CELL_FREE);
    assert!(waiting_in(&worker, scene.dead.record).is_empty());
}

fn an_object_that_was_published_before_it_left_the_reserve_stays<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let dying = Dying::new(&pool);
    heap::discard(&dying.worker).unwrap();
    dying.worker.record().new_object().set(&pool.mem, dying.new);
    let scene = dying.says(operation::PUT, ALL).dies(&pool);
    scene.slot.store(&pool.mem, AFTER);
    assert_eq!(recover_dead(&worker).unwrap(), one(1, 0));
    scene.has_happened(&worker);
}

/// With an extent and an object as secondary objects, and two old ones.
fn with_secondary_objects<M: Mapped>(pool: &TestPool<M>) -> (Dying<M>, [u64; 2], [u64; 2]) {
    let dying = Dying::new(pool);
    let olds = [0; 2].map(|_| object(&dying.worker, 64));
    let _hold = dying.worker.hold_list().unwrap();
    let extent = allocate_secondary(&dying.worker, 0, FRAME).unwrap();
    let small = allocate_secondary(&dying.worker, 1, 64).unwrap();
    for (word, old) in dying.worker.record().old_secondaries().into_iter().zip(olds) {
        word.set(&pool.mem, old);
    }
    drop(_hold);
    (dying, [extent, small], olds)
}

fn secondary_objects_are_finished_with_their_operation<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(16);
    let worker = pool.worker();
    let (dying, [extent, small], olds) = with_secondary_objects(&pool);
    let scene = dying.intends(operation::PUT).dies(&pool);
    scene.slot.store(&pool.mem, AFTER);
    assert_eq!(recover_dead(&worker).unwrap(), one(1, 0));
    scene.has_happened(&worker);
    let waiting = waiting_in(&worker, scene.dead.record);
    assert!(olds.iter().all(|old| waiting.contains(old)));
    assert!(!waiting.contains(&extent) && !waiting.contains(&small));
    let place = locate(&worker, extent).unwrap();
    assert!(matches!(
        place,
        Location::Extent {
            state: ExtentState::Live,
            ..
        }
    ));
    assert_eq!(cell(&worker, small), CELL_LIVE);
}

fn secondary_objects_are_undone_with_their_operation<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(16);
    let worker = pool.worker();
    let (dying, [extent, small], olds) = with_secondary_objects(&pool);
    let scene = dying.intends(operation::PUT).dies(&pool);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
    scene.has_not_happened(&worker);
    let waiting = waiting_in(&worker, scene.dead.record);
    assert!(waiting.contains(&extent) && waiting.contains(&small));
    assert!(!olds.iter().any(|old| waiting.contains(old)));
    let record = scene.dead.record;
    let words = record.secondaries().into_iter().chain(record.old_secondaries());
    assert!(words.into_iter().all(|word| word.peek(&pool.mem) == 0));
}

fn a_secondary_object_that_is_marked_published_is_not_given_back<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let dying = Dying::new(&pool).without_new();
    let published = object(&dying.worker, 64);
    let [word, _] = dying.worker.record().secondaries();
    word.set(&pool.mem, published | PUBLISHED);
    let scene = dying.dies(&pool);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    assert_eq!(cell(&worker, published), CELL_LIVE);
    assert!(waiting_in(&worker, scene.dead.record).is_empty());
    assert_eq!(word.peek(&pool.mem), 0);
}

fn a_record_that_is_finished_again_from_its_beginning_comes_to_the_same<M: Mapped>() {
    for (kind, held) in [
        (operation::PUT, AFTER),
        (operation::PUT, BEFORE),
        (operation::PUT, AFTER | SLOT_CLAIMED),
        (operation::COMMITTED, BEFORE),
        (operation::ABORTED, BEFORE),
    ] {
        let pool = TestPool::<M>::of_frames(8);
        let worker = pool.worker();
        let scene = Dying::new(&pool).intends(kind).dies(&pool);
        scene.slot.store(&pool.mem, held);
        let record = scene.dead.record;
        let words = (record.operation().offset()..record.retiring().offset())
            .step_by(8)
            .map(owned_word);
        let said: Vec<_> = words.map(|word| (word, word.get(&pool.mem))).collect();
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            // As if the one before had died at the end of this step, and nothing of its words had reached memory.
            for (word, value) in &said {
                word.set(&pool.mem, *value);
            }
            let mut recovered = Recovered::default();
            finish_record(&worker, scene.dead, &mut recovered).unwrap();
            outcomes.push((
                recovered,
                waiting_in(&worker, record),
                scene.counter.get(&pool.mem),
            ));
        }
        assert!(
            outcomes.iter().all(|outcome| *outcome == outcomes[0]),
            "{kind} {held:#x}: {outcomes:?}"
        );
    }
}

on_both! {
    where_nobody_died_nothing_is_recovered,
    who_died_in_no_operation_leaves_a_free_place,
    what_was_recovered_is_not_recovered_again,
    a_put_whose_slot_holds_it_is_finished,
    a_put_whose_slot_is_frozen_or_moved_is_finished,
    a_put_that_did_not_reach_its_slot_is_undone,
    a_claim_of_the_dead_is_cleared_and_its_put_undone,
    a_claim_of_somebody_else_is_left_as_it_is,
    a_put_that_another_is_about_to_unlink_is_finished,
    a_put_that_another_has_retired_is_finished,
    an_entry_that_is_gone_is_no_evidence,
    the_own_list_of_the_dead_is_no_evidence,
    what_was_recycled_and_published_is_in_the_list_no_more,
    a_removal_whose_slot_holds_its_tombstone_is_finished,
    a_removal_whose_slot_holds_something_else_is_undone,
    a_committed_operation_is_finished_whatever_its_slot_holds_by_now,
    an_aborted_operation_is_undone_whatever_its_slot_holds,
    an_operation_that_was_not_said_to_the_end_is_undone,
    a_removal_that_was_not_said_to_the_end_is_none,
    an_object_that_is_named_and_has_not_left_the_reserve_is_free,
    an_object_that_was_published_before_it_left_the_reserve_stays,
    secondary_objects_are_finished_with_their_operation,
    secondary_objects_are_undone_with_their_operation,
    a_secondary_object_that_is_marked_published_is_not_given_back,
    a_record_that_is_finished_again_from_its_beginning_comes_to_the_same,
}
