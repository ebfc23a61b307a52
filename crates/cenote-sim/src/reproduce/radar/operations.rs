//! RADAR, figure 10: throughput of each operation under skew.

use super::{ALPHAS, AXIS, CONDITIONS, plan, quantity, run};
use crate::near_runs::{Design, Kind, Work};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "radar/fig10";

const DESIGNS: [Design; 5] = [
    Design::Near,
    Design::Static,
    Design::Range,
    Design::JumpPush,
    Design::PimTree,
];
const THROUGHPUT: Quantity = quantity("throughput", "Mops/s");
/// The near-memory map over another.
const GAIN: Quantity = quantity("near over it", "times");

/// What the paper says that its map is over others, at most, in any operation (section VI-C).
fn paper(design: Design) -> Option<f64> {
    match design {
        Design::Range => Some(168.1),
        Design::JumpPush => Some(198.2),
        Design::PimTree => Some(7.3),
        Design::Near | Design::Overlapped | Design::Static => None,
    }
}

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for kind in Kind::ALL {
        for design in DESIGNS {
            plans.extend(ALPHAS.map(|alpha| plan(design, Work::Each(kind), alpha)));
        }
    }
    let mut outcomes = run(&plans, progress)?.into_iter();
    let (mut rows, mut most) = (Vec::new(), [0.0_f64; DESIGNS.len()]);
    for kind in Kind::ALL {
        let mut near = [0.0; ALPHAS.len()];
        for (design, most) in DESIGNS.into_iter().zip(&mut most) {
            for (alpha, (near, outcome)) in ALPHAS.into_iter().zip(near.iter_mut().zip(outcomes.by_ref())) {
                if design == Design::Near {
                    *near = outcome.mops;
                }
                *most = most.max(*near / outcome.mops);
                rows.push(Row::new(design.name(), alpha, THROUGHPUT, None, outcome.mops).of(kind.name()));
            }
        }
    }
    for (design, most) in DESIGNS.into_iter().zip(most) {
        if let Some(paper) = paper(design) {
            rows.push(Row::new(design.name(), 120, GAIN, Some(paper), most).of("most of all"));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Operations under skew",
        source: "RADAR, section VI-C, figure 10",
        origin: Origin::Simulated,
        conditions: CONDITIONS,
        charted: Charted::Over {
            quantity: THROUGHPUT,
            axis: AXIS,
        },
        rows,
        notes: vec![
            "The paper has 500 million keys, batches of 2 million, and real modules; the smaller a batch, the less a design gains that balances it.",
            "Jump-push and the PIM-tree form are made anew from their descriptions.",
            "A scan finds 181 keys on average; the paper's find 32 to 1,024. The near-memory map asks once for a scan that a batch repeats; the others execute each.",
        ],
    })
}
