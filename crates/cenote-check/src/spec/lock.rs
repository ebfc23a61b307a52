//! Locks, exclusive or shared. The owner is the process that calls.
//!
//! A lock does not know who is alive. A process that takes a dead owner's lock away calls *recover* with the dead
//! process's number, between its death and the next acquisition; it is no error if the dead held nothing. A shared
//! owner is not upgraded, and no process acquires a lock that it has.
//!
//! In a file the lock's number is the key and the result of a try `true` or `false`; all else is null, except the
//! argument of recover. Partitioned by lock.

use super::super::{Partitioned, Specification};
use crate::history::{Call, Record};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What is done to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Becomes the only owner, and waits until it can.
    Acquire,
    /// Becomes the only owner, if there is none.
    TryAcquire,
    /// Gives exclusive ownership up.
    Release,
    /// Becomes one of the shared owners, and waits until it can.
    AcquireShared,
    /// Becomes one of the shared owners, if there is no exclusive one.
    TryAcquireShared,
    /// Gives shared ownership up.
    ReleaseShared,
    /// Takes the lock away from a dead process, whatever it held.
    Recover {
        /// Who died.
        dead: u32,
    },
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// Which lock.
    pub lock: u64,
    /// What is done to it.
    pub action: Action,
}

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ret {
    /// It was done: all but the tries.
    Done,
    /// The caller owns the lock: the tries.
    Acquired,
    /// Another process owns it: the tries.
    Refused,
}

/// Who owns a lock. A lock without owners is not in the state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owners {
    /// One process.
    Exclusive(u32),
    /// One process or several; never none.
    Shared(BTreeSet<u32>),
}

/// Any number of locks, all free at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Locks;

/// The owners afterwards (`Some(None)`: there are none), or `None` if it cannot be done now.
fn apply(owners: Option<Owners>, process: u32, action: Action) -> Option<Option<Owners>> {
    match (action, owners) {
        (Action::Acquire | Action::TryAcquire, None) => Some(Some(Owners::Exclusive(process))),
        (Action::AcquireShared | Action::TryAcquireShared, None) => {
            Some(Some(Owners::Shared(BTreeSet::from([process]))))
        }
        (Action::AcquireShared | Action::TryAcquireShared, Some(Owners::Shared(mut sharers))) => {
            sharers.insert(process).then_some(Some(Owners::Shared(sharers)))
        }
        (Action::Release, Some(Owners::Exclusive(owner))) => (owner == process).then_some(None),
        (Action::ReleaseShared, Some(Owners::Shared(mut sharers))) => {
            sharers.remove(&process).then(|| shared(sharers))
        }
        (Action::Recover { dead }, Some(Owners::Exclusive(owner))) if owner == dead => Some(None),
        (Action::Recover { dead }, Some(Owners::Shared(mut sharers))) => {
            sharers.remove(&dead);
            Some(shared(sharers))
        }
        (Action::Recover { .. }, owners) => Some(owners),
        _ => None,
    }
}

fn shared(sharers: BTreeSet<u32>) -> Option<Owners> {
    (!sharers.is_empty()).then_some(Owners::Shared(sharers))
}

impl Specification for Locks {
    type State = BTreeMap<u64, Owners>;
    type Op = Op;
    type Ret = Ret;

    fn initial(&self) -> Self::State {
        BTreeMap::new()
    }

    fn step(&self, state: &Self::State, process: u32, op: &Op, result: Option<&Ret>) -> Option<Self::State> {
        let applied = apply(state.get(&op.lock).cloned(), process, op.action);
        let only = match (is_try(op.action), &applied) {
            (false, _) => Ret::Done,
            (true, Some(_)) => Ret::Acquired,
            (true, None) => Ret::Refused,
        };
        if result.is_some_and(|ret| *ret != only) {
            return None;
        }
        let mut next = state.clone();
        match applied {
            Some(Some(owners)) => drop(next.insert(op.lock, owners)),
            Some(None) => drop(next.remove(&op.lock)),
            None if only == Ret::Refused => {}
            None => return None,
        }
        Some(next)
    }

    fn is_read(&self, _op: &Op, result: Option<&Ret>) -> bool {
        result == Some(&Ret::Refused)
    }
}

fn is_try(action: Action) -> bool {
    matches!(action, Action::TryAcquire | Action::TryAcquireShared)
}

impl Partitioned for Locks {
    type Key = u64;

    fn key(&self, op: &Op) -> Option<u64> {
        Some(op.lock)
    }
}

/// The actions without an argument, as they are written.
const NAMES: [(Action, &str); 6] = [
    (Action::Acquire, "acquire"),
    (Action::TryAcquire, "try_acquire"),
    (Action::Release, "release"),
    (Action::AcquireShared, "acquire_shared"),
    (Action::TryAcquireShared, "try_acquire_shared"),
    (Action::ReleaseShared, "release_shared"),
];

impl Record for Op {
    type Ret = Ret;

    fn call(&self) -> Call {
        let name = NAMES.iter().find(|(action, _)| *action == self.action);
        let arg = match self.action {
            Action::Recover { dead } => json!(dead),
            _ => Value::Null,
        };
        Call {
            op: name.map_or("recover", |(_, name)| name).to_owned(),
            key: Some(self.lock),
            arg,
        }
    }

    fn parse_call(call: &Call) -> Option<Self> {
        let action = match NAMES.iter().find(|(_, name)| *name == call.op) {
            Some((action, _)) => *action,
            None if call.op == "recover" => Action::Recover {
                dead: call.arg.as_u64()?.try_into().ok()?,
            },
            None => return None,
        };
        Some(Op {
            lock: call.key?,
            action,
        })
    }

    fn result(&self, ret: &Ret) -> Value {
        match ret {
            Ret::Done => Value::Null,
            Ret::Acquired => json!(true),
            Ret::Refused => json!(false),
        }
    }

    fn parse_result(&self, result: &Value) -> Option<Ret> {
        if !is_try(self.action) {
            return result.is_null().then_some(Ret::Done);
        }
        Some(if result.as_bool()? {
            Ret::Acquired
        } else {
            Ret::Refused
        })
    }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
