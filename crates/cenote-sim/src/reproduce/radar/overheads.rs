//! RADAR, figure 11: what resistance to skew costs, beside the PIM-tree form.

use super::{CONDITIONS, plan, quantity, run};
use crate::near_runs::{Design, Kind, Outcome, Work};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "radar/fig11";

const NEAR: Quantity = quantity("near", "each");
const TREE: Quantity = quantity("pim-tree", "each");
const SHARE: Quantity = quantity("near over pim-tree", "times");

/// An overhead: its name, of which operations, what it is, and the paper's share of the PIM-tree's, as a mean over its
/// workloads.
type Overhead = (&'static str, Kind, fn(&Outcome) -> f64, Option<f64>);
const OVERHEADS: [Overhead; 6] = [
    ("chases, get", Kind::Get, |outcome| outcome.chases, Some(0.493)),
    (
        "chases, insert",
        Kind::Insert,
        |outcome| outcome.chases,
        Some(0.493),
    ),
    ("chases, scan", Kind::Scan, |outcome| outcome.chases, Some(0.246)),
    ("rounds, get", Kind::Get, |outcome| outcome.rounds, Some(0.271)),
    (
        "rounds, insert",
        Kind::Insert,
        |outcome| outcome.rounds,
        Some(0.271),
    ),
    ("bytes, get", Kind::Get, |outcome| outcome.bytes, Some(0.347)),
];
const SKEWS: [(u32, &str); 2] = [(0, "uniform"), (120, "alpha 1.2")];
const CASES: [[&str; 2]; 6] = [
    ["chases, get, uniform", "chases, get, alpha 1.2"],
    ["chases, insert, uniform", "chases, insert, alpha 1.2"],
    ["chases, scan, uniform", "chases, scan, alpha 1.2"],
    ["rounds, get, uniform", "rounds, get, alpha 1.2"],
    ["rounds, insert, uniform", "rounds, insert, alpha 1.2"],
    ["bytes, get, uniform", "bytes, get, alpha 1.2"],
];

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (_, kind, _, _) in OVERHEADS {
        for (alpha, _) in SKEWS {
            plans.extend([Design::Near, Design::PimTree].map(|design| plan(design, Work::Each(kind), alpha)));
        }
    }
    let outcomes = run(&plans, progress)?;
    let mut rows = Vec::new();
    for (n, (_, _, of, paper)) in OVERHEADS.into_iter().enumerate() {
        for (skew, case) in CASES[n].into_iter().enumerate() {
            let at = 4 * n + 2 * skew;
            let (near, tree) = (of(&outcomes[at]), of(&outcomes[at + 1]));
            rows.push(Row::new(case, SKEWS[skew].0, NEAR, None, near));
            rows.push(Row::new(case, SKEWS[skew].0, TREE, None, tree));
            rows.push(Row::new(case, SKEWS[skew].0, SHARE, paper, near / tree));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Overheads beside the PIM-tree form",
        source: "RADAR, section VI-C, figure 11",
        origin: Origin::Simulated,
        conditions: CONDITIONS,
        charted: Charted::Cases([NEAR, TREE]),
        rows,
        notes: vec![
            "Chases and bytes are for each operation, rounds for each batch. The paper's shares are means over all its operations or workloads.",
        ],
    })
}
