//! FUSEE, figure 17: who allocates memory.

use cenote_ycsb::Workload;

use super::{Size, plan, quantity, run};
use crate::replica_runs::System;
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/fig17";

const SYSTEMS: [(System, [Option<f64>; 2]); 2] = [
    (System::OURS, [None, None]),
    (System::NodeAllocated, [Some(9.1), Some(100.0)]),
];
const A: Quantity = quantity("YCSB A", "Mops/s");
const C: Quantity = quantity("YCSB C", "Mops/s");
const LEFT_A: Quantity = quantity("A, of ours", "%");
const LEFT_C: Quantity = quantity("C, of ours", "%");

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (system, _) in SYSTEMS {
        plans.push(
            plan(system, size)?
                .then(size.phase(Workload::A))
                .then(size.phase(Workload::C)),
        );
    }
    let outcomes = run(&plans, progress)?;
    let mut rows = Vec::new();
    for ((system, paper), phases) in SYSTEMS.into_iter().zip(&outcomes) {
        let quantities = [(A, LEFT_A), (C, LEFT_C)];
        for (n, (mops, left)) in quantities.into_iter().enumerate() {
            let ours = phases[n].mops();
            let share = 100.0 * ours / outcomes[0][n].mops();
            rows.push(Row::new(system.name(), size.clients, mops, None, ours));
            rows.push(Row::new(system.name(), size.clients, left, paper[n], share));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Allocation by clients and by nodes",
        source: "FUSEE, section 6.3, figure 17",
        origin: Origin::Simulated,
        conditions: "profile rdma, 128 clients, 2 memory nodes, one copy of the index and two of the data, 100,000 keys, 1,024 bytes, 20 ms after 20 ms",
        charted: Charted::Cases([A, C]),
        rows,
        notes: vec![
            "The profile's time of a request was taken from this figure: that A has about the paper's number shows only that the model gives back its input.",
        ],
    })
}
