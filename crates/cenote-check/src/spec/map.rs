//! A map from keys to values: what every index offers.
//!
//! | operation | results | in a file |
//! |---|---|---|
//! | put | inserted, replaced | `"inserted"`, `"replaced"` |
//! | write: a put that does not tell which | done | `true` |
//! | insert, if absent | inserted, present | `true`, `false` |
//! | replace, if the value is the expected one | replaced, differs, missing | `"replaced"`, `{"differs": 7}`, `"missing"` |
//! | remove | removed, missing | `true`, `false` |
//! | get | found, missing | the value, `null` |
//!
//! The argument of replace is `[expected, value]`, that of put, write and insert the value. Partitioned by key.

use super::super::{Partitioned, Specification};
use crate::history::{Call, Record};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Binds the key to the value.
    Put {
        /// Which key.
        key: u64,
        /// Its value from now on.
        value: u64,
    },
    /// Binds the key to the value, in a call on many keys that returns only how many of them were unbound.
    Write {
        /// Which key.
        key: u64,
        /// Its value from now on.
        value: u64,
    },
    /// Binds the key to the value, if it is bound to none.
    Insert {
        /// Which key.
        key: u64,
        /// Its value from now on.
        value: u64,
    },
    /// Binds the key to the value, if it is bound to the expected one.
    Replace {
        /// Which key.
        key: u64,
        /// Its value until now.
        expected: u64,
        /// Its value from now on.
        value: u64,
    },
    /// Unbinds the key.
    Remove {
        /// Which key.
        key: u64,
    },
    /// Asks for the key's value.
    Get {
        /// Which key.
        key: u64,
    },
}

impl Op {
    /// The key that it is about.
    pub fn key(&self) -> u64 {
        match *self {
            Op::Put { key, .. }
            | Op::Write { key, .. }
            | Op::Insert { key, .. }
            | Op::Replace { key, .. }
            | Op::Remove { key }
            | Op::Get { key } => key,
        }
    }
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ret {
    /// The key is bound to the value: write.
    Done,
    /// The key was bound to none before: put, insert.
    Inserted,
    /// The key was bound to another value before: put, replace.
    Replaced,
    /// The key is bound already: insert.
    Present,
    /// The key is bound to this value, not to the expected one: replace.
    Differs(u64),
    /// The key was bound before: remove.
    Removed,
    /// The key is bound to this value: get.
    Found(u64),
    /// The key is not bound: replace, remove, get.
    Missing,
}

/// The map. It is empty at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Map;

/// The only result that the operation can have, and what the key is bound to afterwards.
fn apply(bound: Option<u64>, op: &Op) -> (Ret, Option<u64>) {
    match (op, bound) {
        (Op::Put { value, .. }, None) => (Ret::Inserted, Some(*value)),
        (Op::Put { value, .. }, Some(_)) => (Ret::Replaced, Some(*value)),
        (Op::Write { value, .. }, _) => (Ret::Done, Some(*value)),
        (Op::Insert { value, .. }, None) => (Ret::Inserted, Some(*value)),
        (Op::Insert { .. }, Some(_)) => (Ret::Present, bound),
        (Op::Replace { .. }, None) => (Ret::Missing, None),
        (Op::Replace { expected, value, .. }, Some(found)) if found == *expected => {
            (Ret::Replaced, Some(*value))
        }
        (Op::Replace { .. }, Some(found)) => (Ret::Differs(found), bound),
        (Op::Remove { .. }, None) => (Ret::Missing, None),
        (Op::Remove { .. }, Some(_)) => (Ret::Removed, None),
        (Op::Get { .. }, None) => (Ret::Missing, None),
        (Op::Get { .. }, Some(found)) => (Ret::Found(found), bound),
    }
}

impl Specification for Map {
    type State = BTreeMap<u64, u64>;
    type Op = Op;
    type Ret = Ret;

    fn initial(&self) -> Self::State {
        BTreeMap::new()
    }

    fn step(&self, state: &Self::State, _process: u32, op: &Op, result: Option<&Ret>) -> Option<Self::State> {
        let bound = state.get(&op.key()).copied();
        let (only, after) = apply(bound, op);
        if result.is_some_and(|ret| *ret != only) {
            return None;
        }
        let mut next = state.clone();
        match after {
            Some(value) => next.insert(op.key(), value),
            None => next.remove(&op.key()),
        };
        Some(next)
    }

    fn is_read(&self, op: &Op, result: Option<&Ret>) -> bool {
        let refused = matches!(result, Some(Ret::Present | Ret::Differs(_) | Ret::Missing));
        refused || matches!(op, Op::Get { .. })
    }
}

impl Partitioned for Map {
    type Key = u64;

    fn key(&self, op: &Op) -> Option<u64> {
        Some(op.key())
    }
}

impl Record for Op {
    type Ret = Ret;

    fn call(&self) -> Call {
        let (op, arg) = match *self {
            Op::Put { value, .. } => ("put", json!(value)),
            Op::Write { value, .. } => ("write", json!(value)),
            Op::Insert { value, .. } => ("insert", json!(value)),
            Op::Replace { expected, value, .. } => ("replace", json!([expected, value])),
            Op::Remove { .. } => ("remove", Value::Null),
            Op::Get { .. } => ("get", Value::Null),
        };
        Call {
            op: op.to_owned(),
            key: Some(self.key()),
            arg,
        }
    }

    fn parse_call(call: &Call) -> Option<Self> {
        let key = call.key?;
        Some(match call.op.as_str() {
            "put" => Op::Put {
                key,
                value: call.arg.as_u64()?,
            },
            "write" => Op::Write {
                key,
                value: call.arg.as_u64()?,
            },
            "insert" => Op::Insert {
                key,
                value: call.arg.as_u64()?,
            },
            "replace" => Op::Replace {
                key,
                expected: call.arg.get(0)?.as_u64()?,
                value: call.arg.get(1)?.as_u64()?,
            },
            "remove" => Op::Remove { key },
            "get" => Op::Get { key },
            _ => return None,
        })
    }

    fn result(&self, ret: &Ret) -> Value {
        match (self, ret) {
            (Op::Get { .. }, Ret::Missing) => Value::Null,
            (Op::Insert { .. }, Ret::Inserted) | (_, Ret::Removed | Ret::Done) => json!(true),
            (Op::Remove { .. }, Ret::Missing) | (_, Ret::Present) => json!(false),
            (_, Ret::Inserted) => json!("inserted"),
            (_, Ret::Replaced) => json!("replaced"),
            (_, Ret::Missing) => json!("missing"),
            (_, Ret::Differs(found)) => json!({ "differs": found }),
            (_, Ret::Found(found)) => json!(found),
        }
    }

    fn parse_result(&self, result: &Value) -> Option<Ret> {
        let word = result.as_str();
        Some(match self {
            Op::Put { .. } if word? == "inserted" => Ret::Inserted,
            Op::Put { .. } if word? == "replaced" => Ret::Replaced,
            Op::Put { .. } => return None,
            Op::Write { .. } => result.as_bool()?.then_some(Ret::Done)?,
            Op::Insert { .. } if result.as_bool()? => Ret::Inserted,
            Op::Insert { .. } => Ret::Present,
            Op::Replace { .. } if word == Some("replaced") => Ret::Replaced,
            Op::Replace { .. } if word == Some("missing") => Ret::Missing,
            Op::Replace { .. } => Ret::Differs(result.get("differs")?.as_u64()?),
            Op::Remove { .. } if result.as_bool()? => Ret::Removed,
            Op::Remove { .. } => Ret::Missing,
            Op::Get { .. } if result.is_null() => Ret::Missing,
            Op::Get { .. } => Ret::Found(result.as_u64()?),
        })
    }
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
