//! Lupin, section 5: how long it takes to detect the death of a process and to notify another one.

use std::path::Path;

use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::detection::{Plan, Sample, measure};

pub const NAME: &str = "lupin/detection";

/// Kills of each case.
const KILLS: u32 = 100;
/// The paper's times to detect a death, and from there to notify a process.
const PAPER_US: [f64; 2] = [175.0, 106.0];

const QUANTITIES: [Quantity; 4] = [
    quantity("detected, median"),
    quantity("notified, median"),
    quantity("detected, p99"),
    quantity("notified, p99"),
];

const fn quantity(name: &'static str) -> Quantity {
    Quantity { name, unit: "us" }
}

/// Bytes that the dead had touched, and processes that keep the cores busy.
const CASES: [(&str, u64, u32); 3] = [
    ("64 MiB touched", 64 << 20, 0),
    ("1 GiB touched", 1 << 30, 0),
    ("64 MiB touched, cores busy", 64 << 20, 2),
];

pub fn make(folder: &Path, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut rows = Vec::new();
    for (n, (case, touched, busy)) in CASES.into_iter().enumerate() {
        let plan = Plan {
            folder: folder.to_owned(),
            kills: KILLS,
            touched,
            members: 2,
            busy,
        };
        let all = CASES.len() * KILLS as usize;
        let measured = measure(&plan, |done| progress(n * KILLS as usize + done as usize, all))
            .map_err(|error| ReproduceError::Detection { name: NAME, error })?;
        let detected = |sample: &Sample| sample.detected;
        let notified = |sample: &Sample| sample.last;
        let ours = [
            measured.quantile(detected, 0.5),
            measured.quantile(notified, 0.5),
            measured.quantile(detected, 0.99),
            measured.quantile(notified, 0.99),
        ];
        let papers = [Some(PAPER_US[0]), Some(PAPER_US[0] + PAPER_US[1]), None, None];
        for ((quantity, ours), paper) in QUANTITIES.into_iter().zip(ours).zip(papers) {
            rows.push(Row::new(case, 1, quantity, paper, ours));
        }
    }
    Ok(Figure {
        name: NAME,
        title: "From a process's death to its detection and to notification",
        source: "lupin, section 5",
        origin: Origin::Measured,
        conditions: "on this machine, backend coherent, kill -9",
        charted: Charted::Cases([QUANTITIES[0], QUANTITIES[1]]),
        rows,
        notes: vec![
            "Times are from just before the kill. Notified is when the last of two members, each a process, has the event; the paper's is \
             the sum of its times to detect and to notify.",
            "The paper has the kernel detect, and notifies by netlink. Here the kernel marks a robust mutex, and all are woken by futexes.",
            "What else the machine has to do shows in these times: a process that is woken waits for a processor like any other.",
            "A victim has read as many bytes of the pool as its case says, so that the kernel has them to unmap.",
        ],
    })
}
