//! RADAR, figures 8 and 9: how good the model of hotness is, and what it gains, by the subranges that it learns from
//! and the epochs of a window. Feature `hotness`.

use cenote_near::hotness::Settings;

use super::quantity;
use crate::near_runs::{Drift, HotKeys, HotOutcome, HotPlan, predict};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const ACCURACY: &str = "radar/fig8";
pub const THROUGHPUT: &str = "radar/fig9";

const RIGHT: Quantity = quantity("predictions right", "%");
const GAIN: Quantity = quantity("throughput over without", "times");
const TRAINING: Quantity = quantity("training of a batch, on this machine", "ms");
const BATCH: Quantity = quantity("a batch, in virtual time", "ms");
const AXIS: &str = "epochs a window";
const EPOCHS: [u32; 4] = [2, 4, 8, 16];
const SAMPLES: [(u32, &str); 4] = [
    (64, "64 sampled"),
    (256, "256 sampled"),
    (1024, "1,024 sampled"),
    (4096, "4,096 sampled"),
];
const PLAN: HotPlan = HotPlan {
    modules: 64,
    batch: 1 << 16,
    batches: 96,
};
const CONDITIONS: &str = "profile upmem, 64 modules, 65,536 keys, 96 batches of 65,536 gets, zipfian 0.99, the hot keys \
                          neighbours whose middle goes on";

pub fn accuracy(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let rows = run(progress, |_, outcome| vec![(RIGHT, outcome.right)])?;
    Ok(Figure {
        name: ACCURACY,
        title: "Predictions of hotness",
        source: "RADAR, section VI-A, figure 8",
        origin: Origin::Simulated,
        conditions: CONDITIONS,
        charted: Charted::Over {
            quantity: RIGHT,
            axis: AXIS,
        },
        rows,
        notes: vec![
            "A window has as many batches as epochs. Of all predictions after the first quarter of the batches.",
        ],
    })
}

pub fn throughput(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let rows = run(progress, |without, outcome| {
        vec![
            (GAIN, Some(outcome.mops / without.mops)),
            (TRAINING, Some(outcome.training_ms)),
            (BATCH, Some(outcome.batch_ms)),
        ]
    })?;
    Ok(Figure {
        name: THROUGHPUT,
        title: "What predictions of hotness gain",
        source: "RADAR, section VI-A, figure 9",
        origin: Origin::Simulated,
        conditions: CONDITIONS,
        charted: Charted::Over {
            quantity: GAIN,
            axis: AXIS,
        },
        rows,
        notes: vec![
            "Throughput is virtual, and has no time for training in it. What training takes was measured, on one core of this machine: where it is more than a batch takes, modules would wait for it.",
        ],
    })
}

fn run(
    progress: Progress<'_>,
    of: impl Fn(&HotOutcome, &HotOutcome) -> Vec<(Quantity, Option<f64>)>,
) -> Result<Vec<Row>, ReproduceError> {
    let keys = HotKeys::new(1 << 16, 0.99, Drift::Moving);
    let all = 1 + SAMPLES.len() * EPOCHS.len();
    let without = predict(&PLAN, &keys, None)?;
    progress(1, all);
    let mut rows = Vec::new();
    let mut done = 1;
    for (samples, case) in SAMPLES {
        for window in EPOCHS {
            let settings = Settings {
                window,
                samples,
                ..Settings::default()
            };
            let outcome = predict(&PLAN, &keys, Some(settings))?;
            for (quantity, ours) in of(&without, &outcome) {
                rows.push(Row::new(case, window, quantity, None, ours));
            }
            done += 1;
            progress(done, all);
        }
    }
    Ok(rows)
}
