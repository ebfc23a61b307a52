//! pcc-indexes, section 6.3: the epoch of garbage collection, loaded by all from one word or by each from its replica.

use cenote::Guidelines;
use cenote_ycsb::Workload;

use super::sweep::{self, THREADS, THROUGHPUT};
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::throughput::{Form, Plan};

pub const NAME: &str = "pcc/gc";

const SWEEP: [u32; 4] = [1, 24, 72, THREADS];
const GAIN: Quantity = Quantity {
    name: "gain of replicas",
    unit: "%",
};

/// A map, and its cases with the one word and with replicas.
const CASES: [(Form, [&str; 2]); 2] = [
    (Form::Hash, ["hash map, A, one epoch", "hash map, A, replicas"]),
    (
        Form::Ordered,
        ["ordered map, A, one epoch", "ordered map, A, replicas"],
    ),
];

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let runs = || {
        CASES.iter().flat_map(|&(form, names)| {
            let each = move |(name, replicates)| SWEEP.map(|threads| (form, name, replicates, threads));
            names.into_iter().zip([false, true]).flat_map(each)
        })
    };
    let plan =
        |(form, _, replicates_epoch, threads): (Form, &str, bool, u32)| -> Result<Plan, ReproduceError> {
            Ok(Plan {
                replicates_epoch,
                ..sweep::incoherent(form, Guidelines::P3, threads, &[Workload::A])?
            })
        };
    let plans = runs().map(plan).collect::<Result<Vec<_>, _>>()?;
    let outcomes = sweep::run(&plans, progress)?;
    let rate = |outcome: &crate::throughput::Outcome| outcome.workloads.first().map(|done| done.mops_per_s);
    let mut rows: Vec<Row> = runs()
        .zip(&outcomes)
        .map(|((_, name, _, threads), outcome)| Row::new(name, threads, THROUGHPUT, None, rate(outcome)))
        .collect();
    for (_, [one, replicas]) in CASES {
        let of = |case: &str| {
            let is_wanted = |row: &&Row| row.case == case && row.threads == THREADS;
            rows.iter().find(is_wanted).and_then(|row| row.ours)
        };
        if let (Some(one), Some(many)) = (of(one), of(replicas)) {
            let gain = (many / one - 1.0) * 100.0;
            rows.push(Row::in_range(replicas, THREADS, GAIN, [125.0, 235.0], gain));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "The epoch in one word and in replicas",
        source: "pcc-indexes, sections 6.3 and 7.3 (the gain is figure 15's, of BwTree)",
        origin: Origin::Simulated,
        conditions: "profile cxl-remote-wide",
        charted: Charted::Threads(THROUGHPUT),
        rows,
        notes: vec![
            "In the paper each operation loads the epoch. Here an announcement stands from one operation to the next on incoherent memory, so that \
             only retiring loads it: half of the operations of A.",
        ],
    })
}
