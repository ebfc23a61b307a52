//! New-Order (clause 2.4.2).

use super::Output;
use super::columns::{add, text};
use crate::error::{Error, Result};
use crate::tpcc::input::Ordered;
use crate::tpcc::layout::{District, Layout};
use crate::tpcc::rows::{customer, district, item, line, order, stock, warehouse};
use crate::words::{Store, store_all};

/// All of a rate: rates are in hundredths of a per cent.
const WHOLE: u128 = 10_000;

fn is_original(data: &[u8]) -> bool {
    data.windows(8).any(|part| part == b"ORIGINAL")
}

pub fn run(
    layout: &Layout,
    words: &mut impl Store,
    (of, by): (District, u32),
    lines: &[Ordered],
    date: u64,
) -> Result<Output> {
    let warehouse_tax = words.load(layout.warehouse(of.warehouse)? + warehouse::TAX)?;
    let district_at = layout.district(of)?;
    let district_tax = words.load(district_at + district::TAX)?;
    let number = words.load(district_at + district::NEXT_ORDER)?;
    let customer_at = layout.customer(of, by.into())?;
    let discount = words.load(customer_at + customer::DISCOUNT)?;
    // What the terminal shows of the customer.
    text(words, customer_at, customer::LAST)?;
    text(words, customer_at, customer::CREDIT)?;
    make_room(layout, words, of, number)?;
    words.store(district_at + district::NEXT_ORDER, number.wrapping_add(1))?;
    words.store(customer_at + customer::LAST_ORDER, number)?;
    let is_local = lines.iter().all(|line| line.supplier == of.warehouse);
    let order_at = layout.order(of, number)?;
    let row = [
        number,
        by.into(),
        date,
        0,
        lines.len() as u64,
        u64::from(is_local),
    ];
    store_all(words, order_at, &row)?;
    words.store(layout.new_order(of, number)?, number)?;
    let (mut sum, mut brand) = (0_u128, 0);
    for (n, ordered) in (1..).zip(lines) {
        let Some(item_at) = layout.item(ordered.item) else {
            return Ok(Output::RolledBack);
        };
        let price = words.load(item_at + item::PRICE)?;
        text(words, item_at, item::NAME)?;
        let stock_at = layout.stock(ordered.supplier, ordered.item)?;
        let is_brand = is_original(text(words, item_at, item::DATA)?)
            && is_original(text(words, stock_at, stock::DATA)?);
        brand += u64::from(is_brand);
        take(words, stock_at, ordered.quantity)?;
        if ordered.supplier != of.warehouse {
            add(words, stock_at + stock::REMOTE, 1)?;
        }
        let amount = price.wrapping_mul(ordered.quantity);
        sum += u128::from(amount);
        let info = stock_at + stock::district(of.district).at;
        let mut row = [
            number,
            ordered.item,
            ordered.supplier.into(),
            0,
            ordered.quantity,
            amount,
            0,
            0,
            0,
        ];
        row[line::INFO.at as usize..].copy_from_slice(words.words(info, line::INFO.words)?);
        store_all(words, layout.line(of, number, n)?, &row)?;
    }
    let taxed = WHOLE + u128::from(warehouse_tax) + u128::from(district_tax);
    let total = sum
        .saturating_mul(WHOLE.saturating_sub(discount.into()))
        .saturating_mul(taxed)
        / (WHOLE * WHOLE);
    Ok(Output::Ordered {
        order: number,
        total: total as u64,
        brand,
    })
}

/// Takes a quantity out of a stock, which is filled up if little is left.
fn take(words: &mut impl Store, stock_at: u64, quantity: u64) -> Result<()> {
    let there = words.load(stock_at + stock::QUANTITY)?;
    let left = match there.checked_sub(quantity) {
        Some(left) if left >= 10 => left,
        _ => there.wrapping_sub(quantity).wrapping_add(91),
    };
    words.store(stock_at + stock::QUANTITY, left)?;
    add(words, stock_at + stock::YTD, quantity)?;
    add(words, stock_at + stock::ORDERS, 1)?;
    Ok(())
}

/// Takes the order out whose rows the new one gets. What the conditions of consistency need of it is added to sums.
fn make_room(layout: &Layout, words: &mut impl Store, of: District, number: u64) -> Result<()> {
    let order_at = layout.order(of, number)?;
    let former = words.load(order_at + order::ID)?;
    if former == 0 {
        return Ok(());
    }
    if words.load(layout.new_order(of, number)?)? != 0 {
        return Err(Error::Full {
            warehouse: of.warehouse,
            district: of.district,
            kept: layout.scale().orders,
        });
    }
    let mut amount = 0_u64;
    for n in 1..=order::LINES_MAX {
        let line_at = layout.line(of, number, n)?;
        if words.load(line_at + line::ORDER)? == former {
            amount = amount.wrapping_add(words.load(line_at + line::AMOUNT)?);
            words.store(line_at + line::ORDER, 0)?;
        }
    }
    let by = words.load(order_at + order::CUSTOMER)?;
    let customer_at = layout.customer(of, by)?;
    add(words, customer_at + customer::DROPPED_AMOUNT, amount)?;
    let district_at = layout.district(of)?;
    add(words, district_at + district::DROPPED_ORDERS, 1)?;
    Ok(())
}
