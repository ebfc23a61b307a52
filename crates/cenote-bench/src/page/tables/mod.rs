//! The tables of the page, one file each: which figures of a command's result stand in which row, and what is aimed at.
//!
//! To add a row: a [`Row`] in its file. To add a table: a file here, a line in [`TABLES`], and its place in the
//! template.

mod alloc;
mod applications;
mod deaths;
mod directory_locks;
mod exchange;
mod hash;
mod line;
mod locks;
mod noncoherent;
mod ordered;
mod processes;
mod together;
mod waiting;

use super::found::Found;
use super::row::Row;
use crate::subjects::Failure;

pub use deaths::detection_row;
pub use directory_locks::handover_row;
pub use hash::{get_row, update_row};
pub use locks::mutex_row;
pub use ordered::get_row as ordered_get_row;

/// What a result says, as the page shows it.
pub struct Table {
    /// What was measured, in a line: records, rounds, what is a median of what.
    pub setting: String,
    /// What is compared, with its aims.
    pub rows: Vec<Row>,
    /// All figures that are worth showing beside.
    pub more: Option<More>,
}

/// A further table: how many columns are words, the head, the rows.
pub struct More {
    /// Columns that are words.
    pub words: usize,
    /// The titles.
    pub head: Vec<&'static str>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

/// Makes a table of a result.
pub type Make = fn(&Found) -> Result<Table, Failure>;

/// By command.
pub const TABLES: [(&str, Make); 15] = [
    ("hash", hash::table),
    ("processes", processes::table),
    ("ordered", ordered::table),
    ("together", together::table),
    ("locks", locks::table),
    ("waiting", waiting::table),
    ("directory-locks", directory_locks::table),
    ("applications", applications::table),
    ("detection", deaths::detection),
    ("host-detection", deaths::hosts),
    ("takeover", deaths::takeover),
    ("alloc", alloc::table),
    ("line", line::table),
    ("noncoherent", noncoherent::table),
    ("exchange", exchange::table),
];

/// `medians of 3 rounds`.
fn medians_of(rounds: u64) -> String {
    format!("medians of {rounds} round{}", if rounds == 1 { "" } else { "s" })
}
