//! RADAR, figure 13: words of a text.

use std::path::Path;
use std::sync::Arc;

use super::{Plan, plan, quantity, run};
use crate::near_runs::{Design, Text, TextWork, Work};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "radar/fig13";

const DESIGNS: [Design; 4] = [Design::Near, Design::Range, Design::JumpPush, Design::PimTree];
const LOOKUPS: Quantity = quantity("last passage of a word", "Mops/s");
const INSERTIONS: Quantity = quantity("insertions", "Mops/s");
const GAIN: Quantity = quantity("near over the slowest", "times");
/// The most that the paper has over any other (section VI-E).
const PAPER: f64 = 182.6;
/// Words of a text that are inserted in a batch, and batches of them, warming up included. The others are loaded.
const INSERTED: usize = 1 << 16;
const BATCHES: usize = 7;
/// Words that a text has at least.
const WORDS: usize = 1 << 20;

pub fn make(path: &Path, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let text = Arc::new(Text::read(path, WORDS)?);
    let loaded = text.words() - INSERTED * BATCHES;
    let plan_of = |design, work| {
        let plan = plan(design, Work::Text(work, text.clone()), 0);
        Plan {
            keys: loaded as u64,
            batch: match work {
                TextWork::Last => plan.batch,
                TextWork::Insert => INSERTED,
            },
            ..plan
        }
    };
    let works = [(TextWork::Last, LOOKUPS), (TextWork::Insert, INSERTIONS)];
    let plans: Vec<Plan> = works
        .iter()
        .flat_map(|(work, _)| DESIGNS.map(|design| plan_of(design, *work)))
        .collect();
    let mops: Vec<f64> = run(&plans, progress)?
        .iter()
        .map(|outcome| outcome.mops)
        .collect();
    let mut rows = Vec::new();
    for (mops, (_, quantity)) in mops.chunks(DESIGNS.len()).zip(works) {
        for (design, mops) in DESIGNS.into_iter().zip(mops) {
            rows.push(Row::new(design.name(), 0, quantity, None, *mops));
        }
    }
    let gains = mops.chunks(DESIGNS.len()).map(|mops| {
        let slowest = mops.iter().copied().fold(f64::INFINITY, f64::min);
        mops[0] / slowest
    });
    rows.push(Row::new("near", 0, GAIN, Some(PAPER), gains.fold(0.0, f64::max)));
    Ok(Figure {
        name: NAME,
        title: "Words of a text",
        source: "RADAR, section VI-E, figure 13",
        origin: Origin::Simulated,
        conditions: "profile upmem, 2,048 modules; keys: a word's first eight letters and the number of a passage of \
                     128 words; batches of 524,288 lookups or 65,536 insertions",
        charted: Charted::Cases([LOOKUPS, INSERTIONS]),
        rows,
        notes: vec![
            "The paper's text is of Wikipedia; ours is the one that was given.",
            "A lookup finds the last passage with a word; words are drawn as often as the text has them. Insertions are the text's last words, one after the other, with all that comes before loaded.",
        ],
    })
}
