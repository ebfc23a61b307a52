//! The few rows that README.md shows, of what a reader asks first.

use super::caption;
use super::found::Found;
use super::results::Results;
use super::row::{self, Row};
use super::tables::{detection_row, get_row, handover_row, mutex_row, ordered_get_row, update_row};
use crate::subjects::Failure;
use crate::table::Style;

/// Makes a row of a result.
type Make = fn(&Found) -> Result<Row, Failure>;

const LMDB: &str = "LMDB, a txn an operation";

/// The rows, each with the command whose result it is from.
const ROWS: [(&str, Make); 9] = [
    ("hash", |result| get_row(result, "dashmap")),
    ("hash", |result| get_row(result, LMDB)),
    ("hash", |result| update_row(result, LMDB)),
    ("hash", |result| get_row(result, "Redis")),
    ("hash", |result| update_row(result, "Redis")),
    ("ordered", ordered_get_row),
    ("locks", mutex_row),
    ("directory-locks", handover_row),
    ("detection", detection_row),
];

/// The table, and a line that says where it was measured.
pub fn text(results: &Results) -> Result<String, Failure> {
    let (mut rows, mut used) = (Vec::new(), Vec::new());
    for (command, make) in ROWS {
        let Some(result) = results.of(command) else {
            return Err(Failure::Broken(format!(
                "README's table needs a result of {command}, and none is given; give the folder that has it, or measure: \
                 cargo run --release -p cenote-bench -- all --results docs/benchmarks"
            )));
        };
        rows.push(make(&result.found())?);
        used.push(&result.run);
    }
    Ok(format!(
        "{}\nMeasured {}. [All tables](docs/benchmarks.md).\n",
        row::text_without_aims(&rows, Style::Markdown),
        caption(&used)
    ))
}
