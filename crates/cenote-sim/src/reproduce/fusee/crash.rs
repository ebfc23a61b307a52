//! FUSEE, figure 20: searches while a memory node dies.

use cenote_replica::view::NodeId;
use cenote_ycsb::Workload;

use super::{Size, THROUGHPUT, plan, quantity, run};
use crate::rdma::MILLISECOND;
use crate::replica_runs::master::NOTICE;
use crate::replica_runs::{Phase, System};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/fig20";

const LEFT: Quantity = quantity("of that before", "%");
/// Milliseconds of a slice.
const SLICE: u64 = 5;
/// When the node dies, and the end, in slices.
const DEATH: usize = 4;
const SLICES: usize = 20;

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let phase = Phase {
        run: SLICES as u64 * SLICE * MILLISECOND,
        slice: SLICE * MILLISECOND,
        death: Some((
            NodeId(1),
            size.milliseconds * MILLISECOND + DEATH as u64 * SLICE * MILLISECOND,
        )),
        ..Phase::new(Workload::C, size.milliseconds)
    };
    let mut plan = plan(System::OURS, size)?.copies(2).then(phase);
    // A verb to a dead node is given up long before the verdict, and then waits for that.
    plan.profile.deadline_us = 5_000.0;
    let outcomes = run(&[plan], progress)?;
    let slices = outcomes[0][0].mops_of_slices();
    let mean = |slices: &[f64]| slices.iter().sum::<f64>() / slices.len().max(1) as f64;
    let notice = (NOTICE / (SLICE * MILLISECOND)) as usize;
    let before = mean(&slices[1..DEATH]);
    let parts = [
        ("before the death", before, None),
        (
            "until the master's verdict",
            mean(&slices[DEATH + 1..DEATH + notice]),
            None,
        ),
        ("afterwards", mean(&slices[DEATH + notice + 2..]), Some(50.0)),
    ];
    let mut rows = Vec::new();
    for (case, mops, paper) in parts {
        rows.push(Row::new(case, size.clients, THROUGHPUT, None, mops));
        rows.push(Row::new(case, size.clients, LEFT, paper, 100.0 * mops / before));
    }
    Ok(Figure {
        name: NAME,
        title: "YCSB C while a memory node dies",
        source: "FUSEE, section 6.4, figure 20",
        origin: Origin::Simulated,
        conditions: "profile rdma with a deadline of 5 ms, 128 clients, 2 memory nodes, two copies, 100,000 keys, 1,024 bytes; the verdict comes 40 ms after the death",
        charted: Charted::Cases([THROUGHPUT, LEFT]),
        rows,
        notes: vec![
            "Until the verdict, a client whose search meets the dead node waits for it; all do soon. The paper has no time for that: its slices are of a second or so.",
        ],
    })
}
