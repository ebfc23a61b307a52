//! Soul, figure 11: directory locks on Ethernet and on CXL 3.0; the workloads of figure 9.

use super::soul_fig9;
use super::sweep::each;
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::lock_runs::{Scheme, measure};

pub const NAME: &str = "soul/fig11";

const THROUGHPUT: Quantity = Quantity {
    name: "throughput",
    unit: "Mops/s",
};

const NODES: u8 = 8;
/// Panels: their names, and how many in a hundred read.
const SHARES: [(&str, u32); 4] = [
    ("all write", 0),
    ("50 % read", 50),
    ("99 % read", 99),
    ("all read", 100),
];
/// Networks, the locks on them, and what both are called.
const CASES: [(&str, &str, Scheme); 4] = [
    ("ethernet", "ethernet", Scheme::OURS),
    ("cxl3", "cxl3", Scheme::OURS),
    ("cxl3, MCS", "cxl3", Scheme::Mcs),
    ("cxl3, one counter (POSIX)", "cxl3", Scheme::Posix),
];

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (_, read_percent) in SHARES {
        for (_, profile, scheme) in CASES {
            for nodes in 1..=NODES {
                plans.push(soul_fig9::plan(profile, scheme, nodes, read_percent)?);
            }
        }
    }
    for plan in &mut plans {
        plan.run_ns = 20_000_000;
    }
    let mut outcomes = each(&plans, measure, progress)?.into_iter();
    let mut rows = Vec::new();
    for (panel, _) in SHARES {
        for (case, ..) in CASES {
            for (nodes, outcome) in (1..=NODES).zip(outcomes.by_ref()) {
                rows.push(Row::new(case, nodes.into(), THROUGHPUT, None, outcome.mops()).of(panel));
            }
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Directory locks on two networks",
        source: "Soul, section 6, figure 11",
        origin: Origin::Simulated,
        conditions: "profiles ethernet and cxl3, a thread on each node, 4 KiB of data, 0.02 s",
        charted: Charted::Panels(THROUGHPUT),
        rows,
        notes: vec![
            "The paper has ten times the throughput on CXL, and a throughput that grows with the nodes where 99 % read.",
        ],
    })
}
