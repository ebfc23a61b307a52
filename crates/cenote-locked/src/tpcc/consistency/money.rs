//! Sums: conditions 1, 8, 9, 10 and 12.

use super::{Condition, Findings, Violation};
use crate::error::Result;
use crate::tpcc::layout::{District, Layout};
use crate::tpcc::rows::{customer, district, history, line, order, warehouse};
use crate::words::Load;

/// What customers and districts have paid, by the rows of HISTORY.
struct Paid {
    by_district: Vec<u64>,
    by_customer: Vec<u64>,
}

/// The place of a district in a list of all.
fn place(layout: &Layout, of: District) -> usize {
    let districts = layout.scale().districts as usize;
    (of.warehouse as usize - 1) * districts + of.district as usize - 1
}

pub fn check(layout: &Layout, words: &impl Load, all: &mut Vec<Violation>) -> Result<()> {
    let scale = *layout.scale();
    let districts = (scale.warehouses * scale.districts) as usize;
    let mut paid = Paid {
        by_district: vec![0; districts],
        by_customer: vec![0; districts * scale.customers as usize],
    };
    for number in 1..=scale.warehouses {
        let findings = &mut Findings::of_warehouse(all, number);
        add_history(layout, words, number, &mut paid, findings)?;
    }
    for number in 1..=scale.warehouses {
        let (mut to_date, mut of_history) = (0_u64, 0_u64);
        for of in layout.districts().filter(|of| of.warehouse == number) {
            let at = layout.district(of)?;
            let ytd = words.load(at + district::YTD)?;
            let paid_in =
                paid.by_district[place(layout, of)].wrapping_add(words.load(at + district::DROPPED_PAID)?);
            let findings = &mut Findings::of_district(all, of);
            findings.same(9, ("D_YTD", ytd), ("the sum of H_AMOUNT", paid_in));
            check_customers(layout, words, of, &paid, findings)?;
            to_date = to_date.wrapping_add(ytd);
            of_history = of_history.wrapping_add(paid_in);
        }
        let ytd = words.load(layout.warehouse(number)? + warehouse::YTD)?;
        let findings = &mut Findings::of_warehouse(all, number);
        findings.same(1, ("W_YTD", ytd), ("the sum of D_YTD", to_date));
        findings.same(8, ("W_YTD", ytd), ("the sum of H_AMOUNT", of_history));
    }
    Ok(())
}

/// Adds a warehouse's rows of HISTORY up.
fn add_history(
    layout: &Layout,
    words: &impl Load,
    number: u32,
    paid: &mut Paid,
    findings: &mut Findings<'_>,
) -> Result<()> {
    let written = words.load(layout.warehouse(number)? + warehouse::HISTORY)?;
    for n in 0..written.min(layout.scale().history.into()) {
        let row = words.words(layout.history(number, n)?, history::WORDS)?;
        let column = |column| row[column as usize];
        let small = |word| u32::try_from(word).unwrap_or(0);
        let home = District {
            warehouse: small(column(history::CUSTOMER_WAREHOUSE)),
            district: small(column(history::CUSTOMER_DISTRICT)),
        };
        let paid_in = District {
            warehouse: number,
            district: small(column(history::DISTRICT)),
        };
        let by = column(history::CUSTOMER);
        if layout.customer(home, by).is_err() || layout.district(paid_in).is_err() {
            let what = format!("row {n} of HISTORY is of customer {by} of {home:?}, paid in {paid_in:?}");
            findings.add(Condition::Rings, what);
            continue;
        }
        let amount = column(history::AMOUNT);
        let of_customer = place(layout, home) * layout.scale().customers as usize + by as usize - 1;
        for sum in [
            &mut paid.by_customer[of_customer],
            &mut paid.by_district[place(layout, paid_in)],
        ] {
            *sum = sum.wrapping_add(amount);
        }
    }
    Ok(())
}

/// What a district's customers owe.
fn check_customers(
    layout: &Layout,
    words: &impl Load,
    of: District,
    paid: &Paid,
    findings: &mut Findings<'_>,
) -> Result<()> {
    let customers = layout.scale().customers;
    let mut delivered = vec![0_u64; customers as usize];
    for slot in 0..u64::from(layout.scale().orders) {
        let order_at = layout.order(of, slot)?;
        let id = words.load(order_at + order::ID)?;
        let by = words.load(order_at + order::CUSTOMER)?;
        if id == 0 || layout.customer(of, by).is_err() {
            continue;
        }
        for n in 1..=order::LINES_MAX {
            let row = words.words(layout.line(of, slot, n)?, line::WORDS)?;
            if row[line::ORDER as usize] == id && row[line::DELIVERED as usize] != 0 {
                let sum = &mut delivered[by as usize - 1];
                *sum = sum.wrapping_add(row[line::AMOUNT as usize]);
            }
        }
    }
    for number in 1..=u64::from(customers) {
        let at = layout.customer(of, number)?;
        let column = |column| words.load(at + column);
        let n = number as usize - 1;
        let of_customer = paid.by_customer[place(layout, of) * customers as usize + n];
        let has_paid = of_customer.wrapping_add(column(customer::DROPPED_PAID)?);
        let has_got = delivered[n].wrapping_add(column(customer::DROPPED_AMOUNT)?);
        let balance = column(customer::BALANCE)?;
        findings.same(
            10,
            (&format!("C_BALANCE of customer {number}"), balance),
            (
                "the sum of delivered OL_AMOUNT less that of H_AMOUNT",
                has_got.wrapping_sub(has_paid),
            ),
        );
        findings.same(
            12,
            (
                &format!("C_BALANCE + C_YTD_PAYMENT of customer {number}"),
                balance.wrapping_add(column(customer::YTD_PAYMENT)?),
            ),
            ("the sum of delivered OL_AMOUNT", has_got),
        );
    }
    Ok(())
}
