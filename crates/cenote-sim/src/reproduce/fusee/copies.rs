//! FUSEE, figures 18 and 19: copies of index and data.

use cenote_ycsb::Workload;

use super::latency::OPERATIONS;
use super::{Size, quantity, run};
use crate::replica_runs::{Plan, System};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/fig18-19";

const NODES: u32 = 5;
const SYSTEMS: [System; 3] = [System::OURS, System::Sequential, System::UNCACHED];
const CASES: [[&str; 4]; 3] = [
    ["2 copies", "3 copies", "4 copies", "5 copies"],
    [
        "2 copies, sequential",
        "3 copies, sequential",
        "4 copies, sequential",
        "5 copies, sequential",
    ],
    [
        "2 copies, no cache",
        "3 copies, no cache",
        "4 copies, no cache",
        "5 copies, no cache",
    ],
];
const LATENCIES: [Quantity; 4] = [
    quantity("search", "us"),
    quantity("update", "us"),
    quantity("insert", "us"),
    quantity("delete", "us"),
];
const THROUGHPUTS: [(Quantity, Workload); 4] = [
    (quantity("YCSB A", "Mops/s"), Workload::A),
    (quantity("YCSB B", "Mops/s"), Workload::B),
    (quantity("YCSB C", "Mops/s"), Workload::C),
    (quantity("YCSB D", "Mops/s"), Workload::D),
];

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let of = |system, clients| {
        let mut plan = Plan::new(system, clients, size.records)?;
        plan.place.nodes = NODES;
        Ok::<_, ReproduceError>(plan)
    };
    let mut plans = Vec::new();
    for system in SYSTEMS {
        for copies in 2..=NODES {
            let mut plan = of(system, 1)?.copies(copies);
            for (_, _, work) in OPERATIONS {
                plan = plan.then(size.phase(work));
            }
            plans.push(plan);
        }
    }
    for copies in 2..=NODES {
        let mut plan = of(System::OURS, size.clients)?.copies(copies);
        for (_, workload) in THROUGHPUTS {
            plan = plan.then(size.phase(workload));
        }
        plans.push(plan);
    }
    let mut outcomes = run(&plans, progress)?.into_iter();
    let mut rows = Vec::new();
    for (case, phases) in CASES.iter().flatten().zip(outcomes.by_ref()) {
        for ((quantity, (_, kind, _)), phase) in LATENCIES.into_iter().zip(OPERATIONS).zip(&phases) {
            rows.push(Row::new(case, 1, quantity, None, phase.percentile_us(kind, 50.0)));
        }
    }
    for (case, phases) in CASES[0].iter().zip(outcomes) {
        for ((quantity, _), phase) in THROUGHPUTS.into_iter().zip(&phases) {
            rows.push(Row::new(case, size.clients, quantity, None, phase.mops()));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Copies of index and data",
        source: "FUSEE, section 6.4, figures 18 and 19",
        origin: Origin::Simulated,
        conditions: "profile rdma, 5 memory nodes, 100,000 keys, Zipfian, 1,024 bytes; median latency of one client, throughput of 128",
        charted: Charted::Cases([LATENCIES[1], LATENCIES[2]]),
        rows,
        notes: vec![
            "In the paper the latency of changes grows slightly with the copies, and linearly where they are changed one after another.",
        ],
    })
}
