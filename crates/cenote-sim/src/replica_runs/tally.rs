//! What is measured in a phase.

use std::collections::BTreeMap;

use crate::rdma::{MICROSECOND, Time};

/// What an operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A read.
    Search,
    /// A change of a record that is there.
    Update,
    /// A new record.
    Insert,
    /// A removal.
    Remove,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// How long operations took, in picoseconds; ascending at the end.
    times: BTreeMap<Kind, Vec<Time>>,
    /// How many ended in each slice.
    slices: Vec<u64>,
    run: Time,
    slice: Time,
    /// Batches that all clients posted.
    pub batches: u64,
}

impl Outcome {
    /// Of a phase of so long, with slices of so long.
    pub fn new(run: Time, slice: Time) -> Self {
        let slice = slice.max(1);
        Self {
            slices: vec![0; run.div_ceil(slice) as usize],
            run,
            slice,
            ..Self::default()
        }
    }

    /// An operation that began and ended so long after the phase began to count.
    pub(super) fn count(&mut self, kind: Kind, began: Time, ended: Time) {
        if ended >= self.run {
            return;
        }
        if let Some(slice) = self.slices.get_mut((ended / self.slice) as usize) {
            *slice += 1;
        }
        self.times.entry(kind).or_default().push(ended - began);
    }

    pub(super) fn end(&mut self) {
        self.times.values_mut().for_each(|times| times.sort_unstable());
    }

    /// Millions of operations a second.
    pub fn mops(&self) -> f64 {
        self.slices.iter().sum::<u64>() as f64 * MICROSECOND as f64 / self.run.max(1) as f64
    }

    /// The same, in each slice.
    pub fn mops_of_slices(&self) -> Vec<f64> {
        let mops = |count: &u64| *count as f64 * MICROSECOND as f64 / self.slice as f64;
        self.slices.iter().map(mops).collect()
    }

    /// So many in a hundred of the operations of a kind took no longer, in microseconds.
    pub fn percentile_us(&self, kind: Kind, percent: f64) -> Option<f64> {
        let times = self.times.get(&kind)?;
        let last = times.len().checked_sub(1)?;
        let place = (last as f64 * percent / 100.0).round() as usize;
        Some(times[place.min(last)] as f64 / MICROSECOND as f64)
    }
}
