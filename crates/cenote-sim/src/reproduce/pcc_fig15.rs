//! pcc-indexes, figure 15: what each technique gives, with 144 threads.

use cenote::Guidelines;
use cenote_ycsb::Workload;

use super::sweep::{self, THREADS};
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::throughput::{Form, Plan};

pub const NAME: &str = "pcc/fig15";

const WORKLOADS: [Workload; 3] = [Workload::C, Workload::B, Workload::A];
const THROUGHPUTS: [Quantity; 3] = [
    quantity("C", "Mops/s"),
    quantity("B", "Mops/s"),
    quantity("A", "Mops/s"),
];
const GAINS: [Quantity; 3] = [
    quantity("C gains", "%"),
    quantity("B gains", "%"),
    quantity("A gains", "%"),
];

const fn quantity(name: &'static str, unit: &'static str) -> Quantity {
    Quantity { name, unit }
}

/// Gains in per cent that the paper has of a step, for C, B and A: a number, or a range over all.
#[derive(Clone, Copy)]
enum Gains {
    Each([f64; 3]),
    Range([f64; 2]),
    None,
}

/// A step: its name, what is replicated or speculated on, and what the paper says.
struct Step {
    name: &'static str,
    form: Form,
    epoch: bool,
    guidelines: Guidelines,
    gains: Gains,
}

const ROOT: Guidelines = Guidelines {
    speculate: false,
    ..Guidelines::P3
};

const STEPS: [Step; 8] = [
    step("hash map: SP", Form::Hash, false, Guidelines::SP, Gains::None),
    step("  + epoch", Form::Hash, true, Guidelines::SP, Gains::None),
    step(
        "  + root",
        Form::Hash,
        true,
        ROOT,
        Gains::Each([95.0, 111.0, 91.0]),
    ),
    step("  + speculation", Form::Hash, true, Guidelines::P3, Gains::None),
    step(
        "ordered map: SP",
        Form::Ordered,
        false,
        Guidelines::SP,
        Gains::None,
    ),
    step(
        "  + its epoch",
        Form::Ordered,
        true,
        Guidelines::SP,
        Gains::Range([125.0, 235.0]),
    ),
    step(
        "  + its root",
        Form::Ordered,
        true,
        ROOT,
        Gains::Range([32.0, 225.0]),
    ),
    step(
        "  + its speculation",
        Form::Ordered,
        true,
        Guidelines::P3,
        Gains::Each([98.0, 78.0, 21.0]),
    ),
];

const fn step(name: &'static str, form: Form, epoch: bool, guidelines: Guidelines, gains: Gains) -> Step {
    Step {
        name,
        form,
        epoch,
        guidelines,
        gains,
    }
}

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let plan = |step: &Step| -> Result<Plan, ReproduceError> {
        Ok(Plan {
            replicates_epoch: step.epoch,
            ..sweep::incoherent(step.form, step.guidelines, THREADS, &WORKLOADS)?
        })
    };
    let plans = STEPS.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
    let outcomes = sweep::run(&plans, progress)?;
    let mut rows = Vec::new();
    let mut before: Option<(Form, [f64; 3])> = None;
    for (step, outcome) in STEPS.iter().zip(outcomes) {
        let now: [f64; 3] =
            std::array::from_fn(|n| outcome.workloads.get(n).map_or(0.0, |done| done.mops_per_s));
        for n in 0..3 {
            rows.push(Row::new(step.name, THREADS, THROUGHPUTS[n], None, now[n]));
        }
        if let Some((_, before)) = before.filter(|(form, _)| *form == step.form) {
            for n in 0..3 {
                let gain = (now[n] / before[n] - 1.0) * 100.0;
                rows.push(match step.gains {
                    Gains::Each(paper) => Row::new(step.name, THREADS, GAINS[n], Some(paper[n]), gain),
                    Gains::Range(paper) => Row::in_range(step.name, THREADS, GAINS[n], paper, gain),
                    Gains::None => Row::new(step.name, THREADS, GAINS[n], None, gain),
                });
            }
        }
        before = Some((step.form, now));
    }
    Ok(Figure {
        name: NAME,
        title: "What each technique gives, 144 threads",
        source: "pcc-indexes, section 7.3, figure 15",
        origin: Origin::Simulated,
        conditions: "profile cxl-remote-wide",
        charted: Charted::Cases([THROUGHPUTS[0], THROUGHPUTS[2]]),
        rows,
        notes: vec![
            "A step gains over the one above it. The paper normalises to CC and gives these gains in its text.",
            "An announcement stands from one operation to the next here, so no lookup loads the epoch, and its replica gives nothing; with \
             updates it spares one sync load of a shared word for each object that is retired.",
            "A leaf says which keys it holds, so a miss on a speculative way is never repeated.",
        ],
    })
}
