//! The conditions of consistency (clause 3.3.2.1 to 3.3.2.12), and those of the store's own rings and indexes.
//!
//! | file | conditions |
//! |---|---|
//! | `orders` | 2 to 7, 11: orders, new orders and lines of a district; rings |
//! | `money` | 1, 8 to 10, 12: sums |
//! | `indexes` | last orders, last names |

mod indexes;
mod money;
mod orders;

#[cfg(test)]
mod tests;

use std::fmt;

use super::layout::{District, Layout, UNDO};
use crate::error::Result;
use crate::words::Load;

/// A condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Of clause 3.3.2, by its last number.
    Clause(u8),
    /// Each row of a ring lies where its number says, and its numbers are those of rows.
    Rings,
    /// Indexes agree with what they are for.
    Indexes,
    /// No transaction is half done.
    Undo,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clause(number) => write!(f, "condition 3.3.2.{number}"),
            Self::Rings => f.write_str("the rings"),
            Self::Indexes => f.write_str("the indexes"),
            Self::Undo => f.write_str("the undo record"),
        }
    }
}

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub condition: Condition,
    /// Of what: the warehouse, and the district if it is of one.
    pub place: String,
    /// What is not as it should be.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            condition,
            place,
            what,
        } = self;
        write!(f, "{condition} does not hold in {place}: {what}")
    }
}

/// Violations of a place.
struct Findings<'v> {
    all: &'v mut Vec<Violation>,
    place: String,
}

impl<'v> Findings<'v> {
    fn of_warehouse(all: &'v mut Vec<Violation>, warehouse: u32) -> Self {
        let place = format!("warehouse {warehouse}");
        Self { all, place }
    }

    fn of_district(all: &'v mut Vec<Violation>, of: District) -> Self {
        let place = format!("district {} of warehouse {}", of.district, of.warehouse);
        Self { all, place }
    }

    fn add(&mut self, condition: Condition, what: String) {
        let place = self.place.clone();
        self.all.push(Violation {
            condition,
            place,
            what,
        });
    }

    /// Two numbers should be the same.
    fn same(&mut self, clause: u8, one: (&str, u64), other: (&str, u64)) {
        if one.1 != other.1 {
            let what = format!("{} is {}, {} is {}", one.0, one.1 as i64, other.0, other.1 as i64);
            self.add(Condition::Clause(clause), what);
        }
    }
}

/// All violations.
pub(super) fn check(layout: &Layout, words: &impl Load) -> Result<Vec<Violation>> {
    let mut all = Vec::new();
    let half_done = UNDO.count(words)?;
    if half_done != 0 {
        all.push(Violation {
            condition: Condition::Undo,
            place: "the store".to_owned(),
            what: format!("{half_done} changes are to be rolled back"),
        });
    }
    for of in layout.districts() {
        orders::check(layout, words, of, &mut Findings::of_district(&mut all, of))?;
        indexes::check(layout, words, of, &mut Findings::of_district(&mut all, of))?;
    }
    money::check(layout, words, &mut all)?;
    Ok(all)
}
