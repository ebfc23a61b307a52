//! Planted violations, each with all the conditions that it breaks.

use super::Condition::{self, Clause, Indexes, Rings, Undo};
use crate::tpcc::input::Terminals;
use crate::tpcc::layout::UNDO;
use crate::tpcc::rows::{customer, district, history, line, order, warehouse};
use crate::tpcc::scale::Scale;
use crate::tpcc::testing::{FIRST, Memory};

/// A fault, and what must be found of it.
type Fault = (&'static str, fn(&mut Memory), &'static [Condition]);

fn add(memory: &mut Memory, at: u64, value: u64) {
    memory.set(at, memory.get(at).wrapping_add(value));
}

fn of_district(memory: &Memory, column: u64) -> u64 {
    memory.layout.district(FIRST).unwrap() + column
}

fn of_customer(memory: &Memory, column: u64) -> u64 {
    memory.layout.customer(FIRST, 4).unwrap() + column
}

fn of_order(memory: &Memory, number: u64, column: u64) -> u64 {
    memory.layout.order(FIRST, number).unwrap() + column
}

fn of_line(memory: &Memory, number: u64, n: u64, column: u64) -> u64 {
    memory.layout.line(FIRST, number, n).unwrap() + column
}

/// Orders of a small district that was loaded: 1 to 21 are delivered, 22 to 30 are not.
const DELIVERED: u64 = 5;
const NEW: u64 = 25;

const FAULTS: [Fault; 24] = [
    (
        "W_YTD",
        |memory| {
            let at = memory.layout.warehouse(1).unwrap() + warehouse::YTD;
            add(memory, at, 1);
        },
        &[Clause(1), Clause(8)],
    ),
    (
        "D_YTD",
        |memory| add(memory, of_district(memory, district::YTD), 1),
        &[Clause(1), Clause(9)],
    ),
    (
        "D_NEXT_O_ID",
        |memory| {
            add(memory, of_district(memory, district::NEXT_ORDER), 1);
        },
        &[Clause(2)],
    ),
    (
        "a row of NEW-ORDER is gone",
        |memory| {
            let at = memory.layout.new_order(FIRST, NEW).unwrap();
            memory.set(at, 0);
        },
        &[Clause(3), Clause(5), Clause(11)],
    ),
    (
        "the last row of NEW-ORDER is gone",
        |memory| {
            let at = memory.layout.new_order(FIRST, 30).unwrap();
            memory.set(at, 0);
        },
        &[Clause(2), Clause(5), Clause(11)],
    ),
    (
        "a row of NEW-ORDER without an order",
        |memory| {
            let at = memory.layout.new_order(FIRST, 31).unwrap();
            memory.set(at, 31);
        },
        &[Clause(2), Clause(5), Clause(11)],
    ),
    (
        "O_OL_CNT",
        |memory| {
            add(memory, of_order(memory, NEW, order::LINES), 1);
        },
        &[Clause(4), Clause(6)],
    ),
    (
        "a line is gone",
        |memory| {
            memory.set(of_line(memory, NEW, 1, line::ORDER), 0);
        },
        &[Clause(4), Clause(6)],
    ),
    (
        "a line is another order's",
        |memory| {
            memory.set(of_line(memory, NEW, 1, line::ORDER), NEW + 1);
        },
        &[Clause(6)],
    ),
    (
        "a line more and one less",
        |memory| {
            let lines = memory.get(of_order(memory, DELIVERED, order::LINES));
            let more = (1..=21)
                .find(|number| memory.get(of_order(memory, *number, order::LINES)) < 15)
                .unwrap();
            let n = memory.get(of_order(memory, more, order::LINES)) + 1;
            memory.set(of_line(memory, more, n, line::ORDER), more);
            memory.set(of_line(memory, more, n, line::DELIVERED), 1);
            let less = if more == DELIVERED {
                DELIVERED + 1
            } else {
                DELIVERED
            };
            let last = if more == DELIVERED { 1 } else { lines };
            memory.set(of_line(memory, less, last, line::ORDER), 0);
        },
        &[Clause(6)],
    ),
    (
        "O_CARRIER_ID is set",
        |memory| {
            memory.set(of_order(memory, NEW, order::CARRIER), 3);
        },
        &[Clause(5), Clause(7)],
    ),
    (
        "an order is not delivered and in no queue",
        |memory| {
            memory.set(of_order(memory, DELIVERED, order::CARRIER), 0);
            for n in 1..=15 {
                memory.set(of_line(memory, DELIVERED, n, line::DELIVERED), 0);
            }
        },
        &[Clause(5)],
    ),
    (
        "a line of an order is not delivered",
        |memory| {
            memory.set(of_line(memory, DELIVERED, 1, line::DELIVERED), 0);
        },
        &[Clause(7)],
    ),
    (
        "a line is delivered before its order",
        |memory| {
            memory.set(of_line(memory, NEW, 1, line::DELIVERED), 1);
        },
        &[Clause(7), Clause(10), Clause(12)],
    ),
    (
        "H_AMOUNT",
        |memory| {
            let at = memory.layout.history(1, 17).unwrap() + history::AMOUNT;
            add(memory, at, 1);
        },
        &[Clause(8), Clause(9), Clause(10)],
    ),
    (
        "a row of HISTORY is of another district",
        |memory| {
            let at = memory.layout.history(1, 17).unwrap() + history::DISTRICT;
            add(memory, at, 1);
        },
        &[Clause(9)],
    ),
    (
        "C_BALANCE and C_YTD_PAYMENT",
        |memory| {
            add(memory, of_customer(memory, customer::BALANCE), 1);
            add(
                memory,
                of_customer(memory, customer::YTD_PAYMENT),
                1_u64.wrapping_neg(),
            );
        },
        &[Clause(10)],
    ),
    (
        "C_DELIVERY_CNT",
        |memory| {
            add(memory, of_customer(memory, customer::DELIVERIES), 1);
        },
        &[Clause(11)],
    ),
    (
        "C_YTD_PAYMENT",
        |memory| {
            add(memory, of_customer(memory, customer::YTD_PAYMENT), 1);
        },
        &[Clause(12)],
    ),
    (
        "an order is nobody's",
        |memory| {
            memory.set(of_order(memory, DELIVERED, order::CUSTOMER), 31);
        },
        &[Rings],
    ),
    (
        "a customer's last order",
        |memory| {
            add(memory, of_customer(memory, customer::LAST_ORDER), 1);
        },
        &[Indexes],
    ),
    (
        "the oldest undelivered order",
        |memory| {
            add(memory, of_district(memory, district::OLDEST_NEW), 1);
        },
        &[Indexes],
    ),
    (
        "two customers by last name",
        |memory| {
            let at = memory.layout.by_name(FIRST, 3).unwrap();
            memory.all.swap(at as usize, at as usize + 1);
        },
        &[Indexes],
    ),
    (
        "a transaction is half done",
        |memory| {
            // The undo record's count, and a pair.
            memory.set(8, 1);
            memory.set(9, 4000);
        },
        &[Undo],
    ),
];

#[test]
fn each_condition_finds_what_is_planted_for_it() {
    let memory = Memory::loaded(Scale::small(2), 1);
    assert_eq!(memory.clone().violated(), []);
    let mut found = Vec::new();
    for (what, plant, wanted) in FAULTS {
        let mut faulty = memory.clone();
        plant(&mut faulty);
        let violated = faulty.violated();
        assert_eq!(violated, wanted, "{what}");
        found.extend(violated);
    }
    let all = (1..=12).map(Clause).chain([Rings, Indexes, Undo]);
    for condition in all {
        assert!(found.contains(&condition), "nothing is planted for {condition}");
    }
    assert_eq!(UNDO.len(), 1025);
}

#[test]
fn each_is_found_after_transactions_too() {
    let seed = 2;
    println!("seed {seed}");
    let mut memory = Memory::loaded(Scale::small(2), seed);
    memory.run_mix(&mut Terminals::new(Scale::small(2), seed, 0), 2000);
    assert_eq!(memory.violated(), []);
    for column in [
        customer::BALANCE,
        customer::DROPPED_AMOUNT,
        customer::DROPPED_PAID,
    ] {
        let mut faulty = memory.clone();
        add(&mut faulty, of_customer(&memory, column), 1);
        assert!(faulty.violated().contains(&Clause(10)), "{column}");
    }
    for (column, clause) in [(district::DROPPED_ORDERS, 11), (district::DROPPED_PAID, 9)] {
        let mut faulty = memory.clone();
        add(&mut faulty, of_district(&memory, column), 1);
        assert!(faulty.violated().contains(&Clause(clause)), "{column}");
    }
}

#[test]
fn a_damaged_store_is_a_finding_or_an_error_and_never_a_panic() {
    let seed = 3;
    println!("seed {seed}");
    let mut draws = crate::tpcc::random::Random::new(seed, 0);
    let scale = Scale {
        items: 20,
        customers: 10,
        districts: 2,
        orders: 12,
        history: 20,
        warehouses: 1,
    };
    let memory = Memory::loaded(scale, seed);
    let mut terminals = Terminals::new(scale, seed, 0);
    for _ in 0..300 {
        let mut faulty = memory.clone();
        for _ in 0..20 {
            let at = draws.within(1033, faulty.all.len() as u64 - 1);
            let value = match draws.percent(50) {
                true => draws.within(0, 20),
                false => draws.within(0, u64::MAX),
            };
            faulty.set(at, value);
        }
        for _ in 0..20 {
            let _ = faulty.run(&terminals.next_input());
        }
        let layout = faulty.layout;
        let _ = super::check(&layout, &faulty.words());
    }
}
