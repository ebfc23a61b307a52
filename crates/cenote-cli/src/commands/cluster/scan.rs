//! The keys of a cluster's ordered map, in their order.

use std::io::Write;
use std::process::ExitCode;

use super::place::ClusterArg;
use crate::bytes::{HexArg, escape, pair_to_json, to_hex};
use crate::failure::Failure;
use crate::output::Output;

/// Pairs that are asked for at once.
const AT_ONCE: usize = 256;

/// Arguments of `scan`.
///
/// A pair a line, with a tab between key and value. Bytes that cannot be printed are shown as \xHH.
#[derive(clap::Args)]
pub struct ScanArgs {
    #[command(flatten)]
    cluster: ClusterArg,
    /// The ordered map of this name
    #[arg(long, value_name = "MAP")]
    ordered: String,
    #[command(flatten)]
    hex: HexArg,
    /// Only keys from this one on
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Only keys below this one
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// The last key first
    #[arg(long)]
    reverse: bool,
    /// Stop after so many pairs
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// Prints the pairs.
pub fn run(args: &ScanArgs, out: &Output) -> Result<ExitCode, Failure> {
    let bound = |what, key: &Option<String>| match key {
        Some(key) => args.hex.decode(what, key).map(Some),
        None => Ok(None),
    };
    let mut from = bound("first key", &args.from)?.unwrap_or_default();
    let mut to = bound("end", &args.to)?;
    let map = args.cluster.open_ordered(&args.ordered)?;
    let mut stdout = out.writer();
    let mut left = args.limit.unwrap_or(usize::MAX);
    while left > 0 {
        let wanted = left.min(AT_ONCE);
        let pairs = match args.reverse {
            false => map.scan(&from, to.as_deref(), wanted)?,
            true => map.scan_back(&from, to.as_deref(), wanted)?,
        };
        for (key, value) in &pairs {
            let line = line(args, out.json, key, value);
            stdout.write_all(&line).map_err(Failure::stdout)?;
        }
        left -= pairs.len();
        let is_last = pairs.len() < wanted;
        match pairs.into_iter().next_back() {
            Some((last, _)) if !is_last && args.reverse => to = Some(last),
            Some((last, _)) if !is_last => {
                from = last;
                // The least key behind it.
                from.push(0);
            }
            _ => break,
        }
    }
    stdout.flush().map_err(Failure::stdout)?;
    Ok(ExitCode::SUCCESS)
}

fn line(args: &ScanArgs, json: bool, key: &[u8], value: &[u8]) -> Vec<u8> {
    if json {
        return format!("{}\n", pair_to_json(key, value)).into_bytes();
    }
    let mut line = Vec::new();
    let add = |bytes: &[u8], line: &mut Vec<u8>| match args.hex.hex {
        true => line.extend_from_slice(to_hex(bytes).as_bytes()),
        false => escape(bytes, true, line),
    };
    add(key, &mut line);
    line.push(b'\t');
    add(value, &mut line);
    line.push(b'\n');
    line
}
