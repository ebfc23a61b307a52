//! Reserves: what is given back of them, and which can be.

use super::tests::{block_of, class_of, reserve_of, set_reserve};
use super::*;
use crate::memory::Mapped;
use crate::memory::checked::sync_word;
use crate::pod::pool_for_tests::{TestPool, cell, is_damage, object, on_both};

fn returned_reserves_leave_no_cell_and_no_block_behind<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let object = object(&worker, 64);
    let class = class_of::<M>(64);
    let reserve = reserve_of(&worker, worker.actor(), class);
    assert_eq!(reserve.mask(), 0b1110);
    return_reserves(&worker, worker.actor()).unwrap();
    assert_eq!(reserve_of(&worker, worker.actor(), class), Reserve::NONE);
    assert!(matches!(block_of(&worker, object), Block::Slab { owner: 0, .. }));
    let frame = reserve.frame().unwrap();
    let cells: Vec<u16> = (0..4)
        .map(|index| Cell::new(&worker, frame, class, index).load(&pool.mem))
        .collect();
    assert_eq!(cells, [CELL_LIVE, CELL_FREE, CELL_FREE, CELL_FREE]);
}

fn returning_reserves_twice_is_returning_them_once<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let object = object(&worker, 64);
    return_reserves(&worker, worker.actor()).unwrap();
    let words = || {
        (
            block_of(&worker, object),
            sync_word(worker.geometry().frame_offset(0)).load(worker.mem()),
        )
    };
    let before = words();
    return_reserves(&worker, worker.actor()).unwrap();
    assert_eq!(words(), before);
}

fn cells_that_were_only_about_to_be_reserved_stay_free<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    let object = object(&worker, 64);
    let class = class_of::<M>(64);
    let frame = worker.geometry().frame_of(object);
    return_reserves(&worker, worker.actor()).unwrap();
    // The block is this worker's again, and says that of the next word all cells are meant, which are free.
    let mine = Block::Slab {
        class: class as u8,
        ready: true,
        owner: worker.me(),
    };
    table_word(&worker, frame).store(&pool.mem, mine.encode());
    set_reserve(&worker, class, Reserve::new(frame, 1, 0b1111));
    return_reserves(&worker, worker.actor()).unwrap();
    for index in 4..8 {
        assert_eq!(
            Cell::new(&worker, frame, class, index).load(&pool.mem),
            CELL_FREE,
            "{index}"
        );
    }
}

fn a_reserved_block_that_is_not_ready_goes_back_to_the_frames<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    for len in [64, 20_000] {
        let object = object(&worker, len);
        let class = class_of::<M>(len);
        let frame = reserve_of(&worker, worker.actor(), class).frame().unwrap();
        let half_made = Block::Slab {
            class: class as u8,
            ready: false,
            owner: worker.me(),
        };
        table_word(&worker, frame).store(&pool.mem, half_made.encode());
        return_reserves(&worker, worker.actor()).unwrap();
        assert_eq!(block_of(&worker, object), Block::Free);
        assert_eq!(reserve_of(&worker, worker.actor(), class), Reserve::NONE);
    }
    assert!(allocate(&worker, 8 * FRAME).is_ok(), "all of it is free again");
}

fn a_reserve_of_a_block_that_is_somebody_elses_by_now_is_forgotten<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let _hold = worker.hold_list().unwrap();
    let class = class_of::<M>(64);
    let object = object(&other, 64);
    let frame = other.geometry().frame_of(object);
    let before = (
        block_of(&other, object),
        reserve_of(&worker, other.actor(), class),
    );
    set_reserve(&worker, class, Reserve::new(frame, 0, 0b1111));
    return_reserves(&worker, worker.actor()).unwrap();
    assert_eq!(reserve_of(&worker, worker.actor(), class), Reserve::NONE);
    assert_eq!(
        (
            block_of(&other, object),
            reserve_of(&worker, other.actor(), class)
        ),
        before
    );
    assert_eq!(cell(&other, object), CELL_LIVE);
}

fn a_damaged_reserve_is_told_and_not_returned<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let worker = pool.worker();
    let _hold = worker.hold_list().unwrap();
    for reserve in [
        Reserve(1),
        Reserve(5 << 20 | 0xf),
        Reserve::new(4, 0, 1),
        Reserve::new(1 << 42, 0, 0),
    ] {
        set_reserve(&worker, 3, reserve);
        assert!(
            is_damage(&return_reserves(&worker, worker.actor())),
            "{reserve:?}"
        );
        assert_eq!(reserve_of(&worker, worker.actor(), 3), reserve);
    }
    // A block of four frames begins at a multiple of them.
    set_reserve(&worker, 3, Reserve::NONE);
    let large = class_of::<M>(20_000);
    set_reserve(&worker, large, Reserve::new(1, 0, 0));
    assert!(is_damage(&return_reserves(&worker, worker.actor())));
    set_reserve(&worker, large, Reserve::NONE);
}

fn reserves_can_be_withdrawn_where_there_are_any_and_all_are_in_order<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, other) = (pool.worker(), pool.worker());
    let may_be = || may_be_withdrawn(&other, worker.actor());
    assert!(!may_be());
    let object = object(&worker, 64);
    assert!(may_be());
    let word = table_word(&worker, worker.geometry().frame_of(object));
    let ready = word.load(&pool.mem);
    let half_made = Block::Slab {
        class: class_of::<M>(64) as u8,
        ready: false,
        owner: worker.me(),
    };
    word.store(&pool.mem, half_made.encode());
    assert!(!may_be(), "a block that its worker is making");
    word.store(&pool.mem, ready);
    let _hold = worker.hold_list().unwrap();
    set_reserve(&worker, 10, Reserve::new(8, 0, 0));
    assert!(!may_be(), "one behind the pool");
    set_reserve(&worker, 10, Reserve::NONE);
    assert!(may_be());
}

on_both! {
    returned_reserves_leave_no_cell_and_no_block_behind,
    returning_reserves_twice_is_returning_them_once,
    cells_that_were_only_about_to_be_reserved_stay_free,
    a_reserved_block_that_is_not_ready_goes_back_to_the_frames,
    a_reserve_of_a_block_that_is_somebody_elses_by_now_is_forgotten,
    a_damaged_reserve_is_told_and_not_returned,
    reserves_can_be_withdrawn_where_there_are_any_and_all_are_in_order,
}
