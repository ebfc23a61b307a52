//! The `cenote` command: one file a command under `commands/`.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod bus_error;
mod bytes;
mod collection;
mod commands;
mod complaint;
mod destination;
mod election;
mod failure;
mod health;
mod input;
mod interrupt;
mod map;
mod memory;
mod output;
mod peers;
mod place;
mod pod_hosts;
mod pool;
mod recorded;
mod records;
mod role;
mod source;
mod threads;
mod trial;
mod whole_file;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A store for memory that processes share: no server, and any of them may be killed.
#[derive(Parser)]
#[command(name = "cenote", version, propagate_version = true)]
struct Cli {
    /// Print results as JSON, for scripts
    #[arg(long, global = true)]
    json: bool,
    /// The id of this host in the pod that shares the pool; default: CENOTE_HOST, the file that CENOTE_HOST_FILE names,
    /// or /etc/cenote/host. 0 for a machine on its own
    #[arg(long, global = true, value_name = "N")]
    host: Option<u32>,
    /// The file that holds the locks by which this machine's processes see which of them live; the same for all of
    /// them, and no other machine's. Made if there is none. Default: CENOTE_LOCK_FILE, or the pool itself
    #[arg(long, global = true, value_name = "FILE")]
    lock_file: Option<std::path::PathBuf>,
    /// Open a pool although it, or its lock file, belongs neither to you nor to root, or although every user may write
    /// it. A user that may write a pool can change and destroy all that is in it. Also: CENOTE_TRUST_OWNER=1
    #[arg(long, global = true)]
    trust_owner: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create a pool
    Create(commands::create::Args),
    /// Set a key's value
    Put(commands::put::Args),
    /// Print a key's value
    Get(commands::get::Args),
    /// Remove a key
    Del(commands::del::Args),
    /// Print pairs; of an ordered map in order, from one key to another
    Scan(commands::scan::Args),
    /// Load pairs from a file or standard input
    Load(commands::load::Args),
    /// Write all pairs to a file or standard output
    Export(commands::export::Args),
    /// Put, print, list and delete objects: bytes that are written once, and viewed where they are
    Object(commands::object::Args),
    /// Drop maps and object stores by their names, while others use them
    Drop(commands::drop::Args),
    /// Run a command under a lock that survives its owners
    Lock(commands::lock::Args),
    /// Answer for locks that processes and machines share without a pool
    Lockd(commands::lockd::Args),
    /// A map that is replicated over memory nodes: start one, use it, see how it is
    Cluster(commands::cluster::Args),
    /// Hold memory for a cluster
    Memnode(commands::memnode::Args),
    /// Show a pool's figures
    Stat(commands::stat::Args),
    /// Check a pool and account for every byte of it
    Fsck(commands::fsck::Args),
    /// Give memory of a pool that is free back to the file system
    Trim(commands::trim::Args),
    /// Make and join groups, and show who is there, who left and who died
    Group(commands::group::Args),
    /// Answer for this host to the pod: send heartbeats, and recover this host's dead
    Agent(commands::agent::Args),
    /// Watch the pod's hosts, and fence those that miss their heartbeats
    Monitor(commands::monitor::Args),
    /// Measure with the YCSB workloads
    Bench(commands::bench::Args),
    /// Make traces of caches, and say what one is like
    Trace(commands::trace::Args),
    /// Replay a trace of a cache against a map, and verify what it reads
    Replay(commands::replay::Args),
    /// Kill workers again and again and check that nothing is lost
    Torture(commands::torture::Args),
    /// Run for hours, kill and stop workers, and check that memory comes back and nothing gets slower
    Soak(commands::soak::Args),
    /// Run a command in several processes, and start those again that fail
    Run(commands::run::Args),
    /// Count, cluster, multiply, price or deduplicate with workers that may be killed
    Mapreduce(commands::mapreduce::Args),
    /// Run the library on a simulated pod: stale caches, crashes at any step
    Sim(commands::sim::Args),
    /// Make figures of the papers again, the paper's numbers beside ours
    Reproduce(commands::reproduce::Args),
    /// Show the main job on real data in less than a minute
    Demo(commands::demo::Args),
    /// A worker process of another command
    #[command(hide = true, name = "worker")]
    Worker(commands::worker::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let out = output::Output::new(cli.json);
    bus_error::explain(cli.json);
    interrupt::block_file_size();
    pool::set_given(pool::Given {
        host: cli.host,
        lock_file: cli.lock_file,
        trust_owner: cli.trust_owner,
    });
    let done = match cli.command {
        Command::Create(args) => commands::create::run(args, &out),
        Command::Put(args) => commands::put::run(args, &out),
        Command::Get(args) => commands::get::run(args, &out),
        Command::Del(args) => commands::del::run(args, &out),
        Command::Scan(args) => commands::scan::run(args, &out),
        Command::Load(args) => commands::load::run(args, &out),
        Command::Export(args) => commands::export::run(args, &out),
        Command::Object(args) => commands::object::run(args, &out),
        Command::Drop(args) => commands::drop::run(args, &out),
        Command::Lock(args) => commands::lock::run(args, &out),
        Command::Lockd(args) => commands::lockd::run(args, &out),
        Command::Cluster(args) => commands::cluster::run(args, &out),
        Command::Memnode(args) => commands::memnode::run(args, &out),
        Command::Stat(args) => commands::stat::run(args, &out),
        Command::Fsck(args) => commands::fsck::run(args, &out),
        Command::Trim(args) => commands::trim::run(args, &out),
        Command::Group(args) => commands::group::run(args, &out),
        Command::Agent(args) => commands::agent::run(args, &out),
        Command::Monitor(args) => commands::monitor::run(args, &out),
        Command::Bench(args) => commands::bench::run(args, &out),
        Command::Trace(args) => commands::trace::run(args, &out),
        Command::Replay(args) => commands::replay::run(args, &out),
        Command::Torture(args) => commands::torture::run(args, &out),
        Command::Soak(args) => commands::soak::run(args, &out),
        Command::Run(args) => commands::run::run(args, &out),
        Command::Mapreduce(args) => commands::mapreduce::run(args, &out),
        Command::Sim(args) => commands::sim::run(args, &out),
        Command::Reproduce(args) => commands::reproduce::run(args, &out),
        Command::Demo(args) => commands::demo::run(args, &out),
        Command::Worker(args) => commands::worker::run(args),
    };
    match done {
        Ok(code) => code,
        Err(failure) => failure.report(&out),
    }
}

/// Prints what is wrong with the arguments, or the help that was asked for.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|arg| arg == "--json") {
        let text = error.to_string();
        let text = text.trim().trim_start_matches("error: ");
        return failure::Failure::misuse(text).report(&output::Output::new(true));
    }
    // There may be no reader.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}
