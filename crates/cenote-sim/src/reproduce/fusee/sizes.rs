//! FUSEE, figure 12: keys and values of several sizes.

use cenote_ycsb::Workload;

use super::{Size, plan, quantity, run};
use crate::replica_runs::System;
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/fig12";

const CASES: [(&str, u32, Option<f64>); 3] = [
    ("1,024 bytes", 1024, None),
    ("512 bytes", 512, Some(1.441)),
    ("256 bytes", 256, Some(1.559)),
];
const A: Quantity = quantity("YCSB A", "Mops/s");
const C: Quantity = quantity("YCSB C", "Mops/s");
const GAIN: Quantity = quantity("C over that of 1,024 bytes", "times");

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (_, bytes, _) in CASES {
        let mut plan = plan(System::OURS, size)?
            .then(size.phase(Workload::A))
            .then(size.phase(Workload::C));
        plan.bytes = bytes;
        plans.push(plan);
    }
    let outcomes = run(&plans, progress)?;
    let mut rows = Vec::new();
    for ((case, _, paper), phases) in CASES.into_iter().zip(&outcomes) {
        let (a, c) = (phases[0].mops(), phases[1].mops());
        rows.push(Row::new(case, size.clients, A, None, a));
        rows.push(Row::new(case, size.clients, C, None, c));
        rows.push(Row::new(
            case,
            size.clients,
            GAIN,
            paper,
            c / outcomes[0][1].mops(),
        ));
    }
    Ok(Figure {
        name: NAME,
        title: "Sizes of keys and values",
        source: "FUSEE, section 6.3, figure 12",
        origin: Origin::Simulated,
        conditions: "profile rdma, 128 clients, 2 memory nodes, one copy of the index and two of the data, 100,000 keys, 20 ms after 20 ms",
        charted: Charted::Cases([A, C]),
        rows,
        notes: vec![],
    })
}
