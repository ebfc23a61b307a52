//! Checkers: they judge a run after it has ended, from what was written down. None of them reads the machine.
//!
//! | file | question | input |
//! |---|---|---|
//! | [`linear`] | do the results fit some order of the calls? | a [`History`](history::History), a [`Specification`] |
//! | [`exclusion`] | had a lock two owners, or was it lost with one? | the events of locks |
//! | [`progress`] | does a live instance finish, whichever others are stopped? | own steps of each operation |
//! | [`leak`] | is every byte in one account? | a count of bytes |
//!
//! A sequential specification ([`spec`]) is a state machine: it says which results an operation may have in a state,
//! and which state comes next. A checker knows nothing else of an index or a lock. A new one needs a file under
//! `spec/`.

#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

pub mod exclusion;
pub mod history;
pub mod leak;
pub mod linear;
pub mod progress;
pub mod spec;
mod verdict;

pub use verdict::{Line, Verdict, Violation};

use std::fmt::Debug;
use std::hash::Hash;

/// A sequential specification.
///
/// **Contract.** The state and the result decide the next state. Where several results are possible in a state, a call
/// without a result has the effect of any one of them that changes the state, or none. So the checker loses nothing by
/// asking once.
pub trait Specification {
    /// What an object is between two operations.
    type State: Clone + Eq + Hash + Debug;
    /// What is called.
    type Op: Debug;
    /// What comes back.
    type Ret: Debug;

    /// The state before the first operation.
    fn initial(&self) -> Self::State;

    /// The state after `op` of `process` with this result; `None` if it cannot have this result in this state. Without
    /// a result, any that it can have.
    fn step(
        &self,
        state: &Self::State,
        process: u32,
        op: &Self::Op,
        result: Option<&Self::Ret>,
    ) -> Option<Self::State>;

    /// Whether the operation with this result leaves every state as it is, in which it is possible. A promise that
    /// spares the checker most of its work: a read is never worth postponing.
    fn is_read(&self, op: &Self::Op, result: Option<&Self::Ret>) -> bool {
        let _ = (op, result);
        false
    }
}

/// A specification of independent parts. A history is linearizable exactly if its calls on each part are (Herlihy &
/// Wing 1990, theorem 1), and the parts are far cheaper to check.
pub trait Partitioned: Specification {
    /// What names a part.
    type Key: Clone + Ord + Debug;

    /// The part that the operation is about; `None` if it may touch several.
    fn key(&self, op: &Self::Op) -> Option<Self::Key>;
}

#[cfg(test)]
mod samples;
