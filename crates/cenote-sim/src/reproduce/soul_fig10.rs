//! Soul, figure 10: what keeping the lock, and combining it with its data, give; the workloads of figure 9 at 8 nodes.

use super::soul_fig9;
use super::sweep::each;
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::lock_runs::{Scheme, measure};

pub const NAME: &str = "soul/fig10";

const NODES: u8 = 8;
const MEDIAN: Quantity = quantity("half of the acquisitions within");
const MOST: Quantity = quantity("90 % within");
/// Shares of all acquisitions, and what they are called.
const SHARES: [(f64, Quantity); 4] = [
    (0.1, quantity("10 % within")),
    (0.5, MEDIAN),
    (0.9, MOST),
    (0.99, quantity("99 % within")),
];

const fn quantity(name: &'static str) -> Quantity {
    Quantity { name, unit: "us" }
}

const APART: Scheme = Scheme::Directory {
    keeps: true,
    combines: false,
};
const NOT_KEPT: Scheme = Scheme::Directory {
    keeps: false,
    combines: true,
};

/// Cases: what they are called, the locks, and how many in a hundred read.
const CASES: [(&str, Scheme, u32); 9] = [
    ("all write", Scheme::OURS, 0),
    ("  without combined data", APART, 0),
    ("  without locality", NOT_KEPT, 0),
    ("95 % read", Scheme::OURS, 95),
    ("  without combined data, 95", APART, 95),
    ("  without locality, 95", NOT_KEPT, 95),
    ("all read", Scheme::OURS, 100),
    ("  without combined data, 100", APART, 100),
    ("  without locality, 100", NOT_KEPT, 100),
];

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (_, scheme, read_percent) in CASES {
        plans.push(soul_fig9::plan("ethernet", scheme, NODES, read_percent)?);
    }
    let mut rows = Vec::new();
    for ((case, ..), outcome) in CASES.into_iter().zip(each(&plans, measure, progress)?) {
        for (share, quantity) in SHARES {
            let within = outcome.quantile_us(share);
            rows.push(Row::new(case, NODES.into(), quantity, None, within));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Latency of lock and data, with and without optimisations",
        source: "Soul, section 5.3, figure 10",
        origin: Origin::Simulated,
        conditions: "profile ethernet, a thread on each of 8 nodes, 4 KiB of data, 0.1 s",
        charted: Charted::Cases([MEDIAN, MOST]),
        rows,
        notes: vec![
            "All acquisitions count, also those that find the lock at their node.",
            "Without locality, lock and data are given back when they are released; without combined data, the data are fetched as lines.",
        ],
    })
}
