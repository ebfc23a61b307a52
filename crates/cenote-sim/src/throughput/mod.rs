//! YCSB workloads on maps in virtual time: how many operations a second the simulated machine does.
//!
//! One host makes the map, with the records in it if the first workload is not Load, and leaves. Then every host's
//! process joins and starts its threads. They wait for each other before each workload, and from there on time is
//! taken. Keys and values have 8 bytes. Load begins with an empty map, which grows as it is filled; else it was made
//! large enough. There are no checkers, but a lookup that misses its record ends the run.
//!
//! All comes from the seed: the same plan gives the same result.
//!
//! **Limits.** Those of [`clock`](crate::clock). Background threads take part, but what they do is not counted.

mod measured;
mod parts;
mod run;

use cenote::Guidelines;
use cenote::index::baseline::btree::BTree;
use cenote::index::baseline::sherman::Sherman;
use cenote::index::hash::HashMap;
use cenote::index::ordered::OrderedMap;
use cenote_ycsb::Workload;
use cenote_ycsb::trace::Synthetic;
use serde::Serialize;

use crate::clock::Share;
use crate::exec::{Ended, Profiled, Traffic};
use crate::profile::Profile;

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The map.
    pub form: Form,
    /// Hosts, each with one process; no more than threads.
    pub hosts: u32,
    /// Threads, dealt to the hosts in turn; if there are servers, so many of them, and clients besides.
    pub threads: u32,
    /// Whether the hosts' caches are coherent.
    pub coherent: bool,
    /// What the threads do, one after another, on the same map.
    pub workloads: Vec<Workload>,
    /// Records in the map; for Load, those that are put in.
    pub records: u64,
    /// Ranks that zipfian workloads draw from, if more than records: see [`cenote_ycsb::Spec::ranks`].
    pub ranks: u64,
    /// Operations of all threads together, of each workload; Load has as many as records.
    pub operations: u64,
    /// Which optimisations the map's handles use.
    pub guidelines: Guidelines,
    /// Whether workers read their replicas of the epoch rather than the epoch itself.
    pub replicates_epoch: bool,
    /// Draws all operations from this instead, if it is given; `workloads` says then only whether the map is filled
    /// before.
    pub trace: Option<Synthetic>,
    /// What things cost.
    pub profile: Profile,
    /// What the operations are drawn from.
    pub seed: u64,
    /// Whether it is noted where in the library time goes. That takes some microseconds of real time for each access to
    /// memory.
    pub profiles_regions: bool,
}

fn is_empty(profiled: &Profiled) -> bool {
    profiled.regions.is_empty()
}

/// What holds the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The hash map.
    Hash,
    /// The ordered map.
    Ordered,
    /// Hash maps behind queues: as many servers as there are threads, and a third as many clients.
    HashMessages,
    /// Ordered maps behind queues, likewise.
    OrderedMessages,
    /// A tree in the manner of Sherman.
    Sherman,
    /// BTreeOLC.
    Btree,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Hash,
        Self::Ordered,
        Self::HashMessages,
        Self::OrderedMessages,
        Self::Sherman,
        Self::Btree,
    ];

    /// The name, as it is parsed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Ordered => "ordered",
            Self::HashMessages => "hash-messages",
            Self::OrderedMessages => "ordered-messages",
            Self::Sherman => "sherman",
            Self::Btree => "btree",
        }
    }

    /// Whether it can be scanned.
    pub fn is_ordered(self) -> bool {
        matches!(self, Self::Ordered | Self::Sherman | Self::Btree)
    }

    /// Whether maps are behind servers.
    pub fn has_servers(self) -> bool {
        matches!(self, Self::HashMessages | Self::OrderedMessages)
    }
}

impl Plan {
    /// Threads that execute requests for others.
    pub fn servers(&self) -> u32 {
        if self.form.has_servers() { self.threads } else { 0 }
    }

    /// Threads whose operations are counted. The paper has 48 clients with 144 servers.
    pub fn clients(&self) -> u32 {
        match self.form.has_servers() {
            true => self.threads.div_ceil(3),
            false => self.threads,
        }
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
    /// Where the time of a mean operation goes, by what it asks of memory.
    pub time: Vec<Share>,
    /// What all threads that are counted moved through the links, in 2³⁰ bytes a virtual second.
    pub links_gib_per_s: f64,
    /// Where in the library the time of a mean operation goes; empty unless that was asked.
    #[serde(skip_serializing_if = "is_empty")]
    pub profiled: Profiled,
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
    /// No operations, or no threads.
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
    match plan.coherent {
        true => measure_on::<true>(plan),
        false => measure_on::<false>(plan),
    }
}

fn measure_on<const C: bool>(plan: &Plan) -> Result<Outcome, ThroughputError> {
    match plan.form {
        Form::Hash => run::measure(plan, parts::shared::<C, HashMap<_>>()),
        Form::Ordered => run::measure(plan, parts::shared::<C, OrderedMap<_>>()),
        Form::HashMessages => run::measure(plan, parts::behind_queues::<C, HashMap<_>>()),
        Form::OrderedMessages => run::measure(plan, parts::behind_queues::<C, OrderedMap<_>>()),
        Form::Sherman => run::measure(plan, parts::shared::<C, Sherman<_>>()),
        Form::Btree => run::measure(plan, parts::shared::<C, BTree<_>>()),
    }
}
