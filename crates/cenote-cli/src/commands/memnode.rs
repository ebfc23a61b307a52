//! `cenote memnode`: a memory node of a cluster.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;

use cenote_cluster::node::{self, Options};
use serde::Serialize;

use super::cluster::token::read_token;
use crate::failure::Failure;
use crate::output::{Output, bytes};

/// Arguments.
///
/// Holds regions for a cluster, and executes its clients' reads, writes and compare-swaps. Runs until it is killed; its memory ends with it.
#[derive(clap::Args)]
#[command(after_help = "\
Clients and the master show a token. Without TLS it goes over the network as it is, and so do keys and values: use a network that is trusted.

Then: cenote cluster master --node ADDR …, or cenote cluster add-node CLUSTER ADDR.")]
pub struct Args {
    /// Listen here, such as 0.0.0.0:7401; port 0 for any that is free
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
    /// Give at most so much memory to regions, such as 4GiB
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: u64,
    /// The file with the cluster's token
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    #[command(flatten)]
    tls: super::cluster::tls::TlsArgs,
}

/// The least memory that a node can offer: anything smaller has no region.
const LEAST: u64 = 1 << 20;

pub(super) fn size(text: &str) -> Result<u64, String> {
    cenote::parse_size(text).map_err(|error| error.to_string())
}

/// A size of memory for regions.
pub(super) fn memory(text: &str) -> Result<u64, String> {
    match size(text)? {
        LEAST.. => Ok(size(text)?),
        _ => Err("at least 1MiB".to_owned()),
    }
}

/// What is printed when the node listens.
#[derive(Serialize)]
struct Began {
    listening: SocketAddr,
    memory: u64,
}

/// Serves until the process ends.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let credentials = args.tls.credentials(read_token(&args.token_file)?)?;
    let listener = TcpListener::bind(args.listen).map_err(Failure::io(args.listen))?;
    let began = Began {
        listening: listener.local_addr().map_err(Failure::io(args.listen))?,
        memory: args.memory,
    };
    out.result(&began, |began| {
        format!(
            "listening at {}, with {} for regions",
            began.listening,
            bytes(began.memory)
        )
    })?;
    let options = Options {
        memory: args.memory,
        credentials,
    };
    node::run(options, listener).map_err(Failure::io(args.listen))?;
    Ok(ExitCode::SUCCESS)
}
