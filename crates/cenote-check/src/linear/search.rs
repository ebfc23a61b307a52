//! The search: depth first over configurations, each visited once.
//!
//! A configuration is the set of decided calls and the state they lead to. From it, in this order:
//!
//! 1. a call that must take effect, now or later, and that no undecided end precedes is ordered next, if the
//!    specification allows its result. A read that is possible is the only move tried: it changes no state, so any
//!    order that has it later is still one with it here;
//! 2. at the first end in the list: if it is an expiry, its call is given up;
//! 3. there too: a call is ordered next that need not take effect, if it changes the state. One that does not is never
//!    missed.
//!
//! The search ends when every end is passed, as early as it can. Asked again, it goes on, so that all ends can be
//! listed.
//!
//! **Invariant.** From a configuration in `seen`, everything reachable was visited, or is about to be: its moves are
//! on the trail. Every move adds a call to the set, so there are no circles.

use super::super::Specification;
use super::taken::{Key, Taken};
use super::timeline::{Node, Timeline};
use std::collections::HashSet;

/// What a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An order of all calls that must take effect.
    Order,
    /// There is none, or no further one.
    Nothing,
    /// There were too many configurations.
    GaveUp,
}

/// Where to go on in a configuration.
#[derive(Clone, Copy, Debug)]
enum Cursor {
    /// At a node of the list.
    Node(usize),
    /// At the optional call of this rank; only those count that began before `until`.
    Optional { rank: usize, until: u64 },
    /// Nowhere.
    Exhausted,
}

/// A call was decided.
#[derive(Debug)]
struct Move<State> {
    operation: usize,
    /// The state before.
    state: State,
    /// Where to go on when it is taken back.
    resume: Cursor,
}

/// What became of an attempt to order a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// The specification forbids it, or it would change nothing.
    Refused,
    /// It leads where the search has been.
    Known,
    /// It was ordered.
    Moved,
}

/// A search.
pub(super) struct Search<'h, 's, S: Specification> {
    spec: &'s S,
    timeline: Timeline<'h, S::Op, S::Ret>,
    taken: Taken,
    state: S::State,
    cursor: Cursor,
    trail: Vec<Move<S::State>>,
    seen: HashSet<(Key, S::State)>,
    states_max: usize,
}

impl<'h, 's, S: Specification> Search<'h, 's, S> {
    /// A search for orders of these calls from a state on.
    pub fn new(
        spec: &'s S,
        timeline: Timeline<'h, S::Op, S::Ret>,
        state: S::State,
        states_max: usize,
    ) -> Self {
        Search {
            spec,
            taken: Taken::new(timeline.closed(), timeline.operations.len()),
            cursor: Cursor::Node(timeline.first()),
            timeline,
            state,
            trail: Vec::new(),
            seen: HashSet::new(),
            states_max,
        }
    }

    /// The state that the order found leads to.
    pub fn state(&self) -> &S::State {
        &self.state
    }

    /// Whether the order found contains the call of this place in the history.
    pub fn has_ordered(&self, event: usize) -> bool {
        let mut calls = self.timeline.operations.iter();
        let operation = calls.position(|call| call.event == event);
        operation.is_some_and(|operation| self.taken.contains(operation))
    }

    /// Looks for an order, or for another one.
    pub fn next_order(&mut self) -> Found {
        loop {
            if matches!(self.cursor, Cursor::Exhausted) {
                if !self.undo() {
                    return Found::Nothing;
                }
            } else if self.timeline.is_decided() {
                self.cursor = Cursor::Exhausted;
                return Found::Order;
            } else if self.seen.len() >= self.states_max {
                return Found::GaveUp;
            } else {
                self.advance();
            }
        }
    }

    /// Tries what the cursor is at.
    fn advance(&mut self) {
        match self.cursor {
            Cursor::Node(at) => match self.timeline.node(at) {
                Node::Begin(operation) => self.begin(at, operation),
                Node::Return(_) => self.cursor = self.optional_from(at),
                Node::Expiry(operation) => {
                    let resume = self.optional_from(at);
                    let state = self.state.clone();
                    if self.decide(operation, state, resume) != Attempt::Moved {
                        self.cursor = resume;
                    }
                }
                Node::Rim => self.cursor = Cursor::Exhausted,
            },
            Cursor::Optional { rank, until } => {
                self.cursor = Cursor::Exhausted;
                if let Some(&operation) = self.timeline.optional.get(rank)
                    && self.timeline.operations[operation].invoke <= until
                {
                    let resume = Cursor::Optional {
                        rank: rank + 1,
                        until,
                    };
                    if self.order_optional(operation, resume) != Attempt::Moved {
                        self.cursor = resume;
                    }
                }
            }
            Cursor::Exhausted => {}
        }
    }

    /// The optional calls that may come before the end at this node.
    fn optional_from(&self, at: usize) -> Cursor {
        Cursor::Optional {
            rank: 0,
            until: self.timeline.step(at),
        }
    }

    fn begin(&mut self, at: usize, operation: usize) {
        let call = &self.timeline.operations[operation];
        let is_read = self.spec.is_read(call.op, call.result);
        let later = Cursor::Node(self.timeline.after(at));
        let resume = if is_read { Cursor::Exhausted } else { later };
        let attempt = match self.step(operation) {
            Some(next) => self.decide(operation, next, resume),
            None => Attempt::Refused,
        };
        match attempt {
            Attempt::Refused => self.cursor = later,
            Attempt::Known => self.cursor = resume,
            Attempt::Moved => {}
        }
    }

    fn order_optional(&mut self, operation: usize, resume: Cursor) -> Attempt {
        let call = &self.timeline.operations[operation];
        if self.taken.contains(operation) || self.spec.is_read(call.op, call.result) {
            return Attempt::Refused;
        }
        match self.step(operation) {
            Some(next) if next != self.state => self.decide(operation, next, resume),
            _ => Attempt::Refused,
        }
    }

    fn step(&self, operation: usize) -> Option<S::State> {
        let call = &self.timeline.operations[operation];
        self.spec.step(&self.state, call.process, call.op, call.result)
    }

    /// Goes to a configuration, unless it was seen.
    fn decide(&mut self, operation: usize, next: S::State, resume: Cursor) -> Attempt {
        self.taken.flip(operation);
        if !self.seen.insert((self.taken.key(), next.clone())) {
            self.taken.flip(operation);
            return Attempt::Known;
        }
        self.timeline.lift(operation);
        self.trail.push(Move {
            operation,
            state: std::mem::replace(&mut self.state, next),
            resume,
        });
        self.cursor = Cursor::Node(self.timeline.first());
        Attempt::Moved
    }

    /// Takes the last move back; false if there is none.
    fn undo(&mut self) -> bool {
        let Some(last) = self.trail.pop() else {
            return false;
        };
        self.timeline.restore(last.operation);
        self.taken.flip(last.operation);
        self.state = last.state;
        self.cursor = last.resume;
        true
    }
}
