//! Step 3 of a batch: in order, each operation's commands are written to the batches of its modules, and what concerns
//! pulled subranges is executed.

use std::sync::Arc;

use crate::device::command::Command;
use crate::modules::Modules;

use super::Map;
use super::directory::{Entry, Place, mix};
use super::load::{NONE, POINT};
use super::mutant::{Mutant, planted};
use super::net::Net;
use super::operation::{Answer, Operation, State};
use super::repeats::{Repeats, Role};

/// What becomes of an operation.
pub(super) enum Way {
    /// It is done.
    Done(Answer),
    /// A module answers: the subrange, its module, whether it is made by this operation, and the net that this
    /// operation leads, or [`NONE`].
    Point {
        id: u32,
        module: u32,
        made: bool,
        net: u32,
    },
    /// Modules answer, in this order, so many of the record's parts; and this is the host's own part.
    Pair { parts: u32, own: Option<(u64, u64)> },
    /// What an earlier operation answers.
    Same(u32),
    /// What follows from the value that a key had before the operations of a net.
    Follows(u32),
    /// As a pair, for a scan.
    Pairs { parts: u32, own: Vec<(u64, u64)> },
}

/// What answers are read by.
pub(super) struct Record {
    pub ways: Vec<Way>,
    /// Modules of the parts, in the order of operations.
    pub parts: Vec<u32>,
    /// Of each net: what its key has while the answers of its operations are computed, one after another.
    pub states: Vec<State>,
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
            states: vec![State::default(); repeats.nets.len()],
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
            let net = match repeats.role(number) {
                Role::Alone => None,
                Role::Leads(net) => Some((net, &repeats.nets[net as usize])),
                Role::Follows(net) => {
                    record.steps += 1;
                    record.ways.push(Way::Follows(net));
                    continue;
                }
                Role::Same(earlier) => {
                    record.steps += 1;
                    record.ways.push(Way::Same(earlier));
                    continue;
                }
            };
            let way = match *operation {
                Operation::Predecessor(key) => self.predecessor(key, known, &mut batches, &mut record),
                Operation::Scan(from, to) => match Operation::ends(from, to) {
                    Some((first, last)) => self.scan(first, last, mean_point, &mut batches, &mut record),
                    None => Way::Done(Answer::Pairs(Arc::default())),
                },
                Operation::Get(key)
                | Operation::Insert(key, _)
                | Operation::Delete(key)
                | Operation::CompareSwap { key, .. } => {
                    let asked = net.map_or(Asked::One(operation), |(number, net)| Asked::Net(number, net));
                    self.point(operation, asked, key, known, &mut batches, &mut record)
                }
            };
            record.ways.push(way);
        }
        (batches, record)
    }

    /// The answer of an operation, which may lead others, is known: what its key had before.
    fn done(operation: &Operation, asked: Asked<'_>, before: Option<u64>, record: &mut Record) -> Way {
        let mut state = State::of(before);
        let answer = state.execute(operation);
        if let Asked::Net(number, _) = asked {
            record.states[number as usize] = state;
        }
        Way::Done(answer)
    }

    fn point(
        &mut self,
        operation: &Operation,
        asked: Asked<'_>,
        key: u64,
        known: Option<u32>,
        batches: &mut [Vec<u8>],
        record: &mut Record,
    ) -> Way {
        let (found, probes) = self.find(key, known);
        record.steps += probes + 1;
        let mut made = false;
        let id = match found {
            Some(id) => id,
            None if asked.binds() => {
                made = true;
                self.make(key, batches, record)
            }
            None => return Self::done(operation, asked, None, record),
        };
        if asked.binds() || asked.unbinds() {
            record.touched.push(id);
        }
        let entry = self.directory.entry_mut(id);
        let module = match &mut entry.place {
            Place::Host(pairs) => {
                let before = pairs.get(&key).copied();
                match asked.after(before) {
                    after if after == before => {}
                    Some(value) => {
                        pairs.insert(key, value);
                    }
                    None => {
                        pairs.remove(&key);
                    }
                }
                let (old, new) = (entry.keys, pairs.len() as u64);
                entry.keys = new;
                (self.keys, self.pulled_keys) = (self.keys + new - old, self.pulled_keys + new - old);
                return Self::done(operation, asked, before, record);
            }
            Place::Module(module) => *module,
        };
        entry.grows |= asked.binds();
        if asked.unbinds() {
            entry.sure = entry
                .sure
                .saturating_sub(u64::from(!planted(Mutant::SureBelieved)));
            entry.least_in_doubt |= entry.least == Some(key) && !planted(Mutant::LeastBelieved);
        }
        asked.write(key, &mut batches[module as usize]);
        record.points += 1;
        record.steps += 1;
        self.loads[module as usize] += asked.load();
        Way::Point {
            id,
            module,
            made,
            net: asked.net(),
        }
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

/// What a key is asked for.
#[derive(Clone, Copy)]
enum Asked<'a> {
    /// A point operation.
    One(&'a Operation),
    /// Several of them, and the number of their net.
    Net(u32, &'a Net),
}

impl Asked<'_> {
    /// Whether it binds a key that is not bound.
    fn binds(&self) -> bool {
        match self {
            Self::One(operation) => operation.binds(),
            Self::Net(_, net) => net.binds(),
        }
    }

    /// Whether it unbinds a key that is bound.
    fn unbinds(&self) -> bool {
        match self {
            Self::One(operation) => operation.unbinds(),
            Self::Net(_, net) => net.unbinds(),
        }
    }

    /// What the key has afterwards.
    fn after(&self, before: Option<u64>) -> Option<u64> {
        match self {
            Self::One(operation) => {
                let mut state = State::of(before);
                state.execute(operation);
                state.value
            }
            Self::Net(_, net) => net.after(before),
        }
    }

    fn write(&self, key: u64, batch: &mut Vec<u8>) {
        match *self {
            Self::One(&Operation::Insert(_, value)) => Command::Insert(key, value).write(batch),
            Self::One(Operation::Delete(_)) => Command::Delete(key).write(batch),
            Self::One(&Operation::CompareSwap { expected, value, .. }) => {
                Command::CompareSwap(key, expected, value).write(batch);
            }
            Self::One(_) => Command::Get(key).write(batch),
            Self::Net(_, net) => net.write(key, batch),
        }
    }

    fn load(&self) -> u64 {
        match self {
            Self::One(_) => POINT,
            Self::Net(_, net) => net.load(),
        }
    }

    fn net(&self) -> u32 {
        match self {
            Self::One(_) => NONE,
            Self::Net(number, _) => *number,
        }
    }
}
