//! Soul, figure 8: a store with one global lock under TPC-C, by what its transactions touch.

use std::sync::Arc;

use cenote::sync::directory::queue::Permission;
use cenote_locked::tpcc::{Scale, Traced, trace};

use super::soul_fig7::{NODES, THREADS};
use super::sweep::each;
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::lock_runs::{Plan, Scheme, Script, Transaction, Work, measure};
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

/// A panel.
struct Panel {
    name: &'static str,
    warehouses: u32,
    /// Whether transactions that change nothing take the lock shared.
    shares: bool,
}

const PANELS: [Panel; 4] = [
    panel("1 warehouse", 1, false),
    panel("10 warehouses", 10, false),
    panel("1 warehouse, readers share", 1, true),
    panel("10 warehouses, readers share", 10, true),
];

const fn panel(name: &'static str, warehouses: u32, shares: bool) -> Panel {
    Panel {
        name,
        warehouses,
        shares,
    }
}

/// Transactions that are recorded; then they begin again.
const TRANSACTIONS: usize = 8192;
/// Orders that a district keeps: as many as are loaded and recorded.
const ORDERS: u32 = 3600;
/// Locks that are compared.
const SCHEMES: [Scheme; 6] = [
    Scheme::OURS,
    Scheme::Mcs,
    Scheme::Posix,
    Scheme::PerCore,
    Scheme::Cohort,
    Scheme::Service,
];
/// What a transaction computes, beside its accesses.
const COMPUTES_NS: u64 = 20_000;
const SEED: u64 = 1;

/// What TPC-C's transactions touch, recorded from their own code on a store of TPC-C's size.
fn record(scale: Scale) -> Result<Vec<Traced>, ReproduceError> {
    trace(scale, SEED, TRANSACTIONS).map_err(|error| ReproduceError::Pool {
        name: NAME,
        error: error.to_string(),
    })
}

fn script(traced: &[Traced], shares: bool) -> Script {
    let transaction = |traced: &Traced| Transaction {
        wants: match shares && traced.kind.is_read_only() {
            true => Permission::Shared,
            false => Permission::Exclusive,
        },
        touches: traced.touches.clone(),
    };
    Script {
        transactions: traced.iter().map(transaction).collect(),
        computes_ns: COMPUTES_NS,
    }
}

/// The run of a scheme.
fn plan(scheme: Scheme, nodes: u8, script: &Arc<Script>) -> Result<Plan, ReproduceError> {
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
        work: Work::Transactions(script.clone()),
        think_ns: 500,
        warm_ns: 300_000_000,
        run_ns: 1_000_000_000,
        seed: SEED,
    })
}

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    let of = |warehouses| Scale {
        orders: ORDERS,
        ..Scale::standard(warehouses)
    };
    let (one, ten) = (record(of(1))?, record(of(10))?);
    for panel in PANELS {
        let traced = if panel.warehouses == 1 { &one } else { &ten };
        let script = Arc::new(script(traced, panel.shares));
        for scheme in SCHEMES {
            for nodes in NODES {
                plans.push(plan(scheme, nodes, &script)?);
            }
        }
    }
    let mut outcomes = each(&plans, measure, progress)?.into_iter();
    let mut rows = Vec::new();
    for Panel { name: panel, .. } in PANELS {
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
        conditions: "profile ethernet, 10 threads on each of 1, 2, 4 and 8 nodes, 1 s after 0.3 s",
        charted: Charted::Panels(THROUGHPUT),
        rows,
        notes: vec![
            "The transactions are TPC-C's, in its mix and size: their own code (crate cenote-locked) was recorded, and threads replay which lines each touched under the lock. In the first two panels all have the lock exclusively, as in the paper.",
            "Beside its accesses a transaction computes for 20 us, which is assumed. The first node has written all lines before, as who loads the store has.",
            "Directory locks are without combined data here, as the paper's are.",
        ],
    })
}
