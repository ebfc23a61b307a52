//! Delivery (clause 2.7.4), executed at once, for all districts in one transaction.

use super::Output;
use super::columns::add;
use crate::error::{Error, Result};
use crate::tpcc::layout::{District, Layout};
use crate::tpcc::rows::{customer, district, line, order};
use crate::words::Store;

pub fn run(
    layout: &Layout,
    words: &mut impl Store,
    warehouse: u32,
    (carrier, date): (u64, u64),
) -> Result<Output> {
    if carrier == 0 {
        // O_CARRIER_ID of an order that is not delivered.
        let what = "carrier";
        return Err(Error::NoSuch { what, number: 0 });
    }
    let mut delivered = 0;
    for district in 1..=layout.scale().districts {
        let of = District { warehouse, district };
        delivered += u64::from(deliver(layout, words, of, (carrier, date))?);
    }
    Ok(Output::Delivered(delivered))
}

/// Delivers the oldest order of a district. Returns whether there was one.
fn deliver(
    layout: &Layout,
    words: &mut impl Store,
    of: District,
    (carrier, date): (u64, u64),
) -> Result<bool> {
    let district_at = layout.district(of)?;
    let oldest = words.load(district_at + district::OLDEST_NEW)?;
    let new_order_at = layout.new_order(of, oldest)?;
    if oldest == 0 || words.load(new_order_at)? != oldest {
        return Ok(false);
    }
    words.store(new_order_at, 0)?;
    words.store(district_at + district::OLDEST_NEW, oldest.wrapping_add(1))?;
    let order_at = layout.order(of, oldest)?;
    let by = words.load(order_at + order::CUSTOMER)?;
    words.store(order_at + order::CARRIER, carrier)?;
    let mut amount = 0_u64;
    for n in 1..=words.load(order_at + order::LINES)?.min(order::LINES_MAX) {
        let line_at = layout.line(of, oldest, n)?;
        amount = amount.wrapping_add(words.load(line_at + line::AMOUNT)?);
        words.store(line_at + line::DELIVERED, date)?;
    }
    let customer_at = layout.customer(of, by)?;
    add(words, customer_at + customer::BALANCE, amount)?;
    add(words, customer_at + customer::DELIVERIES, 1)?;
    Ok(true)
}
