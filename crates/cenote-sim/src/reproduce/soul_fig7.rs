//! Soul, figure 7: a hash table whose buckets have a reader-writer lock each, with the first 4 KiB of a bucket under
//! it, under YCSB.

use cenote_ycsb::Workload;

use super::sweep::each;
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::lock_runs::{Plan, Scheme, Work, measure};
use crate::msi::NetworkProfile;

pub const NAME: &str = "soul/fig7";

const THROUGHPUT: Quantity = Quantity {
    name: "throughput",
    unit: "Mops/s",
};

pub const NODES: [u8; 4] = [1, 2, 4, 8];
/// Threads of a node.
pub const THREADS: u32 = 10;
/// Locks that are compared.
const SCHEMES: [Scheme; 7] = [
    Scheme::OURS,
    Scheme::Mcs,
    Scheme::Posix,
    Scheme::PerCore,
    Scheme::Cohort,
    Scheme::CohortClose,
    Scheme::Service,
];
const PANELS: [(&str, Workload); 3] = [
    ("YCSB A", Workload::A),
    ("YCSB B", Workload::B),
    ("YCSB C", Workload::C),
];
const BUCKETS: u32 = 256;
const RECORDS: u64 = 100_000;
/// What the paper has for ours at 8 nodes in YCSB C (section 5.1).
const PAPER_C: f64 = 37.1;

/// The run of a scheme.
pub fn plan(scheme: Scheme, nodes: u8, workload: Workload) -> Result<Plan, ReproduceError> {
    Ok(Plan {
        scheme,
        profile: NetworkProfile::load("ethernet")?,
        nodes,
        threads: THREADS,
        locks: BUCKETS,
        data_bytes: 4096,
        work: Work::Buckets(workload, RECORDS),
        think_ns: 500,
        warm_ns: 20_000_000,
        run_ns: 20_000_000,
        seed: 1,
    })
}

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (_, workload) in PANELS {
        for scheme in SCHEMES {
            for nodes in NODES {
                plans.push(plan(scheme, nodes, workload)?);
            }
        }
    }
    let mut outcomes = each(&plans, measure, progress)?.into_iter();
    let mut rows = Vec::new();
    for (panel, workload) in PANELS {
        for scheme in SCHEMES {
            for (nodes, outcome) in NODES.into_iter().zip(outcomes.by_ref().take(NODES.len())) {
                let is_known = (scheme, nodes, workload) == (Scheme::OURS, 8, Workload::C);
                let paper = is_known.then_some(PAPER_C);
                let threads = u32::from(nodes) * THREADS;
                rows.push(Row::new(scheme.name(), threads, THROUGHPUT, paper, outcome.mops()).of(panel));
            }
        }
    }
    Ok(Figure {
        name: NAME,
        title: "A hash table with a lock for each bucket",
        source: "Soul, section 5.1, figure 7",
        origin: Origin::Simulated,
        conditions: "profile ethernet, 10 threads on each of 1, 2, 4 and 8 nodes, 256 buckets, 0.02 s",
        charted: Charted::Panels(THROUGHPUT),
        rows,
        notes: vec![
            "The paper does not say how many buckets there are, nor how long a request takes beside lock and data: 256, and 500 ns, are assumed.",
            "Records are chosen by YCSB's zipfian distribution over 100,000; an operation touches all 4 KiB of its bucket.",
        ],
    })
}
