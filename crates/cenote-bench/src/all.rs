//! The `all` command: everything that is judged, in one run, with the table of targets at the end.
//!
//! A speed that misses its target is printed as missed and is no failure of the program: how fast a machine is that
//! others use as well is not for an exit code to say.

use crate::judged::{self, Measured};
use crate::progress::tell;
use crate::subjects::Failure;
use crate::table::Output;
use crate::{alloc, hash, noncoherent, processes, together};
use clap::Args;
use serde_json::json;
use std::fmt::Write;

/// The options of `all`.
#[derive(Args)]
pub struct Options {
    /// Records in each store, such as 1000000 or 10M.
    #[arg(long, default_value = "1M", value_parser = crate::table::count)]
    records: u64,
    /// Rounds of everything; the medians over them are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The seed from which all keys are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// Measures everything and prints it.
pub fn run(options: &Options) -> Result<(), Failure> {
    let (records, rounds, seed) = (options.records, options.rounds, options.seed);
    let measured = Measured {
        hash: hash::report(&hash::Options::judged(records, rounds, seed))?,
        processes: {
            tell("one process and two");
            processes::measure(&processes::Options::judged(records, rounds, seed))?
        },
        together: together::measure(&together::Options::judged(records, rounds, seed))?,
        noncoherent: {
            tell("memory without coherence");
            match noncoherent::measure(&noncoherent::Options::judged(records, rounds, seed)) {
                Ok(figures) => Ok(figures),
                Err(Failure::Missing(reason)) => Err(reason),
                Err(failure) => return Err(failure),
            }
        },
        alloc: {
            tell("allocation");
            alloc::measure(&alloc::Options::judged(rounds))?
        },
    };
    tell("");
    let verdicts = judged::verdicts(&measured);
    options.output.print(
        || {
            json!({
                "command": "all",
                "judged": judged::json(&verdicts),
                "hash": measured.hash.json(),
                "processes": measured.processes.json(),
                "together": measured.together.json(),
                "noncoherent": measured.noncoherent.as_ref().map(|figures| figures.json()).ok(),
                "alloc": measured.alloc.json(),
            })
        },
        |style| {
            let mut text = measured.hash.text(style);
            let _ = writeln!(
                text,
                "\nOne process and two\n\n{}",
                measured.processes.text(style)
            );
            let _ = writeln!(text, "Ordered\n\n{}", measured.together.text(style));
            let _ = match &measured.noncoherent {
                Ok(figures) => writeln!(text, "Memory without coherence, ns\n\n{}", figures.text(style)),
                Err(reason) => writeln!(text, "Memory without coherence: {reason}\n"),
            };
            let _ = writeln!(text, "Allocation, ns a pair\n\n{}", measured.alloc.text(style));
            let _ = write!(text, "Judged\n\n{}", judged::text(&verdicts, style));
            text
        },
    );
    Ok(())
}
