//! FUSEE, figure 11: operations of one kind by clients.

use super::latency::operations;
use super::{Size, THROUGHPUT, plan, run};
use crate::replica_runs::System;
use crate::reproduce::{Charted, Figure, Origin, Progress, ReproduceError, Row};

pub const NAME: &str = "fusee/fig11";

const SYSTEMS: [System; 3] = [System::OURS, System::MetadataServer, System::LOCKS];
/// Of the most clients, those are there.
const SHARES: [u32; 3] = [16, 4, 1];

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for system in SYSTEMS {
        for share in SHARES {
            let clients = (size.clients / share).max(1);
            let mut plan = plan(system, Size { clients, ..size })?;
            for (_, _, work) in operations(system) {
                // Removals come to an end.
                plan = plan.then(size.of(4).phase(work));
            }
            plans.push(plan);
        }
    }
    let mut rows = Vec::new();
    for (plan, outcomes) in plans.iter().zip(run(&plans, progress)?) {
        for ((name, ..), outcome) in operations(plan.system).zip(&outcomes) {
            let row = Row::new(plan.system.name(), plan.clients, THROUGHPUT, None, outcome.mops());
            rows.push(row.of(name));
        }
    }
    // A panel's rows stand together.
    rows.sort_by_key(|row| row.panel);
    Ok(Figure {
        name: NAME,
        title: "Operations of one kind",
        source: "FUSEE, section 6.2, figure 11",
        origin: Origin::Simulated,
        conditions: "profile rdma, 2 memory nodes, one copy of the index and two of the data, 100,000 keys, Zipfian, 1,024 bytes, 5 ms after 5 ms",
        charted: Charted::Panels(THROUGHPUT),
        rows,
        notes: vec!["Threads are clients. The metadata server does not remove keys, as in the paper."],
    })
}
