//! FUSEE, table 1: recovery from a client's death after 1,000 updates.

use super::{Size, plan, quantity};
use crate::replica_runs::System;
use crate::replica_runs::recovery::recover;
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/table1";

const UPDATES: u64 = 1_000;
const TIME: Quantity = quantity("time", "ms");
const CHANGES: Quantity = quantity("changes decided", "");

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    // As many records as it updates: each once.
    let records = UPDATES.min(size.records);
    let mut plan = plan(
        System::OURS,
        Size {
            clients: 2,
            records,
            ..size
        },
    )?;
    plan = plan.copies(2);
    let recovery = recover(&plan, UPDATES)?;
    progress(1, 1);
    let (closing, blocks) = (recovery.closing_ms(), recovery.blocks_ms());
    let row = |case, paper, ours| Row::new(case, 1, TIME, Some(paper), ours);
    Ok(Figure {
        name: NAME,
        title: "Recovery from a client's death after 1,000 updates, besides connections",
        source: "FUSEE, section 6.4, table 1",
        origin: Origin::Simulated,
        conditions: "profile rdma, 2 memory nodes, two copies, 1,000 keys, 1,024 bytes",
        charted: Charted::Cases([TIME, CHANGES]),
        rows: vec![
            row("what it had begun is decided", 7.3, closing),
            Row::new(
                "what it had begun is decided",
                1,
                CHANGES,
                None,
                recovery.changes as f64,
            ),
            row("its blocks are taken over", 6.6, blocks),
            row("both", 13.9, closing + blocks),
        ],
        notes: vec![
            "The paper's metadata, log and requests are one step here, in which all regions are closed; its list of free memory is made by the client that gets the blocks.",
            "The paper has 163.1 ms more for connections and memory registration, which the profile does not know.",
        ],
    })
}
