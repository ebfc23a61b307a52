//! `cenote memnode`: a memory node of a cluster.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use cenote_cluster::Transport;
use cenote_cluster::mapped;
use cenote_cluster::memory_file::MemoryFile;
use cenote_cluster::node::{self, Node, Options};
use serde::Serialize;

use super::cluster::network::Network;
use super::cluster::token::read_token;
use crate::complaint::complain;
use crate::failure::Failure;
use crate::output::{Output, bytes};

/// Arguments.
///
/// Holds regions for a cluster, and executes its clients' reads, writes and compare-swaps. Runs until it is killed. Its
/// memory ends with it, or is in a file.
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
    /// Keep the memory in a file in this folder, such as /dev/shm, which clients of this machine map
    #[arg(long, value_name = "FOLDER")]
    mapped: Option<PathBuf>,
    /// Have the memory in this file, which is made if there is none: a process that is started again with it goes on
    /// with what it has
    #[arg(long, value_name = "FILE")]
    pool: Option<PathBuf>,
    /// How clients reach the memory
    #[arg(long, value_name = "NETWORK", value_enum, default_value_t)]
    network: Network,
    /// The provider of libfabric, with --network ofi: tcp;ofi_rxm for plain networks, verbs;ofi_rxm for cards that
    /// speak verbs
    #[arg(long, value_name = "NAME", default_value = cenote_cluster::ofi::PLAIN)]
    provider: String,
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
    let transport = args.network.transport()?;
    if args.mapped.is_some() && (args.pool.is_some() || transport == Transport::Ofi) {
        return Err(Failure::misuse(
            "--mapped goes neither with --pool nor with --network ofi: clients that map memory need it in a file of its own, and what they change there is atomic for processors alone",
        ));
    }
    if args.pool.is_some() && transport == Transport::Ofi {
        return Err(Failure::misuse(
            "--pool and --network ofi do not go together: remote verbs need memory of the process, and that of a file is read and written by calls",
        ));
    }
    let credentials = args.tls.credentials(read_token(&args.token_file)?)?;
    args.network.allows(&credentials)?;
    let open = |path: &PathBuf| {
        let file = MemoryFile::open(path, args.memory, Node::new_incarnation());
        file.map(Arc::new)
            .map_err(|error| Failure::failed(error.to_string()))
    };
    let pool = args.pool.as_ref().map(open).transpose()?;
    if let Some(file) = pool.clone() {
        crate::interrupt::on_interrupt(move || {
            // One that was not ended in order says so when it is opened.
            if let Err(error) = file.end() {
                complain!("cenote memnode: its memory could not be written back: {error}");
            }
        });
    }
    let listener = TcpListener::bind(args.listen).map_err(Failure::io(args.listen))?;
    if let Some(folder) = args.mapped.clone() {
        // Before it says that it listens.
        if !folder.is_dir() {
            return Err(Failure::failed(format!(
                "--mapped {}: there is no such folder; make it, in /dev/shm or on the memory device",
                folder.display()
            )));
        }
        let port = listener.local_addr().map_err(Failure::io(args.listen))?.port();
        // Nobody finds it any more.
        crate::interrupt::on_interrupt(move || mapped::remove(&folder, port));
    }
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
    let mut options = Options::new(args.memory, credentials);
    (options.transport, options.provider, options.pool) = (transport, args.provider, pool);
    options.mapped = args.mapped;
    node::run(options, listener).map_err(Failure::io(args.listen))?;
    Ok(ExitCode::SUCCESS)
}
