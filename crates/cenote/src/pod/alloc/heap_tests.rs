//! Objects: how they are allocated, given back, and what a full or damaged pool answers.

use std::collections::BTreeMap;

use super::*;
use crate::memory::Mapped;
use crate::pod::alloc::hints::clear_hint;
use crate::pod::format::class::SLAB_MAX;
use crate::pod::format::geometry::FRAME_SHIFT;
use crate::pod::pool_for_tests::{TestPool, cell, is_damage, object, on_both};

/// Numbers that look random, of a seed that is printed.
struct Draws(u64);

impl Draws {
    fn new() -> Self {
        let seed = std::env::var("CENOTE_TEST_SEED").ok();
        let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(0x5eed);
        println!("seed: CENOTE_TEST_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % limit
    }
}

/// Has the worker's record forget what it has allocated: somebody else refers to that.
fn forget<M: Memory>(worker: &Worker<M>) {
    clear(worker, worker.record().new_object());
}

/// What a frame of the pool is.
pub(super) fn block_of<M: Memory>(worker: &Worker<M>, object: u64) -> Block {
    let frame = worker.geometry().frame_of(object);
    Block::decode(table_word(worker, frame).load(worker.mem()))
}

pub(super) fn reserve_of<M: Memory>(worker: &Worker<M>, actor: Actor, class: usize) -> Reserve {
    Reserve(actor.record.reserve(class).get(worker.mem()))
}

pub(super) fn set_reserve<M: Memory>(worker: &Worker<M>, class: usize, reserve: Reserve) {
    let word = worker.record().reserve(class);
    word.set(worker.mem(), reserve.0);
    worker.mem().persist(word.offset(), 8);
}

pub(super) fn class_of<M: Memory>(len: u64) -> usize {
    class_for(len, !M::COHERENT).unwrap()
}

fn an_object_has_room_for_what_was_asked<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(64);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    for len in [
        0,
        1,
        16,
        17,
        63,
        64,
        65,
        1000,
        4096,
        4097,
        SLAB_MAX,
        SLAB_MAX + 1,
        FRAME,
        FRAME + 1,
    ] {
        let object = allocate(&worker, len).unwrap();
        let capacity = locate(&worker, object).unwrap().capacity();
        assert!(capacity >= len.max(16), "{len}: {capacity}");
        forget(&worker);
    }
}

fn an_allocated_object_is_named_by_the_record_and_live<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let object = allocate(&worker, 100).unwrap();
    assert_eq!(worker.record().new_object().get(&pool.mem), object);
    assert_eq!(cell(&worker, object), CELL_LIVE);
}

fn no_two_objects_share_a_byte<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(256);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let mut draws = Draws::new();
    let mut ends = BTreeMap::new();
    for _ in 0..400 {
        let len = match draws.below(4) {
            0 => draws.below(40_000),
            1 => draws.below(5000),
            _ => draws.below(300),
        };
        let object = allocate(&worker, len).unwrap();
        ends.insert(object, object + len.max(1));
        forget(&worker);
    }
    assert_eq!(ends.len(), 400);
    let pairs = ends.iter().zip(ends.iter().skip(1));
    for ((begin, end), (next, _)) in pairs {
        assert!(end <= next, "{begin:#x} to {end:#x}, and {next:#x}");
    }
}

fn what_no_slab_holds_gets_as_many_frames_as_it_needs_and_waits_to_be_published<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(16);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    for (len, count) in [(SLAB_MAX + 1, 1), (FRAME, 1), (FRAME + 1, 2), (3 * FRAME, 3)] {
        let object = allocate(&worker, len).unwrap();
        let pending = Block::Extent {
            frames: count,
            state: ExtentState::Pending,
            owner: worker.me(),
        };
        assert_eq!(block_of(&worker, object), pending, "{len}");
        forget(&worker);
    }
}

fn an_object_with_a_tag_has_frames_of_its_own_however_small_it_is<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let actor = worker.actor();
    for len in [0, 1] {
        let object = allocate_for(&worker, actor, len, actor.record.new_object(), 7).unwrap();
        let word = table_word(&worker, worker.geometry().frame_of(object)).load(&pool.mem);
        assert_eq!(word >> 8 & 0xff, 7);
        assert!(matches!(
            locate(&worker, object).unwrap(),
            Location::Extent { frames: 1, .. }
        ));
    }
}

fn what_no_pool_has_room_for_is_refused_with_its_length<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    for len in [u64::MAX, u64::MAX - FRAME, 1 << 48, 1 << 47, 5 * FRAME] {
        match allocate(&worker, len) {
            Err(Error::Full { needed, .. }) => assert_eq!(needed, len),
            other => panic!("{len:#x}: {other:?}"),
        }
        assert_eq!(worker.record().new_object().get(&pool.mem), 0);
    }
}

fn a_pool_without_a_frame_is_full<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(1);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    allocate(&worker, FRAME).unwrap();
    forget(&worker);
    for len in [0, 64, FRAME] {
        assert!(matches!(allocate(&worker, len), Err(Error::Full { .. })), "{len}");
    }
}

fn a_full_pool_says_how_large_the_object_was_and_nothing_of_runs<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let attempt = |_| {
        let outcome = allocate(&worker, SLAB_MAX);
        forget(&worker);
        outcome.err()
    };
    let refused = (0..100).find_map(attempt).unwrap();
    let is_told = matches!(
        refused,
        Error::Full {
            needed: SLAB_MAX,
            largest: None,
            ..
        }
    );
    assert!(is_told, "{refused:?}");
}

fn a_full_pool_gives_again_what_was_given_back<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let attempt = |_| {
        let object = allocate(&worker, FRAME).ok();
        forget(&worker);
        object
    };
    let last = (0..100).map_while(attempt).last().unwrap();
    worker.record().new_object().set(&pool.mem, last);
    discard(&worker).unwrap();
    assert_eq!(allocate(&worker, FRAME).unwrap(), last);
}

fn a_refused_allocation_leaves_the_other_objects_of_its_operation<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let small = allocate(&worker, 64).unwrap();
    let refused = allocate_secondary(&worker, 0, 5 * FRAME);
    assert!(matches!(refused, Err(Error::Full { .. })));
    let [secondary, _] = worker.record().secondaries();
    let names = [worker.record().new_object(), secondary].map(|word| word.get(&pool.mem));
    assert_eq!((names, cell(&worker, small)), ([small, 0], CELL_LIVE));
}

fn a_secondary_object_is_another_object_with_a_name_of_its_own<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let first = allocate(&worker, 64).unwrap();
    let others = [0, 1].map(|which| allocate_secondary(&worker, which, 64).unwrap());
    assert_eq!(
        worker.record().secondaries().map(|word| word.get(&pool.mem)),
        others
    );
    assert!(first != others[0] && first != others[1] && others[0] != others[1]);
}

fn what_was_given_back_is_what_is_allocated_next<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    for len in [64, FRAME] {
        let object = allocate(&worker, len).unwrap();
        discard(&worker).unwrap();
        assert_eq!(worker.record().new_object().get(&pool.mem), 0);
        assert_eq!(allocate(&worker, len).unwrap(), object);
        forget(&worker);
    }
}

fn giving_back_nothing_changes_nothing<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    discard(&worker).unwrap();
    discard_with_secondaries(&worker).unwrap();
    assert_eq!(worker.record().new_object().get(&pool.mem), 0);
}

fn an_extent_that_is_given_back_is_free<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let object = allocate(&worker, 2 * FRAME).unwrap();
    discard(&worker).unwrap();
    assert_eq!(block_of(&worker, object), Block::Free);
}

fn all_objects_of_an_operation_are_given_back_together<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let objects = [
        allocate(&worker, FRAME).unwrap(),
        allocate_secondary(&worker, 0, FRAME).unwrap(),
        allocate_secondary(&worker, 1, FRAME).unwrap(),
    ];
    discard_with_secondaries(&worker).unwrap();
    assert_eq!(objects.map(|object| block_of(&worker, object)), [Block::Free; 3]);
    assert_eq!(
        worker.record().secondaries().map(|word| word.get(&pool.mem)),
        [0; 2]
    );
}

fn what_is_marked_published_is_not_given_back<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let object = allocate_secondary(&worker, 0, FRAME).unwrap();
    let [word, _] = worker.record().secondaries();
    word.set(&pool.mem, object | PUBLISHED);
    discard_with_secondaries(&worker).unwrap();
    assert_eq!(word.get(&pool.mem), object | PUBLISHED);
    assert_ne!(block_of(&worker, object), Block::Free);
}

fn what_an_operation_has_committed_is_not_given_back<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let object = allocate(&worker, FRAME).unwrap();
    let record = worker.record();
    record.operation().set(&pool.mem, operation::COMMITTED);
    discard(&worker).unwrap();
    discard_with_secondaries(&worker).unwrap();
    assert_eq!(record.new_object().get(&pool.mem), object);
    assert_ne!(block_of(&worker, object), Block::Free);
    record.operation().set(&pool.mem, operation::NONE);
}

fn a_name_of_nothing_in_the_pool_is_damage_and_not_given_back<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let data = worker.geometry().data;
    for named in [8, data - 64, data + 4 * FRAME, data + 3 * FRAME, u64::MAX - 63] {
        worker.record().new_object().set(&pool.mem, named);
        assert!(is_damage(&discard(&worker)), "{named:#x}");
        assert_eq!(worker.record().new_object().get(&pool.mem), named);
    }
    forget(&worker);
}

fn a_reserve_whose_cells_no_block_has_is_damage<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let class = class_of::<M>(64);
    let object = allocate(&worker, 64).unwrap();
    forget(&worker);
    commit_pending(&worker);
    let frame = worker.geometry().frame_of(object);
    for reserve in [
        Reserve::new(frame, TABLE[class].objects / 4 + 1, 0b1000),
        Reserve::new(frame, 0xffff, 1),
        Reserve::new(4, 0, 1),
        Reserve::new(1 << 30, 0, 1),
        Reserve::new(4, 0, 0),
    ] {
        set_reserve(&worker, class, reserve);
        assert!(is_damage(&allocate(&worker, 64)), "{reserve:?}");
        assert_eq!(worker.record().new_object().get(&pool.mem), 0);
    }
    set_reserve(&worker, class, Reserve::NONE);
}

/// On coherent memory the table is asked, as that costs little.
#[test]
fn no_cell_is_taken_of_a_block_that_is_another_workers() {
    let pool = TestPool::<crate::memory::Coherent>::of_frames(4);
    let (worker, other) = (pool.worker(), pool.worker());
    let _hold = worker.hold_list().unwrap();
    let frame = worker.geometry().frame_of(object(&other, 64));
    set_reserve(
        &worker,
        class_of::<crate::memory::Coherent>(64),
        Reserve::new(frame, 0, 0),
    );
    assert!(is_damage(&allocate(&worker, 64)));
    set_reserve(&worker, class_of::<crate::memory::Coherent>(64), Reserve::NONE);
}

fn a_block_is_used_up_before_there_is_another<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let class = class_of::<M>(4096);
    let first = worker.geometry().frame_of(object(&worker, 4096));
    let objects = TABLE[class].objects;
    let frames: Vec<u64> = (1..=objects)
        .map(|_| worker.geometry().frame_of(object(&worker, 4096)))
        .collect();
    let (last, others) = frames.split_last().unwrap();
    assert!(
        others.iter().all(|frame| *frame == first) && *last != first,
        "{frames:?}"
    );
}

fn a_block_that_is_used_up_is_nobodys<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let class = class_of::<M>(4096);
    let first = object(&worker, 4096);
    for _ in 0..TABLE[class].objects {
        object(&worker, 4096);
    }
    assert!(matches!(
        block_of(&worker, first),
        Block::Slab {
            owner: 0,
            ready: true,
            ..
        }
    ));
}

fn a_pending_extent_is_live_once_it_is_published_and_keeps_its_tag<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let actor = worker.actor();
    let object = allocate_for(&worker, actor, 2 * FRAME, actor.record.new_object(), 9).unwrap();
    mark_live(&worker, object).unwrap();
    let live = Block::Extent {
        frames: 2,
        state: ExtentState::Live,
        owner: 0,
    };
    let word = table_word(&worker, worker.geometry().frame_of(object)).load(&pool.mem);
    assert_eq!(word, live.encode() | 9 << 8);
}

fn an_extent_of_another_worker_stays_pending_when_one_publishes_its_own<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let _hold = worker.hold_list().unwrap();
    let object = allocate(&worker, FRAME).unwrap();
    mark_own_live(&other, other.actor(), object).unwrap();
    assert!(matches!(
        block_of(&worker, object),
        Block::Extent {
            state: ExtentState::Pending,
            ..
        }
    ));
    mark_own_live(&other, worker.actor(), object).unwrap();
    assert!(matches!(
        block_of(&worker, object),
        Block::Extent {
            state: ExtentState::Live,
            ..
        }
    ));
}

fn a_retired_extent_stays_retired_however_late_it_is_published<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let object = allocate(&worker, FRAME).unwrap();
    let retired = Block::Extent {
        frames: 1,
        state: ExtentState::Retired,
        owner: worker.me(),
    };
    table_word(&worker, worker.geometry().frame_of(object)).store(&pool.mem, retired.encode());
    mark_live(&worker, object).unwrap();
    assert_eq!(block_of(&worker, object), retired);
}

fn an_object_of_a_slab_needs_no_publishing<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let object = object(&worker, 64);
    let before = block_of(&worker, object);
    mark_live(&worker, object).unwrap();
    assert_eq!(
        (block_of(&worker, object), cell(&worker, object)),
        (before, CELL_LIVE)
    );
}

fn a_published_name_outside_the_pool_is_damage<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    for frame in [4u64, 1 << 20, 1 << 47] {
        let at = worker.geometry().data.wrapping_add(frame << FRAME_SHIFT);
        assert!(is_damage(&mark_live(&worker, at)), "{frame}");
    }
}

fn a_block_with_free_cells_that_was_given_up_is_used_by_others<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let first = object(&worker, 64);
    {
        let _hold = worker.hold_list().unwrap();
        return_reserves(&worker, worker.actor()).unwrap();
    }
    let frame = worker.geometry().frame_of(first);
    assert_eq!(worker.geometry().frame_of(object(&other, 64)), frame);
}

fn a_lost_hint_costs_no_memory_where_there_is_no_other<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(2);
    let (worker, other) = (pool.worker(), pool.worker());
    let first = object(&worker, 64);
    {
        let _hold = worker.hold_list().unwrap();
        return_reserves(&worker, worker.actor()).unwrap();
        allocate(&worker, FRAME).unwrap();
        forget(&worker);
    }
    let frame = worker.geometry().frame_of(first);
    clear_hint(&worker, frame);
    assert_eq!(worker.geometry().frame_of(object(&other, 64)), frame);
}

fn a_leaked_object_that_is_repaired_is_free<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let object = object(&worker, 64);
    let Location::Slab(at) = locate(&worker, object).unwrap() else {
        panic!("not in a slab");
    };
    repair_cell(&worker, &at);
    assert_eq!(cell(&worker, object), CELL_FREE);
}

/// Blocks that were filled one after the other become free one after the other, so those of which little is free lie
/// together.
fn a_run_of_blocks_with_little_room_hides_none_with_more<M: Mapped>() {
    const POOR: usize = 40;
    let pool = TestPool::<M>::of_frames(64);
    let (worker, other) = (pool.worker(), pool.worker());
    let mut blocks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    while blocks.len() < POOR + 2 {
        let object = object(&worker, 4096);
        blocks
            .entry(worker.geometry().frame_of(object))
            .or_default()
            .push(object);
    }
    for (n, objects) in blocks.values().take(POOR + 1).enumerate() {
        let free = if n < POOR { 1 } else { objects.len() / 2 };
        for &object in &objects[..free] {
            let Location::Slab(at) = locate(&worker, object).unwrap() else {
                panic!("not in a slab");
            };
            repair_cell(&worker, &at);
        }
    }
    let (rich, _) = blocks.iter().nth(POOR).unwrap();
    assert_eq!(worker.geometry().frame_of(object(&other, 4096)), *rich);
}

on_both! {
    an_object_has_room_for_what_was_asked,
    an_allocated_object_is_named_by_the_record_and_live,
    no_two_objects_share_a_byte,
    what_no_slab_holds_gets_as_many_frames_as_it_needs_and_waits_to_be_published,
    an_object_with_a_tag_has_frames_of_its_own_however_small_it_is,
    what_no_pool_has_room_for_is_refused_with_its_length,
    a_pool_without_a_frame_is_full,
    a_full_pool_says_how_large_the_object_was_and_nothing_of_runs,
    a_full_pool_gives_again_what_was_given_back,
    a_refused_allocation_leaves_the_other_objects_of_its_operation,
    a_secondary_object_is_another_object_with_a_name_of_its_own,
    what_was_given_back_is_what_is_allocated_next,
    giving_back_nothing_changes_nothing,
    an_extent_that_is_given_back_is_free,
    all_objects_of_an_operation_are_given_back_together,
    what_is_marked_published_is_not_given_back,
    what_an_operation_has_committed_is_not_given_back,
    a_name_of_nothing_in_the_pool_is_damage_and_not_given_back,
    a_reserve_whose_cells_no_block_has_is_damage,
    a_block_is_used_up_before_there_is_another,
    a_block_that_is_used_up_is_nobodys,
    a_pending_extent_is_live_once_it_is_published_and_keeps_its_tag,
    an_extent_of_another_worker_stays_pending_when_one_publishes_its_own,
    a_retired_extent_stays_retired_however_late_it_is_published,
    an_object_of_a_slab_needs_no_publishing,
    a_published_name_outside_the_pool_is_damage,
    a_block_with_free_cells_that_was_given_up_is_used_by_others,
    a_lost_hint_costs_no_memory_where_there_is_no_other,
    a_leaked_object_that_is_repaired_is_free,
    a_run_of_blocks_with_little_room_hides_none_with_more,
}
