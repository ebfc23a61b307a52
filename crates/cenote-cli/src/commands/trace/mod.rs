//! `cenote trace`: makes synthetic traces of caches, and says what a trace is like.

mod generate;
mod stat;

use std::process::ExitCode;

use cenote_ycsb::trace::PRESETS;
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Write a synthetic trace in the form of Twitter's
    Generate(generate::Args),
    /// Say what a trace is like: its mix, keys, sizes and skew
    Stat(stat::Args),
    /// List the published figures that `generate --preset` imitates
    Presets,
}

/// Does what is asked.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Generate(args) => generate::run(args, out),
        Command::Stat(args) => stat::run(args, out),
        Command::Presets => presets(out),
    }
}

fn presets(out: &Output) -> Result<ExitCode, Failure> {
    if !out.json {
        out.line(format!(
            "{:<10} {:>8} {:>10} {:>6} {:>8} {:>8} {:>6} {:>14}",
            "preset", "key size", "value size", "reads", "inserts", "deletes", "zipf", "keys a week"
        ))?;
    }
    for preset in PRESETS {
        let figures = json!({
            "preset": preset.name(),
            "key_size": preset.key_size,
            "value_size": preset.value_size,
            "read_ratio": preset.reads,
            "insert_ratio": preset.inserts,
            "delete_ratio": preset.deletes,
            "zipf": preset.exponent,
            "keys": preset.keys(),
        });
        out.result(&figures, |_| {
            format!(
                "{:<10} {:>8} {:>10} {:>6} {:>8} {:>8} {:>6.4} {:>14}",
                preset.name(),
                preset.key_size,
                preset.value_size,
                preset.reads,
                preset.inserts,
                preset.deletes,
                preset.exponent,
                crate::output::count(preset.keys())
            )
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
