//! Registers: words that are read, written and compared-and-exchanged, the contract of a coherent memory word by word.
//!
//! In a file the register's number is the key. The argument of a write is the value, that of a compare-exchange
//! `[expected, value]`; the result of a read is the value, that of a compare-exchange `true`, or the value found.
//! Partitioned by register.

use super::super::{Partitioned, Specification};
use crate::history::{Call, Record};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is done to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Asks for its value.
    Read,
    /// Sets it.
    Write(u64),
    /// Sets it, if it has the expected value.
    CompareExchange {
        /// The value until now.
        expected: u64,
        /// The value from now on.
        value: u64,
    },
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// Which register.
    pub register: u64,
    /// What is done to it.
    pub access: Access,
}

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ret {
    /// The value: read.
    Found(u64),
    /// It was set: write.
    Written,
    /// It was set: compare-exchange.
    Exchanged,
    /// It has this value, not the expected one: compare-exchange.
    Differs(u64),
}

/// Registers that all begin with the same value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    /// That value.
    pub initial: u64,
}

impl Specification for Registers {
    /// The registers that were ever set.
    type State = BTreeMap<u64, u64>;
    type Op = Op;
    type Ret = Ret;

    fn initial(&self) -> Self::State {
        BTreeMap::new()
    }

    fn step(&self, state: &Self::State, _process: u32, op: &Op, result: Option<&Ret>) -> Option<Self::State> {
        let now = state.get(&op.register).copied().unwrap_or(self.initial);
        let (only, after) = match op.access {
            Access::Read => (Ret::Found(now), None),
            Access::Write(value) => (Ret::Written, Some(value)),
            Access::CompareExchange { expected, value } if expected == now => (Ret::Exchanged, Some(value)),
            Access::CompareExchange { .. } => (Ret::Differs(now), None),
        };
        if result.is_some_and(|ret| *ret != only) {
            return None;
        }
        let mut next = state.clone();
        if let Some(value) = after {
            next.insert(op.register, value);
        }
        Some(next)
    }

    fn is_read(&self, op: &Op, result: Option<&Ret>) -> bool {
        op.access == Access::Read || matches!(result, Some(Ret::Differs(_)))
    }
}

impl Partitioned for Registers {
    type Key = u64;

    fn key(&self, op: &Op) -> Option<u64> {
        Some(op.register)
    }
}

impl Record for Op {
    type Ret = Ret;

    fn call(&self) -> Call {
        let (op, arg) = match self.access {
            Access::Read => ("read", Value::Null),
            Access::Write(value) => ("write", json!(value)),
            Access::CompareExchange { expected, value } => ("compare_exchange", json!([expected, value])),
        };
        Call {
            op: op.to_owned(),
            key: Some(self.register),
            arg,
        }
    }

    fn parse_call(call: &Call) -> Option<Self> {
        let access = match call.op.as_str() {
            "read" => Access::Read,
            "write" => Access::Write(call.arg.as_u64()?),
            "compare_exchange" => Access::CompareExchange {
                expected: call.arg.get(0)?.as_u64()?,
                value: call.arg.get(1)?.as_u64()?,
            },
            _ => return None,
        };
        Some(Op {
            register: call.key?,
            access,
        })
    }

    fn result(&self, ret: &Ret) -> Value {
        match ret {
            Ret::Found(value) | Ret::Differs(value) => json!(value),
            Ret::Exchanged => json!(true),
            Ret::Written => Value::Null,
        }
    }

    fn parse_result(&self, result: &Value) -> Option<Ret> {
        match self.access {
            Access::Read => result.as_u64().map(Ret::Found),
            Access::Write(_) => result.is_null().then_some(Ret::Written),
            Access::CompareExchange { .. } if *result == json!(true) => Some(Ret::Exchanged),
            Access::CompareExchange { .. } => result.as_u64().map(Ret::Differs),
        }
    }
}

#[cfg(test)]
#[path = "register_tests.rs"]
mod tests;
