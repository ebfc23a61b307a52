//! pcc-indexes, table 2: what speculation gives an ordered map on traces of Twitter's caches. The traces are drawn from
//! the published figures of the clusters.

use cenote::Guidelines;
use cenote_ycsb::Workload;
use cenote_ycsb::trace::{PRESETS, Preset};

use super::sweep::{self, THREADS};
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::throughput::{Form, Outcome, Plan};

pub const NAME: &str = "pcc/table2";

/// Keys of a trace at most, and its operations.
const KEYS: u64 = 20_000;
const OPERATIONS: u64 = 40_000;

const LEAST: Quantity = quantity("least gain", "%");
const MEAN: Quantity = quantity("mean gain", "%");
const MOST: Quantity = quantity("most gain", "%");
const SPARED: Quantity = quantity("sync loads spared", "an operation");

const fn quantity(name: &'static str, unit: &'static str) -> Quantity {
    Quantity { name, unit }
}

/// A class of clusters, which it has, and the paper's least, mean and greatest gain.
type Class = (&'static str, fn(&Preset) -> bool, [f64; 3]);

const CLASSES: [Class; 2] = [
    (
        "more than half reads",
        |preset| preset.reads > 0.5,
        [1.0, 61.0, 120.0],
    ),
    ("fewer reads", |preset| preset.reads <= 0.5, [-52.0, 32.0, 129.0]),
];

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let plan = |(preset, speculate): (&Preset, bool)| -> Result<Plan, ReproduceError> {
        let guidelines = Guidelines {
            speculate,
            ..Guidelines::P3
        };
        let mut trace = preset.spec(OPERATIONS);
        trace.keys = trace.keys.min(KEYS);
        let plan = sweep::incoherent(Form::Ordered, guidelines, THREADS, &[Workload::C])?;
        Ok(Plan {
            records: trace.keys,
            operations: OPERATIONS,
            trace: Some(trace),
            ..plan
        })
    };
    let runs = PRESETS
        .iter()
        .flat_map(|preset| [(preset, false), (preset, true)]);
    let plans = runs.map(plan).collect::<Result<Vec<_>, _>>()?;
    let outcomes = sweep::run(&plans, progress)?;
    let gains: Vec<(&Preset, f64, f64)> = PRESETS
        .iter()
        .zip(outcomes.chunks(2))
        .filter_map(|(preset, pair)| match pair {
            [without, with] => Some((preset, gain(without, with)?, spared(without, with)?)),
            _ => None,
        })
        .collect();
    let mut rows = Vec::new();
    for (name, is_in, paper) in CLASSES {
        let of_class: Vec<_> = gains.iter().filter(|(preset, ..)| is_in(preset)).collect();
        let count = of_class.len().max(1) as f64;
        let values = || of_class.iter().map(|(_, gain, _)| *gain);
        let (least, most) = (
            values().fold(f64::MAX, f64::min),
            values().fold(f64::MIN, f64::max),
        );
        let mean = values().sum::<f64>() / count;
        let spared = of_class.iter().map(|(.., spared)| spared).sum::<f64>() / count;
        for (quantity, paper, ours) in [
            (LEAST, paper[0], least),
            (MEAN, paper[1], mean),
            (MOST, paper[2], most),
        ] {
            rows.push(Row::new(name, THREADS, quantity, Some(paper), ours));
        }
        rows.push(Row::new(name, THREADS, SPARED, None, spared));
    }
    Ok(Figure {
        name: NAME,
        title: "What speculation gives on traces, ordered map, 144 threads",
        source: "pcc-indexes, section 7.3, table 2",
        origin: Origin::Simulated,
        conditions: "profile cxl-remote-wide",
        charted: Charted::Cases([MEAN, MOST]),
        rows,
        notes: vec![
            "The traces are not the recorded ones: they are drawn from the published figures of 51 clusters (shares of operations, exponent), with up \
             to 20 k keys, all of them in the map before. Values have 8 bytes.",
            "The paper counts retries (up to 99.7 % of the operations, where writes prevail). There are none here: a leaf says which keys it holds.",
        ],
    })
}

fn rate(outcome: &Outcome) -> Option<f64> {
    outcome.workloads.first().map(|done| done.mops_per_s)
}

fn gain(without: &Outcome, with: &Outcome) -> Option<f64> {
    Some((rate(with)? / rate(without)? - 1.0) * 100.0)
}

fn spared(without: &Outcome, with: &Outcome) -> Option<f64> {
    let each = |outcome: &Outcome| {
        let done = outcome.workloads.first()?;
        Some(done.traffic.sync_loads as f64 / done.operations.max(1) as f64)
    };
    Some(each(without)? - each(with)?)
}
