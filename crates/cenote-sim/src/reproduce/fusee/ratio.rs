//! FUSEE, figure 15: searches and updates in several ratios.

use cenote_ycsb::{Chooser, Mix};

use super::latency::NONE;
use super::{Size, plan, quantity, run};
use crate::replica_runs::{System, Work};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/fig15";

const SYSTEMS: [System; 3] = [System::OURS, System::MetadataServer, System::LOCKS];
const CASES: [(&str, u8); 5] = [
    ("all search", 0),
    ("25 % update", 25),
    ("50 % update", 50),
    ("75 % update", 75),
    ("all update", 100),
];
const QUANTITIES: [Quantity; 3] = [
    quantity("cenote", "Mops/s"),
    quantity("metadata server", "Mops/s"),
    quantity("remote locks", "Mops/s"),
];

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for system in SYSTEMS {
        let mut plan = plan(system, size)?;
        for (_, update) in CASES {
            let mix = Mix {
                read: 100 - update,
                update,
                ..NONE
            };
            let work = Work::Mix(mix, Chooser::Zipfian);
            plan = plan.then(size.phase(work));
        }
        plans.push(plan);
    }
    let outcomes = run(&plans, progress)?;
    let mut rows = Vec::new();
    for (n, (case, _)) in CASES.into_iter().enumerate() {
        for (quantity, outcomes) in QUANTITIES.into_iter().zip(&outcomes) {
            rows.push(Row::new(case, size.clients, quantity, None, outcomes[n].mops()));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Searches and updates",
        source: "FUSEE, section 6.3, figure 15",
        origin: Origin::Simulated,
        conditions: "profile rdma, 128 clients, 2 memory nodes, one copy of the index and two of the data, 100,000 keys, Zipfian, 1,024 bytes, 20 ms after 20 ms",
        charted: Charted::Cases([QUANTITIES[0], QUANTITIES[1]]),
        rows,
        notes: vec![],
    })
}
