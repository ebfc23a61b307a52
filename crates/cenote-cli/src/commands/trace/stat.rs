//! `cenote trace stat`: what a trace is like.

use std::process::ExitCode;

use cenote_ycsb::trace::{Action, Operation, Record, Summary};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::output::{Output, count};
use crate::recorded::TraceArg;

/// Arguments.
///
/// The exponent is estimated from keys that occurred at least 16 times; it is left out if there are fewer than 8.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    trace: TraceArg,
}

/// Requests between two updates of the bar.
const PER_TICK: u64 = 4096;

/// Reads the trace and prints its figures.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let mut trace = args.trace.open()?;
    trace.watch(out);
    let mut summary = Summary::default();
    let mut record = Record::default();
    while trace.next(&mut record, out)? {
        summary.add(&record);
        if trace.read().is_multiple_of(PER_TICK) {
            trace.progress().set_position(trace.read());
        }
    }
    trace.progress().finish_and_clear();
    let fit = summary.exponent();
    let by_operation: Map<String, Value> = Operation::ALL
        .into_iter()
        .filter(|&operation| summary.of(operation) > 0)
        .map(|operation| (operation.to_string(), summary.of(operation).into()))
        .collect();
    let figures = json!({
        "file": args.trace.name(),
        "format": args.trace.format()?.name(),
        "operations": summary.operations(),
        "by_operation": by_operation,
        "read_ratio": summary.share(Action::Read),
        "insert_ratio": summary.share(Action::Insert),
        "delete_ratio": summary.share(Action::Delete),
        "distinct_keys": summary.distinct_keys(),
        "keys_asked_for_once": summary.once(),
        "mean_key_size": summary.mean_key_size(),
        "longest_key": summary.longest_key(),
        "mean_value_size": summary.mean_value_size(),
        "largest_value": summary.largest_value(),
        "trace_seconds": summary.seconds(),
        "zipf": fit.map(|fit| fit.exponent),
        "zipf_ranks": fit.map(|fit| fit.ranks),
        "zipf_requests": fit.map(|fit| fit.requests),
        "bad_records": trace.bad(),
    });
    out.result(&figures, |_| text(&summary, trace.bad()))?;
    Ok(ExitCode::SUCCESS)
}

fn text(summary: &Summary, bad: u64) -> String {
    let of = |action| 100.0 * summary.share(action);
    let mix: Vec<_> = Operation::ALL
        .into_iter()
        .filter(|&operation| summary.of(operation) > 0)
        .map(|operation| format!("{operation} {}", count(summary.of(operation))))
        .collect();
    let mut text = format!(
        "{} requests in {} s of the trace's time: {}\n\
         {:.2} % reads, {:.2} % writes, {:.2} % inserts, {:.2} % deletes\n\
         {} different keys, {} of them asked for once\n\
         keys have {:.1} bytes on average, {} at most; values {:.1} on average, {} at most\n",
        count(summary.operations()),
        count(summary.seconds()),
        if mix.is_empty() {
            "none".to_owned()
        } else {
            mix.join(", ")
        },
        of(Action::Read),
        of(Action::Write),
        of(Action::Insert),
        of(Action::Delete),
        count(summary.distinct_keys()),
        count(summary.once()),
        summary.mean_key_size(),
        summary.longest_key(),
        summary.mean_value_size(),
        summary.largest_value(),
    );
    text += &match summary.exponent() {
        Some(fit) => format!(
            "zipf exponent {:.3}, estimated from the {} most popular keys ({} requests)",
            fit.exponent,
            count(fit.ranks as u64),
            count(fit.requests)
        ),
        None => "too few keys occur often enough to estimate a zipf exponent".to_owned(),
    };
    if bad > 0 {
        text += &format!("\nskipped {} bad records", count(bad));
    }
    text
}
