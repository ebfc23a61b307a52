//! Bringing back what is cold: regions that were split are merged, and pulled subranges go back to a module. The paper
//! does neither.
//!
//! A *region* is what a subrange of the coarsest shift covers. It is *whole* while that subrange is there. Which
//! regions are split is known here, with how long each had little load.

use std::collections::BTreeMap;

use crate::modules::Modules;

use super::load::Work;
use super::plan::Plan;
use super::{Map, Place};

/// Regions, and which of them are split.
pub(super) struct Regions {
    count: usize,
    /// Split ones, with how many batches in a row had little load for them.
    split: BTreeMap<usize, u32>,
}

impl Regions {
    pub fn new(count: usize) -> Self {
        Self {
            count,
            split: BTreeMap::new(),
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The region of a key.
    pub fn of(&self, key: u64, shift: u8) -> usize {
        key.checked_shr(shift.into()).unwrap_or(0) as usize
    }

    /// A region's least key.
    pub fn start(&self, region: usize, shift: u8) -> u64 {
        (region as u64).checked_shl(shift.into()).unwrap_or(0)
    }

    pub fn all_whole(&mut self) {
        self.split.clear();
    }

    pub fn set_split(&mut self, region: usize) {
        self.split.entry(region).or_insert(0);
    }

    pub fn set_whole(&mut self, region: usize) {
        self.split.remove(&region);
    }
}

/// What is brought back in a batch.
#[derive(Default)]
pub(super) struct Back {
    /// Regions that are merged.
    pub merges: Vec<usize>,
    /// Pulled subranges that go to a module.
    pub returns: Vec<(u32, u32)>,
}

impl<M: Modules> Map<M> {
    pub(super) fn plan_back(&mut self, work: &Work, plan: &Plan) -> Back {
        let mut back = Back::default();
        let modules = plan.loads.len() as u64;
        let mean = plan.loads.iter().sum::<u64>() / modules;
        let cold_after = self.config.cold_batches;
        let over = self.directory.len().saturating_sub(self.config.entries_max);
        let mut cold = Vec::new();
        for (&region, batches) in &mut self.regions.split {
            let little = work.regions[region] * 2 <= mean;
            *batches = if little { *batches + 1 } else { 0 };
            let over_bound = over > 0 && work.regions[region] <= mean;
            if (*batches > cold_after || over_bound) && !plan.regions.contains(&region) {
                cold.push((work.regions[region], region));
            }
        }
        cold.sort_unstable();
        // No batch moves more pairs for this than it has operations, but for one region.
        let mut budget = (work.points + work.scans).max(1);
        let mut merging = std::collections::BTreeSet::new();
        for (_, region) in cold {
            let keys = self.keys_of_region(region);
            if budget == 0 || self.room[self.home(region) as usize] < super::moves::room_for(keys) {
                break;
            }
            budget = budget.saturating_sub(keys.max(1));
            merging.insert(region);
            back.merges.push(region);
        }
        let by_load = (0..).zip(&plan.loads).min_by_key(|(_, load)| **load);
        let least = by_load.map_or(0, |(module, _)| module);
        let mut excess = self.pulled_keys.saturating_sub(self.config.pulled_max);
        for id in self.pulled.clone() {
            let (start, level) = (self.directory.entry(id).start, self.directory.entry(id).level);
            let region = self.regions.of(start, self.directory.shift(0));
            let finest = level + 1 >= self.directory.levels();
            let entry = self.directory.entry_mut(id);
            let little = entry.load * 16 <= mean;
            entry.cold = if little { entry.cold + 1 } else { 0 };
            // Inserts may have made it one that is better split.
            let grown = !finest && entry.keys > self.config.pull_keys.saturating_mul(4);
            if (entry.cold > cold_after || grown || excess > 0)
                && !merging.contains(&region)
                && self.room[least as usize] > super::moves::room_for(entry.keys)
            {
                excess = excess.saturating_sub(entry.keys);
                back.returns.push((id, least));
            }
        }
        back
    }

    fn keys_of_region(&self, region: usize) -> u64 {
        let start = self.regions.start(region, self.directory.shift(0));
        let (start, last) = self.directory.ends(0, start);
        self.directory
            .overlapping(start, last)
            .map(|id| self.directory.entry(id).keys)
            .sum()
    }

    /// The subranges of a region, with their modules.
    pub(super) fn parts_of_region(&self, region: usize) -> Vec<(u32, Option<u32>)> {
        let start = self.regions.start(region, self.directory.shift(0));
        let (start, last) = self.directory.ends(0, start);
        let parts = self.directory.overlapping(start, last);
        parts.map(|id| (id, self.directory.entry(id).module())).collect()
    }

    /// Of a pulled subrange the pairs.
    pub(super) fn pulled_pairs(&self, id: u32) -> Vec<(u64, u64)> {
        match &self.directory.entry(id).place {
            Place::Host(pairs) => pairs.iter().map(|(key, value)| (*key, *value)).collect(),
            Place::Module(_) => Vec::new(),
        }
    }
}
