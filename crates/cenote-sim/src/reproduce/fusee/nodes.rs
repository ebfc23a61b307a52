//! FUSEE, figure 14: memory nodes.

use cenote_ycsb::Workload;

use super::{Size, plan, quantity, run};
use crate::replica_runs::System;
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/fig14";

const SYSTEMS: [System; 3] = [System::OURS, System::MetadataServer, System::LOCKS];
const CASES: [[&str; 4]; 3] = [
    ["2 nodes", "3 nodes", "4 nodes", "5 nodes"],
    [
        "2 nodes, metadata server",
        "3 nodes, metadata server",
        "4 nodes, metadata server",
        "5 nodes, metadata server",
    ],
    [
        "2 nodes, remote locks",
        "3 nodes, remote locks",
        "4 nodes, remote locks",
        "5 nodes, remote locks",
    ],
];
const A: Quantity = quantity("YCSB A", "Mops/s");
const C: Quantity = quantity("YCSB C", "Mops/s");

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for system in SYSTEMS {
        for nodes in 2..=5 {
            let mut plan = plan(system, size)?
                .then(size.phase(Workload::A))
                .then(size.phase(Workload::C));
            plan.place.nodes = nodes;
            plans.push(plan);
        }
    }
    let mut rows = Vec::new();
    for (case, phases) in CASES.iter().flatten().zip(run(&plans, progress)?) {
        rows.push(Row::new(case, size.clients, A, None, phases[0].mops()));
        rows.push(Row::new(case, size.clients, C, None, phases[1].mops()));
    }
    Ok(Figure {
        name: NAME,
        title: "Memory nodes",
        source: "FUSEE, section 6.3, figure 14",
        origin: Origin::Simulated,
        conditions: "profile rdma, 128 clients, one copy of the index and two of the data, 100,000 keys, 1,024 bytes, 20 ms after 20 ms",
        charted: Charted::Cases([A, C]),
        rows,
        notes: vec![
            "In the paper FUSEE gains from the third node and not beyond, as its clients' machines are the limit then; the others gain nothing.",
        ],
    })
}
