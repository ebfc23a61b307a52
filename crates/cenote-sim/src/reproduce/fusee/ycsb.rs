//! FUSEE, figure 13: YCSB A to D by clients.

use cenote_ycsb::Workload;

use super::{Size, THROUGHPUT, plan, quantity, run};
use crate::replica_runs::System;
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/fig13";

pub const WORKLOADS: [(&str, Workload); 4] = [
    ("A", Workload::A),
    ("B", Workload::B),
    ("C", Workload::C),
    ("D", Workload::D),
];
const SYSTEMS: [System; 4] = [
    System::OURS,
    System::MetadataServer,
    System::LOCKS,
    System::LOCKS_FOR_CHANGES,
];
/// Of the most clients, those are there.
const SHARES: [u32; 3] = [8, 2, 1];
const GAIN: Quantity = quantity("cenote over this", "times");

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for system in SYSTEMS {
        for share in SHARES {
            let clients = (size.clients / share).max(1);
            let mut plan = plan(system, Size { clients, ..size })?;
            for (_, workload) in WORKLOADS {
                plan = plan.then(size.phase(workload));
            }
            plans.push(plan);
        }
    }
    let outcomes = run(&plans, progress)?;
    let mops = |system: usize, share: usize, workload: usize| {
        outcomes[system * SHARES.len() + share][workload].mops()
    };
    let last = SHARES.len() - 1;
    let mut rows = Vec::new();
    for (w, (panel, _)) in WORKLOADS.into_iter().enumerate() {
        for (s, system) in SYSTEMS.into_iter().enumerate() {
            for (n, share) in SHARES.into_iter().enumerate() {
                let clients = (size.clients / share).max(1);
                let row = Row::new(system.name(), clients, THROUGHPUT, None, mops(s, n, w));
                rows.push(row.of(panel));
            }
            let paper = match system {
                System::MetadataServer => Some(4.9),
                System::LOCKS => Some(117.0),
                _ => None,
            };
            if s > 0 {
                let gain = mops(0, last, w) / mops(s, last, w).max(f64::MIN_POSITIVE);
                rows.push(Row::new(system.name(), size.clients, GAIN, paper, gain).of(panel));
            }
        }
    }
    Ok(Figure {
        name: NAME,
        title: "YCSB by clients",
        source: "FUSEE, section 6.3, figure 13",
        origin: Origin::Simulated,
        conditions: "profile rdma, 2 memory nodes, one copy of the index and two of the data, 100,000 keys, 1,024 bytes of key and value, 20 ms after 20 ms",
        charted: Charted::Panels(THROUGHPUT),
        rows,
        notes: vec![
            "Threads are clients. The paper has one ratio for each of the two, 4.9 and 117, and does not say of which workload.",
            "Ours reclaims memory meanwhile; the others do not, and are in other respects favoured too: see their files.",
        ],
    })
}
