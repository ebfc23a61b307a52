//! `cenote drop`: drops maps, object stores, task lists and groups by their names.

use std::process::ExitCode;

use cenote::memory::Memory;
use cenote::{Dropped, Options, Pool};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::Output;
use crate::pool::{PoolArg, on_pool};

/// Arguments.
///
/// Names are free at once, and their memory comes back. Processes that use what is dropped get an error that says so;
/// views of objects stay, and what they show comes back when they end. `cenote lock --remove` removes locks. The exit
/// code is 1 if a name stands for nothing, or for something else; those before it are dropped.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// Names of maps, ordered maps, object stores, task lists and groups
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Drops them.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let path = args.pool.existing()?;
    let dropped = on_pool!(&path, &Options::default(), |pool| drop_all(&pool, &args.names)?);
    let report: Vec<Value> = args
        .names
        .iter()
        .zip(&dropped)
        .map(|(name, dropped)| json!({ "name": name, "is_freed": *dropped == Dropped::Freed }))
        .collect();
    out.result(&json!({ "dropped": report }), |_| text(&args.names, &dropped))?;
    Ok(ExitCode::SUCCESS)
}

fn drop_all<M: Memory>(pool: &Pool<M>, names: &[String]) -> Result<Vec<Dropped>, Failure> {
    let drop_one = |name: &String| {
        pool.drop_named(name)
            .map_err(|error| Failure::failed(format!("{name:?}: {error}")))
    };
    names.iter().map(drop_one).collect()
}

fn text(names: &[String], dropped: &[Dropped]) -> String {
    let lines = names.iter().zip(dropped).map(|(name, dropped)| match dropped {
        Dropped::Freed => format!("dropped {name:?}"),
        Dropped::InUse => {
            format!("dropped {name:?}, which is in use: its memory comes back when that ends")
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}
