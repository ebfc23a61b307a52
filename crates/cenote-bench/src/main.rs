//! `cenote-bench`: Cenote beside its peers, in one run, interleaved round by round.
//!
//! - `hash` measures the hash map beside concurrent maps of one process (dashmap, scc), an embedded store (LMDB)
//!   and a server (Redis). See [`mod@hash`].
//! - `ordered` measures the ordered map beside those of one process, LMDB and redb. See [`mod@ordered`].
//! - `sizes` measures both maps beside dashmap, crossbeam and LMDB with keys and values of several lengths. See
//!   [`mod@sizes`].
//! - `line` measures what it costs this machine to fetch a line from memory past its caches, the unit for
//!   everything on memory without coherence. See [`mod@line`].
//!
//! - `together` measures the ordered map beside LMDB and redb by several processes at once. See [`mod@together`].
//! - `processes`, `noncoherent` and `alloc` measure what a second process adds, a lookup on memory without coherence
//!   in units of `line`, and allocation beside `malloc`. See [`mod@processes`], [`mod@noncoherent`], [`mod@alloc`].
//! - `objects` measures objects beside copies of their bytes and files. See [`mod@objects`].
//! - `cache` counts the hits of an object store that evicts, beside SIEVE and LRU. See [`mod@cache`].
//! - `exchange` measures a compare-exchange by the CPU and by a server. See [`mod@exchange`].
//! - `takeover` measures for how long exchanges are held up when the server is killed. See [`mod@takeover`].
//! - `locks` measures what it costs that a lock survives its owner. See [`mod@locks`].
//! - `directory-locks` measures locks that hand over what they cover. See [`mod@handover`].
//! - `applications` measures a table and a store under locks. See [`mod@applications`].
//! - `waiting` measures locks that many want at once. See [`mod@waiting`].
//! - `detection` measures how long after a process's death others know of it. See [`mod@detection`].
//! - `host-detection` measures how soon a host of a pod that failed is known, fenced and recovered. See
//!   [`mod@host_detection`].
//! - `near` measures the near-memory map on worker threads beside ordered maps of one process, in batches. See
//!   [`mod@near`].
//! - `all` measures everything, and keeps the results. See [`mod@all`].
//! - `report` writes `docs/benchmarks.md` from results, with the aims. See [`mod@page`].
//!
//! What is compared is in [`subjects`], one file a peer; [`report`] and [`mod@table`] print medians and ratios;
//! [`mod@run`] is what a result says of its own run.

#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod all;
mod alloc;
mod applications;
mod cache;
mod detection;
mod exchange;
mod handover;
mod hash;
mod host_detection;
mod line;
mod locks;
mod near;
mod noncoherent;
mod objects;
mod ordered;
mod page;
mod parts;
mod processes;
mod progress;
mod pthread;
mod report;
mod run;
mod sizes;
mod subjects;
mod table;
mod takeover;
mod threads;
mod together;
mod waiting;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "cenote-bench",
    version,
    about = "Measures Cenote side by side with its peers"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The hash map beside dashmap, scc, LMDB and Redis: 8-byte keys and values, one thread.
    Hash(hash::Options),
    /// The ordered map beside scc, crossbeam, concurrent-map, LMDB, redb and BTreeOLC: 8-byte keys and values, one
    /// thread.
    Ordered(hash::Options),
    /// Both maps beside dashmap, crossbeam and LMDB: keys of 8 and 24 bytes, values of 8 bytes to 64 KiB, one thread.
    Sizes(sizes::Options),
    /// Flush, fence and load of random lines: what this machine takes to fetch a line past its caches.
    Line(line::Options),
    /// One process beside two that read one pool.
    Processes(processes::Options),
    /// The ordered map beside LMDB and redb, each used by several processes at once.
    Together(together::Options),
    /// Lookups on memory without coherence, in units of one line fetched past the caches.
    Noncoherent(noncoherent::Options),
    /// Allocation and free beside malloc and free.
    Alloc(alloc::Options),
    /// Objects of an object store beside copies of their bytes, and beside a file in /dev/shm for each.
    Objects(objects::Options),
    /// An object store that evicts, beside SIEVE and LRU: hit ratios of requests for more than it may hold.
    Cache(cache::Options),
    /// Locks that survive their owners beside plain ones, pthread and parking_lot.
    Locks(locks::Options),
    /// A lock and 4 KiB under it: taken again, and handed over between two processes, beside pthread's locks and
    /// copies.
    DirectoryLocks(handover::Options),
    /// A hash table with a lock for each bucket under YCSB, and a store with one lock under TPC-C, over each kind of
    /// lock; `--kill`: with workers that are killed.
    Applications(applications::Options),
    /// Locks that many want at once, beside robust pthread mutexes: throughput, longest waits, CPU of those who wait.
    Waiting(waiting::Options),
    /// A compare-exchange by the CPU and by a server, in line fetches.
    Exchange(exchange::Options),
    /// For how long exchanges are held up when the process that executes them is killed.
    Takeover(takeover::Options),
    /// How long after a process's death others know of it.
    Detection(detection::Options),
    /// How soon a host that failed is known, fenced and recovered; `--soak`: whether one that lives is ever suspected.
    HostDetection(host_detection::Options),
    /// The near-memory map on worker threads beside crossbeam's skip list and concurrent-map, in batches of gets and
    /// inserts.
    Near(near::Options),
    /// Everything, with the aims; `--results` keeps what was measured.
    All(all::Options),
    /// The page of benchmarks, from what was measured and kept.
    Report(page::Options),
    /// One of the processes of `processes`.
    #[command(hide = true)]
    Part(processes::PartOptions),
    /// One of the processes of `together`.
    #[command(hide = true)]
    PartTogether(together::PartOptions),
    /// One of the processes of `locks`.
    #[command(hide = true)]
    LockPart(locks::PartOptions),
    /// One of the processes of `directory-locks`.
    #[command(hide = true)]
    HandoverPart(handover::PartOptions),
    /// One of the processes of `applications`.
    #[command(hide = true)]
    ApplicationPart(applications::PartOptions),
    #[command(hide = true)]
    WaitingPart(waiting::PartOptions),
    /// One of the processes of `exchange`.
    #[command(hide = true)]
    ExchangePart(exchange::PartOptions),
    /// One of the processes of `takeover`.
    #[command(hide = true)]
    TakeoverPart(takeover::PartOptions),
    /// One of the processes of `detection`.
    #[command(hide = true)]
    Worker(detection::PartOptions),
    /// One of the processes of `host-detection`.
    #[command(hide = true)]
    HostPart(host_detection::PartOptions),
}

fn main() -> ExitCode {
    run::begin();
    let outcome = match Arguments::parse().command {
        Command::Hash(options) => hash::run(&options),
        Command::Ordered(options) => ordered::run(&options),
        Command::Sizes(options) => sizes::run(&options),
        Command::Line(options) => line::run(&options),
        Command::Processes(options) => processes::run(&options),
        Command::Together(options) => together::run(&options),
        Command::Noncoherent(options) => noncoherent::run(&options),
        Command::Alloc(options) => alloc::run(&options),
        Command::Objects(options) => objects::run(&options),
        Command::Cache(options) => cache::run(&options),
        Command::Locks(options) => locks::run(&options),
        Command::DirectoryLocks(options) => handover::run(&options),
        Command::HandoverPart(options) => handover::run_part(&options),
        Command::Applications(options) => applications::run(&options),
        Command::ApplicationPart(options) => applications::run_part(&options),
        Command::Waiting(options) => waiting::run(&options),
        Command::Exchange(options) => exchange::run(&options),
        Command::ExchangePart(options) => exchange::run_part(&options),
        Command::Takeover(options) => takeover::run(&options),
        Command::TakeoverPart(options) => takeover::run_part(&options),
        Command::LockPart(options) => locks::run_part(&options),
        Command::WaitingPart(options) => waiting::run_part(&options),
        Command::HostDetection(options) => host_detection::run(&options),
        Command::Near(options) => near::run(&options).map_err(subjects::Failure::Broken),
        Command::All(options) => all::run(&options),
        Command::Report(options) => page::run(&options),
        Command::Part(options) => processes::run_part(&options),
        Command::PartTogether(options) => together::run_part(&options),
        Command::Detection(options) => detection::run(&options),
        Command::Worker(options) => detection::run_part(&options),
        Command::HostPart(options) => host_detection::run_part(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("cenote-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}
