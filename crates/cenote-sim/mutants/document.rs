//! The table in `docs/mutants.md`: written from what was measured, and compared with it.

use std::fs;
use std::path::PathBuf;

use cenote::mutant::Mutant;

use super::table;
use super::trial::{Caught, Outcome, Report};

const HEAD: [&str; 2] = [
    "| mutant | what it does | plan | checker | seeds |",
    "|---|---|---|---|---:|",
];

/// Writes the table anew. What was not run keeps its row, as long as its plan is the same.
pub fn write(reports: &[Report]) -> Result<(), String> {
    let text = read()?;
    let text = replaced(&text, &rendered(reports, &text))?;
    fs::write(path(), text).map_err(|error| format!("docs/mutants.md: {error}"))
}

/// Compares the table with what was measured.
pub fn check(reports: &[Report]) -> Result<(), String> {
    let text = read()?;
    match replaced(&text, &rendered(reports, &text))? == text {
        true => Ok(()),
        false => Err(OLD.into()),
    }
}

/// Compares what the table says without a measurement: which mutants there are, and their plans.
pub fn check_names() -> Result<(), String> {
    let text = read()?;
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let known = rows.len() == Mutant::ALL.len()
        && (rows.iter().zip(Mutant::ALL)).all(|(row, &mutant)| row.starts_with(&beginning(mutant)));
    if known { Ok(()) } else { Err(OLD.into()) }
}

const OLD: &str = "the table in docs/mutants.md is out of date; `cargo xtask mutants --table` writes it anew";

fn path() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest.join("../../docs/mutants.md")
}

fn read() -> Result<String, String> {
    fs::read_to_string(path()).map_err(|error| format!("docs/mutants.md: {error}"))
}

/// The columns that are known without a measurement.
fn beginning(mutant: Mutant) -> String {
    let plan = match table::directed(mutant) {
        Some(test) => format!("directed: `{test}` | its assertions | |"),
        None => format!("{} |", table::describe(&table::trial(mutant).plan)),
    };
    format!("| `{}` | {} | {plan}", mutant.name(), mutant.what())
}

fn rendered(reports: &[Report], text: &str) -> Vec<String> {
    let rows = Mutant::ALL.iter().map(|&mutant| {
        let beginning = beginning(mutant);
        if table::directed(mutant).is_some() {
            return beginning;
        }
        let Some(report) = reports.iter().find(|report| report.mutant == mutant) else {
            let before = text.lines().find(|line| line.starts_with(&beginning));
            return before.map_or_else(|| format!("{beginning} not measured | |"), str::to_owned);
        };
        let checker = match &report.outcome {
            Outcome::Caught(Caught { checker, .. }) => checker.as_str(),
            Outcome::Survived | Outcome::CleanFails(_) => "none",
        };
        format!("{beginning} {checker} | {} |", report.seeds)
    });
    HEAD.iter().map(|line| (*line).to_owned()).chain(rows).collect()
}

/// The document with other lines for its table.
fn replaced(text: &str, table: &[String]) -> Result<String, String> {
    let lines: Vec<&str> = text.lines().collect();
    let from = (lines.iter().position(|line| *line == HEAD[0]))
        .ok_or("docs/mutants.md has no table that begins as it should")?;
    let rows = lines[from..]
        .iter()
        .take_while(|line| line.starts_with('|'))
        .count();
    let before = lines[..from].iter().copied();
    let after = lines[from + rows..].iter().copied();
    let all = before.chain(table.iter().map(String::as_str)).chain(after);
    Ok(all.flat_map(|line| [line, "\n"]).collect())
}
