//! The five transactions (clauses 2.4 to 2.8), over any words. Those that write run under an undo record.
//!
//! | file | clause |
//! |---|---|
//! | `new_order` | 2.4 |
//! | `payment` | 2.5 |
//! | `order_status` | 2.6 |
//! | `delivery` | 2.7 |
//! | `stock_level` | 2.8 |
//! | `columns` | reading and changing columns; customers by last name |

mod columns;
mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

#[cfg(test)]
mod tests;

pub use order_status::StatusLine;

use super::input::Input;
use super::layout::{Layout, UNDO};
use crate::error::Result;
use crate::words::{Load, Store, Transaction};

/// What a transaction answers to the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The order was entered.
    Ordered {
        /// Its number in its district.
        order: u64,
        /// What it costs with discount and taxes, in cents.
        total: u64,
        /// How many of its lines are of brands (their data and their stock's say "ORIGINAL").
        brand: u64,
    },
    /// The order was rolled back: an item does not exist.
    RolledBack,
    /// The customer has paid.
    Paid {
        /// The customer's number.
        customer: u64,
        /// The balance after it, in cents.
        balance: i64,
    },
    /// How a customer's last order is.
    Status {
        /// The customer's number.
        customer: u64,
        /// The balance, in cents.
        balance: i64,
        /// The order's number, and its carrier or 0; none if it has made room for others.
        order: Option<(u64, u64)>,
        /// Its lines.
        lines: Vec<StatusLine>,
    },
    /// So many districts had an order to deliver.
    Delivered(u64),
    /// So many items are short.
    Short(u64),
}

/// Reads what a read-only transaction asks for; `None` if it is none.
pub(super) fn read_only(layout: &Layout, words: &impl Load, input: &Input) -> Result<Option<Output>> {
    match *input {
        Input::OrderStatus { district, customer } => {
            order_status::run(layout, words, district, customer).map(Some)
        }
        Input::StockLevel { district, threshold } => {
            stock_level::run(layout, words, district, threshold).map(Some)
        }
        Input::NewOrder { .. } | Input::Payment { .. } | Input::Delivery { .. } => Ok(None),
    }
}

/// Executes a transaction on the words of a store, wholly or not at all. A date is not 0, which says that there is
/// none. A caller has the words alone; [`Store::run`](super::Store::run) takes the lock.
///
/// Errors: as [`Store::run`](super::Store::run).
pub fn execute(layout: &Layout, words: &mut impl Store, input: &Input, date: u64) -> Result<Output> {
    if let Some(output) = read_only(layout, words, input)? {
        return Ok(output);
    }
    let mut transaction = Transaction::begin(words, UNDO)?;
    match change(layout, &mut transaction, input, date) {
        Ok(Output::RolledBack) => transaction.roll_back().map(|()| Output::RolledBack),
        Ok(output) => transaction.commit().map(|()| output),
        Err(error) => {
            transaction.roll_back()?;
            Err(error)
        }
    }
}

fn change(layout: &Layout, words: &mut impl Store, input: &Input, date: u64) -> Result<Output> {
    match input {
        Input::NewOrder {
            district,
            customer,
            lines,
        } => new_order::run(layout, words, (*district, *customer), lines, date),
        Input::Payment {
            district,
            customer_district,
            customer,
            amount,
        } => {
            let customer = (*customer_district, *customer);
            payment::run(layout, words, *district, customer, (*amount, date))
        }
        Input::Delivery { warehouse, carrier } => delivery::run(layout, words, *warehouse, (*carrier, date)),
        Input::OrderStatus { .. } | Input::StockLevel { .. } => {
            Ok(read_only(layout, words, input)?.unwrap_or(Output::RolledBack))
        }
    }
}
