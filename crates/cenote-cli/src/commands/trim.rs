//! `cenote trim`: gives memory of a pool that is free back to the file system.

use std::fmt::Write;
use std::process::ExitCode;

use cenote::{Options, TrimReport};

use crate::failure::Failure;
use crate::output::{Output, bytes, count};
use crate::pool::{PoolArg, on_pool};

/// Arguments.
///
/// Other processes may use the pool meanwhile. What is given back is reserved again before it is used; if the file
/// system has no room then, the pool is full. The exit code is 1 if the memory or its file system cannot be trimmed.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
}

/// Trims the pool.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let path = args.pool.existing()?;
    let report = on_pool!(&path, &Options::default(), |pool| pool
        .trim()
        .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?);
    out.result(&report, text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(report: &TrimReport) -> String {
    let mut text = String::new();
    let figures = [
        ("given back", Some(report.newly_given_back_bytes)),
        ("waiting", Some(report.waiting_bytes).filter(|&bytes| bytes > 0)),
        ("committed", Some(report.committed_bytes)),
        ("file", report.file_bytes),
    ];
    for (what, number) in figures {
        let Some(number) = number else { continue };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{what:<10} {:>18} bytes  {:>10}",
            count(number),
            bytes(number)
        );
    }
    text
}
