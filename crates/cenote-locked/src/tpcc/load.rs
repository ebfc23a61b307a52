//! The first population of a store (clause 4.3.3), from a seed.

use super::layout::{District, LOADING, Layout, MAGIC, UNDO};
use super::random::{Random, last_name};
use super::rows::{customer, district, history, item, line, order, stock, warehouse};
use crate::error::Result;
use crate::words::{Store, store_all, text_of};

/// What each customer has paid before (clause 4.3.3.1), in cents.
pub(super) const PAID: u64 = 1000;
/// Rates are in hundredths of a per cent.
const TAX_MOST: u64 = 2000;
const DISCOUNT_MOST: u64 = 5000;

/// A row that is filled.
struct Row<'w, W> {
    words: &'w mut W,
    at: u64,
}

impl<W: Store> Row<'_, W> {
    fn set(&mut self, column: u64, value: u64) -> Result<()> {
        self.words.store(self.at + column, value)
    }

    fn text(&mut self, column: super::rows::Text, text: &[u64]) -> Result<()> {
        store_all(self.words, self.at + column.at, text)
    }
}

/// Loads a store. The first word says while it goes on that it does, so that a store whose loader died is not taken for
/// one. What else was there is cleared by each loader, whatever the first word says: one that died may have cleared a
/// beginning of it.
pub(super) fn load(layout: &Layout, words: &mut impl Store, seed: u64, date: u64) -> Result<()> {
    words.store(0, LOADING)?;
    for at in 1..layout.bytes() / 8 {
        // What is zero is left alone: of a new lock that is all of it.
        if words.load(at)? != 0 {
            words.store(at, 0)?;
        }
    }
    for (n, (_, size)) in (0..).zip(layout.scale().words()) {
        words.store(Layout::size_at(n), size)?;
    }
    debug_assert_eq!(UNDO.count(words).ok(), Some(0));
    let mut random = Random::new(seed, 0);
    load_items(layout, words, &mut random)?;
    for number in 1..=layout.scale().warehouses {
        // Each warehouse has draws of its own.
        let mut random = Random::new(seed, number.into());
        load_warehouse(layout, words, number, &mut random)?;
        for district in 1..=layout.scale().districts {
            let of = District {
                warehouse: number,
                district,
            };
            load_district(layout, words, of, &mut random)?;
            load_customers(layout, words, of, (&mut random, date))?;
            load_orders(layout, words, of, (&mut random, date))?;
        }
    }
    words.store(0, MAGIC)
}

fn load_items(layout: &Layout, words: &mut impl Store, random: &mut Random) -> Result<()> {
    for number in 1..=u64::from(layout.scale().items) {
        let Some(at) = layout.item(number) else {
            continue;
        };
        let mut row = Row { words, at };
        row.set(item::PRICE, random.within(100, 10_000))?;
        row.set(item::IMAGE, random.within(1, 10_000))?;
        row.text(item::NAME, &random.text::<3>(14, 24))?;
        row.text(item::DATA, &random.data())?;
    }
    Ok(())
}

fn load_warehouse(layout: &Layout, words: &mut impl Store, number: u32, random: &mut Random) -> Result<()> {
    let scale = *layout.scale();
    let customers = u64::from(scale.districts) * u64::from(scale.customers);
    let at = layout.warehouse(number)?;
    let mut row = Row { words, at };
    row.set(warehouse::YTD, customers * PAID)?;
    row.set(warehouse::TAX, random.within(0, TAX_MOST))?;
    row.set(warehouse::HISTORY, customers)?;
    row.text(warehouse::NAME, &random.text::<2>(6, 10))?;
    row.text(warehouse::ADDRESS, &random.address())?;
    for item in 1..=u64::from(scale.items) {
        let at = layout.stock(number, item)?;
        let mut row = Row { words, at };
        row.set(stock::QUANTITY, random.within(10, 100))?;
        for column in [stock::YTD, stock::ORDERS, stock::REMOTE] {
            row.set(column, 0)?;
        }
        for district in 1..=10 {
            row.text(stock::district(district), &random.text::<3>(24, 24))?;
        }
        row.text(stock::DATA, &random.data())?;
    }
    Ok(())
}

fn load_district(layout: &Layout, words: &mut impl Store, of: District, random: &mut Random) -> Result<()> {
    let scale = *layout.scale();
    let at = layout.district(of)?;
    let mut row = Row { words, at };
    let next = u64::from(scale.customers) + 1;
    row.set(district::NEXT_ORDER, next)?;
    row.set(district::OLDEST_NEW, next - u64::from(scale.undelivered()))?;
    row.set(district::YTD, u64::from(scale.customers) * PAID)?;
    row.set(district::TAX, random.within(0, TAX_MOST))?;
    row.set(district::DROPPED_ORDERS, 0)?;
    row.set(district::DROPPED_PAID, 0)?;
    row.text(district::NAME, &random.text::<2>(6, 10))?;
    row.text(district::ADDRESS, &random.address())
}

fn load_customers(
    layout: &Layout,
    words: &mut impl Store,
    of: District,
    (random, date): (&mut Random, u64),
) -> Result<()> {
    let scale = *layout.scale();
    // For each last name its customers, by first name.
    let mut by_name: Vec<Vec<([u64; 2], u32)>> = vec![Vec::new(); scale.names() as usize];
    for number in 1..=scale.customers {
        let name = match number <= scale.names() {
            true => number - 1,
            false => random.name_to_load(scale.names()),
        };
        let first = random.text::<2>(8, 16);
        by_name[name as usize].push((first, number));
        let at = layout.customer(of, number.into())?;
        let mut row = Row { words, at };
        row.set(customer::BALANCE, PAID.wrapping_neg())?;
        row.set(customer::YTD_PAYMENT, PAID)?;
        row.set(customer::PAYMENTS, 1)?;
        for column in [
            customer::DELIVERIES,
            customer::LAST_ORDER,
            customer::DROPPED_AMOUNT,
            customer::DROPPED_PAID,
        ] {
            row.set(column, 0)?;
        }
        row.set(customer::DISCOUNT, random.within(0, DISCOUNT_MOST))?;
        row.set(customer::CREDIT_LIMIT, 5_000_000)?;
        row.set(customer::SINCE, date)?;
        let credit: &[u8] = match random.percent(10) {
            true => b"BC",
            false => b"GC",
        };
        row.text(customer::CREDIT, &text_of::<1>(credit))?;
        row.text(customer::FIRST, &first)?;
        row.text(customer::MIDDLE, &text_of::<1>(b"OE"))?;
        row.text(customer::LAST, &text_of::<2>(last_name(name).as_bytes()))?;
        row.text(customer::ADDRESS, &random.address())?;
        row.text(customer::PHONE, &random.text::<2>(16, 16))?;
        row.text(customer::DATA, &random.text::<63>(300, 500))?;
        load_history(layout, words, of, (number, random, date))?;
    }
    let mut place = 0;
    for (name, customers) in (0..).zip(&mut by_name) {
        words.store(layout.name(of, name)?, place)?;
        customers.sort_by(|one, other| {
            let text = |first: &[u64; 2]| -> [u8; 16] { bytemuck::cast(*first) };
            text(&one.0).cmp(&text(&other.0))
        });
        for (_, number) in customers {
            words.store(layout.by_name(of, place)?, u64::from(*number))?;
            place += 1;
        }
    }
    words.store(layout.name(of, scale.names())?, place)
}

fn load_history(
    layout: &Layout,
    words: &mut impl Store,
    of: District,
    (number, random, date): (u32, &mut Random, u64),
) -> Result<()> {
    let before = u64::from(of.district - 1) * u64::from(layout.scale().customers);
    let at = layout.history(of.warehouse, before + u64::from(number) - 1)?;
    let mut row = Row { words, at };
    row.set(history::CUSTOMER, number.into())?;
    row.set(history::CUSTOMER_DISTRICT, of.district.into())?;
    row.set(history::CUSTOMER_WAREHOUSE, of.warehouse.into())?;
    row.set(history::DISTRICT, of.district.into())?;
    row.set(history::DATE, date)?;
    row.set(history::AMOUNT, PAID)?;
    row.text(history::DATA, &random.text::<3>(12, 24))
}

fn load_orders(
    layout: &Layout,
    words: &mut impl Store,
    of: District,
    (random, date): (&mut Random, u64),
) -> Result<()> {
    let scale = *layout.scale();
    let customers = random.permutation(scale.customers);
    let delivered = u64::from(scale.customers - scale.undelivered());
    for (number, of_customer) in (1..).zip(customers) {
        let is_delivered = number <= delivered;
        let lines = random.within(5, order::LINES_MAX);
        let at = layout.order(of, number)?;
        let mut row = Row { words, at };
        row.set(order::ID, number)?;
        row.set(order::CUSTOMER, of_customer.into())?;
        row.set(order::ENTERED, date)?;
        row.set(
            order::CARRIER,
            if is_delivered { random.within(1, 10) } else { 0 },
        )?;
        row.set(order::LINES, lines)?;
        row.set(order::ALL_LOCAL, 1)?;
        for n in 1..=lines {
            let at = layout.line(of, number, n)?;
            let mut row = Row { words, at };
            row.set(line::ORDER, number)?;
            row.set(line::ITEM, random.within(1, scale.items.into()))?;
            row.set(line::SUPPLIER, of.warehouse.into())?;
            row.set(line::DELIVERED, if is_delivered { date } else { 0 })?;
            row.set(line::QUANTITY, 5)?;
            let amount = match is_delivered {
                true => 0,
                false => random.within(1, 999_999),
            };
            row.set(line::AMOUNT, amount)?;
            row.text(line::INFO, &random.text::<3>(24, 24))?;
        }
        if !is_delivered {
            words.store(layout.new_order(of, number)?, number)?;
        }
        // No customer has two orders yet.
        let at = layout.customer(of, of_customer.into())?;
        words.store(at + customer::LAST_ORDER, number)?;
    }
    Ok(())
}
