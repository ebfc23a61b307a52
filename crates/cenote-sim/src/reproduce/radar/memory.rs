//! RADAR, figure 15: memory.

use super::{CONDITIONS, plan, quantity, run};
use crate::near_runs::{Design, Kind, Work};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "radar/fig15";

/// Designs, and the paper's memory over a range partition's (section VI-G): its map takes 7 % more than that, and 34.3
/// and 47.4 % less than the other two.
const DESIGNS: [(Design, Option<f64>); 4] = [
    (Design::Near, Some(1.07)),
    (Design::Range, Some(1.0)),
    (Design::JumpPush, Some(1.07 / 0.657)),
    (Design::PimTree, Some(1.07 / 0.526)),
];
const LOADED: Quantity = quantity("after gets", "bytes a key");
const SKEWED: Quantity = quantity("after skewed gets", "bytes a key");
const SHARE: Quantity = quantity("over range, after skewed gets", "times");

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (design, _) in DESIGNS {
        plans.extend([0, 120].map(|alpha| plan(design, Work::Each(Kind::Get), alpha)));
    }
    let outcomes = run(&plans, progress)?;
    let each = |n: usize| outcomes[n].memory as f64 / plans[n].keys as f64;
    let mut rows = Vec::new();
    for (n, (design, paper)) in DESIGNS.into_iter().enumerate() {
        rows.push(Row::new(design.name(), 0, LOADED, None, each(2 * n)));
        rows.push(Row::new(design.name(), 120, SKEWED, None, each(2 * n + 1)));
        rows.push(Row::new(
            design.name(),
            120,
            SHARE,
            paper,
            each(2 * n + 1) / each(3),
        ));
    }
    Ok(Figure {
        name: NAME,
        title: "Memory",
        source: "RADAR, section VI-G, figure 15",
        origin: Origin::Simulated,
        conditions: CONDITIONS,
        charted: Charted::Cases([LOADED, SKEWED]),
        rows,
        notes: vec![
            "The paper's are after all its benchmarks. A range partition is here the same code without redistribution, so that it has the host's tables too.",
        ],
    })
}
