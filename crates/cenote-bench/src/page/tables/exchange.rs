//! A compare-exchange by the CPU and by a server.

use super::{Table, medians_of};
use crate::exchange::KINDS;
use crate::page::found::Found;
use crate::page::row::{Row, Unit};
use crate::subjects::Failure;

pub fn table(result: &Found) -> Result<Table, Failure> {
    let line = result.at("line_ns")?.numbers()?;
    let mut rows = Vec::new();
    for (kind, name) in KINDS {
        let exchange = result.at("exchanges")?.item("memory", kind)?;
        for (by, figures) in [("one process", "one_ns"), ("each of two at once", "two_ns")] {
            let ns = exchange.at(figures)?.numbers()?;
            rows.push(Row::beside(
                format!("{name}: {by}"),
                Unit::Ns,
                &ns,
                "one line",
                &line,
                None,
            ));
        }
    }
    Ok(Table {
        setting: format!(
            "compare-exchanges of one word, beside a flush, fence and load of a line of which each waits for the last; {}",
            medians_of(line.len() as u64)
        ),
        rows,
        more: None,
    })
}
