//! Redistribution: what a batch has split, moved and pulled before it is executed (the paper, section IV-B).
//!
//! Busiest module first, and of a module its heaviest piece first. A *piece* is a subrange, or the part of one that an
//! earlier step of the plan splits: its keys are estimated, so a step that takes it says how many it expects at most. A
//! step is taken if it pays: `price` is equations 1 to 5. Beyond the paper, a benefit is expected to last for some
//! batches, what chance alone may give a module does not count, and the plan has a round of its own only if the batch
//! itself gains more by it.

use std::collections::{BTreeSet, BinaryHeap};

use crate::modules::Modules;

use super::Map;
use super::load::{SCANNED, Work};
use super::moves::room_for;
use super::operation::Operation;
use super::price::{Even, Prices};
use super::repeats::Repeats;

/// Where keys go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Module(u32),
    Host,
}

/// A step that a module executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Parts a subrange into those of a level.
    Split { module: u32, start: u64, level: u8 },
    /// Takes a subrange away, if it has no more keys than so many.
    Take {
        module: u32,
        start: u64,
        level: u8,
        most: u32,
        to: To,
    },
}

/// What is to be done, in this order.
#[derive(Default)]
pub(super) struct Plan {
    pub steps: Vec<Step>,
    /// Regions that steps are about.
    pub regions: BTreeSet<usize>,
    /// What modules will have to do.
    pub loads: Vec<u64>,
    /// Whether a round of its own pays for it within this batch.
    pub at_once: bool,
}

/// Pieces of a module that are looked at in vain before the next module's turn.
const TRIES: u32 = 16;

struct Piece {
    start: u64,
    level: u8,
    module: u32,
    load: u64,
    keys: u64,
    /// Its keys were counted, not estimated.
    exact: bool,
}

impl<M: Modules> Map<M> {
    pub(super) fn plan(&mut self, operations: &[Operation], repeats: &Repeats, work: &mut Work) -> Plan {
        let count = work.modules.len() as u64;
        let even = Even {
            part: work.squares as f64 / work.modules.iter().sum::<u64>().max(1) as f64,
        };
        let known = self.usual.is_known();
        let loads = self.usual.with(&work.modules, even.part);
        self.usual.set(&loads);
        let total: u64 = loads.iter().sum();
        let mean = total / count;
        let plan = Plan {
            loads: loads.clone(),
            ..Plan::default()
        };
        let most = even.most(mean);
        let busy = |module: u32| loads[module as usize] > most;
        let before = loads.iter().max().copied().unwrap_or(0);
        if before <= even.excess(mean, known) {
            return plan;
        }
        let point = self.means.get(self.depth());
        let prices = Prices {
            point,
            depth: self.depth(),
            scanned: SCANNED,
            per_byte: self.config.accesses_per_moved_byte,
            horizon: self.config.horizon.max(1).into(),
            round: self.config.accesses_per_round,
        };
        let mut queues: Vec<BinaryHeap<(u64, usize)>> =
            work.modules.iter().map(|_| BinaryHeap::new()).collect();
        let mut pieces = Vec::new();
        for &id in &work.touched {
            let entry = self.directory.entry(id);
            let Some(module) = entry.module() else { continue };
            if busy(module) {
                queues[module as usize].push((entry.load, pieces.len()));
                pieces.push(Piece {
                    start: entry.start,
                    level: entry.level,
                    module,
                    load: entry.load,
                    keys: entry.keys,
                    exact: true,
                });
            }
        }
        let requests = self.requests(operations, repeats, &busy, point);
        work.steps += requests.len() as u64;
        let mut planner = Planner {
            map: self,
            requests,
            prices,
            total,
            room: self.room.clone(),
            limit: even,
            by_load: BTreeSet::new(),
            pieces,
            queues,
            entries: 0,
            pulled: 0,
            plan,
        };
        planner.run();
        let Planner { mut plan, prices, .. } = planner;
        let after = plan.loads.iter().max().copied().unwrap_or(0);
        plan.at_once = prices.pays_a_round(before.saturating_sub(after));
        self.usual.set(&plan.loads);
        plan
    }

    /// Keys that are asked for in subranges of busy modules, ascending, with what they count for.
    fn requests(
        &self,
        operations: &[Operation],
        repeats: &Repeats,
        busy: &impl Fn(u32) -> bool,
        point: f64,
    ) -> Vec<(u64, u64)> {
        let is_busy = |id: u32| self.directory.entry(id).module().is_some_and(busy);
        let mut requests = Vec::new();
        for (number, operation) in operations.iter().enumerate() {
            if !repeats.is_asked(number) {
                continue;
            }
            if let Some(key) = operation.key() {
                if self.directory.locate(key).0.is_some_and(is_busy) {
                    requests.push((key, repeats.load(number)));
                }
            } else if let Operation::Scan(from, to) = *operation
                && let Some((first, last)) = Operation::ends(from, to)
            {
                for (id, weight) in self.scan_parts(first, last, point) {
                    if is_busy(id) {
                        let from = first.max(self.directory.entry(id).start);
                        let to = last.min(self.directory.last(id));
                        // Its load lies along what it reads.
                        let points = (self.scan_keys(id, first, last) as u64).clamp(1, 16).min(weight);
                        let step = (to - from) / points;
                        requests.extend((0..points).map(|point| (from + step * point, weight / points)));
                    }
                }
            }
        }
        requests.sort_unstable();
        requests
    }
}

struct Planner<'a, M> {
    map: &'a Map<M>,
    requests: Vec<(u64, u64)>,
    prices: Prices,
    /// What all modules together have to do: pulls make it less.
    total: u64,
    /// Of each module's arena what no step has taken.
    room: Vec<u64>,
    limit: Even,
    /// Modules by load.
    by_load: BTreeSet<(u64, u32)>,
    pieces: Vec<Piece>,
    queues: Vec<BinaryHeap<(u64, usize)>>,
    /// Entries and pulled keys that the plan adds.
    entries: usize,
    pulled: u64,
    plan: Plan,
}

impl<M: Modules> Planner<'_, M> {
    fn mean(&self) -> u64 {
        self.total / self.plan.loads.len() as u64
    }

    fn run(&mut self) {
        let loads = self.plan.loads.iter().zip(0..);
        self.by_load = loads.map(|(load, module)| (*load, module)).collect();
        let mut done = BTreeSet::new();
        while let Some(&(load, module)) = self
            .by_load
            .iter()
            .rev()
            .find(|(_, module)| !done.contains(module))
        {
            if load <= self.limit.most(self.mean()) {
                break;
            }
            if !self.relieve(module) {
                done.insert(module);
            }
        }
    }

    /// Takes the first step that pays for a module; false if there is none.
    fn relieve(&mut self, module: u32) -> bool {
        for _ in 0..TRIES {
            let Some((_, piece)) = self.queues[module as usize].pop() else {
                return false;
            };
            if self.shift(piece) || self.split(piece) || self.pull(piece) {
                return true;
            }
        }
        false
    }

    fn set_load(&mut self, module: u32, load: u64) {
        let old = std::mem::replace(&mut self.plan.loads[module as usize], load);
        self.by_load.remove(&(old, module));
        self.by_load.insert((load, module));
    }

    fn take(&mut self, piece: usize, to: To) {
        let piece = &self.pieces[piece];
        // A batch may add to it before it is taken.
        let most = (piece.keys * if piece.exact { 2 } else { 4 }).max(64);
        let (module, start, level, load) = (piece.module, piece.start, piece.level, piece.load);
        self.plan.steps.push(Step::Take {
            module,
            start,
            level,
            most: u32::try_from(most).unwrap_or(u32::MAX - 1).min(u32::MAX - 1),
            to,
        });
        self.note(start);
        self.set_load(module, self.plan.loads[module as usize].saturating_sub(load));
        match to {
            To::Module(other) => self.set_load(other, self.plan.loads[other as usize] + load),
            To::Host => self.total = self.total.saturating_sub(load),
        }
    }

    fn note(&mut self, start: u64) {
        let region = self.map.regions.of(start, self.map.directory.shift(0));
        self.plan.regions.insert(region);
    }

    /// To the module that has least to do.
    fn shift(&mut self, number: usize) -> bool {
        let piece = &self.pieces[number];
        let Some(&(least, other)) = self.by_load.first() else {
            return false;
        };
        let from = self.plan.loads[piece.module as usize];
        let after = from.saturating_sub(piece.load).max(least + piece.load);
        if least + piece.load > self.limit.most(self.mean()) || after >= from {
            return false;
        }
        let needed = room_for(piece.keys);
        if !self.prices.pays(from - after, piece.keys) || self.room[other as usize] < needed {
            return false;
        }
        self.room[other as usize] -= needed;
        self.take(number, To::Module(other));
        true
    }

    /// Into those of the next shift, if moving the heaviest of them would pay.
    fn split(&mut self, number: usize) -> bool {
        let piece = &self.pieces[number];
        let level = piece.level + 1;
        let directory = &self.map.directory;
        if level >= directory.levels() || piece.keys <= self.map.config.pull_keys {
            return false;
        }
        let bits = u32::from(directory.shift(piece.level) - directory.shift(level));
        let parts = piece.keys.min(1u64.checked_shl(bits).unwrap_or(u64::MAX));
        if self.map.directory.len() + self.entries + parts as usize > self.map.config.entries_max {
            return false;
        }
        let mut children = self.children(piece, level, bits);
        children.sort_unstable_by_key(|child| std::cmp::Reverse((child.load, child.start)));
        let (from, mean) = (self.plan.loads[piece.module as usize], self.mean());
        let least = self.by_load.first().map_or(0, |(load, _)| *load);
        let (mut rest, mut peak) = (from, 0);
        for child in &children {
            if rest <= mean {
                break;
            }
            rest = rest.saturating_sub(child.load);
            peak = peak.max((least + child.load).min(mean));
        }
        let benefit = from.saturating_sub(rest.max(peak));
        if !self.prices.pays(benefit, piece.keys) {
            return false;
        }
        let (module, start) = (piece.module, piece.start);
        self.plan.steps.push(Step::Split { module, start, level });
        self.note(start);
        self.entries += parts as usize;
        for child in children {
            self.queues[module as usize].push((child.load, self.pieces.len()));
            self.pieces.push(child);
        }
        true
    }

    /// The parts of a piece that have any load.
    fn children(&self, piece: &Piece, level: u8, bits: u32) -> Vec<Piece> {
        let (_, last) = self.map.directory.ends(piece.level, piece.start);
        let from = self.requests.partition_point(|(key, _)| *key < piece.start);
        let mut children: Vec<Piece> = Vec::new();
        let mut end = None;
        let mut before = None;
        for &(key, load) in &self.requests[from..] {
            if key > last {
                break;
            }
            let distinct = u64::from(before.replace(key) != Some(key));
            match (end, children.last_mut()) {
                (Some(end), Some(child)) if key <= end => {
                    child.load += load;
                    child.keys += distinct;
                }
                _ => {
                    let (start, child_last) = self.map.directory.ends(level, key);
                    end = Some(child_last);
                    children.push(Piece {
                        start,
                        level,
                        module: piece.module,
                        load,
                        keys: distinct,
                        exact: false,
                    });
                }
            }
        }
        let even_share = piece.keys.checked_shr(bits).unwrap_or(0);
        for child in &mut children {
            child.keys = child.keys.max(even_share).min(piece.keys).max(1);
        }
        children
    }

    /// Keys of a piece that are asked for: after inserts it may have as many. No more are counted than matter.
    fn asked_for(&self, piece: &Piece) -> u64 {
        let (_, last) = self.map.directory.ends(piece.level, piece.start);
        let from = self.requests.partition_point(|(key, _)| *key < piece.start);
        let mut rest = &self.requests[from..];
        let mut keys = 0;
        while let Some(&(key, _)) = rest.first()
            && key <= last
            && keys <= self.map.config.pull_keys
        {
            keys += 1;
            rest = &rest[rest.partition_point(|(other, _)| *other <= key)..];
        }
        keys
    }

    /// To the host.
    fn pull(&mut self, number: usize) -> bool {
        let piece = &self.pieces[number];
        let config = &self.map.config;
        let finest = piece.level + 1 >= self.map.directory.levels();
        if !finest && piece.keys.max(self.asked_for(piece)) > config.pull_keys {
            return false;
        }
        if self.map.pulled_keys + self.pulled + piece.keys > config.pulled_max
            || !self.prices.pays(piece.load, piece.keys)
        {
            return false;
        }
        self.pulled += piece.keys;
        self.take(number, To::Host);
        true
    }
}
