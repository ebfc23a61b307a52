//! Order-Status (clause 2.6.2).

use super::Output;
use super::columns::{customer_of, text};
use crate::error::Result;
use crate::tpcc::input::Who;
use crate::tpcc::layout::{District, Layout};
use crate::tpcc::rows::{customer, line, order};
use crate::words::Load;

/// A line of an order, as Order-Status shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLine {
    /// The item.
    pub item: u64,
    /// The warehouse that supplies it.
    pub supplier: u64,
    /// How many.
    pub quantity: u64,
    /// What they cost, in cents.
    pub amount: u64,
    /// When they were delivered; 0 if they were not.
    pub delivered: u64,
}

pub fn run(layout: &Layout, words: &impl Load, of: District, who: Who) -> Result<Output> {
    let number = customer_of(layout, words, of, who)?;
    let customer_at = layout.customer(of, number)?;
    for column in [customer::FIRST, customer::MIDDLE, customer::LAST] {
        text(words, customer_at, column)?;
    }
    let balance = words.load(customer_at + customer::BALANCE)? as i64;
    let last = words.load(customer_at + customer::LAST_ORDER)?;
    let order_at = layout.order(of, last)?;
    let is_kept = last != 0 && words.load(order_at + order::ID)? == last;
    let (mut found, mut lines) = (None, Vec::new());
    if is_kept {
        words.load(order_at + order::ENTERED)?;
        found = Some((last, words.load(order_at + order::CARRIER)?));
        for n in 1..=words.load(order_at + order::LINES)?.min(order::LINES_MAX) {
            let row = words.words(layout.line(of, last, n)?, line::WORDS)?;
            lines.push(StatusLine {
                item: row[line::ITEM as usize],
                supplier: row[line::SUPPLIER as usize],
                quantity: row[line::QUANTITY as usize],
                amount: row[line::AMOUNT as usize],
                delivered: row[line::DELIVERED as usize],
            });
        }
    }
    Ok(Output::Status {
        customer: number,
        balance,
        order: found,
        lines,
    })
}
