//! `cenote sim sensitivity`: which figures of virtual time each cost moves.

use std::fmt::Write;
use std::process::ExitCode;

use cenote_sim::reproduce::sensitivity::{COSTS, Table, Wanted, cases, measure};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;
use crate::output::Output;

/// Arguments.
///
/// Each cost of the profile is multiplied by a factor, one at a time, and all else stays. A table for each case says by
/// how many per cent each cell's throughput moves: YCSB Load, C, B and A by 144 threads on three hosts, or increments
/// under a lock by 32. What moves by less than the spread of seeds (docs/reproduction.md, figure 13) may be a schedule
/// that has become another one. With 100 k records all cases take about a quarter of an hour on two cores. The same
/// arguments print the same result.
#[derive(clap::Args)]
pub struct Args {
    /// Which cases, separated by semicolons, as in "hash map, P3;locks"; all if none is given
    #[arg(long, value_delimiter = ';', value_parser = known_case, value_name = "LIST")]
    case: Vec<String>,
    /// Which costs, as in miss_ns,fence_ns; all if none is given
    #[arg(long, value_delimiter = ',', value_parser = known_cost, value_name = "LIST")]
    cost: Vec<String>,
    /// By what each cost is multiplied
    #[arg(long, default_value_t = 2.0, value_parser = factor)]
    factor: f64,
    /// Records in the map, as in 20k or 1M, and operations of each workload
    #[arg(long, value_name = "N", default_value = "100k", value_parser = super::super::bench::number)]
    records: u64,
    /// Runs of each, with seeds from 1 on; the medians are reported
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Prints tables in Markdown
    #[arg(long)]
    markdown: bool,
}

fn known_case(text: &str) -> Result<String, String> {
    known(text, &cases(), "; ")
}

fn known_cost(text: &str) -> Result<String, String> {
    known(
        text,
        &COSTS.iter().map(|cost| cost.name).collect::<Vec<_>>(),
        ", ",
    )
}

fn known(text: &str, names: &[&str], between: &str) -> Result<String, String> {
    let text = text.trim();
    let known = names.contains(&text).then(|| text.to_owned());
    known.ok_or_else(|| format!("give some of {}", names.join(between)))
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.01..=100.0).contains(&factor) => Ok(factor),
        _ => Err("give a number from 0.01 to 100".into()),
    }
}

/// Runs.
pub fn run(args: &Args, out: &Output) -> Result<ExitCode, Failure> {
    let wanted = Wanted {
        cases: &args.case,
        costs: &args.cost,
        factor: args.factor,
        records: args.records.max(1),
        seeds: args.seeds,
    };
    let bar = match out.is_watched() {
        true => ProgressBar::new(1),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos} of {len} runs, {elapsed}") {
        bar.set_style(style);
    }
    let tables = measure(&wanted, &|done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let tables = tables.map_err(|error| Failure::failed(error.to_string()))?;
    out.result(&tables, |tables| text(tables, args))?;
    Ok(ExitCode::SUCCESS)
}

fn text(tables: &[Table], args: &Args) -> String {
    let mut text = format!(
        "Throughput with each cost times {}, one at a time: by how many % it moves (simulated)\n",
        args.factor
    );
    for table in tables {
        let mut lines: Vec<(&str, Vec<String>)> = vec![
            (
                table.case,
                table.cells.iter().map(|&cell| cell.to_owned()).collect(),
            ),
            (
                "M a second",
                table.mops_per_s.iter().map(|rate| format!("{rate:.3}")).collect(),
            ),
        ];
        lines.extend(table.changes.iter().map(|change| {
            let percent = change.percent.iter().map(|&percent| moved(percent));
            (change.cost, percent.collect())
        }));
        text.push('\n');
        for (n, (name, cells)) in lines.iter().enumerate() {
            let _ = line(&mut text, name, cells, args.markdown);
            if n == 0 && args.markdown {
                let _ = writeln!(text, "|---|{}", "---:|".repeat(cells.len()));
            }
        }
    }
    text
}

/// A change, or nothing if there is none.
fn moved(percent: f64) -> String {
    match percent.abs() < 0.05 {
        true => String::new(),
        false => format!("{percent:+.1}"),
    }
}

fn line(text: &mut String, name: &str, cells: &[String], markdown: bool) -> std::fmt::Result {
    match markdown {
        true => writeln!(text, "| {name} | {} |", cells.join(" | ")),
        false => {
            write!(text, "{name:<24}")?;
            cells.iter().try_for_each(|cell| write!(text, " {cell:>10}"))?;
            writeln!(text)
        }
    }
}
