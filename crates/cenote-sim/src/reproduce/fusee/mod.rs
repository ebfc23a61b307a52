//! FUSEE's evaluation (section 6) on the profile `rdma`: the shipped client of the replicated map, and the stores that
//! it is compared with.
//!
//! Every figure can be made of a smaller [`Size`], which takes moments and says nothing but that it can be made.

pub mod allocation;
pub mod copies;
pub mod costs;
pub mod crash;
pub mod elasticity;
pub mod latency;
pub mod micro;
pub mod nodes;
pub mod ratio;
pub mod recovery;
pub mod sizes;
pub mod threshold;
pub mod ycsb;

use super::{Progress, Quantity, ReproduceError};
use crate::rdma::MILLISECOND;
use crate::replica_runs::{Outcome, Phase, Plan, System, Work, measure};

/// How large a figure's runs are.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Records that are loaded.
    pub records: u64,
    /// Clients at most.
    pub clients: u32,
    /// How long each workload counts; it runs as long before, or longer.
    pub milliseconds: u64,
    /// How long one that replaces objects runs before, at least: until clients give back as much memory as they take.
    /// What they replace waits for two heartbeats.
    pub warm: u64,
}

impl Size {
    /// A part of a run.
    fn phase(self, work: impl Into<Work>) -> Phase {
        let mut phase = Phase::new(work, self.milliseconds);
        if let Work::Mix(mix, _) = phase.work
            && mix.update + mix.modify > 0
        {
            phase.warm = self.milliseconds.max(self.warm) * MILLISECOND;
        }
        phase
    }

    /// The same for a part of the time.
    fn of(self, parts: u64) -> Self {
        Self {
            milliseconds: self.milliseconds.div_ceil(parts),
            ..self
        }
    }
}

/// The paper's records and clients, and an interval between heartbeats.
pub const USUAL: Size = Size {
    records: 100_000,
    clients: 128,
    milliseconds: 20,
    warm: 80,
};

const THROUGHPUT: Quantity = quantity("throughput", "Mops/s");

const fn quantity(name: &'static str, unit: &'static str) -> Quantity {
    Quantity { name, unit }
}

fn plan(system: System, size: Size) -> Result<Plan, ReproduceError> {
    Ok(Plan::new(system, size.clients, size.records)?)
}

/// The outcomes of all plans, in their order.
fn run(plans: &[Plan], progress: Progress<'_>) -> Result<Vec<Vec<Outcome>>, ReproduceError> {
    Ok(super::sweep::each(plans, measure, progress)?)
}

#[cfg(test)]
mod tests {
    use super::super::{Figure, Progress, ReproduceError};
    use super::Size;

    const SMALL: Size = Size {
        records: 1_000,
        clients: 4,
        milliseconds: 1,
        warm: 2,
    };

    #[test]
    fn figures_have_all_their_numbers() {
        type Make = fn(Size, Progress<'_>) -> Result<Figure, ReproduceError>;
        let figures: [Make; 13] = [
            super::latency::make,
            super::micro::make,
            super::sizes::make,
            super::ycsb::make,
            super::nodes::make,
            super::ratio::make,
            super::threshold::make,
            super::allocation::make,
            super::copies::make,
            super::crash::make,
            super::elasticity::make,
            super::recovery::make,
            super::costs::make,
        ];
        for make in figures {
            let figure = make(SMALL, &|_, _| {}).unwrap();
            assert!(
                figure.rows.iter().all(|row| row.ours.is_some()),
                "{}",
                figure.table()
            );
            assert!(
                figure.rows.iter().any(|row| row.ours > Some(0.0)),
                "{}",
                figure.table()
            );
        }
    }
}
