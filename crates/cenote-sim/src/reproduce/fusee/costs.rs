//! Which costs decide how far the map is ahead in FUSEE's figure 13: YCSB A, all clients, one number of the profile
//! changed.

use cenote_ycsb::Workload;

use super::{Size, plan, quantity, run};
use crate::replica_runs::{Plan, System};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/fig13-costs";

const SYSTEMS: [System; 3] = [System::OURS, System::MetadataServer, System::LOCKS];
const QUANTITIES: [Quantity; 3] = [
    quantity("cenote", "Mops/s"),
    quantity("metadata server", "Mops/s"),
    quantity("remote locks", "Mops/s"),
];
const GAINS: [Quantity; 2] = [
    quantity("over metadata server", "times"),
    quantity("over remote locks", "times"),
];

type Case = (&'static str, fn(&mut Plan));

const CASES: [Case; 9] = [
    ("as it is", |_| {}),
    ("ours does not reclaim memory", |plan| plan.reclaims = false),
    ("a request takes 1 us", |plan| plan.profile.request_ns = 1_000.0),
    ("a request takes 2 us", |plan| plan.profile.request_ns = 2_000.0),
    ("a request takes 4 us", |plan| plan.profile.request_ns = 4_000.0),
    ("the server has 4 cores", |plan| plan.profile.server_cores = 4),
    ("ten times the atomic verbs", |plan| {
        plan.profile.nic_matomics_per_s *= 10.0;
    }),
    ("remote locks: one for all keys", |plan| {
        if let System::Locks { locks, .. } = &mut plan.system {
            *locks = 1;
        }
    }),
    ("twice the bandwidth", |plan| plan.profile.nic_gbit_per_s *= 2.0),
];

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (_, change) in CASES {
        for system in SYSTEMS {
            let mut plan = plan(system, size)?.then(size.phase(Workload::A));
            change(&mut plan);
            plans.push(plan);
        }
    }
    let outcomes = run(&plans, progress)?;
    let mut rows = Vec::new();
    for ((case, _), outcomes) in CASES.into_iter().zip(outcomes.chunks(SYSTEMS.len())) {
        let mops: Vec<f64> = outcomes.iter().map(|phases| phases[0].mops()).collect();
        for (quantity, mops) in QUANTITIES.into_iter().zip(&mops) {
            rows.push(Row::new(case, size.clients, quantity, None, *mops));
        }
        for (gain, other) in GAINS.into_iter().zip(&mops[1..]) {
            let gained = mops[0] / other.max(f64::MIN_POSITIVE);
            rows.push(Row::new(case, size.clients, gain, None, gained));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "YCSB A by costs",
        source: "FUSEE, section 6.3, figure 13",
        origin: Origin::Simulated,
        conditions: "profile rdma with one number changed, 128 clients, 2 memory nodes, one copy of the index and two of the data, 100,000 keys, 1,024 bytes, 20 ms after 20 ms",
        charted: Charted::Cases([QUANTITIES[0], GAINS[0]]),
        rows,
        notes: vec![],
    })
}
