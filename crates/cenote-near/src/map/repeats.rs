//! Operations that modules need not be asked for, as an earlier one of the batch brings their answers. The paper does
//! not do this.
//!
//! - Operations on *one key* become a command, their [`Net`], where the first of them is; the value that the key had
//!   before tells what each of them answers. Between them there is nothing that may read the key otherwise, a scan or a
//!   predecessor, unless those behind it are gets.
//! - *Scans* with the same ends, and *predecessors* of the same key, with no change since that might have changed their
//!   answers: these are the earlier ones'.
//!
//! A hot place is often asked for by the very same scan, whose pairs would come through the host again each time: then
//! the way from modules is what a batch waits for, not pointers. And a key that everybody asks for keeps one module
//! busy, however small its subrange is. All but scans are looked for only if a sample of the batch has some twice: else
//! each would cost the host a probe for nothing. Who chooses keys cannot choose those that fall together in the tables
//! here, as their hashes depend on a number that is drawn.

use std::collections::{HashMap, HashSet};

use super::directory::{Drawn, mix};
use super::load::{NONE, POINT};
use super::mutant::{Mutant, planted};
use super::net::Net;
use super::operation::Operation;

/// Changes of keys that a repeated scan covers, of which so many are looked at; where there are more, it is not taken
/// for a repetition.
const LOOKED_AT: usize = 32;
/// Operations with a key in a sample. One in [`ENOUGH`] of them must be there twice.
const SAMPLED: usize = 1024;
const ENOUGH: usize = 16;

/// Who asks for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Itself.
    Alone,
    /// Itself, with others on its key: which of the nets.
    Leads(u32),
    /// The one that leads the same net, which is an earlier one.
    Follows(u32),
    /// An earlier one, whose answer is its own as well.
    Same(u32),
}

/// The roles of a batch's operations.
#[derive(Default)]
pub(super) struct Repeats {
    /// Empty if all are alone.
    roles: Vec<Role>,
    pub nets: Vec<Net>,
    /// Steps of the host: a probe for each operation that is looked up, and a step for each change that is sorted or
    /// looked at.
    pub steps: u64,
}

impl Repeats {
    pub fn find(operations: &[Operation]) -> Self {
        let mut repeats = Self::default();
        let drawn = Drawn::new();
        if repeats.has_points_twice(operations, &drawn) {
            repeats.find_points(operations, &drawn);
        }
        repeats.find_scans(operations, &drawn);
        repeats
    }

    /// Whether a sample has enough operations twice: some place in each of as many parts of the batch. Which places is
    /// the same in every run, as virtual time depends on it.
    fn has_points_twice(&mut self, operations: &[Operation], drawn: &Drawn) -> bool {
        let mut seen: HashSet<(bool, u64), _> = HashSet::with_hasher(drawn.clone());
        let (mut points, mut twice) = (0, 0);
        let part = (operations.len() / SAMPLED).max(1);
        for (number, part) in (0..).zip(operations.chunks(part)) {
            let place = mix(number) % part.len() as u64;
            let operation = part[place as usize];
            let Some(key) = operation.key() else {
                continue;
            };
            points += 1;
            twice += usize::from(!seen.insert((matches!(operation, Operation::Predecessor(_)), key)));
        }
        self.steps += points as u64;
        twice > 0 && twice * ENOUGH >= points
    }

    fn find_points(&mut self, operations: &[Operation], drawn: &Drawn) {
        let mut keys: HashMap<u64, Latest, _> = HashMap::with_hasher(drawn.clone());
        let mut predecessors: HashMap<u64, Read, _> = HashMap::with_hasher(drawn.clone());
        let (mut last_read, mut last_change) = (NONE, NONE);
        for (number, operation) in (0..).zip(operations) {
            match *operation {
                Operation::Scan(..) => {
                    last_read = number;
                    continue;
                }
                Operation::Predecessor(key) => {
                    last_read = number;
                    let read = predecessors.entry(key).or_insert(Read::NEVER);
                    // It may be any key below.
                    if read.is_before(last_change) && !planted(Mutant::RepeatsBelieved) {
                        *read = Read::NEVER;
                    }
                    if let Some(earlier) = read.earlier(number) {
                        self.set(operations, number, Role::Same(earlier));
                    }
                }
                Operation::Get(key)
                | Operation::Insert(key, _)
                | Operation::Delete(key)
                | Operation::CompareSwap { key, .. } => {
                    if operation.is_change() {
                        last_change = number;
                    }
                    keys.entry(key)
                        .and_modify(|latest| self.join(operations, latest, number, last_read))
                        .or_insert(Latest::of(number));
                }
            }
            self.steps += 1;
        }
    }

    /// Has an operation follow those on its key that were before it, if it can.
    fn join(&mut self, operations: &[Operation], latest: &mut Latest, number: u32, last_read: u32) {
        let operation = &operations[number as usize];
        let is_read_between = last_read != NONE && last_read > latest.first;
        if is_read_between && operation.is_change() && !planted(Mutant::ChangeBeforeRead) {
            *latest = Latest::of(number);
            return;
        }
        let fits = match self.nets.get_mut(latest.net as usize) {
            Some(_) if planted(Mutant::NetForgotten) => true,
            Some(net) => net.then(operation),
            None => {
                let mut net = Net::NOTHING;
                let fits = net.then(&operations[latest.first as usize]) && net.then(operation);
                if fits {
                    latest.net = self.nets.len() as u32;
                    self.nets.push(net);
                    self.set(operations, latest.first, Role::Leads(latest.net));
                }
                fits
            }
        };
        if !fits {
            *latest = Latest::of(number);
            return;
        }
        self.set(operations, number, Role::Follows(latest.net));
    }

    fn find_scans(&mut self, operations: &[Operation], drawn: &Drawn) {
        let scans = (0..).zip(operations).filter_map(|(number, one)| match *one {
            Operation::Scan(from, to) => Operation::ends(from, to).map(|ends| (number, ends)),
            _ => None,
        });
        let mut seen: HashMap<(u64, u64), Read, _> = HashMap::with_hasher(drawn.clone());
        let mut changes = None;
        for (number, ends) in scans {
            self.steps += 1;
            let read = seen.entry(ends).or_insert(Read::NEVER);
            let Some(earlier) = read.earlier(number) else {
                continue;
            };
            // No sooner than there is a scan that was there before.
            let changes = changes.get_or_insert_with(|| Changes::of(operations, &mut self.steps));
            if changes.may_be_within(ends, earlier, number, &mut self.steps) {
                *read = Read(number);
            } else {
                self.set(operations, number, Role::Same(earlier));
            }
        }
    }

    fn set(&mut self, operations: &[Operation], number: u32, role: Role) {
        self.roles.resize(operations.len(), Role::Alone);
        self.roles[number as usize] = role;
    }

    pub fn role(&self, number: usize) -> Role {
        self.roles.get(number).copied().unwrap_or(Role::Alone)
    }

    /// What a point operation that is asked for counts for.
    pub fn load(&self, number: usize) -> u64 {
        match self.role(number) {
            Role::Leads(net) => self.nets[net as usize].load(),
            _ => POINT,
        }
    }

    /// Whether modules are asked for an operation.
    pub fn is_asked(&self, number: usize) -> bool {
        matches!(self.role(number), Role::Alone | Role::Leads(_))
    }
}

/// The last operations on a key that are one command: their first, and their net if there are several.
struct Latest {
    first: u32,
    net: u32,
}

impl Latest {
    fn of(number: u32) -> Self {
        Self {
            first: number,
            net: NONE,
        }
    }
}

/// The first operation that read something as it is now, if there was one.
#[derive(Clone, Copy)]
struct Read(u32);

impl Read {
    const NEVER: Self = Self(NONE);

    /// The first one, if it is not this operation: then it is the first from now on.
    fn earlier(&mut self, number: u32) -> Option<u32> {
        if self.0 == NONE {
            self.0 = number;
            return None;
        }
        Some(self.0)
    }

    fn is_before(self, change: u32) -> bool {
        change != NONE && self.0 != NONE && self.0 < change
    }
}

/// The operations of a batch that change keys.
struct Changes {
    in_order: Vec<u32>,
    by_key: Vec<(u64, u32)>,
}

impl Changes {
    fn of(operations: &[Operation], steps: &mut u64) -> Self {
        let changes = (0..).zip(operations).filter(|(_, one)| one.is_change());
        let mut by_key: Vec<(u64, u32)> = changes
            .filter_map(|(number, one)| Some((one.key()?, number)))
            .collect();
        let in_order: Vec<u32> = by_key.iter().map(|(_, number)| *number).collect();
        by_key.sort_unstable();
        *steps += by_key.len() as u64 * u64::from(by_key.len().checked_ilog2().unwrap_or(0) + 1);
        Self { in_order, by_key }
    }

    /// Whether an operation between two others has changed a key of a range, or there are too many to be looked at.
    fn may_be_within(&self, (first, last): (u64, u64), after: u32, before: u32, steps: &mut u64) -> bool {
        let is_between = |number: u32| after < number && number < before;
        let next = self.in_order.partition_point(|number| *number <= after);
        if !self.in_order.get(next).copied().is_some_and(is_between) || planted(Mutant::RepeatsBelieved) {
            return false;
        }
        let begin = self.by_key.partition_point(|(key, _)| *key < first);
        let mut within = self.by_key[begin..].iter().take_while(|(key, _)| *key <= last);
        let is_changed = within.by_ref().take(LOOKED_AT).any(|(_, number)| {
            *steps += 1;
            is_between(*number)
        });
        is_changed || within.next().is_some()
    }
}

#[cfg(test)]
#[path = "repeats_tests.rs"]
mod tests;
