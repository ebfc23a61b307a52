//! FUSEE, figure 21: clients come and go.

use cenote_ycsb::Workload;

use super::{Size, THROUGHPUT, plan, quantity, run};
use crate::rdma::MILLISECOND;
use crate::replica_runs::{Late, Phase, System};
use crate::reproduce::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};

pub const NAME: &str = "fusee/fig21";

const GAIN: Quantity = quantity("of that at first", "times");

pub fn make(size: Size, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let clients = (size.clients / 4).max(2);
    let third = size.milliseconds * MILLISECOND;
    let phase = Phase {
        run: 3 * third,
        slice: third / 4,
        late: Some(Late {
            after: clients / 2,
            come: 2 * third,
            go: 3 * third,
        }),
        ..Phase::new(Workload::C, size.milliseconds)
    };
    let plan = plan(System::OURS, Size { clients, ..size })?.then(phase);
    let outcomes = run(&[plan], progress)?;
    let slices = outcomes[0][0].mops_of_slices();
    // The first slice of each part is that in which clients come or go.
    let mean = |from: usize| slices[from + 1..from + 4].iter().sum::<f64>() / 3.0;
    let first = mean(0);
    let parts = [
        ("half of the clients", first),
        ("all", mean(4)),
        ("half of them again", mean(8)),
    ];
    let mut rows = Vec::new();
    for (case, mops) in parts {
        rows.push(Row::new(case, clients, THROUGHPUT, None, mops));
        rows.push(Row::new(case, clients, GAIN, None, mops / first));
    }
    Ok(Figure {
        name: NAME,
        title: "Clients come and go",
        source: "FUSEE, section 6.4, figure 21",
        origin: Origin::Simulated,
        conditions: "profile rdma, YCSB C, 16 clients, 32, and 16 again, 2 memory nodes, 100,000 keys, 1,024 bytes, 20 ms each",
        charted: Charted::Cases([THROUGHPUT, GAIN]),
        rows,
        notes: vec![],
    })
}
