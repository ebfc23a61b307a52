//! A store under a lock: which transactions share it, who repairs, what is refused.

use super::*;
use crate::error::Error;
use crate::tpcc::input::{Kind, Terminals};
use crate::tpcc::testing::{Alone, Memory};
use crate::words::Store as _;
use crate::words::mortal::Mortal;

const SCALE: Scale = Scale::small(1);

#[test]
fn only_what_changes_nothing_shares_the_lock() {
    let lock = Alone::over(Memory::loaded(SCALE, 1));
    let store = Store::open(&lock, SCALE).unwrap();
    let mut terminals = Terminals::new(SCALE, 1, 0);
    for kind in Kind::ALL {
        let (shared, exclusive) = lock.holds.get();
        store.run(&terminals.of_kind(kind), 1).unwrap();
        let wanted = match kind {
            Kind::OrderStatus | Kind::StockLevel => (shared + 1, exclusive),
            _ => (shared, exclusive + 1),
        };
        assert_eq!(lock.holds.get(), wanted, "{kind:?}");
    }
}

/// Leaves a transaction half done: a word changed, with its pair.
fn strike(lock: &Alone) -> Vec<u64> {
    let before = lock.memory.borrow().rows().to_vec();
    let mut memory = lock.memory.borrow_mut();
    let at = memory.layout.warehouse(1).unwrap();
    let mut words = memory.words();
    let mut transaction = crate::words::Transaction::begin(&mut words, UNDO).unwrap();
    transaction.store(at, 12_345).unwrap();
    before
}

#[test]
fn the_next_owner_rolls_back_whether_it_is_told_or_not_and_a_reader_has_it_done() {
    for (kind, is_told, tells_once) in [
        (Kind::StockLevel, true, false),
        (Kind::StockLevel, true, true),
        (Kind::StockLevel, false, false),
        (Kind::Delivery, true, false),
        (Kind::Delivery, false, false),
    ] {
        let mut lock = Alone::over(Memory::loaded(SCALE, 1));
        lock.tells_once = tells_once;
        let store = Store::open(&lock, SCALE).unwrap();
        let before = strike(&lock);
        lock.died.set(is_told);
        store.run(&Terminals::new(SCALE, 1, 0).of_kind(kind), 1).unwrap();
        let repairs = Repairs {
            told: u64::from(is_told),
            rolled_back: 1,
        };
        assert_eq!(store.repairs(), repairs);
        if kind == Kind::StockLevel {
            assert!(lock.memory.borrow().rows() == before);
        }
        assert_eq!(store.check().unwrap(), []);
    }
}

#[test]
fn who_is_told_of_a_death_without_a_change_goes_on() {
    let lock = Alone::over(Memory::loaded(SCALE, 1));
    let store = Store::open(&lock, SCALE).unwrap();
    lock.died.set(true);
    assert_eq!(store.check().unwrap(), []);
    let repairs = Repairs {
        told: 1,
        rolled_back: 0,
    };
    assert_eq!(store.repairs(), repairs);
}

#[test]
fn a_store_that_is_not_there_or_has_other_sizes_is_refused() {
    let lock = Alone::over(Memory::loaded(SCALE, 1));
    let other = Scale {
        customers: 29,
        ..SCALE
    };
    let refused = Store::open(&lock, other).map(drop);
    assert!(matches!(
        refused,
        Err(Error::OtherSizes {
            found: 30,
            wanted: 29,
            ..
        })
    ));
    lock.memory.borrow_mut().all.truncate(5000);
    let refused = Store::open(&lock, SCALE).map(drop);
    assert!(matches!(refused, Err(Error::Beyond { .. })));
    lock.memory.borrow_mut().set(0, super::super::layout::LOADING);
    let refused = Store::open(&lock, SCALE).map(drop);
    assert!(matches!(refused, Err(Error::NotLoaded)));
    let refused = Store::load(
        &lock,
        Scale {
            districts: 11,
            ..SCALE
        },
        1,
        1,
    )
    .map(drop);
    assert!(matches!(refused, Err(Error::Setting { value: 11, .. })));
}

#[test]
fn a_store_is_loaded_over_what_was_there() {
    let lock = Alone::over(Memory::loaded(SCALE, 1));
    let mut terminals = Terminals::new(SCALE, 1, 0);
    lock.memory.borrow_mut().run_mix(&mut terminals, 500);
    let store = Store::load(&lock, SCALE, 2, 1).unwrap();
    assert_eq!(store.check().unwrap(), []);
    assert!(lock.memory.borrow().rows() == Memory::loaded(SCALE, 2).rows());
    assert_eq!(store.orders_entered().unwrap(), 0);
}

/// A loader that dies after any store leaves what is no store, and the next one loads it as if nothing had been there.
#[test]
fn a_loader_that_dies_leaves_nothing_to_the_next_one() {
    let worn = {
        let mut memory = Memory::loaded(SCALE, 1);
        memory.run_mix(&mut Terminals::new(SCALE, 1, 0), 500);
        // Its last owner has died in a transaction.
        let at = memory.layout.warehouse(1).unwrap();
        let mut words = memory.words();
        let mut transaction = crate::words::Transaction::begin(&mut words, UNDO).unwrap();
        transaction.store(at, 12_345).unwrap();
        memory
    };
    let wanted = Memory::loaded(SCALE, 2);
    // Before it clears anything, within the undo record, in the rows, and while it fills them.
    let all = wanted.all.len() as u64;
    let lives = [
        0,
        1,
        2,
        5,
        8,
        9,
        12,
        1000,
        5000,
        all / 4,
        all / 2,
        all - 1,
        all + 10,
    ];
    for left in lives {
        let mut memory = worn.clone();
        let layout = memory.layout;
        let died = load::load(
            &layout,
            &mut Mortal {
                words: &mut memory.words(),
                left,
            },
            3,
            1,
        );
        assert!(died.is_err(), "it has come to an end after {left} stores");
        if left > 0 {
            let found = layout.check_header(&memory.words());
            assert!(matches!(found, Err(Error::NotLoaded)), "after {left} stores");
        }
        let lock = Alone::over(memory);
        let store = Store::load(&lock, SCALE, 2, 1).unwrap();
        assert_eq!(store.check().unwrap(), [], "after {left} stores");
        assert!(lock.memory.borrow().all == wanted.all, "after {left} stores");
    }
}
