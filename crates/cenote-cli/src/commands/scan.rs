//! `cenote scan`: prints pairs; those of an ordered map in the order of their keys, from one key to another.

use std::io::{self, Write};
use std::process::ExitCode;

use cenote::Range;
use cenote::memory::Memory;

use crate::bytes::{HexArg, add_to_json, escape, pair_to_json, to_hex};
use crate::failure::Failure;
use crate::output::Output;
use crate::pool::{MapArg, PoolArg};
use crate::source::{ReadArg, Source, SourceMap, on_source};

/// Arguments.
///
/// A pair a line, with a tab between key and value. Bytes that cannot be printed are shown as \xHH. Pairs of an ordered
/// map come in the order of their keys' bytes, those of another map in none.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    #[command(flatten)]
    map: MapArg,
    #[command(flatten)]
    hex: HexArg,
    /// Only keys from this one on (ordered maps)
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Only keys below this one (ordered maps)
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// The last key first (ordered maps)
    #[arg(long)]
    reverse: bool,
    /// Stop after so many pairs
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Leave the values out
    #[arg(long)]
    keys_only: bool,
    #[command(flatten)]
    read: ReadArg,
}

/// Prints the pairs.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let path = args.pool.existing()?;
    let bound = |what, key: &Option<String>| match key {
        Some(key) => args.hex.decode(what, key).map(Some),
        None => Ok(None),
    };
    let (from, to) = (bound("first key", &args.from)?, bound("end", &args.to)?);
    let range = Range {
        from: from.as_deref().unwrap_or_default(),
        to: to.as_deref(),
    };
    on_source!(&path, args.read, out, |source| scan(&source, &args, range, out)?);
    Ok(ExitCode::SUCCESS)
}

fn scan<M: Memory>(source: &Source<M>, args: &Args, range: Range<'_>, out: &Output) -> Result<(), Failure> {
    let map = source.map(&args.map.map)?;
    let Some(mut pairs) = map.unordered() else {
        return scan_ordered(&map, args, range, out);
    };
    if range != Range::ALL || args.reverse {
        return Err(Failure::misuse(format!(
            "the map {:?} has no order, so there is no --from, --to or --reverse; \
             make an ordered one by `cenote put --ordered`",
            args.map.map
        )));
    }
    let mut stdout = out.writer();
    let mut printed = 0;
    let limit = args.limit.unwrap_or(u64::MAX);
    while printed < limit {
        let Some(pair) = pairs.next() else { break };
        let (key, value) = pair?;
        print(&mut stdout, args, out.json, &key, &value).map_err(Failure::stdout)?;
        printed += 1;
    }
    stdout.flush().map_err(Failure::stdout)
}

/// Pairs copied under one announcement: a reader of our output may be slow.
const AT_ONCE: usize = 256;

fn scan_ordered<M: Memory>(
    map: &SourceMap<'_, M>,
    args: &Args,
    range: Range<'_>,
    out: &Output,
) -> Result<(), Failure> {
    let mut stdout = out.writer();
    let mut left = args.limit.unwrap_or(u64::MAX);
    let (mut from, mut to) = (range.from.to_vec(), range.to.map(<[u8]>::to_vec));
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(AT_ONCE).min(AT_ONCE);
        let rest = Range {
            from: &from,
            to: to.as_deref(),
        };
        let mut pairs = map.page(rest, wanted, args.reverse)?;
        for (key, value) in &pairs {
            print(&mut stdout, args, out.json, key, value).map_err(Failure::stdout)?;
        }
        left -= pairs.len() as u64;
        match pairs.pop() {
            Some((last, _)) if pairs.len() + 1 == wanted && args.reverse => to = Some(last),
            Some((last, _)) if pairs.len() + 1 == wanted => {
                from = last;
                // The least key behind it.
                from.push(0);
            }
            _ => break,
        }
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
