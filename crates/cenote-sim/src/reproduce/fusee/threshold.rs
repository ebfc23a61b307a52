//! FUSEE, figure 16: from which share of invalid entries the cache is not used.

use cenote_replica::client::Caching;
use cenote_ycsb::Workload;

use super::{Size, plan, quantity, run};
use crate::replica_runs::{Kind, System};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/fig16";

const CASES: [(&str, usize, u32); 6] = [
    ("no cache", 0, 0),
    ("0 %", 1 << 14, 0),
    ("25 %", 1 << 14, 25),
    ("50 %", 1 << 14, 50),
    ("75 %", 1 << 14, 75),
    ("100 %", 1 << 14, 100),
];
const A: Quantity = quantity("YCSB A", "Mops/s");
const SEARCH: Quantity = quantity("search, median", "us");

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (_, entries, invalid_max) in CASES {
        let system = System::Shipped(Caching { entries, invalid_max });
        plans.push(plan(system, size)?.then(size.phase(Workload::A)));
    }
    let mut rows = Vec::new();
    for ((case, ..), phases) in CASES.into_iter().zip(run(&plans, progress)?) {
        rows.push(Row::new(case, size.clients, A, None, phases[0].mops()));
        let search = phases[0].percentile_us(Kind::Search, 50.0);
        rows.push(Row::new(case, size.clients, SEARCH, None, search));
    }
    Ok(Figure {
        name: NAME,
        title: "The cache's threshold",
        source: "FUSEE, section 6.3, figure 16",
        origin: Origin::Simulated,
        conditions: "profile rdma, 128 clients, 2 memory nodes, one copy of the index and two of the data, 100,000 keys, 1,024 bytes, 20 ms after 20 ms",
        charted: Charted::Cases([A, SEARCH]),
        rows,
        notes: vec!["In the paper the throughput falls as the threshold rises, as objects are read in vain."],
    })
}
