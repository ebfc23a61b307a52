//! pcc-indexes, figure 13: YCSB Load, A, B and C by 1 to 144 threads, on hash and ordered maps in all forms; and its
//! last column with ten times as many records.

use cenote::Guidelines;
use cenote_ycsb::Workload;

use super::sweep::{self, RECORDS, THREADS, THROUGHPUT};
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::exec::Traffic;
use crate::throughput::{Form, Outcome, Plan};

/// How large a run is, and how many there are.
pub struct Scale {
    pub name: &'static str,
    title: &'static str,
    /// Records, and operations of each workload.
    records: u64,
    /// Numbers of threads.
    sweep: &'static [u32],
    /// Runs with as many threads as the paper has, of which the median and the spread are reported.
    seeds: u64,
    note: &'static str,
}

pub const USUAL: Scale = Scale {
    name: "pcc/fig13",
    title: "YCSB by threads, all forms",
    records: RECORDS,
    sweep: &[1, 24, 48, 96, THREADS],
    seeds: 5,
    note: "100 k records and operations of each workload; the paper has 100 M. With 144 threads each figure is the median of five seeds; the \
           spread is the greatest less the least.",
};

pub const LARGE: Scale = Scale {
    name: "pcc/fig13-1m",
    title: "YCSB by 144 threads, a million records",
    records: 10 * RECORDS,
    sweep: &[THREADS],
    seeds: 1,
    note: "A million records and operations of each workload; the paper has 100 M. One seed.",
};

/// All on the same map, one after another.
const WORKLOADS: [Workload; 4] = [Workload::Load, Workload::C, Workload::B, Workload::A];

const P3: &str = "P3";
const SP: &str = "SP";
const MQ: &str = "MQ";
const SHERMAN: &str = "Sherman";
const CC: &str = "CC, remote DRAM";
const CC_LOCAL: &str = "CC, local DRAM";
const CC_IN_PLACE: &str = "CC, local DRAM, in place";

const SPREAD: Quantity = Quantity {
    name: "spread over seeds",
    unit: "% of the median",
};

const RATIO: Quantity = Quantity {
    name: "ratio",
    unit: "of throughputs",
};

/// A kind of map: its panels in the order of the workloads, its cases, and the paper's least and greatest ratios of P3
/// to them.
struct Kind {
    panels: [&'static str; 4],
    cases: &'static [Case],
    ratios: &'static [(&'static str, &'static str, [f64; 2])],
}

struct Case {
    name: &'static str,
    form: Form,
    memory: OnMemory,
}

/// What a case runs on.
#[derive(Clone, Copy)]
enum OnMemory {
    /// Incoherent memory, under guidelines.
    Incoherent(Guidelines),
    /// Coherent memory: the profile, and whether values are overwritten in place.
    Coherent(&'static str, bool),
}

const fn case(name: &'static str, form: Form, guidelines: Guidelines) -> Case {
    let memory = OnMemory::Incoherent(guidelines);
    Case { name, form, memory }
}

const fn ideal(name: &'static str, form: Form, profile: &'static str, in_place: bool) -> Case {
    let memory = OnMemory::Coherent(profile, in_place);
    Case { name, form, memory }
}

const KINDS: [Kind; 2] = [
    Kind {
        panels: ["hash map, Load", "hash map, C", "hash map, B", "hash map, A"],
        cases: &[
            case(P3, Form::Hash, Guidelines::P3),
            case(SP, Form::Hash, Guidelines::SP),
            case(MQ, Form::HashMessages, Guidelines::P3),
            ideal(CC, Form::Hash, "dram-remote", false),
            ideal(CC_LOCAL, Form::Hash, "dram", false),
            ideal(CC_IN_PLACE, Form::Hash, "dram", true),
        ],
        ratios: &[
            (SP, "P3 over SP", [2.5, 3.4]),
            (MQ, "P3 over MQ", [10.0, 17.0]),
            (CC, "P3 over CC", [0.06, 0.21]),
            (CC_LOCAL, "P3 over CC, local DRAM", [0.06, 0.21]),
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
            case(P3, Form::Ordered, Guidelines::P3),
            case(SP, Form::Ordered, Guidelines::SP),
            case(MQ, Form::OrderedMessages, Guidelines::P3),
            case(SHERMAN, Form::Sherman, Guidelines::P3),
            ideal(CC, Form::Ordered, "dram-remote", false),
            ideal(CC_LOCAL, Form::Ordered, "dram", false),
        ],
        ratios: &[
            (SP, "P3 over SP", [1.6, 17.0]),
            (MQ, "P3 over MQ", [2.8, 14.0]),
            (SHERMAN, "P3 over Sherman", [2.3, 20.0]),
            (CC, "P3 over CC", [0.21, 0.58]),
            (CC_LOCAL, "P3 over CC, local DRAM", [0.21, 0.58]),
        ],
    },
];

/// A case with so many threads: its plan is run once for each of so many seeds.
#[derive(Clone, Copy)]
struct Point {
    scale: &'static Scale,
    kind: &'static Kind,
    case: &'static Case,
    threads: u32,
}

impl Point {
    fn all(scale: &'static Scale) -> impl Iterator<Item = Self> {
        KINDS.iter().flat_map(move |kind| {
            let point = move |case, threads| Self {
                scale,
                kind,
                case,
                threads,
            };
            let of_case = move |case| scale.sweep.iter().map(move |&threads| point(case, threads));
            kind.cases.iter().flat_map(of_case)
        })
    }

    fn seeds(self) -> u64 {
        if self.threads == THREADS {
            self.scale.seeds
        } else {
            1
        }
    }

    fn plan(self, seed: u64) -> Result<Plan, ReproduceError> {
        let Case { form, memory, .. } = *self.case;
        let plan = match memory {
            OnMemory::Incoherent(guidelines) => {
                sweep::incoherent(form, guidelines, self.threads, &WORKLOADS)?
            }
            OnMemory::Coherent(profile, in_place) => {
                sweep::coherent(form, profile, in_place, self.threads, &WORKLOADS)?
            }
        };
        Ok(Plan {
            seed,
            ..sweep::with_records(plan, self.scale.records)
        })
    }

    /// Rows of all workloads, from the outcomes of all seeds.
    fn rows(self, outcomes: &[Outcome]) -> Vec<Row> {
        let mut rows = Vec::new();
        let Self {
            kind, case, threads, ..
        } = self;
        let row = |panel, quantity, ours| Row::new(case.name, threads, quantity, None, ours).of(panel);
        for (n, panel) in kind.panels.into_iter().enumerate() {
            let mut done: Vec<_> = outcomes
                .iter()
                .filter_map(|outcome| outcome.workloads.get(n))
                .collect();
            done.sort_by(|one, other| one.mops_per_s.total_cmp(&other.mops_per_s));
            let [Some(least), Some(middle), Some(most)] =
                [0, done.len() / 2, done.len().wrapping_sub(1)].map(|n| done.get(n))
            else {
                continue;
            };
            rows.push(row(panel, THROUGHPUT, middle.mops_per_s));
            if threads == THREADS {
                let spread = (most.mops_per_s - least.mops_per_s) / middle.mops_per_s * 100.0;
                if self.scale.seeds > 1 {
                    rows.push(row(panel, SPREAD, spread));
                }
                let each = counts(&middle.traffic, middle.operations);
                rows.extend(each.map(|(quantity, sum)| row(panel, quantity, sum)));
            }
        }
        rows
    }
}

pub fn make(scale: &'static Scale, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let plans = Point::all(scale)
        .flat_map(|point| (1..=point.seeds()).map(move |seed| point.plan(seed)))
        .collect::<Result<Vec<_>, _>>()?;
    let outcomes = sweep::run(&plans, progress)?;
    let mut outcomes = outcomes.as_slice();
    let mut rows = Vec::new();
    for point in Point::all(scale) {
        let (of_point, rest) = outcomes.split_at(point.seeds() as usize);
        rows.extend(point.rows(of_point));
        outcomes = rest;
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
        name: scale.name,
        title: scale.title,
        source: "pcc-indexes, section 7.2.1, figure 13",
        origin: Origin::Simulated,
        conditions: "profiles cxl-remote-wide and, for CC, dram-remote or dram",
        charted: Charted::Panels(THROUGHPUT),
        rows,
        notes: vec![
            scale.note,
            "Popularity is drawn over 100 M ranks (zipfian 0.99), taken modulo the records: the hottest key has 4.8 % of the operations, as in the paper.",
            "Three hosts, as the paper's threads are on three sockets. A host's cache has the same share of the records as there, and 24 KiB \
             for each thread's own; what was used longest ago makes room.",
            "The paper's ranges are over all four workloads, for P3 over SP of the hash map over A, B and C. Its curves are a picture.",
            "The profile cxl-remote-wide has the bandwidth that figure 5 needs; with figure 12's 0.28 GB/s for all hosts together none of the paper's \
             throughputs could be.",
            "MQ has as many servers as threads, and a third as many clients; the paper has 144 and 48.",
            "The paper does not say where CC's DRAM is. On remote DRAM a hit on what threads share costs what L3 does, on local DRAM what L2 does.",
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
