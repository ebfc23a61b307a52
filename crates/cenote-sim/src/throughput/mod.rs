//! YCSB workloads on maps in virtual time: how many operations a second the simulated machine does.
//!
//! One host makes the map, with the records in it if the first workload is not Load, and leaves. Then every host's process
//! joins and starts its threads. They wait for each other before each workload, and from there on time is taken. Keys and
//! values have 8 bytes. Load begins with an empty map, which grows as it is filled; else it was made large enough. There
//! are no checkers, but a lookup that misses its record ends the run.
//!
//! All comes from the seed: the same plan gives the same result.
//!
//! **Limits.** Those of [`clock`](crate::clock). Background threads take part, but what they do is not counted.

mod measured;
mod run;

use cenote::Guidelines;
use cenote::index::hash::HashMap;
use cenote::index::ordered::OrderedMap;
use cenote_ycsb::Workload;
use serde::Serialize;

use crate::exec::{Ended, Traffic};
use crate::profile::Profile;

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The map.
    pub form: Form,
    /// Hosts, each with one process; no more than threads.
    pub hosts: u32,
    /// Threads, dealt to the hosts in turn.
    pub threads: u32,
    /// Whether the hosts' caches are coherent.
    pub coherent: bool,
    /// What the threads do, one after another, on the same map.
    pub workloads: Vec<Workload>,
    /// Records in the map; for Load, those that are put in.
    pub records: u64,
    /// Operations of all threads together, of each workload; Load has as many as records.
    pub operations: u64,
    /// Which optimisations the map's handles use.
    pub guidelines: Guidelines,
    /// What things cost.
    pub profile: Profile,
    /// What the operations are drawn from.
    pub seed: u64,
}

/// What holds the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The hash map.
    Hash,
    /// The ordered map.
    Ordered,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Hash, Self::Ordered];

    /// The name, as it is parsed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Ordered => "ordered",
        }
    }

    /// Whether it can be scanned.
    pub fn is_ordered(self) -> bool {
        matches!(self, Self::Ordered)
    }
}

/// What came of one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Throughput {
    /// Operations done.
    pub operations: u64,
    /// Virtual time from the first thread's begin to the last one's end, in nanoseconds.
    pub span_ns: f64,
    /// Millions of operations a virtual second.
    pub mops_per_s: f64,
    /// Virtual times of operations, in nanoseconds.
    pub latency_ns: Latency,
    /// What the operations sent to memory, all together.
    pub traffic: Traffic,
}

/// What came of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// One for each workload.
    pub workloads: Vec<Throughput>,
    /// Simulated memory operations, with those of the preparation.
    pub steps: u64,
    /// A checksum over all that happened.
    pub digest: u64,
}

/// Times of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Their mean.
    pub mean: f64,
    /// Half of them took no longer.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThroughputError {
    /// A map without an order has no scans.
    #[error("workload {0} scans, and the map has no order; give load, a, b, c, d or f")]
    Scans(Workload),
    /// Load fills an empty map.
    #[error("workload load begins with an empty map; give it first")]
    LoadLater,
    /// Nothing to do, or nobody to do it.
    #[error("{0} must be at least 1")]
    None(&'static str),
    /// A thread found something wrong.
    #[error("{0}")]
    Wrong(String),
    /// The run came to no end.
    #[error("the simulated run ended before its threads: {0:?}")]
    Run(Ended),
}

/// Runs a plan.
pub fn measure(plan: &Plan) -> Result<Outcome, ThroughputError> {
    let counts = [
        ("hosts", plan.hosts.into()),
        ("threads", plan.threads.into()),
        ("records", plan.records),
        ("operations", plan.operations),
        ("workloads", plan.workloads.len() as u64),
    ];
    if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
        return Err(ThroughputError::None(name));
    }
    if plan.workloads.contains(&Workload::E) && !plan.form.is_ordered() {
        return Err(ThroughputError::Scans(Workload::E));
    }
    if plan.workloads[1..].contains(&Workload::Load) {
        return Err(ThroughputError::LoadLater);
    }
    match (plan.form, plan.coherent) {
        (Form::Hash, true) => run::measure::<true, HashMap<_>>(plan),
        (Form::Hash, false) => run::measure::<false, HashMap<_>>(plan),
        (Form::Ordered, true) => run::measure::<true, OrderedMap<_>>(plan),
        (Form::Ordered, false) => run::measure::<false, OrderedMap<_>>(plan),
    }
}
