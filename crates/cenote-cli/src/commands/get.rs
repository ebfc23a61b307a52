//! `cenote get`: prints a key's value.

use std::io::Write;
use std::process::ExitCode;

use cenote::memory::Memory;

use crate::bytes::{HexArg, pair_to_json, to_hex};
use crate::failure::Failure;
use crate::output::Output;
use crate::pool::{MapArg, PoolArg, TokenArg};
use crate::source::{ReadArg, Source, on_source};

/// Arguments.
///
/// The value is printed as it is; a terminal gets a line end after it.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// The key
    key: String,
    #[command(flatten)]
    map: MapArg,
    #[command(flatten)]
    hex: HexArg,
    #[command(flatten)]
    read: ReadArg,
    #[command(flatten)]
    token: TokenArg,
}

/// Prints the value; exit code 1 if there is none.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let key = args.hex.decode("key", &args.key)?;
    if let Some(cluster) = args.pool.cluster(&args.token) {
        args.map.of_cluster()?;
        return super::cluster::keys::print(&cluster, &key, args.hex, out);
    }
    let path = args.pool.existing()?;
    on_source!(&path, args.read, out, |source| get(&source, &args, &key, out)?);
    Ok(ExitCode::SUCCESS)
}

fn get<M: Memory>(source: &Source<M>, args: &Args, key: &[u8], out: &Output) -> Result<(), Failure> {
    let map = source.map(&args.map.map)?;
    // A copy, because a reader of our output may be slow and the value pins.
    let Some(value) = map.get(key)? else {
        return Err(Failure::failed(format!(
            "there is no key {} in the map {:?}",
            args.hex.show(key),
            args.map.map
        )));
    };
    if out.json {
        let mut pair = pair_to_json(key, &value);
        if source.is_without_place() {
            pair["without_place"] = true.into();
        }
        return out.json_line(&pair);
    }
    if args.hex.hex {
        return out.line(to_hex(&value));
    }
    let mut stdout = out.writer();
    let end: &[u8] = if out.is_terminal() && !value.ends_with(b"\n") {
        b"\n"
    } else {
        b""
    };
    stdout
        .write_all(&value)
        .and_then(|()| stdout.write_all(end))
        .and_then(|()| stdout.flush())
        .map_err(Failure::stdout)
}
