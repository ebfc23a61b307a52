//! FUSEE, figure 10: how long operations of one client take.

use cenote_ycsb::{Chooser, Mix};

use super::{Size, plan, quantity, run};
use crate::replica_runs::{Kind, Phase, System, Work};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/fig10";

pub const NONE: Mix = Mix {
    read: 0,
    update: 0,
    insert: 0,
    scan: 0,
    modify: 0,
};
/// What is done: its name, what it counts as, the work.
pub const OPERATIONS: [(&str, Kind, Work); 4] = [
    (
        "search",
        Kind::Search,
        Work::Mix(Mix { read: 100, ..NONE }, Chooser::Zipfian),
    ),
    (
        "update",
        Kind::Update,
        Work::Mix(Mix { update: 100, ..NONE }, Chooser::Zipfian),
    ),
    (
        "insert",
        Kind::Insert,
        Work::Mix(Mix { insert: 100, ..NONE }, Chooser::Zipfian),
    ),
    ("delete", Kind::Remove, Work::Remove),
];
const SYSTEMS: [System; 3] = [System::OURS, System::MetadataServer, System::LOCKS];
const MEDIAN: Quantity = quantity("median", "us");
const TAIL: Quantity = quantity("99th percentile", "us");
const LONGEST: Quantity = quantity("longest", "us");

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut plans = Vec::new();
    for system in SYSTEMS {
        let mut plan = plan(system, Size { clients: 1, ..size })?;
        for (_, _, work) in operations(system) {
            plan = plan.then(Phase::new(work, 4 * size.milliseconds));
        }
        plans.push(plan);
    }
    let outcomes = run(&plans, progress)?;
    let mut rows = Vec::new();
    for (system, outcomes) in SYSTEMS.into_iter().zip(&outcomes) {
        for ((name, kind, _), outcome) in operations(system).zip(outcomes) {
            let case = case(name, system);
            for (quantity, percent) in [(MEDIAN, 50.0), (TAIL, 99.0), (LONGEST, 100.0)] {
                let taken = outcome.percentile_us(kind, percent);
                rows.push(Row::new(case, 1, quantity, None, taken));
            }
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Latency of operations",
        source: "FUSEE, section 6.2, figure 10",
        origin: Origin::Simulated,
        conditions: "profile rdma, one client, 2 memory nodes, one copy of the index and two of the data, 100,000 keys, Zipfian, 1,024 bytes",
        charted: Charted::Cases([MEDIAN, TAIL]),
        rows,
        notes: vec![
            "One client meets nobody: remote locks then take as long as we do for changes. The metadata server's searches are faster where it need not be asked, as in the paper; its changes are slower by its time for a request.",
            "The metadata server does not remove keys, as in the paper.",
        ],
    })
}

/// The operations that a store has.
pub fn operations(system: System) -> impl Iterator<Item = (&'static str, Kind, Work)> {
    let is_there = move |kind: Kind| kind != Kind::Remove || system != System::MetadataServer;
    OPERATIONS.into_iter().filter(move |(_, kind, _)| is_there(*kind))
}

fn case(name: &'static str, system: System) -> &'static str {
    match (name, system) {
        ("search", System::MetadataServer) => "search, metadata server",
        ("search", System::Locks { .. }) => "search, remote locks",
        ("update", System::MetadataServer) => "update, metadata server",
        ("update", System::Locks { .. }) => "update, remote locks",
        ("insert", System::MetadataServer) => "insert, metadata server",
        ("insert", System::Locks { .. }) => "insert, remote locks",
        ("delete", System::Locks { .. }) => "delete, remote locks",
        _ => name,
    }
}
