//! A checkpoint: all workers pause, every journal is checked against the pool, every byte is accounted for, and what
//! was measured since the last one is read.

use std::os::unix::fs::MetadataExt;

use cenote::memory::Mapped;
use cenote::{FsckReport, Options, Pool};
use serde::Serialize;

use super::board::Board;
use super::meter::{Counter, Kind, Measures, Spike};
use super::plan::{Plan, milliseconds};
use super::state;
use crate::trial::fault::Fault;

/// How often `fsck` may run until the background threads of the workers have come to rest.
const POLLS: u32 = 5;
const POLL_AGAIN: std::time::Duration = std::time::Duration::from_millis(50);
/// Spikes that a checkpoint reports.
const SPIKES: usize = 8;

/// What a checkpoint found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Checkpoint {
    /// Seconds since the run began.
    pub seconds: f64,
    /// The pool's bytes.
    pub memory: MemoryFigures,
    /// Its maps.
    pub maps: Vec<MapFigures>,
    /// Latencies since the last checkpoint.
    pub latencies: Vec<Latency>,
    /// The longest operations since the last checkpoint.
    pub spikes: Vec<Spike>,
    /// Acknowledged writes so far.
    pub writes: u64,
    /// Keys that were read and compared at this checkpoint.
    pub verified: u64,
    /// Refusals so far.
    pub refused: u64,
    /// Those of them for which there was no reason.
    pub falsely_refused: u64,
    /// What the host of a virtual machine took from all processors since the last checkpoint, in milliseconds.
    pub stolen_by_host_ms: f64,
}

/// Where a pool's bytes are.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MemoryFigures {
    /// Reserved in the pool.
    pub committed_bytes: u64,
    /// Blocks of the file.
    pub file_bytes: u64,
    /// Referred to by maps.
    pub reachable_bytes: u64,
    /// Live by the journals, as the oracle for `Full` counts it: not less than what is reachable.
    pub live_bytes: u64,
    /// Free.
    pub free_bytes: u64,
    /// Waiting.
    pub retired_bytes: u64,
    /// Objects that wait, before the supervisor collected.
    pub retired_objects: u64,
    /// Held by living workers.
    pub held_bytes: u64,
    /// Lost.
    pub leaked_bytes: u64,
}

/// A map's size.
#[derive(Clone, Debug, Serialize)]
pub struct MapFigures {
    /// Its name.
    pub name: String,
    /// Its keys.
    pub keys: u64,
    /// Nodes of an ordered map.
    pub nodes: u64,
    /// Levels.
    pub levels: u64,
    /// Chain lines of a hash map.
    pub lines: u64,
    /// Slots of a hash map.
    pub slots: u64,
}

/// How long the operations of a kind took, in microseconds, without the time in which they waited for a processor.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// The kind.
    pub operation: &'static str,
    /// How many there were.
    pub operations: u64,
    /// Half of them took no longer.
    pub p50_us: f64,
    /// 99 % of them.
    pub p99_us: f64,
    /// 99.9 % of them.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Checkpoint {
    /// The latencies of a kind.
    pub fn latency(&self, kind: Kind) -> Option<&Latency> {
        let of_kind = |latency: &&Latency| latency.operation == kind.name() && latency.operations > 0;
        self.latencies.iter().find(of_kind)
    }

    /// Nodes of all ordered maps, and their keys.
    pub fn nodes_and_keys(&self) -> (u64, u64) {
        let ordered = self.maps.iter().filter(|map| map.nodes > 0);
        ordered.fold((0, 0), |(nodes, keys), map| (nodes + map.nodes, keys + map.keys))
    }
}

/// Takes the figures and checks everything, while no worker writes. What is wrong with contents or `fsck` is returned
/// as faults.
pub fn take<M: Mapped>(plan: &Plan) -> Result<(Checkpoint, Vec<Fault>), Fault> {
    let mut faults = Vec::new();
    let pool = Pool::<M>::open(&plan.pool, &Options::default())?;
    pool.recover()?;
    let failures = pool.failures();
    faults.extend(
        failures
            .iter()
            .map(|failure| Fault::problem(format!("recovery: {failure}"))),
    );
    let retired_objects = pool.stat()?.retired_objects;
    let fsck = check(&pool)?;
    let problems = fsck.problems.iter();
    faults.extend(problems.map(|problem| Fault::problem(format!("fsck: {problem}"))));
    let verified = match state::examine(&pool, plan) {
        Ok(verified) => verified,
        Err(fault) => {
            faults.push(fault);
            0
        }
    };
    for fault in &mut faults {
        fault.found_by = "the supervisor, at a checkpoint".to_owned();
    }
    let file_bytes = std::fs::metadata(&plan.pool)?.blocks() * 512;
    let maps = fsck.maps.into_iter().map(|map| MapFigures {
        name: map.name,
        keys: map.keys,
        nodes: map.nodes,
        levels: map.levels,
        lines: map.lines,
        slots: map.slots,
    });
    let checkpoint = Checkpoint {
        seconds: milliseconds().saturating_sub(plan.began) as f64 / 1e3,
        memory: MemoryFigures {
            committed_bytes: fsck.committed_bytes,
            file_bytes,
            reachable_bytes: fsck.reachable_bytes,
            live_bytes: Board::open(&plan.folder, plan.workers)?.sum()?.live,
            free_bytes: fsck.free_bytes,
            retired_bytes: fsck.retired_bytes,
            retired_objects,
            held_bytes: fsck.held_bytes,
            leaked_bytes: fsck.leaked_bytes,
        },
        maps: maps.collect(),
        verified,
        ..Checkpoint::default()
    };
    Ok((checkpoint, faults))
}

/// What `fsck` says when nothing moves: background threads of workers may be at work for a moment.
fn check<M: Mapped>(pool: &Pool<M>) -> Result<FsckReport, Fault> {
    for _ in 1..POLLS {
        let fsck = pool.fsck()?;
        if fsck.is_clean() {
            return Ok(fsck);
        }
        std::thread::sleep(POLL_AGAIN);
    }
    Ok(pool.fsck()?)
}

/// Adds what was measured: of all since the last checkpoint, and the spikes of each.
pub fn add_measures(checkpoint: &mut Checkpoint, plan: &Plan, before: &mut Measures) -> Result<(), Fault> {
    let mut all = Measures::new();
    let mut spikes = Vec::new();
    for worker in 0..plan.workers {
        let measures = Measures::read(&plan.folder, worker)?;
        spikes.extend(measures.spikes());
        all.add(&measures);
    }
    spikes.sort_by(|left, right| right.own().total_cmp(&left.own()));
    spikes.truncate(SPIKES);
    let since = all.since(before);
    let latencies = Kind::ALL.into_iter().map(|kind| Latency {
        operation: kind.name(),
        operations: since.operations(kind),
        p50_us: since.quantile(kind, 0.5),
        p99_us: since.quantile(kind, 0.99),
        p999_us: since.quantile(kind, 0.999),
        max_us: since.quantile(kind, 1.0),
    });
    (checkpoint.latencies, checkpoint.spikes) = (latencies.collect(), spikes);
    checkpoint.writes = all.count(Counter::Writes);
    checkpoint.refused = all.count(Counter::Refused);
    checkpoint.falsely_refused = all.count(Counter::FalselyRefused);
    *before = all;
    Ok(())
}
