//! Hand-made histories for the tests.

use super::linear::{Durability, Options};
use crate::history::{Event, History};

/// A call that returned.
pub fn done<Op, Ret>(process: u32, (invoke, returned): (u64, u64), op: Op, ret: Ret) -> Event<Op, Ret> {
    Event {
        process,
        op,
        result: Some(ret),
        invoke,
        returned: Some(returned),
        lost: None,
    }
}

/// A call whose process died in it.
pub fn lost<Op, Ret>(process: u32, (invoke, lost): (u64, u64), op: Op) -> Event<Op, Ret> {
    Event {
        lost: Some(lost),
        ..running(process, invoke, op)
    }
}

/// A call that was still running at the end.
pub fn running<Op, Ret>(process: u32, invoke: u64, op: Op) -> Event<Op, Ret> {
    Event {
        process,
        op,
        result: None,
        invoke,
        returned: None,
        lost: None,
    }
}

/// The history of these calls.
pub fn history<Op, Ret>(events: Vec<Event<Op, Ret>>) -> History<Op, Ret> {
    History::new(events).expect("a history")
}

/// Strict linearizability.
pub const STRICT: Options = Options {
    durability: Durability::Strict,
    states_max: 1 << 20,
};

/// Durable linearizability.
pub const DURABLE: Options = Options {
    durability: Durability::Durable,
    states_max: 1 << 20,
};
