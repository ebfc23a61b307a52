//! RADAR, figure 12: YCSB.

use cenote_ycsb::Workload;

use super::{ALPHAS, AXIS, CONDITIONS, plan, quantity, run};
use crate::near_runs::{Design, Work};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "radar/fig12";

const DESIGNS: [Design; 4] = [Design::Near, Design::Range, Design::JumpPush, Design::PimTree];
/// C is figure 10's get.
const WORKLOADS: [(&str, Workload); 4] = [
    ("A", Workload::A),
    ("B", Workload::B),
    ("D", Workload::D),
    ("E", Workload::E),
];
const THROUGHPUT: Quantity = quantity("throughput", "Mops/s");
const GAIN: Quantity = quantity("near over the slowest", "times");
/// The most that the paper has over any other (section VI-D).
const PAPER: f64 = 193.7;

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for (_, workload) in WORKLOADS {
        for design in DESIGNS {
            plans.extend(ALPHAS.map(|alpha| plan(design, Work::Ycsb(workload), alpha)));
        }
    }
    let mut outcomes = run(&plans, progress)?.into_iter();
    let (mut rows, mut most) = (Vec::new(), 0.0_f64);
    for (panel, _) in WORKLOADS {
        let mut near = [0.0; ALPHAS.len()];
        for design in DESIGNS {
            for (alpha, (near, outcome)) in ALPHAS.into_iter().zip(near.iter_mut().zip(outcomes.by_ref())) {
                if design == Design::Near {
                    *near = outcome.mops;
                }
                most = most.max(*near / outcome.mops);
                rows.push(Row::new(design.name(), alpha, THROUGHPUT, None, outcome.mops).of(panel));
            }
        }
    }
    rows.push(Row::new("near", 120, GAIN, Some(PAPER), most).of("most of all"));
    Ok(Figure {
        name: NAME,
        title: "YCSB",
        source: "RADAR, section VI-D, figure 12",
        origin: Origin::Simulated,
        conditions: CONDITIONS,
        charted: Charted::Over {
            quantity: THROUGHPUT,
            axis: AXIS,
        },
        rows,
        notes: vec![
            "Scans of E have 1 to 100 keys, as YCSB's do; its batches have a sixteenth of the others' operations.",
        ],
    })
}
