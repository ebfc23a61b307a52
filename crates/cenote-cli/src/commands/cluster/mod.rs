//! `cenote cluster`: a replicated map over memory nodes.
//!
//! | file | |
//! |---|---|
//! | `place` | which cluster is meant |
//! | `token`, `tls` | its secret, and certificates |
//! | `start` | clusters on this machine: start, nodes that come and go, stop |
//! | `master` | the master as a process |
//! | `status` | how it is |
//! | `keys` | single keys |
//! | `scan` | keys of an ordered map, in their order |
//! | `bench` | what operations cost |
//! | `redis` | what they are compared with |
//! | `network` | how verbs go to the memory nodes |

mod bench;
pub mod keys;
mod master;
pub mod network;
pub mod place;
mod redis;
mod scan;
pub mod start;
mod status;
pub mod tls;
pub mod token;

use std::process::ExitCode;

use crate::failure::Failure;
use crate::output::Output;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Try it:
  cenote cluster start /dev/shm/trial
  cenote cluster put /dev/shm/trial key value
  cenote cluster kill-node /dev/shm/trial 1
  cenote cluster get /dev/shm/trial key
  cenote cluster stop /dev/shm/trial")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Start a cluster on this machine, in the background
    Start(start::StartArgs),
    /// Show nodes, clients and regions
    Status(StatusArgs),
    /// Set a key's value
    Put(keys::PutArgs),
    /// Print a key's value
    Get(keys::KeyArgs),
    /// Remove a key
    Del(keys::KeyArgs),
    /// Print keys and values of an ordered map in the order of the keys
    Scan(scan::ScanArgs),
    /// Measure what operations cost
    Bench(bench::BenchArgs),
    /// Add a memory node
    AddNode(start::AddArgs),
    /// Move all that a memory node holds to others; it may be ended once status shows it no more
    Drain(start::NodeArgs),
    /// Go on without a memory node that does not come back; what no other node has is lost
    GiveUp(start::NodeArgs),
    /// Kill a memory node, to try what happens
    KillNode(start::NodeArgs),
    /// End a cluster of this machine: all that is in it is lost
    Stop(start::StopArgs),
    /// Decide who is alive and who holds what, for a cluster of any machines
    Master(master::MasterArgs),
}

/// Arguments of `status`.
#[derive(clap::Args)]
struct StatusArgs {
    #[command(flatten)]
    cluster: place::ClusterArg,
}

/// Does one of them.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Start(args) => start::run(&args, out),
        Command::Status(args) => status::run(&args.cluster, out),
        Command::Put(args) => keys::put(&args),
        Command::Get(args) => keys::get(&args, out),
        Command::Del(args) => keys::del(&args),
        Command::Scan(args) => scan::run(&args, out),
        Command::Bench(args) => bench::run(&args, out),
        Command::AddNode(args) => start::add(&args, out),
        Command::Drain(args) => start::drain(&args, out),
        Command::GiveUp(args) => start::give_up(&args, out),
        Command::KillNode(args) => start::kill(&args),
        Command::Stop(args) => start::stop(&args),
        Command::Master(args) => master::run(args, out),
    }
}
