//! Step 3 of a batch: in order, each operation's commands are written to the batches of its modules, and what concerns
//! pulled subranges is executed.

use std::collections::BTreeMap;

use crate::device::command::Command;
use crate::modules::Modules;

use super::Map;
use super::directory::{Entry, Place, mix};
use super::load::{NONE, POINT};
use super::mutant::{Mutant, planted};
use super::operation::{Answer, Operation};
use super::repeats::Repeats;

/// What becomes of an operation.
pub(super) enum Way {
    /// It is done.
    Done(Answer),
    /// A module answers: the subrange, its module, and whether it is made by this operation.
    Point { id: u32, module: u32, made: bool },
    /// Modules answer, in this order, so many of the record's parts; and this is the host's own part.
    Pair { parts: u32, own: Option<(u64, u64)> },
    /// What an earlier operation answers.
    Same(u32),
    /// As a pair, for a scan.
    Pairs { parts: u32, own: Vec<(u64, u64)> },
}

/// What answers are read by.
pub(super) struct Record {
    pub ways: Vec<Way>,
    /// Modules of the parts, in the order of operations.
    pub parts: Vec<u32>,
    /// Subranges that may have lost keys or are new, of modules and of the host.
    pub touched: Vec<u32>,
    /// Point operations that went to modules.
    pub points: u64,
    /// Steps of the host, answers included.
    pub steps: u64,
}

impl<M: Modules> Map<M> {
    pub(super) fn dispatch(
        &mut self,
        operations: &[Operation],
        located: &[u32],
        repeats: &Repeats,
    ) -> (Vec<Vec<u8>>, Record) {
        let mut record = Record {
            ways: Vec::with_capacity(operations.len()),
            parts: Vec::new(),
            touched: Vec::new(),
            points: 0,
            steps: 0,
        };
        let mut batches = vec![Vec::new(); self.modules.count()];
        self.loads.fill(0);
        let mean_point = self.means.get(self.depth());
        for (number, operation) in operations.iter().enumerate() {
            // Entries stay while operations are dispatched; new ones may come.
            let known = located.get(number).copied().filter(|id| *id != NONE);
            if let Some(earlier) = repeats.of(number) {
                record.ways.push(Way::Same(earlier));
                continue;
            }
            let way = match *operation {
                Operation::Predecessor(key) => self.predecessor(key, known, &mut batches, &mut record),
                Operation::Scan(from, to) => match Operation::ends(from, to) {
                    Some((first, last)) => self.scan(first, last, mean_point, &mut batches, &mut record),
                    None => Way::Done(Answer::Pairs(Vec::new())),
                },
                Operation::Get(key)
                | Operation::Insert(key, _)
                | Operation::Delete(key)
                | Operation::CompareSwap { key, .. } => {
                    self.point(operation, key, known, &mut batches, &mut record)
                }
            };
            record.ways.push(way);
        }
        (batches, record)
    }

    fn point(
        &mut self,
        operation: &Operation,
        key: u64,
        known: Option<u32>,
        batches: &mut [Vec<u8>],
        record: &mut Record,
    ) -> Way {
        let (found, probes) = self.find(key, known);
        record.steps += probes + 1;
        let mut made = false;
        let id = match (found, operation) {
            (Some(id), _) => id,
            (None, Operation::Insert(..)) => {
                made = true;
                self.make(key, batches, record)
            }
            _ => return Way::Done(Answer::of_point(operation, None)),
        };
        let changes = matches!(operation, Operation::Insert(..) | Operation::Delete(_));
        if changes {
            record.touched.push(id);
        }
        let entry = self.directory.entry_mut(id);
        let module = match &mut entry.place {
            Place::Host(pairs) => {
                let before = on_host(operation, pairs);
                let (old, new) = (entry.keys, pairs.len() as u64);
                entry.keys = new;
                (self.keys, self.pulled_keys) = (self.keys + new - old, self.pulled_keys + new - old);
                return Way::Done(Answer::of_point(operation, before));
            }
            Place::Module(module) => *module,
        };
        let command = match *operation {
            Operation::Insert(key, value) => {
                entry.grows = true;
                Command::Insert(key, value)
            }
            Operation::Delete(key) => {
                entry.sure = entry
                    .sure
                    .saturating_sub(u64::from(!planted(Mutant::SureBelieved)));
                entry.least_in_doubt |= entry.least == Some(key) && !planted(Mutant::LeastBelieved);
                Command::Delete(key)
            }
            Operation::CompareSwap { key, expected, value } => Command::CompareSwap(key, expected, value),
            _ => Command::Get(key),
        };
        command.write(&mut batches[module as usize]);
        record.points += 1;
        record.steps += 1;
        self.loads[module as usize] += POINT;
        Way::Point { id, module, made }
    }

    /// A subrange for a key that none has, in the module that a hash of its start names.
    fn make(&mut self, key: u64, batches: &mut [Vec<u8>], record: &mut Record) -> u32 {
        let level = self.directory.gap(key, self.config.finest_gaps);
        let (start, _) = self.directory.ends(level, key);
        let module = if level == 0 {
            self.home(self.regions.of(start, self.directory.shift(0)))
        } else {
            (mix(start) % batches.len() as u64) as u32
        };
        if level == 0 {
            let region = self.regions.of(start, self.directory.shift(0));
            self.regions.set_whole(region);
        }
        Command::Import(start, self.directory.shift(level), &[]).write(&mut batches[module as usize]);
        record.steps += 1;
        self.directory
            .add(Entry::new(start, level, Place::Module(module), 0, None))
    }

    /// The subrange of a key, if it is not known already, and the probes that it took.
    fn find(&self, key: u64, known: Option<u32>) -> (Option<u32>, u64) {
        known.map_or_else(|| self.directory.locate(key), |id| (Some(id), 0))
    }

    fn predecessor(
        &mut self,
        key: u64,
        known: Option<u32>,
        batches: &mut [Vec<u8>],
        record: &mut Record,
    ) -> Way {
        let (mut parts, mut own) = (0, None);
        // The subrange of the key is found by its tables; where there is none, and for those before, by the index.
        let mut upto = key;
        let (mut id, probes) = self.find(key, known);
        record.steps += probes + 1;
        while let Some(at) = id.take().or_else(|| self.directory.back_from(upto).next()) {
            record.steps += 1;
            let last = self.directory.last(at);
            let entry = self.directory.entry(at);
            match &entry.place {
                Place::Host(pairs) => {
                    own = pairs.range(..=key).next_back().map(|(key, value)| (*key, *value));
                    if own.is_some() {
                        break;
                    }
                }
                Place::Module(module) => {
                    if entry.keys > 0 || entry.grows {
                        // Beyond the subrange's end there is none of its keys, but another subrange of the module might
                        // begin.
                        Command::Predecessor(key.min(last)).write(&mut batches[*module as usize]);
                        record.parts.push(*module);
                        record.points += 1;
                        parts += 1;
                        self.loads[*module as usize] += POINT;
                        record.steps += 1;
                    }
                    if entry.surely_has_up_to(key, last) || planted(Mutant::PredecessorStays) {
                        break;
                    }
                }
            }
            let Some(before) = entry.start.checked_sub(1) else {
                break;
            };
            upto = before;
        }
        Way::Pair { parts, own }
    }

    fn scan(
        &mut self,
        first: u64,
        last: u64,
        mean_point: f64,
        batches: &mut [Vec<u8>],
        record: &mut Record,
    ) -> Way {
        let mut own = Vec::new();
        let begin = record.parts.len();
        for (id, weight) in self.scan_parts(first, last, mean_point) {
            let entry = self.directory.entry(id);
            record.steps += 1;
            match &entry.place {
                Place::Host(_) if planted(Mutant::ScanWithoutHost) => {}
                Place::Host(pairs) => {
                    own.extend(pairs.range(first..=last).map(|(key, value)| (*key, *value)));
                }
                Place::Module(module) => {
                    self.loads[*module as usize] += weight;
                    if (entry.keys > 0 || entry.grows) && !record.parts[begin..].contains(module) {
                        record.parts.push(*module);
                    }
                }
            }
        }
        for module in &record.parts[begin..] {
            Command::Scan(first, last).write(&mut batches[*module as usize]);
            record.steps += 1;
        }
        record.steps += own.len() as u64;
        let parts = (record.parts.len() - begin) as u32;
        Way::Pairs { parts, own }
    }
}

/// A point operation on a pulled subrange: the value before.
fn on_host(operation: &Operation, pairs: &mut BTreeMap<u64, u64>) -> Option<u64> {
    match *operation {
        Operation::Insert(key, value) => {
            let before = pairs.get(&key).copied();
            pairs.entry(key).or_insert(value);
            before
        }
        Operation::Delete(key) => pairs.remove(&key),
        Operation::CompareSwap { key, expected, value } => {
            let bound = pairs.get_mut(&key)?;
            let before = *bound;
            if before == expected {
                *bound = value;
            }
            Some(before)
        }
        Operation::Get(key) | Operation::Predecessor(key) => pairs.get(&key).copied(),
        Operation::Scan(..) => None,
    }
}
