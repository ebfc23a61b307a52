//! Step 1 of a batch: each operation's subrange, and what its modules will have to do.
//!
//! A point operation counts for [`POINT`], several on a key that are one command for a little more, and a scan's search
//! in each module as well. In each subrange, a scan counts for the keys that it will read there, as if they lay evenly.
//! What a module does is told in accesses of its memory.

use crate::modules::Modules;

use super::operation::Operation;
use super::repeats::Repeats;
use super::{Map, Place};

/// What a point operation counts for.
pub(super) const POINT: u64 = 16;
/// Accesses of a module that take as long as reading a pair in sequence: 16 bytes at 630 MB/s, and an access takes 14
/// ns.
pub(super) const SCANNED: f64 = 1.8;
/// Accesses that a search takes for each halving of the keys: one, and one for each level of a tree, which has several.
const HALVING: f64 = 1.5;
/// No subrange.
pub(super) const NONE: u32 = u32::MAX;

/// Loads of one batch.
pub(super) struct Work {
    /// Of each module.
    pub modules: Vec<u64>,
    /// Of each region of the coarsest shift.
    pub regions: Vec<u64>,
    /// Entries that have any.
    pub touched: Vec<u32>,
    /// The subrange of each operation that has a key.
    pub located: Vec<u32>,
    /// Steps of the host so far.
    pub steps: u64,
    /// Point operations, and scans.
    pub points: u64,
    pub scans: u64,
    /// The sum of the squares of what modules' parts count for.
    pub squares: u64,
}

/// Accesses that a point operation takes, from the last batch with answers that had such.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Means {
    accesses: u64,
    /// None before there was a batch.
    point: Option<f64>,
}

impl Means {
    /// Of a point operation. Before a batch has shown it, so many.
    pub fn get(&self, unknown: f64) -> f64 {
        self.point.unwrap_or(unknown).max(1.0)
    }

    /// A round begins.
    pub fn begin(&mut self) {
        self.accesses = 0;
    }

    /// What a module had in the round.
    pub fn add(&mut self, accesses: u64) {
        self.accesses += accesses;
    }

    /// The round had so many operations that went to modules.
    pub fn end(&mut self, points: u64) {
        if points > 0 {
            self.point = Some(self.accesses as f64 / points as f64);
        }
    }
}

impl<M: Modules> Map<M> {
    /// What a search takes where nothing is known: equation 3's logarithm.
    pub(super) fn depth(&self) -> f64 {
        (self.keys as f64 / self.modules.count() as f64).max(2.0).log2() * HALVING
    }

    pub(super) fn count_load(&mut self, operations: &[Operation], repeats: &Repeats) -> Work {
        let mut work = Work {
            modules: vec![0; self.modules.count()],
            regions: vec![0; self.regions.count()],
            touched: Vec::new(),
            located: Vec::with_capacity(operations.len()),
            steps: 0,
            points: 0,
            scans: 0,
            squares: 0,
        };
        let point = self.means.get(self.depth());
        for (number, operation) in operations.iter().enumerate() {
            let mut at = None;
            if !repeats.is_asked(number) {
                work.located.push(NONE);
                continue;
            }
            if let Some(key) = operation.key() {
                work.points += 1;
                let (id, probes) = self.directory.locate(key);
                work.steps += probes;
                if let Some(id) = id {
                    self.add_load(&mut work, id, repeats.load(number));
                }
                at = id;
            } else if let Operation::Scan(from, to) = *operation {
                work.scans += 1;
                if let Some((first, last)) = Operation::ends(from, to) {
                    for (id, weight) in self.scan_parts(first, last, point) {
                        work.steps += 1;
                        self.add_load(&mut work, id, weight);
                    }
                }
            }
            work.located.push(at.unwrap_or(NONE));
        }
        work
    }

    /// Keys that a scan will meet in a subrange, if they lie evenly.
    pub(super) fn scan_keys(&self, id: u32, first: u64, last: u64) -> f64 {
        let entry = self.directory.entry(id);
        let end = self.directory.last(id);
        let overlap = (last.min(end) - first.max(entry.start)) as f64 + 1.0;
        entry.keys as f64 * overlap / ((end - entry.start) as f64 + 1.0)
    }

    /// The subranges of a scan, with what it counts for in each. The search in a module counts where the scan meets the
    /// module first.
    pub(super) fn scan_parts(&self, first: u64, last: u64, point: f64) -> Vec<(u32, u64)> {
        let mut seen = Vec::new();
        let parts = self.directory.overlapping(first, last);
        let weigh = |id: u32| {
            let accesses = 1.0 + self.scan_keys(id, first, last) * SCANNED;
            let weight = (accesses * POINT as f64 / point).ceil() as u64;
            match self.directory.entry(id).module() {
                Some(module) if !seen.contains(&module) => {
                    seen.push(module);
                    (id, weight + POINT)
                }
                _ => (id, weight),
            }
        };
        parts.map(weigh).collect()
    }

    fn add_load(&mut self, work: &mut Work, id: u32, load: u64) {
        let region = self
            .regions
            .of(self.directory.entry(id).start, self.directory.shift(0));
        work.regions[region] += load;
        let entry = self.directory.entry_mut(id);
        if entry.load == 0 {
            work.touched.push(id);
        }
        entry.load += load;
        if let Place::Module(module) = entry.place {
            work.modules[module as usize] += load;
            work.squares = work.squares.saturating_add(load.saturating_mul(load));
        }
    }
}

/// What modules usually have to do: batches differ by chance.
#[derive(Clone, Debug, Default)]
pub(super) struct Usual(Vec<u64>);

impl Usual {
    /// Half of what was usual and half of what a batch shows; or what it shows, if chance does not explain the
    /// difference.
    pub fn with(&self, loads: &[u64], part: f64) -> Vec<u64> {
        let mut usual = self.0.iter().copied();
        let blend = |load: &u64| match usual.next() {
            Some(usual) if usual.abs_diff(*load) as f64 <= 5.0 * (usual as f64 * part).sqrt() => {
                usual.midpoint(*load)
            }
            _ => *load,
        };
        loads.iter().map(blend).collect()
    }

    /// Whether there was a batch.
    pub fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    pub fn set(&mut self, loads: &[u64]) {
        self.0.clear();
        self.0.extend_from_slice(loads);
    }
}
