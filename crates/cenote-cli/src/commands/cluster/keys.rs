//! Single keys of a cluster's map.

use std::io::Write;
use std::process::ExitCode;

use super::place::ClusterArg;
use crate::bytes::{HexArg, pair_to_json, to_hex};
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `put`.
#[derive(clap::Args)]
pub struct PutArgs {
    #[command(flatten)]
    cluster: ClusterArg,
    /// In the ordered map of this name
    #[arg(long, value_name = "MAP")]
    ordered: Option<String>,
    /// The key
    key: String,
    /// Its value
    value: String,
    #[command(flatten)]
    hex: HexArg,
}

/// Arguments of `get` and `del`.
#[derive(clap::Args)]
pub struct KeyArgs {
    #[command(flatten)]
    cluster: ClusterArg,
    /// In the ordered map of this name
    #[arg(long, value_name = "MAP")]
    ordered: Option<String>,
    /// The key
    key: String,
    #[command(flatten)]
    hex: HexArg,
}

/// Binds a key.
pub fn put(args: &PutArgs) -> Result<ExitCode, Failure> {
    let key = args.hex.decode("key", &args.key)?;
    let value = args.hex.decode("value", &args.value)?;
    match &args.ordered {
        Some(name) => {
            args.cluster.open_ordered(name)?.put(&key, &value)?;
        }
        None => args.cluster.open()?.put(&key, &value)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a value; exit code 1 if there is none.
pub fn get(args: &KeyArgs, out: &Output) -> Result<ExitCode, Failure> {
    let key = args.hex.decode("key", &args.key)?;
    let found = match &args.ordered {
        Some(name) => args.cluster.open_ordered(name)?.get(&key)?,
        None => args.cluster.open()?.get(&key)?,
    };
    show(found, &key, args.hex, out)
}

/// Prints the value of a key; exit code 1 if there is none.
pub fn print(cluster: &ClusterArg, key: &[u8], hex: HexArg, out: &Output) -> Result<ExitCode, Failure> {
    show(cluster.open()?.get(key)?, key, hex, out)
}

fn show(found: Option<Vec<u8>>, key: &[u8], hex: HexArg, out: &Output) -> Result<ExitCode, Failure> {
    let Some(value) = found else {
        return Err(Failure::failed(format!("there is no key {}", hex.show(key))));
    };
    if out.json {
        out.json_line(&pair_to_json(key, &value))?;
    } else if hex.hex {
        out.line(to_hex(&value))?;
    } else {
        let mut stdout = out.writer();
        let end: &[u8] = if out.is_terminal() && !value.ends_with(b"\n") {
            b"\n"
        } else {
            b""
        };
        let written = stdout.write_all(&value).and_then(|()| stdout.write_all(end));
        written.and_then(|()| stdout.flush()).map_err(Failure::stdout)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Unbinds a key; exit code 1 if it was bound to nothing.
pub fn del(args: &KeyArgs) -> Result<ExitCode, Failure> {
    let key = args.hex.decode("key", &args.key)?;
    let was_bound = match &args.ordered {
        Some(name) => args.cluster.open_ordered(name)?.remove(&key)?,
        None => args.cluster.open()?.remove(&key)?,
    };
    match was_bound {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::failed(format!(
            "there is no key {}",
            args.hex.show(&key)
        ))),
    }
}
