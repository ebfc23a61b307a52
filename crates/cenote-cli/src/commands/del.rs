//! `cenote del`: removes keys.

use std::process::ExitCode;

use cenote::memory::Memory;
use cenote::{Options, Pool};
use serde_json::json;

use crate::bytes::HexArg;
use crate::failure::Failure;
use crate::map::AnyMap;
use crate::output::Output;
use crate::pool::{MapArg, PoolArg, TokenArg, on_pool};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    #[command(flatten)]
    map: MapArg,
    #[command(flatten)]
    hex: HexArg,
    #[command(flatten)]
    token: TokenArg,
}

/// Removes the keys; exit code 1 if one of them is not there.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let keys = args
        .keys
        .iter()
        .map(|key| args.hex.decode("key", key))
        .collect::<Result<Vec<_>, _>>()?;
    let missing = match args.pool.cluster(&args.token) {
        Some(cluster) => {
            args.map.of_cluster()?;
            del_of_cluster(&mut cluster.open()?, &keys)?
        }
        None => {
            let path = args.pool.existing()?;
            on_pool!(&path, &Options::default(), |pool| del(&pool, &args, &keys)?)
        }
    };
    if let [first, others @ ..] = &missing[..] {
        let more = if others.is_empty() {
            String::new()
        } else {
            format!(", nor {} others", others.len())
        };
        let shown = args.hex.show(first);
        return Err(Failure::failed(format!(
            "there is no key {shown}{more} in the map {:?}",
            args.map.map
        )));
    }
    out.result(&json!({ "removed": keys.len() }), |_| {
        format!("removed {}", keys.len())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn del<'k, M: Memory>(pool: &Pool<M>, args: &Args, keys: &'k [Vec<u8>]) -> Result<Vec<&'k [u8]>, Failure> {
    let map = AnyMap::existing(pool, &args.map.map)?;
    let mut missing = Vec::new();
    for key in keys {
        if !map.remove(key)? {
            missing.push(&key[..]);
        }
    }
    Ok(missing)
}

fn del_of_cluster<'k>(map: &mut cenote_cluster::Map, keys: &'k [Vec<u8>]) -> Result<Vec<&'k [u8]>, Failure> {
    let mut missing = Vec::new();
    for key in keys {
        if !map.remove(key)? {
            missing.push(&key[..]);
        }
    }
    Ok(missing)
}
