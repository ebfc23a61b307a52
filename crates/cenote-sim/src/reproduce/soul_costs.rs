//! Which costs of the network decide how far directory locks are ahead in Soul's figure 9: all write, 8 nodes, one
//! number of the profile changed.

use super::sweep::each;
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row, soul_fig9};
use crate::lock_runs::{Scheme, measure};
use crate::msi::NetworkProfile;

pub const NAME: &str = "soul/fig9-costs";

const NODES: u8 = 8;
const OURS: Quantity = quantity("directory lock", "us");
const BEST: Quantity = quantity("the best other", "us");
const GAIN: Quantity = quantity("best other over directory lock", "times");
const THROUGHPUT: Quantity = quantity("directory lock, throughput", "Mops/s");

const fn quantity(name: &'static str, unit: &'static str) -> Quantity {
    Quantity { name, unit }
}

/// A case: what it is called, the profile, and what is changed in it.
type Case = (&'static str, &'static str, fn(&mut NetworkProfile));

const CASES: [Case; 9] = [
    ("ethernet", "ethernet", |_| {}),
    ("  a fault takes 10 us", "ethernet", |profile| {
        profile.fault_ns = 10_000.0
    }),
    ("  an invalidation, 10 us", "ethernet", |profile| {
        profile.invalidate_ns = 10_000.0;
    }),
    ("  a manager, 20 us", "ethernet", |profile| {
        profile.service_ns = 20_000.0;
    }),
    ("  fault and manager so", "ethernet", |profile| {
        profile.fault_ns = 10_000.0;
        profile.service_ns = 20_000.0;
    }),
    ("  hops take four times", "ethernet", |profile| {
        profile.hop_ns *= 4.0;
        profile.memory_hop_ns *= 4.0;
    }),
    ("  a hit takes 5 ns", "ethernet", |profile| profile.hit_ns = 5.0),
    ("cxl3", "cxl3", |_| {}),
    ("  a hit takes 5 ns, cxl3", "cxl3", |profile| profile.hit_ns = 5.0),
];

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (_, profile, change) in CASES {
        for scheme in soul_fig9::SCHEMES {
            let mut plan = soul_fig9::plan(profile, scheme, NODES, 0)?;
            change(&mut plan.profile);
            plans.push(plan);
        }
    }
    let outcomes = each(&plans, measure, progress)?;
    let mut rows = Vec::new();
    let of_cases = plans
        .chunks(soul_fig9::SCHEMES.len())
        .zip(outcomes.chunks(soul_fig9::SCHEMES.len()));
    for ((case, ..), (plans, outcomes)) in CASES.into_iter().zip(of_cases) {
        let (mut ours, mut best, mut throughput) = (None, None::<f64>, None);
        for (plan, outcome) in plans.iter().zip(outcomes) {
            let latency = outcome.crossed_mean_us();
            if plan.scheme == Scheme::OURS {
                (ours, throughput) = (latency, Some(outcome.mops()));
            } else {
                best = best.into_iter().chain(latency).reduce(f64::min);
            }
        }
        let gain = ours.zip(best).map(|(ours, best)| best / ours);
        for (quantity, value) in [(OURS, ours), (BEST, best), (GAIN, gain), (THROUGHPUT, throughput)] {
            rows.push(Row::new(case, NODES.into(), quantity, None, value));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Latency of lock and data by costs of the network",
        source: "Soul, section 5.2, figure 9",
        origin: Origin::Simulated,
        conditions: "profiles ethernet and cxl3 with one number changed, a writer on each of 8 nodes, 4 KiB of data, 0.1 s",
        charted: Charted::Cases([OURS, BEST]),
        rows,
        notes: vec!["The best other is that of figure 9 with the least mean latency."],
    })
}
