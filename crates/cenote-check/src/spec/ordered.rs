//! A map with an order of keys: the operations of [`map`], a scan, which reads all keys at one moment, and *before*,
//! which finds the greatest key below another.
//!
//! A scan's argument is `[from, limit]`, its result a list of pairs; the result of before has one pair at most. A
//! history that has a scan or a before is checked as a whole; any other is partitioned by key.

use super::super::{Partitioned, Specification};
use super::map::{self, Map};
use crate::history::{Call, Event, History, Record};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Something on one key.
    Point(map::Op),
    /// Asks for the bindings of the least keys, in their order.
    Scan {
        /// The least key asked for.
        from: u64,
        /// The most bindings asked for.
        limit: u64,
    },
    /// Asks for the binding of the greatest key below one.
    Before {
        /// The key.
        key: u64,
    },
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ret {
    /// The result on one key.
    Point(map::Ret),
    /// The bindings.
    Scan(Vec<(u64, u64)>),
}

/// The map. It is empty at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderedMap;

/// Whether a scan of the state gives these bindings.
fn scans_to(state: &BTreeMap<u64, u64>, from: u64, limit: u64, bindings: &[(u64, u64)]) -> bool {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let expected = state.range(from..).take(limit).map(|(&key, &value)| (key, value));
    expected.eq(bindings.iter().copied())
}

/// Whether a before of the key finds this.
fn is_before(state: &BTreeMap<u64, u64>, key: u64, bindings: &[(u64, u64)]) -> bool {
    let expected = state.range(..key).next_back().map(|(&key, &value)| (key, value));
    expected.as_slice() == bindings
}

impl Specification for OrderedMap {
    type State = BTreeMap<u64, u64>;
    type Op = Op;
    type Ret = Ret;

    fn initial(&self) -> Self::State {
        Map.initial()
    }

    fn step(&self, state: &Self::State, process: u32, op: &Op, result: Option<&Ret>) -> Option<Self::State> {
        match (op, result) {
            (Op::Point(op), None) => Map.step(state, process, op, None),
            (Op::Point(op), Some(Ret::Point(ret))) => Map.step(state, process, op, Some(ret)),
            (Op::Scan { .. } | Op::Before { .. }, None) => Some(state.clone()),
            (Op::Scan { from, limit }, Some(Ret::Scan(bindings))) => {
                scans_to(state, *from, *limit, bindings).then(|| state.clone())
            }
            (Op::Before { key }, Some(Ret::Scan(bindings))) => {
                is_before(state, *key, bindings).then(|| state.clone())
            }
            _ => None,
        }
    }

    fn is_read(&self, op: &Op, result: Option<&Ret>) -> bool {
        match (op, result) {
            (Op::Point(op), Some(Ret::Point(ret))) => Map.is_read(op, Some(ret)),
            (Op::Point(op), _) => Map.is_read(op, None),
            (Op::Scan { .. } | Op::Before { .. }, _) => true,
        }
    }
}

impl Partitioned for OrderedMap {
    type Key = u64;

    fn key(&self, op: &Op) -> Option<u64> {
        match op {
            Op::Point(op) => Some(op.key()),
            Op::Scan { .. } | Op::Before { .. } => None,
        }
    }
}

/// Whether some state could give this result: a scan's keys ascend from the least one asked for, and are no more than
/// were asked for; a before finds one key below its own, or none.
pub fn is_well_formed(event: &Event<Op, Ret>) -> bool {
    match (&event.op, &event.result) {
        (_, None) | (Op::Point(_), Some(Ret::Point(_))) => true,
        (Op::Scan { from, limit }, Some(Ret::Scan(bindings))) => {
            let is_ascending = bindings.is_sorted_by(|(one, _), (next, _)| one < next);
            is_ascending && bindings.len() as u64 <= *limit && bindings.iter().all(|(key, _)| key >= from)
        }
        (Op::Before { key }, Some(Ret::Scan(bindings))) => {
            bindings.len() <= 1 && bindings.iter().all(|(found, _)| found < key)
        }
        _ => false,
    }
}

/// What a history says of each key, if it has calls on several keys: such a call becomes a read of each key that it
/// found or passed over. Where a history has too many orders to search, this is all that can be checked.
pub fn by_key(history: &History<Op, Ret>) -> Option<History<Op, Ret>> {
    let mut keys = BTreeSet::new();
    for event in history.events() {
        keys.extend(OrderedMap.key(&event.op));
        if let Some(Ret::Scan(bindings)) = &event.result {
            keys.extend(bindings.iter().map(|&(key, _)| key));
        }
    }
    let mut events = Vec::new();
    for event in history.events() {
        let passed: Vec<u64> = match (&event.op, &event.result) {
            (Op::Point(_), _) => {
                events.push(event.clone());
                continue;
            }
            (Op::Scan { from, limit }, Some(Ret::Scan(bindings))) => {
                let is_cut = bindings.len() as u64 >= *limit;
                let last = bindings.last().map(|&(key, _)| key).filter(|_| is_cut);
                match (last, *limit) {
                    (_, 0) => Vec::new(),
                    (Some(last), _) if last < *from => Vec::new(),
                    (Some(last), _) => keys.range(*from..=last).copied().collect(),
                    (None, _) => keys.range(*from..).copied().collect(),
                }
            }
            (Op::Before { key }, Some(Ret::Scan(bindings))) => {
                let least = bindings.first().map_or(0, |&(key, _)| key).min(*key);
                keys.range(least..*key).copied().collect()
            }
            _ => Vec::new(),
        };
        let Some(Ret::Scan(bindings)) = &event.result else {
            continue;
        };
        for key in passed {
            let found = bindings.iter().find(|&&(found, _)| found == key);
            let result = found.map_or(map::Ret::Missing, |&(_, value)| map::Ret::Found(value));
            events.push(Event {
                op: Op::Point(map::Op::Get { key }),
                result: Some(Ret::Point(result)),
                ..event.clone()
            });
        }
    }
    History::new(events).ok()
}

impl Record for Op {
    type Ret = Ret;

    fn call(&self) -> Call {
        match self {
            Op::Point(op) => op.call(),
            Op::Scan { from, limit } => Call {
                op: "scan".to_owned(),
                key: None,
                arg: json!([from, limit]),
            },
            Op::Before { key } => Call {
                op: "before".to_owned(),
                key: None,
                arg: json!(key),
            },
        }
    }

    fn parse_call(call: &Call) -> Option<Self> {
        match call.op.as_str() {
            "scan" => Some(Op::Scan {
                from: call.arg.get(0)?.as_u64()?,
                limit: call.arg.get(1)?.as_u64()?,
            }),
            "before" => Some(Op::Before {
                key: call.arg.as_u64()?,
            }),
            _ => map::Op::parse_call(call).map(Op::Point),
        }
    }

    fn result(&self, ret: &Ret) -> Value {
        match (self, ret) {
            (Op::Point(op), Ret::Point(ret)) => op.result(ret),
            (_, Ret::Scan(bindings)) => json!(bindings),
            (_, Ret::Point(_)) => Value::Null,
        }
    }

    fn parse_result(&self, result: &Value) -> Option<Ret> {
        match self {
            Op::Point(op) => op.parse_result(result).map(Ret::Point),
            Op::Scan { .. } | Op::Before { .. } => serde_json::from_value(result.clone()).ok().map(Ret::Scan),
        }
    }
}

#[cfg(test)]
#[path = "ordered_tests.rs"]
mod tests;
