//! Payment (clause 2.5.2).

use super::Output;
use super::columns::{add, customer_of, text};
use crate::error::Result;
use crate::tpcc::input::Who;
use crate::tpcc::layout::{District, Layout};
use crate::tpcc::rows::{customer, district, history, warehouse};
use crate::words::{Store, store_all, text_of};

pub fn run(
    layout: &Layout,
    words: &mut impl Store,
    of: District,
    (home, who): (District, Who),
    (amount, date): (u64, u64),
) -> Result<Output> {
    let warehouse_at = layout.warehouse(of.warehouse)?;
    let district_at = layout.district(of)?;
    // What the terminal shows of both.
    for (row, name, address) in [
        (warehouse_at, warehouse::NAME, warehouse::ADDRESS),
        (district_at, district::NAME, district::ADDRESS),
    ] {
        text(words, row, name)?;
        text(words, row, address)?;
    }
    add(words, warehouse_at + warehouse::YTD, amount)?;
    add(words, district_at + district::YTD, amount)?;
    let number = customer_of(layout, words, home, who)?;
    let customer_at = layout.customer(home, number)?;
    for column in [
        customer::FIRST,
        customer::MIDDLE,
        customer::LAST,
        customer::ADDRESS,
        customer::PHONE,
        customer::CREDIT,
    ] {
        text(words, customer_at, column)?;
    }
    let balance = add(words, customer_at + customer::BALANCE, amount.wrapping_neg())?;
    add(words, customer_at + customer::YTD_PAYMENT, amount)?;
    add(words, customer_at + customer::PAYMENTS, 1)?;
    if text(words, customer_at, customer::CREDIT)? == b"BC" {
        let said = format!(
            "{number} {} {} {} {} {}.{:02};",
            home.district,
            home.warehouse,
            of.district,
            of.warehouse,
            amount / 100,
            amount % 100
        );
        let mut data = said.into_bytes();
        data.extend(text(words, customer_at, customer::DATA)?);
        data.truncate(customer::DATA_BYTES);
        let data = text_of::<{ customer::DATA.words as usize }>(&data);
        store_all(words, customer_at + customer::DATA.at, &data)?;
    }
    let rows = words.load(warehouse_at + warehouse::HISTORY)?;
    make_room(layout, words, of, rows)?;
    words.store(warehouse_at + warehouse::HISTORY, rows.wrapping_add(1))?;
    let names = [
        text(words, warehouse_at, warehouse::NAME)?,
        text(words, district_at, district::NAME)?,
    ];
    let data = text_of::<{ history::DATA.words as usize }>(&names.join(&b"    "[..]));
    let [first, second, third] = data;
    let row = [
        number,
        home.district.into(),
        home.warehouse.into(),
        of.district.into(),
        date,
        amount,
        first,
        second,
        third,
    ];
    store_all(words, layout.history(of.warehouse, rows)?, &row)?;
    Ok(Output::Paid {
        customer: number,
        balance: balance as i64,
    })
}

/// Takes the row of HISTORY out whose place the new one gets. What the conditions of consistency need of it is added to
/// sums.
fn make_room(layout: &Layout, words: &mut impl Store, of: District, rows: u64) -> Result<()> {
    if rows < layout.scale().history.into() {
        return Ok(());
    }
    let row = layout.history(of.warehouse, rows)?;
    let column = |column| words.load(row + column);
    let amount = column(history::AMOUNT)?;
    let home = District {
        warehouse: number(column(history::CUSTOMER_WAREHOUSE)?),
        district: number(column(history::CUSTOMER_DISTRICT)?),
    };
    let paid_in = District {
        district: number(column(history::DISTRICT)?),
        ..of
    };
    let customer_at = layout.customer(home, column(history::CUSTOMER)?)?;
    add(words, customer_at + customer::DROPPED_PAID, amount)?;
    add(words, layout.district(paid_in)? + district::DROPPED_PAID, amount)?;
    Ok(())
}

/// A number of a row that must be small; one that is not is none.
fn number(word: u64) -> u32 {
    u32::try_from(word).unwrap_or(0)
}
