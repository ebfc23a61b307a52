//! Orders, new orders and lines of a district: conditions 2 to 7 and 11, and the rings that they lie in.

use super::{Condition, Findings};
use crate::error::Result;
use crate::tpcc::layout::{District, Layout};
use crate::tpcc::rows::{customer, district, line, order};
use crate::words::Load;

/// What the rows of a district amount to.
#[derive(Default)]
struct Sums {
    orders: u64,
    last_order: u64,
    new_orders: u64,
    first_new: Option<u64>,
    last_new: u64,
    /// Sum of O_OL_CNT.
    counts: u64,
    lines: u64,
}

pub fn check(layout: &Layout, words: &impl Load, of: District, findings: &mut Findings<'_>) -> Result<()> {
    let mut sums = Sums::default();
    for slot in 0..u64::from(layout.scale().orders) {
        check_slot(layout, words, (of, slot), &mut sums, findings)?;
    }
    let at = layout.district(of)?;
    let column = |column| words.load(at + column);
    let next = column(district::NEXT_ORDER)?;
    findings.same(
        2,
        ("D_NEXT_O_ID - 1", next.wrapping_sub(1)),
        ("the greatest O_ID", sums.last_order),
    );
    let oldest = column(district::OLDEST_NEW)?;
    if let Some(first) = sums.first_new {
        findings.same(
            2,
            ("D_NEXT_O_ID - 1", next.wrapping_sub(1)),
            ("the greatest NO_O_ID", sums.last_new),
        );
        findings.same(
            3,
            (
                "NO_O_IDs from the least to the greatest",
                sums.last_new - first + 1,
            ),
            ("the number of rows of NEW-ORDER", sums.new_orders),
        );
    }
    let wanted = sums.first_new.unwrap_or(next);
    if oldest != wanted {
        let what = format!("the oldest undelivered order is said to be {oldest}, and is {wanted}");
        findings.add(Condition::Indexes, what);
    }
    findings.same(
        4,
        ("the sum of O_OL_CNT", sums.counts),
        ("the number of rows of ORDER-LINE", sums.lines),
    );
    let mut deliveries = 0_u64;
    for number in 1..=u64::from(layout.scale().customers) {
        let delivered = words.load(layout.customer(of, number)? + customer::DELIVERIES)?;
        deliveries = deliveries.wrapping_add(delivered);
    }
    let loaded = u64::from(layout.scale().customers - layout.scale().undelivered());
    let entered = sums.orders.wrapping_add(column(district::DROPPED_ORDERS)?);
    findings.same(
        11,
        (
            "orders without those of NEW-ORDER",
            entered.wrapping_sub(sums.new_orders),
        ),
        (
            "orders that were loaded as delivered, and the sum of C_DELIVERY_CNT",
            loaded.wrapping_add(deliveries),
        ),
    );
    Ok(())
}

fn check_slot(
    layout: &Layout,
    words: &impl Load,
    (of, slot): (District, u64),
    sums: &mut Sums,
    findings: &mut Findings<'_>,
) -> Result<()> {
    let row = words.words(layout.order(of, slot)?, order::WORDS)?;
    let column = |column| row[column as usize];
    let (id, carrier) = (column(order::ID), column(order::CARRIER));
    let mut own_lines = 0;
    for n in 1..=order::LINES_MAX {
        let row = words.words(layout.line(of, slot, n)?, line::WORDS)?;
        let of_order = row[line::ORDER as usize];
        if of_order == 0 {
            continue;
        }
        sums.lines += 1;
        own_lines += u64::from(of_order == id);
        let is_delivered = row[line::DELIVERED as usize] != 0;
        if of_order == id && is_delivered != (carrier != 0) {
            let what = format!("line {n} of order {id}: OL_DELIVERY_D is set or O_CARRIER_ID, not both");
            findings.add(Condition::Clause(7), what);
        }
    }
    let new = words.load(layout.new_order(of, slot)?)?;
    if new != 0 {
        sums.new_orders += 1;
        sums.last_new = sums.last_new.max(new);
        sums.first_new = Some(sums.first_new.map_or(new, |first| first.min(new)));
    }
    if id != 0 {
        sums.orders += 1;
        sums.last_order = sums.last_order.max(id);
        sums.counts = sums.counts.wrapping_add(column(order::LINES));
        findings.same(
            6,
            (&format!("O_OL_CNT of order {id}"), column(order::LINES)),
            ("the number of its rows of ORDER-LINE", own_lines),
        );
    }
    if (id != 0 && carrier == 0) != (new != 0) {
        let what = format!("order {id}: O_CARRIER_ID is set, and a row of NEW-ORDER is there; or neither");
        findings.add(Condition::Clause(5), what);
    }
    for (table, number) in [("ORDER", id), ("NEW-ORDER", new)] {
        if number != 0 && number % u64::from(layout.scale().orders) != slot {
            let what = format!("the row of {table} at {slot} is of order {number}");
            findings.add(Condition::Rings, what);
        }
    }
    let by = column(order::CUSTOMER);
    if id != 0 && layout.customer(of, by).is_err() {
        let what = format!("order {id} is of customer {by}, who does not exist");
        findings.add(Condition::Rings, what);
    }
    Ok(())
}
