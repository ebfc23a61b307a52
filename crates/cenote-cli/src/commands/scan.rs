//! `cenote scan`: prints pairs, in no particular order.

use std::io::{self, Write};
use std::process::ExitCode;

use cenote::memory::Memory;
use cenote::{Options, Pool};

use crate::bytes::{HexArg, add_to_json, escape, pair_to_json, to_hex};
use crate::failure::Failure;
use crate::output::Output;
use crate::pool::{MapArg, PoolArg, on_pool};

/// Arguments.
///
/// A pair a line, with a tab between key and value. Bytes that cannot be printed are shown as \xHH.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    #[command(flatten)]
    map: MapArg,
    #[command(flatten)]
    hex: HexArg,
    /// Stop after so many pairs
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Leave the values out
    #[arg(long)]
    keys_only: bool,
}

/// Prints the pairs.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let path = args.pool.existing()?;
    on_pool!(&path, &Options::default(), |pool| scan(&pool, &args, out)?);
    Ok(ExitCode::SUCCESS)
}

fn scan<M: Memory>(pool: &Pool<M>, args: &Args, out: &Output) -> Result<(), Failure> {
    let map = pool.existing_map(&args.map.map)?;
    let mut stdout = out.writer();
    let mut printed = 0;
    let limit = args.limit.unwrap_or(u64::MAX);
    let mut pairs = map.iter();
    while printed < limit {
        let Some(pair) = pairs.next() else { break };
        let (key, value) = pair?;
        print(&mut stdout, args, out.json, &key, &value).map_err(Failure::stdout)?;
        printed += 1;
    }
    stdout.flush().map_err(Failure::stdout)
}

fn print(to: &mut impl Write, args: &Args, json: bool, key: &[u8], value: &[u8]) -> io::Result<()> {
    if json {
        let object = if args.keys_only {
            let mut object = serde_json::Map::new();
            add_to_json(&mut object, "key", key);
            serde_json::Value::Object(object)
        } else {
            pair_to_json(key, value)
        };
        return writeln!(to, "{object}");
    }
    let mut line = Vec::new();
    let add = |bytes: &[u8], line: &mut Vec<u8>| {
        if args.hex.hex {
            line.extend_from_slice(to_hex(bytes).as_bytes());
        } else {
            escape(bytes, true, line);
        }
    };
    add(key, &mut line);
    if !args.keys_only {
        line.push(b'\t');
        add(value, &mut line);
    }
    line.push(b'\n');
    to.write_all(&line)
}
