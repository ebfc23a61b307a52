//! `cenote put`: sets a key's value, always or under a condition.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cenote::memory::Memory;
use cenote::{Options, Pool, Put, Replace};
use cenote_cluster::{Map, Replaced};
use serde_json::json;

use super::cluster::place::ClusterArg;
use crate::bytes::HexArg;
use crate::failure::Failure;
use crate::input;
use crate::map::AnyMap;
use crate::output::Output;
use crate::pool::{MapArg, PoolArg, TokenArg, on_pool, room};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// The key
    key: String,
    /// The value; `-` reads it from standard input, byte by byte as it is
    #[arg(
        required_unless_present = "file",
        conflicts_with = "file",
        allow_negative_numbers = true
    )]
    value: Option<String>,
    /// Read the value from a file, byte by byte as it is
    #[arg(long)]
    file: Option<PathBuf>,
    #[command(flatten)]
    map: MapArg,
    /// Make the map an ordered one if it is not there yet
    #[arg(long)]
    ordered: bool,
    #[command(flatten)]
    hex: HexArg,
    /// Only if the key has no value
    #[arg(long, conflicts_with = "expect")]
    if_absent: bool,
    /// Only if this is the key's value
    #[arg(long, value_name = "OLD")]
    expect: Option<String>,
    #[command(flatten)]
    token: TokenArg,
}

impl Args {
    /// The value that the key has to have.
    fn expected(&self) -> Result<Option<Vec<u8>>, Failure> {
        let decode = |text: &String| self.hex.decode("expected value", text);
        self.expect.as_ref().map(decode).transpose()
    }
}

/// Bytes that a value of a cluster has at most, whatever its blocks have.
const CLUSTER_MOST: u64 = 64 << 20;

/// The value; one that is longer than what the pool may hold is not read to its end.
fn value(args: &Args, pool: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let most = || {
        Ok::<_, Failure>(match pool {
            Some(pool) => (room(pool)?, "the pool has no room for a longer value"),
            None => (
                CLUSTER_MOST,
                "a block of a cluster has no room for a longer value",
            ),
        })
    };
    match (&args.file, args.value.as_deref()) {
        (Some(path), _) => input::whole(Some(path), most()?),
        (None, None | Some("-")) => input::whole(None, most()?),
        (None, Some(text)) => args.hex.decode("value", text),
    }
}

/// Sets the value.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let key = args.hex.decode("key", &args.key)?;
    if let Some(cluster) = args.pool.cluster(&args.token) {
        let done = put_to_cluster(&cluster, &args, &key)?;
        out.result(&json!({ "result": done }), |_| done.to_owned())?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = args.pool.existing()?;
    let expected = args.expected()?;
    let value = value(&args, Some(&path))?;
    let done = on_pool!(&path, &Options::default(), |pool| put(
        &pool,
        &args,
        &key,
        &value,
        expected.as_deref()
    )?);
    out.result(&json!({ "result": done }), |_| done.to_owned())?;
    Ok(ExitCode::SUCCESS)
}

fn put_to_cluster(cluster: &ClusterArg, args: &Args, key: &[u8]) -> Result<&'static str, Failure> {
    args.map.of_cluster()?;
    if args.ordered {
        return Err(Failure::misuse(
            "a cluster's map has no order: leave out --ordered, or use cenote cluster put --ordered NAME",
        ));
    }
    let expected = args.expected()?;
    let value = value(args, None)?;
    let mut map = cluster.open()?;
    if let Some(expected) = expected {
        return replace_in_cluster(&mut map, args, key, (&expected, &value));
    }
    match args.if_absent {
        false => {
            map.put(key, &value)?;
            Ok("put")
        }
        true if map.insert(key, &value)? => Ok("inserted"),
        true => Err(has_a_value(args, key)),
    }
}

/// Binds a key to a value if it is bound to the expected one.
fn replace_in_cluster(
    map: &mut Map,
    args: &Args,
    key: &[u8],
    (expected, value): (&[u8], &[u8]),
) -> Result<&'static str, Failure> {
    let mut seen = map.get_versioned(key)?;
    loop {
        let Some(found) = seen else {
            return Err(has_no_value(args, key));
        };
        if found.value != expected {
            return Err(has_another_value(args, key, &found.value));
        }
        match map.replace_if(key, found.version, value)? {
            Replaced::Done(_) => return Ok("replaced"),
            // Perhaps to the same value.
            Replaced::Changed(now) => seen = now,
        }
    }
}

fn has_no_value(args: &Args, key: &[u8]) -> Failure {
    Failure::failed(format!(
        "the key {} has no value; nothing was written",
        args.hex.show(key)
    ))
}

fn has_another_value(args: &Args, key: &[u8], found: &[u8]) -> Failure {
    Failure::failed(format!(
        "the key {} has another value, which stays: {}",
        args.hex.show(key),
        args.hex.show(found)
    ))
}

fn has_a_value(args: &Args, key: &[u8]) -> Failure {
    Failure::failed(format!("the key {} has a value, which stays", args.hex.show(key)))
}

fn put<M: Memory>(
    pool: &Pool<M>,
    args: &Args,
    key: &[u8],
    value: &[u8],
    expected: Option<&[u8]>,
) -> Result<&'static str, Failure> {
    let map = AnyMap::open(pool, &args.map.map, args.ordered)?;
    if args.if_absent {
        return match map.insert(key, value)? {
            true => Ok("inserted"),
            false => Err(has_a_value(args, key)),
        };
    }
    if let Some(expected) = expected {
        return match map.replace(key, expected, value)? {
            Replace::Replaced => Ok("replaced"),
            Replace::Missing => Err(has_no_value(args, key)),
            Replace::Differs(found) => Err(has_another_value(args, key, &found)),
        };
    }
    Ok(match map.put(key, value)? {
        Put::Inserted => "inserted",
        Put::Replaced => "replaced",
    })
}
