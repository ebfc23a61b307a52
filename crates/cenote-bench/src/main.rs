//! `cenote-bench`: Cenote beside its peers, in one run, interleaved round by round.
//!
//! - `hash` measures the hash map beside concurrent maps of one process (dashmap, scc), an embedded store (LMDB)
//!   and a server (Redis). See [`mod@hash`].
//! - `line` measures what it costs this machine to fetch a line from memory past its caches, the unit for
//!   everything on memory without coherence. See [`mod@line`].
//!
//! What is compared is in [`subjects`], one file a peer; [`report`] prints medians and ratios.

#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod hash;
mod line;
mod report;
mod subjects;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "cenote-bench",
    version,
    about = "Measures Cenote side by side with its peers"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The hash map beside dashmap, scc, LMDB and Redis: 8-byte keys and values, one thread.
    Hash(hash::Options),
    /// Flush, fence and load of random lines: what this machine takes to fetch a line past its caches.
    Line(line::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Hash(options) => hash::run(&options),
        Command::Line(options) => line::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("cenote-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}
