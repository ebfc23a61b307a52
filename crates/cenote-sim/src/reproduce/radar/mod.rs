//! RADAR: the near-memory map beside a range partition, jump-push and the PIM-tree form, on simulated modules.

#[cfg(feature = "hotness")]
pub mod hotness;
pub mod memory;
pub mod operations;
pub mod overheads;
pub mod text;
pub mod ycsb;

use super::{Progress, Quantity, ReproduceError};
use crate::near_runs::{Design, Outcome, Plan, Work, measure};

/// The axis of charts: the zipfian exponent, in hundredths.
const AXIS: &str = "% alpha";
/// Exponents, as on that axis.
const ALPHAS: [u32; 4] = [0, 40, 80, 120];
/// Under what all figures are simulated.
const CONDITIONS: &str =
    "profile upmem, 2,048 modules, 2,097,152 keys, batches of 524,288 operations or 32,768 scans";

const fn quantity(name: &'static str, unit: &'static str) -> Quantity {
    Quantity { name, unit }
}

fn plan(design: Design, work: Work, alpha: u32) -> Plan {
    Plan {
        design,
        work,
        alpha: f64::from(alpha) / 100.0,
        modules: 2048,
        keys: 1 << 21,
        batch: 1 << 19,
        warm: 5,
        batches: if design == Design::JumpPush { 1 } else { 2 },
        seed: 1,
    }
}

/// Runs one after the other: each has much memory.
fn run(plans: &[Plan], progress: Progress<'_>) -> Result<Vec<Outcome>, ReproduceError> {
    let mut outcomes = Vec::new();
    for plan in plans {
        outcomes.push(measure(plan)?);
        progress(outcomes.len(), plans.len());
    }
    Ok(outcomes)
}
