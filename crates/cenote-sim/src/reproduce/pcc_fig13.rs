//! pcc-indexes, figure 13: YCSB Load, A, B and C by 1 to 144 threads, on hash and ordered maps in all forms.

use cenote::Guidelines;
use cenote_ycsb::Workload;

use super::sweep::{self, THREADS, THROUGHPUT};
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::exec::Traffic;
use crate::throughput::{Form, Plan};

pub const NAME: &str = "pcc/fig13";

const SWEEP: [u32; 5] = [1, 24, 48, 96, THREADS];
/// All on the same map, one after another.
const WORKLOADS: [Workload; 4] = [Workload::Load, Workload::C, Workload::B, Workload::A];

const P3: &str = "P3";
const SP: &str = "SP";
const MQ: &str = "MQ";
const SHERMAN: &str = "Sherman";
const CC: &str = "CC, DRAM";

const RATIO: Quantity = Quantity {
    name: "ratio",
    unit: "of throughputs",
};

/// A kind of map: its panels in the order of the workloads, its cases, and the paper's least and greatest ratios of P3 to them.
struct Kind {
    panels: [&'static str; 4],
    cases: &'static [Case],
    ratios: &'static [(&'static str, &'static str, [f64; 2])],
}

struct Case {
    name: &'static str,
    form: Form,
    /// None: on coherent memory.
    guidelines: Option<Guidelines>,
}

const fn case(name: &'static str, form: Form, guidelines: Option<Guidelines>) -> Case {
    Case {
        name,
        form,
        guidelines,
    }
}

const KINDS: [Kind; 2] = [
    Kind {
        panels: ["hash map, Load", "hash map, C", "hash map, B", "hash map, A"],
        cases: &[
            case(P3, Form::Hash, Some(Guidelines::P3)),
            case(SP, Form::Hash, Some(Guidelines::SP)),
            case(MQ, Form::HashMessages, Some(Guidelines::P3)),
            case(CC, Form::Hash, None),
        ],
        ratios: &[
            (SP, "P3 over SP", [2.5, 3.4]),
            (MQ, "P3 over MQ", [10.0, 17.0]),
            (CC, "P3 over CC", [0.06, 0.21]),
        ],
    },
    Kind {
        panels: [
            "ordered map, Load",
            "ordered map, C",
            "ordered map, B",
            "ordered map, A",
        ],
        cases: &[
            case(P3, Form::Ordered, Some(Guidelines::P3)),
            case(SP, Form::Ordered, Some(Guidelines::SP)),
            case(MQ, Form::OrderedMessages, Some(Guidelines::P3)),
            case(SHERMAN, Form::Sherman, Some(Guidelines::P3)),
            case(CC, Form::Ordered, None),
        ],
        ratios: &[
            (SP, "P3 over SP", [1.6, 17.0]),
            (MQ, "P3 over MQ", [2.8, 14.0]),
            (SHERMAN, "P3 over Sherman", [2.3, 20.0]),
            (CC, "P3 over CC", [0.21, 0.58]),
        ],
    },
];

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let runs = || {
        KINDS.iter().flat_map(|kind| {
            let of_case = move |case| SWEEP.iter().map(move |&threads| (kind, case, threads));
            kind.cases.iter().flat_map(of_case)
        })
    };
    let plan = |(_, case, threads): (_, &Case, u32)| -> Result<Plan, ReproduceError> {
        match case.guidelines {
            Some(guidelines) => sweep::incoherent(case.form, guidelines, threads, &WORKLOADS),
            None => sweep::coherent(case.form, threads, &WORKLOADS),
        }
    };
    let plans = runs().map(plan).collect::<Result<Vec<_>, _>>()?;
    let outcomes = sweep::run(&plans, progress)?;
    let mut rows = Vec::new();
    for ((kind, case, threads), outcome) in runs().zip(outcomes) {
        for (panel, done) in kind.panels.into_iter().zip(outcome.workloads) {
            rows.push(Row::new(case.name, threads, THROUGHPUT, None, done.mops_per_s).of(panel));
            if threads == THREADS {
                let each = counts(&done.traffic, done.operations);
                rows.extend(
                    each.map(|(quantity, sum)| Row::new(case.name, threads, quantity, None, sum).of(panel)),
                );
            }
        }
    }
    // A panel's cases together.
    let order = |row: &Row| {
        KINDS
            .iter()
            .flat_map(|kind| kind.panels)
            .position(|panel| panel == row.panel)
    };
    rows.sort_by_key(order);
    let ratios = ratios(&rows);
    rows.extend(ratios);
    Ok(Figure {
        name: NAME,
        title: "YCSB by threads, all forms",
        source: "pcc-indexes, section 7.2.1, figure 13",
        origin: Origin::Simulated,
        conditions: "profiles cxl-remote-wide and, for CC, dram",
        charted: Charted::Panels(THROUGHPUT),
        rows,
        notes: vec![
            "100 k records and operations of each workload; the paper has 100 M. Popularity is drawn over 100 M ranks (zipfian 0.99), taken \
             modulo the records: the hottest key has 4.8 % of the operations, as there.",
            "Three hosts, as the paper's threads are on three sockets. A host's cache has the same share of the records as there, and 4 KiB \
             for each thread; what was used longest ago makes room.",
            "The paper's ranges are over all four workloads, for P3 over SP of the hash map over A, B and C. Its curves are a picture.",
            "The profile cxl-remote-wide has the bandwidth that figure 5 needs; with figure 12's 0.28 GB/s for all hosts together none of the paper's \
             throughputs could be.",
            "MQ has as many servers as threads, and a third as many clients; the paper has 144 and 48.",
            "CC has coherent caches: a locked operation on a line that the host has alone costs a hit, and so does a line that moves between \
             the cores of a host. Both favour CC.",
        ],
    })
}

/// What an operation sends to memory.
fn counts(traffic: &Traffic, operations: u64) -> [(Quantity, f64); 5] {
    let quantity = |name| Quantity {
        name,
        unit: "an operation",
    };
    [
        ("sync loads", traffic.sync_loads + traffic.line_fetches),
        ("exchanges", traffic.exchanges),
        ("missed lines", traffic.missed_lines),
        ("write-backs", traffic.write_backs),
        ("fences", traffic.fences),
    ]
    .map(|(name, sum)| (quantity(name), sum as f64 / operations.max(1) as f64))
}

/// P3 over the others, with as many threads as the paper has.
fn ratios(rows: &[Row]) -> Vec<Row> {
    let of = |panel: &str, case: &str| {
        let is_wanted = |row: &&Row| {
            (row.panel, row.case, row.threads, row.quantity) == (panel, case, THREADS, THROUGHPUT)
        };
        rows.iter().find(is_wanted).and_then(|row| row.ours)
    };
    let mut ratios = Vec::new();
    for kind in &KINDS {
        for &(other, name, paper) in kind.ratios {
            for panel in kind.panels {
                if let (Some(ours), Some(theirs)) = (of(panel, P3), of(panel, other)) {
                    ratios.push(Row::in_range(name, THREADS, RATIO, paper, ours / theirs).of(panel));
                }
            }
        }
    }
    ratios
}
