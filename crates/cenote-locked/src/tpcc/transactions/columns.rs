//! Reading and changing columns; customers by last name.

use crate::error::{Error, Result};
use crate::tpcc::input::Who;
use crate::tpcc::layout::{District, Layout};
use crate::tpcc::rows::Text;
use crate::words::{Load, Store, text_in};

/// The text of a column.
pub fn text(words: &impl Load, row: u64, column: Text) -> Result<&[u8]> {
    words.words(row + column.at, column.words).map(text_in)
}

/// Adds to a column, which may hold negative numbers; returns what it is then.
pub fn add(words: &mut impl Store, at: u64, value: u64) -> Result<u64> {
    let sum = words.load(at)?.wrapping_add(value);
    words.store(at, sum)?;
    Ok(sum)
}

/// The number of a customer. By last name it is the one in the middle of those of that name, by first name (clause
/// 2.5.2.2).
pub fn customer_of(layout: &Layout, words: &impl Load, of: District, who: Who) -> Result<u64> {
    let name = match who {
        Who::Number(number) => return Ok(number.into()),
        Who::LastName(name) => name,
    };
    let begin = words.load(layout.name(of, name)?)?;
    let end = words.load(layout.name(of, name.wrapping_add(1))?)?;
    match end.checked_sub(begin) {
        Some(count) if count > 0 => words.load(layout.by_name(of, begin.wrapping_add((count - 1) / 2))?),
        _ => Err(Error::NoSuch {
            what: "customer with the last name",
            number: name.into(),
        }),
    }
}
