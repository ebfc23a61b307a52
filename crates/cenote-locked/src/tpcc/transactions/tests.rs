//! Each transaction against what its clause says; all of them killed after each of their stores.

use super::*;
use crate::error::Error;
use crate::tpcc::input::{Kind, Ordered, Terminals, Who};
use crate::tpcc::layout::District;
use crate::tpcc::rows::{customer, district, history, item, line, order, stock, warehouse};
use crate::tpcc::scale::Scale;
use crate::tpcc::testing::{FIRST, Memory};
use crate::words::mortal::Mortal;
use crate::words::{WordsMut, text_in, text_of};

fn two() -> Memory {
    Memory::loaded(Scale::small(2), 5)
}

fn ordered(item: u64, supplier: u32, quantity: u64) -> Ordered {
    Ordered {
        item,
        supplier,
        quantity,
    }
}

fn order_of(lines: &[Ordered]) -> Input {
    Input::NewOrder {
        district: FIRST,
        customer: 4,
        lines: lines.to_vec(),
    }
}

fn text(memory: &Memory, row: u64, column: crate::tpcc::rows::Text) -> Vec<u8> {
    let at = (row + column.at) as usize;
    text_in(&memory.all[at..at + column.words as usize]).to_vec()
}

#[test]
fn a_new_order_is_entered_and_taken_out_of_stock() {
    let mut memory = two();
    let layout = memory.layout;
    let (here, there) = (layout.stock(1, 7).unwrap(), layout.stock(2, 9).unwrap());
    memory.set(here + stock::QUANTITY, 15);
    memory.set(there + stock::QUANTITY, 14);
    let district_at = layout.district(FIRST).unwrap();
    memory.set(district_at + district::TAX, 1000);
    memory.set(layout.warehouse(1).unwrap() + warehouse::TAX, 500);
    let customer_at = layout.customer(FIRST, 4).unwrap();
    memory.set(customer_at + customer::DISCOUNT, 2000);
    for (item, price) in [(7, 1000), (9, 300)] {
        memory.set(layout.item(item).unwrap() + item::PRICE, price);
    }
    for row in [layout.item(7).unwrap() + item::DATA.at, here + stock::DATA.at] {
        let words = text_of::<7>(b"here ORIGINAL and so on");
        (row..).zip(words).for_each(|(at, word)| memory.set(at, word));
    }
    memory.set(layout.item(9).unwrap() + item::DATA.at, 0);
    let output = memory.run(&order_of(&[ordered(7, 1, 5), ordered(9, 2, 5)]));
    // 50.00 and 15.00, less 20 %, and 15 % taxes.
    let wanted = Output::Ordered {
        order: 31,
        total: 5980,
        brand: 1,
    };
    assert_eq!(output.unwrap(), wanted);
    assert_eq!(memory.get(district_at + district::NEXT_ORDER), 32);
    assert_eq!(memory.get(customer_at + customer::LAST_ORDER), 31);
    assert_eq!(memory.get(layout.new_order(FIRST, 31).unwrap()), 31);
    let order_at = layout.order(FIRST, 31).unwrap() as usize;
    assert_eq!(memory.all[order_at..order_at + 6], [31, 4, 77, 0, 2, 0]);
    // 10 are left, so nothing is filled up; 9 would be, so it is.
    let column = |row, column| memory.get(row + column);
    assert_eq!(column(here, stock::QUANTITY), 10);
    assert_eq!(column(there, stock::QUANTITY), 100);
    assert_eq!([column(here, stock::YTD), column(here, stock::ORDERS)], [5, 1]);
    assert_eq!(
        [column(here, stock::REMOTE), column(there, stock::REMOTE)],
        [0, 1]
    );
    for (n, (item, supplier, amount)) in (1..).zip([(7, 1, 5000), (9, 2, 1500)]) {
        let at = layout.line(FIRST, 31, n).unwrap();
        let row = &memory.all[at as usize..][..6];
        assert_eq!(row, [31, item, supplier, 0, 5, amount]);
        let stock_at = layout.stock(supplier as u32, item).unwrap();
        assert_eq!(
            text(&memory, at, line::INFO),
            text(&memory, stock_at, stock::district(1))
        );
    }
    assert_eq!(memory.violated(), []);
}

#[test]
fn a_new_order_with_an_item_that_does_not_exist_leaves_nothing() {
    let mut memory = two();
    let before = memory.clone();
    let none = u64::from(memory.layout.scale().items) + 1;
    let input = order_of(&[ordered(7, 1, 5), ordered(none, 1, 5)]);
    assert_eq!(memory.run(&input).unwrap(), Output::RolledBack);
    assert!(memory.rows() == before.rows());
    // As does an error in the middle.
    let input = order_of(&[ordered(7, 1, 5), ordered(7, 3, 5)]);
    assert!(matches!(memory.run(&input), Err(Error::NoSuch { number: 3, .. })));
    assert!(memory.rows() == before.rows());
    assert_eq!(memory.violated(), []);
}

fn payment(customer: Who, home: District) -> Input {
    Input::Payment {
        district: FIRST,
        customer_district: home,
        customer,
        amount: 12_345,
    }
}

#[test]
fn a_payment_is_noted_with_the_customer_the_district_and_the_warehouse() {
    let mut memory = two();
    let layout = memory.layout;
    let home = District {
        warehouse: 2,
        district: 3,
    };
    let customer_at = layout.customer(home, 4).unwrap();
    let before = memory.clone();
    for (credit, data) in [(b"GC", None), (b"BC", Some(&b"4 3 2 1 1 123.45;"[..]))] {
        memory.all.clone_from(&before.all);
        memory.set(customer_at + customer::CREDIT.at, text_of::<1>(credit)[0]);
        let output = memory.run(&payment(Who::Number(4), home)).unwrap();
        let wanted = Output::Paid {
            customer: 4,
            balance: -13_345,
        };
        assert_eq!(output, wanted);
        let grown = |at| memory.get(at).wrapping_sub(before.get(at));
        let rows = [
            layout.warehouse(1).unwrap() + warehouse::YTD,
            layout.district(FIRST).unwrap() + district::YTD,
            customer_at + customer::YTD_PAYMENT,
        ];
        assert_eq!(rows.map(grown), [12_345; 3]);
        assert_eq!(grown(customer_at + customer::PAYMENTS), 1);
        let [was, is] = [&before, &memory].map(|memory| text(memory, customer_at, customer::DATA));
        match data {
            None => assert_eq!(was, is),
            Some(data) => {
                assert!(is.starts_with(data) && is.len() <= customer::DATA_BYTES);
                let kept = is.len() - data.len();
                assert_eq!(is[data.len()..], was[..kept]);
            }
        }
        let row = layout.history(
            1,
            memory.get(layout.warehouse(1).unwrap() + warehouse::HISTORY) - 1,
        );
        let row = row.unwrap() as usize;
        assert_eq!(memory.all[row..row + 6], [4, 3, 2, 1, 77, 12_345]);
        assert_eq!(memory.violated(), []);
    }
}

#[test]
fn a_customer_by_last_name_is_the_one_in_the_middle() {
    // 30 customers of 10 names: three each.
    let scale = Scale {
        customers: 30,
        ..Scale::small(1)
    };
    let mut memory = Memory::loaded(scale, 5);
    let layout = memory.layout;
    // All names have one customer; give the first name three of them.
    let first = layout.name(FIRST, 0).unwrap();
    memory.set(first + 1, 3);
    memory.set(first + 2, 3);
    let places: Vec<u64> = (0..3)
        .map(|place| memory.get(layout.by_name(FIRST, place).unwrap()))
        .collect();
    let mut who = |name| match memory.run(&payment(Who::LastName(name), FIRST)) {
        Ok(Output::Paid { customer, .. }) => Some(customer),
        Err(Error::NoSuch { .. }) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(who(0), Some(places[1]));
    assert_eq!(who(1), None);
    // Of two, the first.
    let two = layout.name(FIRST, 0).unwrap();
    memory.set(two + 1, 2);
    let mut who = |name| match memory.run(&payment(Who::LastName(name), FIRST)) {
        Ok(Output::Paid { customer, .. }) => Some(customer),
        other => panic!("{other:?}"),
    };
    assert_eq!(who(0), Some(places[0]));
}

#[test]
fn the_status_of_an_order_is_that_of_the_customers_last_one() {
    let mut memory = two();
    let lines: Vec<Ordered> = (1..=6).map(|n| ordered(n, 1, n)).collect();
    memory.run(&order_of(&lines)).unwrap();
    let input = Input::OrderStatus {
        district: FIRST,
        customer: Who::Number(4),
    };
    let Output::Status {
        customer,
        balance,
        order,
        lines,
    } = memory.run(&input).unwrap()
    else {
        panic!("no status");
    };
    assert_eq!((customer, balance, order), (4, -1000, Some((31, 0))));
    let seen: Vec<(u64, u64)> = lines.iter().map(|line| (line.item, line.quantity)).collect();
    let wanted: Vec<(u64, u64)> = (1..=6).map(|n| (n, n)).collect();
    assert_eq!(seen, wanted);
    assert!(lines.iter().all(|line| line.delivered == 0 && line.supplier == 1));
}

#[test]
fn a_delivery_takes_the_oldest_order_of_each_district_until_there_is_none() {
    let mut memory = two();
    let layout = memory.layout;
    let undelivered = u64::from(layout.scale().undelivered());
    let oldest = 30 - undelivered + 1;
    let order_at = layout.order(FIRST, oldest).unwrap();
    let by = memory.get(order_at + order::CUSTOMER);
    let lines = memory.get(order_at + order::LINES);
    let amount: u64 = (1..=lines)
        .map(|n| memory.get(layout.line(FIRST, oldest, n).unwrap() + line::AMOUNT))
        .sum();
    let delivery = Input::Delivery {
        warehouse: 1,
        carrier: 6,
    };
    assert_eq!(memory.run(&delivery).unwrap(), Output::Delivered(10));
    assert_eq!(memory.get(order_at + order::CARRIER), 6);
    assert_eq!(memory.get(layout.new_order(FIRST, oldest).unwrap()), 0);
    let customer_at = layout.customer(FIRST, by).unwrap();
    assert_eq!(
        memory.get(customer_at + customer::BALANCE) as i64,
        amount as i64 - 1000
    );
    assert_eq!(memory.get(customer_at + customer::DELIVERIES), 1);
    for _ in 1..undelivered {
        assert_eq!(memory.run(&delivery).unwrap(), Output::Delivered(10));
        assert_eq!(memory.violated(), []);
    }
    assert_eq!(memory.run(&delivery).unwrap(), Output::Delivered(0));
    assert_eq!(memory.violated(), []);
}

#[test]
fn the_stock_level_counts_items_of_the_last_twenty_orders() {
    let mut memory = two();
    let layout = memory.layout;
    let items = u64::from(layout.scale().items);
    for item in 1..=items {
        let at = layout.stock(1, item).unwrap();
        memory.set(at + stock::QUANTITY, 10 + item % 20);
    }
    let mut wanted = std::collections::BTreeSet::new();
    for number in 11..=30 {
        for n in 1..=order::LINES_MAX {
            let at = layout.line(FIRST, number, n).unwrap();
            if memory.get(at + line::ORDER) == number {
                wanted.insert(memory.get(at + line::ITEM));
            }
        }
    }
    wanted.retain(|item| 10 + item % 20 < 15);
    assert!(!wanted.is_empty());
    let input = Input::StockLevel {
        district: FIRST,
        threshold: 15,
    };
    assert_eq!(memory.run(&input).unwrap(), Output::Short(wanted.len() as u64));
}

#[test]
fn a_district_without_room_refuses_orders_until_one_is_delivered() {
    let mut memory = two();
    let input = order_of(&[ordered(1, 1, 1); 5]);
    let room = memory.layout.scale().orders - memory.layout.scale().undelivered();
    for _ in 0..room {
        memory.run(&input).unwrap();
    }
    assert!(matches!(memory.run(&input), Err(Error::Full { kept: 60, .. })));
    let delivery = Input::Delivery {
        warehouse: 1,
        carrier: 6,
    };
    memory.run(&delivery).unwrap();
    memory.run(&input).unwrap();
    assert_eq!(memory.violated(), []);
}

#[test]
fn the_conditions_hold_in_the_standard_mix_while_rings_go_round() {
    let seed = 9;
    println!("seed {seed}");
    let mut memory = two();
    let mut terminals = Terminals::new(*memory.layout.scale(), seed, 0);
    for _ in 0..4 {
        memory.run_mix(&mut terminals, 1500);
        assert_eq!(memory.violated(), []);
    }
    let layout = memory.layout;
    let dropped = |column| {
        let of = |of| memory.get(layout.district(of).unwrap() + column);
        layout.districts().map(of).all(|dropped| dropped != 0)
    };
    assert!(dropped(district::DROPPED_ORDERS) && dropped(district::DROPPED_PAID));
    let rows = memory.get(layout.warehouse(1).unwrap() + warehouse::HISTORY);
    assert!(
        rows > 2 * u64::from(layout.scale().history),
        "{rows} {}",
        history::WORDS
    );
}

#[test]
fn an_owner_that_dies_after_any_store_of_a_transaction_leaves_what_the_next_one_repairs() {
    let seed = 13;
    println!("seed {seed}");
    let scale = Scale {
        items: 20,
        districts: 3,
        customers: 10,
        orders: 12,
        history: 30,
        warehouses: 2,
    };
    let mut memory = Memory::loaded(scale, seed);
    let layout = memory.layout;
    let mut terminals = Terminals::new(scale, seed, 0);
    // Rings go round, so that transactions make room.
    memory.run_mix(&mut terminals, 300);
    for kind in [Kind::NewOrder, Kind::Payment, Kind::Delivery] {
        let mut input = terminals.of_kind(kind);
        while memory.clone().run(&input).is_err() {
            input = terminals.of_kind(kind);
        }
        let mut after = memory.clone();
        after.run(&input).unwrap();
        for lives in 0.. {
            let mut struck = memory.clone();
            let mut words = struck.words();
            let mut mortal = Mortal {
                words: &mut words,
                left: lives,
            };
            let is_done = execute(&layout, &mut mortal, &input, 77).is_ok();
            repair(&mut words, lives);
            let wanted = if is_done { &after } else { &memory };
            assert!(struck.rows() == wanted.rows(), "{kind:?}, {lives} stores");
            assert_eq!(struck.violated(), []);
            if is_done {
                assert!(lives > 30, "{kind:?} makes {lives} stores");
                break;
            }
        }
    }
}

/// The next owners, of whom the first dies in its repair.
fn repair(words: &mut WordsMut<'_>, lives: u64) {
    let mut mortal = Mortal {
        words,
        left: lives % 7,
    };
    let _ = UNDO.roll_back(&mut mortal);
    UNDO.roll_back(words).unwrap();
}

#[test]
fn numbers_that_do_not_exist_are_refused() {
    let mut memory = two();
    let none = District {
        warehouse: 1,
        district: 11,
    };
    let inputs = [
        Input::NewOrder {
            district: none,
            customer: 1,
            lines: vec![ordered(1, 1, 1)],
        },
        payment(Who::Number(31), FIRST),
        payment(Who::Number(1), none),
        payment(Who::LastName(30), FIRST),
        payment(Who::LastName(u32::MAX), FIRST),
        Input::OrderStatus {
            district: FIRST,
            customer: Who::Number(0),
        },
        Input::Delivery {
            warehouse: 3,
            carrier: 1,
        },
        // It would leave an order delivered and not delivered.
        Input::Delivery {
            warehouse: 1,
            carrier: 0,
        },
        Input::StockLevel {
            district: none,
            threshold: 1,
        },
    ];
    let before = memory.clone();
    for input in inputs {
        assert!(
            matches!(memory.run(&input), Err(Error::NoSuch { .. })),
            "{input:?}"
        );
    }
    let lines = vec![ordered(1, 1, 1); 16];
    assert!(memory.run(&order_of(&lines)).is_err());
    assert!(memory.rows() == before.rows());
}
