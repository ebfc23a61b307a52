//! Soul, figure 8: a store with one global lock. Its transactions are a stand-in of fixed length, with as many warehouses as the paper has.

use super::soul_fig7::{NODES, THREADS};
use super::sweep::each;
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::lock_runs::{Plan, Scheme, Section, Work, measure};
use crate::msi::NetworkProfile;

pub const NAME: &str = "soul/fig8";

const THROUGHPUT: Quantity = Quantity {
    name: "throughput",
    unit: "k transactions/s",
};

/// What the node with the fewest transactions has of its fair share.
const LEAST: Quantity = Quantity {
    name: "share of the node that has least",
    unit: "% of a fair one",
};

/// Panels: their names, and warehouses.
const PANELS: [(&str, u32); 2] = [("1 warehouse", 1), ("10 warehouses", 10)];
/// Pages of a warehouse that are in use, and those that a transaction touches.
const PAGES: u32 = 16;
const TOUCHED: u32 = 8;
/// Locks that are compared.
const SCHEMES: [Scheme; 6] = [
    Scheme::OURS,
    Scheme::Mcs,
    Scheme::Posix,
    Scheme::PerCore,
    Scheme::Cohort,
    Scheme::Service,
];
/// What a transaction computes.
const COMPUTES_NS: u64 = 20_000;

/// The run of a scheme.
pub fn plan(scheme: Scheme, nodes: u8, warehouses: u32) -> Result<Plan, ReproduceError> {
    Ok(Plan {
        // The store locks by the POSIX interface, which does not know the data.
        scheme: match scheme {
            Scheme::Directory { keeps, .. } => Scheme::Directory {
                keeps,
                combines: false,
            },
            other => other,
        },
        profile: NetworkProfile::load("ethernet")?,
        nodes,
        threads: THREADS,
        locks: 1,
        data_bytes: 0,
        work: Work::Global(Section {
            pages: PAGES * warehouses,
            touched: TOUCHED,
            computes_ns: COMPUTES_NS,
        }),
        think_ns: 500,
        warm_ns: 20_000_000,
        run_ns: 200_000_000,
        seed: 1,
    })
}

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (_, warehouses) in PANELS {
        for scheme in SCHEMES {
            for nodes in NODES {
                plans.push(plan(scheme, nodes, warehouses)?);
            }
        }
    }
    let mut outcomes = each(&plans, measure, progress)?.into_iter();
    let mut rows = Vec::new();
    for (panel, _) in PANELS {
        for scheme in SCHEMES {
            for (nodes, outcome) in NODES.into_iter().zip(outcomes.by_ref().take(NODES.len())) {
                let threads = u32::from(nodes) * THREADS;
                let throughput = outcome.mops() * 1e3;
                rows.push(Row::new(scheme.name(), threads, THROUGHPUT, None, throughput).of(panel));
                rows.push(Row::new(scheme.name(), threads, LEAST, None, outcome.least_share()).of(panel));
            }
        }
    }
    Ok(Figure {
        name: NAME,
        title: "One global lock",
        source: "Soul, section 5.1, figure 8",
        origin: Origin::Simulated,
        conditions: "profile ethernet, 10 threads on each of 1, 2, 4 and 8 nodes, 0.2 s",
        charted: Charted::Panels(THROUGHPUT),
        rows,
        notes: vec![
            "A transaction is a stand-in for TPC-C's: it computes for 20 us and touches 8 of 16 pages for each warehouse, every second one to write.",
            "Directory locks are without combined data here, as the paper's are.",
        ],
    })
}
