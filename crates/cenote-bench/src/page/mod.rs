//! The `report` command: the page of benchmarks, written from result files.
//!
//! A result file is what a command prints with `--json`: the rounds' figures, and the [`Run`] they are from. The page
//! takes every figure from there; prose is in the template beside this file, in which `{{hash}}` stands for the section
//! of `hash`, and so on. Nothing here measures, and nothing that was simulated has a table here.

pub mod found;
mod readme;
pub mod results;
pub mod row;
mod stores;
pub mod tables;

use crate::run::{Machine, Run};
use crate::subjects::Failure;
use crate::table::{Style, table};
use clap::Args;
use results::{ResultFile, Results};
use std::path::PathBuf;
use tables::{TABLES, Table};

const TEMPLATE: &str = include_str!("benchmarks.md.in");

/// The options of `report`.
#[derive(Args)]
pub struct Options {
    /// Files that `cenote-bench COMMAND --json` has printed, or folders of such.
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Writes the page to this file instead of the standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Prints the few rows of README.md instead, which stand there between `<!-- results -->` and `<!-- /results -->`.
    #[arg(long, conflicts_with = "out")]
    readme: bool,
}

/// Reads results and writes the page.
pub fn run(options: &Options) -> Result<(), Failure> {
    let results = Results::read(&options.results)?;
    if options.readme {
        print!("{}", readme::text(&results)?);
        return Ok(());
    }
    let text = page(&results)?;
    match &options.out {
        Some(path) => write(path, &text),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

/// Writes a file, or says which could not be written.
pub fn write(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::Broken(format!("{}: cannot be written ({error})", path.display())))
}

/// The page of some results.
pub fn page(results: &Results) -> Result<String, Failure> {
    let machines = machines(results);
    let list: Vec<String> = machines
        .iter()
        .enumerate()
        .map(|(place, machine)| format!("- Machine {}: {}.", letter(place), machine.words()))
        .collect();
    let mut text = TEMPLATE.replace("{{machines}}", &list.join("\n"));
    for (command, make) in TABLES {
        let section = match results.of(command) {
            Some(result) => section(result, &make(&result.found())?, &machines),
            None => format!(
                "Not measured. `cargo run --release -p cenote-bench -- {command} --json > docs/benchmarks/{command}.json` \
                 does."
            ),
        };
        text = text.replace(&format!("{{{{{command}}}}}"), section.trim_end());
    }
    Ok(text)
}

/// What is shown of a result.
fn section(result: &ResultFile, table: &Table, machines: &[&Machine]) -> String {
    let run = &result.run;
    let place = machines.iter().position(|machine| **machine == run.machine);
    format!(
        "`cargo run --release -p cenote-bench -- {}`\n\n{}. Machine {}, {}, {} build of {}; load when it began {}, when it \
         ended {}{}.\n\n{}",
        run.arguments.join(" "),
        sentence(&table.setting),
        letter(place.unwrap_or_default()),
        run.date,
        run.build,
        run.version,
        run.load[0],
        run.load[1],
        if run.is_disturbed() {
            ": **other work ran meanwhile**"
        } else {
            ""
        },
        tables_text(table, Style::Markdown)
    )
}

/// The tables of a result.
pub fn tables_text(made: &Table, style: Style) -> String {
    let mut text = String::new();
    if !made.rows.is_empty() {
        text = row::text(&made.rows, style);
    }
    if let Some(more) = &made.more {
        if !text.is_empty() {
            text.push('\n');
        }
        table(&mut text, style, more.words, &more.head, &more.rows);
    }
    text
}

/// Every machine once.
fn machines(results: &Results) -> Vec<&Machine> {
    let mut machines: Vec<&Machine> = Vec::new();
    for result in results.all() {
        if !machines.contains(&&result.run.machine) {
            machines.push(&result.run.machine);
        }
    }
    machines
}

/// The same with a large letter first.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

fn letter(place: usize) -> char {
    char::from(b'A' + (place % 26) as u8)
}

/// When and where some runs were, in a few words.
fn caption(runs: &[&Run]) -> String {
    let mut said: Vec<String> = Vec::new();
    for run in runs {
        let words = format!("{} on {}", run.date, run.machine.few_words());
        if !said.contains(&words) {
            said.push(words);
        }
    }
    let disturbed = runs.iter().any(|run| run.is_disturbed());
    format!(
        "{}{}",
        said.join(", and "),
        if disturbed {
            ", while other work kept it busy"
        } else {
            ""
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_template_has_a_place_for_every_table_and_no_other() {
        for (command, _) in TABLES {
            assert_eq!(
                TEMPLATE.matches(&format!("{{{{{command}}}}}")).count(),
                1,
                "{command}"
            );
        }
        let page = page(&Results::default()).expect("nothing is wrong with nothing");
        assert!(!page.contains("{{"), "{page}");
        assert_eq!(page.matches("Not measured.").count(), TABLES.len());
    }

    #[test]
    fn a_section_says_the_command_the_machine_the_rounds_and_whether_aims_are_met() {
        let mut run = Run::ended();
        run.arguments = ["exchange", "--rounds", "2"].map(str::to_owned).to_vec();
        run.machine.processors = 2;
        run.load = ["9.00 1.00 1.00", "1.00 1.00 1.00"].map(str::to_owned);
        let kinds = crate::exchange::KINDS
            .map(|(kind, _)| json!({ "memory": kind, "one_ns": [20.0, 40.0], "two_ns": [30.0, 30.0] }));
        let value = json!({ "command": "exchange", "run": run, "line_ns": [10.0, 10.0], "exchanges": kinds });
        let mut results = Results::default();
        results.add("x.json", value).expect("it is a result");
        let page = page(&results).expect("all is there");
        for part in [
            "-- exchange --rounds 2`",
            "medians of 2 rounds",
            "Machine A",
            "load when it began 9.00 1.00 1.00, when it ended 1.00 1.00 1.00: **other work ran meanwhile**",
            "by the CPU: one process",
            "| 30.0 ns | one line 10.0 ns |  3.00 |",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
