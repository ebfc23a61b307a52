//! The master as a process.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cenote_cluster::master::store::Place;
use cenote_cluster::master::{self, Options};
use serde::Serialize;

use super::network::Network;
use super::token::read_token;
use crate::commands::lock::time;
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `master`.
///
/// The first time, `--node` and `--replicas` say what the cluster is made of; later the store does.
#[derive(clap::Args)]
pub struct MasterArgs {
    /// Listen here, such as 0.0.0.0:7400; port 0 for any that is free
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
    /// Where the master keeps what it decides: a pool, made if there is none; or etcd://HOST:PORT,HOST:PORT/PREFIX, for
    /// several masters, of which one leads
    #[arg(long, value_name = "STORE")]
    store: Place,
    /// With a store in etcd: where clients reach this master, if not where it listens
    #[arg(long, value_name = "ADDR")]
    advertise: Option<SocketAddr>,
    /// With a store in etcd: another master leads after so long, if the leader dies: 2s to 60s, whole seconds
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2s")]
    etcd_lease: Duration,
    /// The file with the cluster's token
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    #[command(flatten)]
    tls: super::tls::TlsArgs,
    /// A memory node of a new cluster; several times
    #[arg(long = "node", value_name = "ADDR")]
    nodes: Vec<SocketAddr>,
    /// How verbs go to the memory nodes, as they were started
    #[arg(long, value_name = "NETWORK", value_enum, default_value_t)]
    network: Network,
    /// Keep so many copies of everything in a new cluster
    #[arg(long, value_name = "R", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    replicas: u8,
    /// Bytes of a region of a new cluster: what is placed, moved and closed at once
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = crate::commands::memnode::size)]
    region: u64,
    /// Bytes of a block of a new cluster, a power of two; a value must be shorter
    #[arg(long, value_name = "SIZE", default_value = "256KiB", value_parser = crate::commands::memnode::size)]
    block: u64,
    /// Give up a memory node that is silent for so long: 50ms to 60s
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    node_lease: Duration,
    /// When the master begins, wait so long for memory nodes with --pool: 0s to 60m
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    start_grace: Duration,
    /// Give up a client that is silent for so long: 100ms to 60m
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "3s")]
    client_lease: Duration,
}

/// What is printed when the master listens.
#[derive(Serialize)]
struct Began {
    listening: SocketAddr,
}

/// Serves until it is told to stop.
pub fn run(args: MasterArgs, out: &Output) -> Result<ExitCode, Failure> {
    let range = |is_good: bool, option: &str, range: &str| match is_good {
        true => Ok(()),
        false => Err(Failure::misuse(format!("{option} is out of range: {range}"))),
    };
    let seconds = Duration::from_secs;
    range(
        (Duration::from_millis(50)..=seconds(60)).contains(&args.node_lease),
        "--node-lease",
        "50ms to 60s",
    )?;
    range(
        (Duration::from_millis(100)..=seconds(3600)).contains(&args.client_lease),
        "--client-lease",
        "100ms to 60m",
    )?;
    range(args.start_grace <= seconds(3600), "--start-grace", "0s to 60m")?;
    range(
        (seconds(2)..=seconds(60)).contains(&args.etcd_lease) && args.etcd_lease.subsec_nanos() == 0,
        "--etcd-lease",
        "2s to 60s, whole seconds",
    )?;
    if cfg!(not(feature = "etcd")) && matches!(args.store, Place::Etcd { .. }) {
        return Err(Failure::misuse(
            "--store: this program was built without etcd; build it with the feature `etcd`, or name a file",
        ));
    }
    let credentials = args.tls.credentials(read_token(&args.token_file)?)?;
    args.network.allows(&credentials)?;
    let mut options = Options::new(credentials);
    options.nodes = args.nodes;
    options.transport = args.network.transport()?;
    (options.node_lease, options.client_lease) = (args.node_lease, args.client_lease);
    (options.etcd_lease, options.advertise) = (args.etcd_lease, args.advertise);
    options.start_grace = args.start_grace;
    options.shape.replicas = args.replicas.into();
    let word = |option: &str, size: u64| {
        u32::try_from(size).map_err(|_| Failure::misuse(format!("{option} is out of range: below 4GiB")))
    };
    options.shape.region_bytes = word("--region", args.region)?;
    options.shape.block = word("--block", args.block)?;
    let listener = TcpListener::bind(args.listen).map_err(Failure::io(args.listen))?;
    let listening = listener.local_addr().map_err(Failure::io(args.listen))?;
    out.result(&Began { listening }, |began| {
        format!("listening at {}", began.listening)
    })?;
    master::run(args.store, options, listener)?;
    Ok(ExitCode::SUCCESS)
}
