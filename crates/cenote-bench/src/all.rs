//! The `all` command: everything, a command after the other, each a process of its own; with the tables at the end.
//!
//! What a command prints as JSON is kept in a folder if one is given, and the page of benchmarks is written from what
//! is kept there. A command that fails is told at the end, and keeps no other from being run. A speed that misses its
//! aim is printed as missed and is no failure of the program: how fast a machine is that others use as well is not for
//! an exit code to say.

use crate::page::found::{Found, Origin};
use crate::page::results::Results;
use crate::page::tables::{Make, TABLES, Table};
use crate::page::{page, row, tables_text, write};
use crate::progress::tell;
use crate::subjects::Failure;
use crate::table::Output;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The options of `all`.
#[derive(Args)]
pub struct Options {
    /// Records in each store, such as 1000000 or 10M.
    #[arg(long, default_value = "1M", value_parser = crate::table::count)]
    records: u64,
    /// Rounds of everything but deaths; the medians over them are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The seed from which all keys are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these commands.
    #[arg(long, value_name = "COMMAND", value_parser = commands(), value_delimiter = ',')]
    only: Vec<String>,
    /// Keeps the result of each command in this folder, as COMMAND.json.
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// Writes the page of benchmarks of all results in that folder to this file.
    #[arg(long, value_name = "FILE", requires = "results")]
    report: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// The commands that there are.
fn commands() -> clap::builder::PossibleValuesParser {
    TABLES.map(|(command, _)| command).into()
}

impl Options {
    /// What a command is asked for.
    fn arguments(&self, command: &str) -> Vec<String> {
        let rounds = format!("--rounds {}", self.rounds);
        let keys = format!("--records {} {rounds} --seed {}", self.records, self.seed);
        let words = match command {
            "hash" | "ordered" | "processes" | "together" | "noncoherent" => keys,
            "alloc" | "locks" | "directory-locks" | "applications" | "exchange" => rounds,
            "waiting" => format!("{rounds} --parties 4,32 --holds 50,1000 --ms 400"),
            // Deaths are counted by themselves, and a line has no rounds.
            _ => String::new(),
        };
        let words = words.split_whitespace().map(str::to_owned);
        [command.to_owned()].into_iter().chain(words).collect()
    }
}

/// Measures everything and prints it.
pub fn run(options: &Options) -> Result<(), Failure> {
    if let Some(folder) = &options.results {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::Broken(format!("{}: cannot be made ({error})", folder.display())))?;
    }
    let chosen = |command: &str| options.only.is_empty() || options.only.iter().any(|only| only == command);
    let commands = TABLES.into_iter().filter(|(command, _)| chosen(command));
    let (measured, failed) = each(commands, |(command, make)| one(options, command, make));
    tell("");
    options.output.print(
        || {
            let judged = measured.iter().flat_map(|(_, _, table)| &table.rows);
            json!({
                "command": "all",
                "judged": judged.map(row::Row::json).collect::<Vec<_>>(),
                "results": measured.iter().map(|(_, value, _)| value).collect::<Vec<_>>(),
            })
        },
        |style| {
            let mut text = String::new();
            for (command, _, table) in &measured {
                let _ = writeln!(
                    text,
                    "{command}: {}\n\n{}",
                    table.setting,
                    tables_text(table, style)
                );
            }
            text
        },
    );
    if let (Some(folder), Some(report)) = (&options.results, &options.report) {
        write(report, &page(&Results::read(std::slice::from_ref(folder))?)?)?;
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Broken(failed.join("\ncenote-bench: "))),
    }
}

/// A command, what it has printed, and its tables.
type Measured = (&'static str, Value, Table);

/// Does something with each; what failed keeps nobody else from being done, and is told.
fn each<A, B>(
    all: impl Iterator<Item = A>,
    mut work: impl FnMut(A) -> Result<B, Failure>,
) -> (Vec<B>, Vec<String>) {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for one in all {
        match work(one) {
            Ok(one) => done.push(one),
            Err(failure) => failed.push(failure.to_string()),
        }
    }
    (done, failed)
}

/// Measures by one command, and keeps what it printed.
fn one(options: &Options, command: &'static str, make: Make) -> Result<Measured, Failure> {
    tell(&format!("{command}, "));
    let text = measure(&options.arguments(command))?;
    let value: Value = serde_json::from_str(&text)?;
    let origin = Origin {
        file: "what it printed",
        command,
    };
    let table = make(&Found::root(&value, origin))?;
    if let Some(folder) = &options.results {
        keep(&folder.join(format!("{command}.json")), &text)?;
    }
    Ok((command, value, table))
}

/// What a command prints; it shows what it does as it does it.
fn measure(arguments: &[String]) -> Result<String, Failure> {
    let output = Command::new(std::env::current_exe()?)
        .args(arguments)
        .arg("--json")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout)?)
    } else {
        Err(Failure::Broken(format!(
            "it failed, {}; repeat: cenote-bench {}",
            output.status,
            arguments.join(" ")
        )))
    }
}

/// Keeps a result, all of it or none.
fn keep(path: &Path, text: &str) -> Result<(), Failure> {
    let part = path.with_extension("part");
    write(&part, text)?;
    Ok(std::fs::rename(part, path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_keeps_nobody_else_from_being_measured() {
        let (done, failed) = each([1, 0, 2].into_iter(), |number| match number {
            0 => Err(Failure::Broken("it was nothing".to_owned())),
            number => Ok(number),
        });
        assert_eq!((done, failed), (vec![1, 2], vec!["it was nothing".to_owned()]));
    }
}
