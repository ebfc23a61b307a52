//! Stock-Level (clause 2.8.2).

use std::collections::BTreeSet;

use super::Output;
use crate::error::Result;
use crate::tpcc::layout::{District, Layout};
use crate::tpcc::rows::{district, line, order, stock};
use crate::words::Load;

/// Orders that it looks at.
const LATEST: u64 = 20;

pub fn run(layout: &Layout, words: &impl Load, of: District, threshold: u64) -> Result<Output> {
    let next = words.load(layout.district(of)? + district::NEXT_ORDER)?;
    let mut items = BTreeSet::new();
    for number in next.saturating_sub(LATEST).max(1)..next {
        let order_at = layout.order(of, number)?;
        if words.load(order_at + order::ID)? != number {
            continue;
        }
        for n in 1..=words.load(order_at + order::LINES)?.min(order::LINES_MAX) {
            items.insert(words.load(layout.line(of, number, n)? + line::ITEM)?);
        }
    }
    let mut short = 0;
    for item in items {
        let quantity = words.load(layout.stock(of.warehouse, item)? + stock::QUANTITY)?;
        short += u64::from(quantity < threshold);
    }
    Ok(Output::Short(short))
}
