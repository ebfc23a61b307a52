//! Soul, figure 9: a thread on each of 1 to 8 nodes that share one lock and 4 KiB under it.

use super::sweep::each;
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::lock_runs::{Plan, Scheme, Work, measure};
use crate::msi::NetworkProfile;

pub const NAME: &str = "soul/fig9";

const LATENCY: Quantity = Quantity {
    name: "mean latency, inter-node",
    unit: "us",
};
const TRANSACTIONS: Quantity = Quantity {
    name: "coherence transactions",
    unit: "each",
};
/// The best of the others over ours.
const GAIN: Quantity = Quantity {
    name: "best other over directory lock",
    unit: "times",
};

const NODES: u8 = 8;
/// Locks that are compared.
pub const SCHEMES: [Scheme; 5] = [
    Scheme::OURS,
    Scheme::Mcs,
    Scheme::Posix,
    Scheme::PerCore,
    Scheme::Service,
];
/// Panels: their names, and how many in a hundred read.
const SHARES: [(&str, u32); 4] = [
    ("all write", 0),
    ("50 % read", 50),
    ("95 % read", 95),
    ("all read", 100),
];

/// What the paper says: ours takes 100 to 200 us at 8 nodes in all workloads (section 5.2).
const PAPER_US: [f64; 2] = [100.0, 200.0];

/// The run of a scheme.
pub fn plan(profile: &str, scheme: Scheme, nodes: u8, read_percent: u32) -> Result<Plan, ReproduceError> {
    Ok(Plan {
        scheme,
        profile: NetworkProfile::load(profile)?,
        nodes,
        threads: 1,
        locks: 1,
        data_bytes: 4096,
        work: Work::Shares(read_percent),
        think_ns: 0,
        warm_ns: 0,
        run_ns: 100_000_000,
        seed: 1,
    })
}

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (_, read_percent) in SHARES {
        for scheme in SCHEMES {
            for nodes in 1..=NODES {
                plans.push(plan("ethernet", scheme, nodes, read_percent)?);
            }
        }
    }
    let mut outcomes = each(&plans, measure, progress)?.into_iter();
    let mut rows = Vec::new();
    for (panel, _) in SHARES {
        let (mut ours, mut best) = ([None; NODES as usize], [None::<f64>; NODES as usize]);
        for scheme in SCHEMES {
            for (n, outcome) in outcomes.by_ref().take(NODES.into()).enumerate() {
                let nodes = n as u32 + 1;
                let (case, is_ours) = (scheme.name(), scheme == Scheme::OURS);
                let latency = outcome.crossed_mean_us();
                match (is_ours, latency) {
                    (true, _) => ours[n] = latency,
                    (false, Some(latency)) => {
                        best[n] = Some(best[n].map_or(latency, |best| best.min(latency)))
                    }
                    (false, None) => {}
                }
                let row = match latency {
                    Some(latency) if is_ours && nodes == u32::from(NODES) => {
                        Row::in_range(case, nodes, LATENCY, PAPER_US, latency)
                    }
                    _ => Row::new(case, nodes, LATENCY, None, latency),
                };
                rows.push(row.of(panel));
                if scheme != Scheme::Service {
                    let paper = (is_ours && nodes == u32::from(NODES)).then_some(1.0);
                    let each = outcome.transactions_each();
                    rows.push(Row::new(case, nodes, TRANSACTIONS, paper, each).of(panel));
                }
            }
        }
        for (n, (ours, best)) in ours.into_iter().zip(best).enumerate() {
            let gain = ours.zip(best).map(|(ours, best)| best / ours);
            rows.push(Row::new("gain", n as u32 + 1, GAIN, None, gain).of(panel));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "One lock and its data",
        source: "Soul, section 5.2, figure 9",
        origin: Origin::Simulated,
        conditions: "profile ethernet, a thread on each node, 4 KiB of data, 0.1 s",
        charted: Charted::Panels(LATENCY),
        rows,
        notes: vec![
            "Latency and transactions are of acquisitions for which the thread waited for the network; transactions of releases count too.",
            "On one node nobody else asks: what is counted there are first misses.",
            "The lock service's own messages are no coherence transactions, so that none are given for it, as in the paper.",
        ],
    })
}
