//! The calls that a search has not ordered yet, as a doubly linked list of their begins and ends by step (Lowe 2017,
//! section 3; the links are those of Knuth's dancing links, arXiv cs/0011047).
//!
//! Before the first *end* in the list are exactly the begins of the calls that may come next. An end is a return,
//! which the search cannot pass before it has ordered the call, or an expiry: the death of the caller in strict
//! linearizability, which it passes by giving the call up. All calls are ordered once no end is left.
//!
//! Calls that may have no effect at all are `optional` and have no begin in the list: they are tried last.
//!
//! **Invariants.** Open calls come last in `operations`; all others are in the order of their begins. Lifted calls are
//! put back in the opposite order. `ends` is the number of ends in the list.

use super::Durability;
use crate::history::History;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It returns: it takes effect before.
    Return(u64),
    /// It takes effect before or never.
    Expiry(u64),
    /// It takes effect at any time, but need not do so now: it will return after all calls of the search.
    Later,
    /// It takes effect at any time or never.
    Open,
}

/// A call, as the search sees it.
#[derive(Debug)]
pub(super) struct Operation<'h, Op, Ret> {
    /// Its place in the history.
    pub event: usize,
    pub process: u32,
    pub op: &'h Op,
    pub result: Option<&'h Ret>,
    pub invoke: u64,
    pub end: End,
}

impl<Op, Ret> Clone for Operation<'_, Op, Ret> {
    fn clone(&self) -> Self {
        Operation { ..*self }
    }
}

/// The calls among `members` that began until the step `until`, as they were known then, in the order of their begins.
pub(super) fn select<'h, Op, Ret>(
    history: &'h History<Op, Ret>,
    members: &[usize],
    durability: Durability,
    until: u64,
) -> Vec<Operation<'h, Op, Ret>> {
    let member = |&event: &usize| history.events().get(event).map(|call| (event, call));
    let mut known: Vec<_> = members
        .iter()
        .filter_map(member)
        .filter(|(_, call)| call.invoke <= until)
        .map(|(event, call)| {
            let end = match (call.returned, call.lost) {
                (Some(step), _) if step <= until => End::Return(step),
                (_, Some(step)) if step <= until && durability == Durability::Strict => End::Expiry(step),
                _ => End::Open,
            };
            Operation {
                event,
                process: call.process,
                op: &call.op,
                result: call.result.as_ref().filter(|_| end != End::Open),
                invoke: call.invoke,
                end,
            }
        })
        .collect();
    known.sort_by_key(|operation| (operation.invoke, operation.event));
    known
}

/// What a node of the list stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Before the first and behind the last.
    Rim,
    /// A begin.
    Begin(usize),
    /// A return.
    Return(usize),
    /// An expiry.
    Expiry(usize),
}

impl Node {
    fn is_end(self) -> bool {
        matches!(self, Node::Return(_) | Node::Expiry(_))
    }
}

/// The list.
#[derive(Debug)]
pub(super) struct Timeline<'h, Op, Ret> {
    pub operations: Vec<Operation<'h, Op, Ret>>,
    /// The calls that need not take effect, in the order of their begins.
    pub optional: Vec<usize>,
    nodes: Vec<(u64, Node)>,
    next: Vec<usize>,
    previous: Vec<usize>,
    /// The nodes of each call.
    places: Vec<Vec<usize>>,
    ends: usize,
}

/// The node that is always there.
const RIM: usize = 0;

impl<'h, Op, Ret> Timeline<'h, Op, Ret> {
    /// The list of these calls.
    pub fn new(mut operations: Vec<Operation<'h, Op, Ret>>) -> Self {
        operations.sort_by_key(|operation| (operation.end == End::Open, operation.invoke, operation.event));
        let mut steps = Vec::with_capacity(2 * operations.len());
        let mut optional = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            // At equal steps, begins come before ends: the calls are concurrent.
            match operation.end {
                End::Return(step) => {
                    steps.push((operation.invoke, 0, Node::Begin(index)));
                    steps.push((step, 1, Node::Return(index)));
                }
                End::Expiry(step) => {
                    optional.push(index);
                    steps.push((step, 1, Node::Expiry(index)));
                }
                End::Later => steps.push((operation.invoke, 0, Node::Begin(index))),
                End::Open => optional.push(index),
            }
        }
        steps.sort_by_key(|&(step, rank, _)| (step, rank));
        optional.sort_by_key(|&index| operations[index].invoke);

        let nodes: Vec<(u64, Node)> = std::iter::once((0, Node::Rim))
            .chain(steps.into_iter().map(|(step, _, node)| (step, node)))
            .collect();
        let mut places = vec![Vec::new(); operations.len()];
        for (at, (_, node)) in nodes.iter().enumerate() {
            if let Node::Begin(index) | Node::Return(index) | Node::Expiry(index) = node {
                places[*index].push(at);
            }
        }
        let count = nodes.len();
        Timeline {
            ends: nodes.iter().filter(|(_, node)| node.is_end()).count(),
            operations,
            optional,
            nodes,
            next: (0..count).map(|at| (at + 1) % count).collect(),
            previous: (0..count).map(|at| (at + count - 1) % count).collect(),
            places,
        }
    }

    /// Whether all that must be decided is.
    pub fn is_decided(&self) -> bool {
        self.ends == 0
    }

    /// The first node.
    pub fn first(&self) -> usize {
        self.next[RIM]
    }

    /// The node behind one.
    pub fn after(&self, at: usize) -> usize {
        self.next[at]
    }

    /// What a node stands for.
    pub fn node(&self, at: usize) -> Node {
        self.nodes[at].1
    }

    /// When it is.
    pub fn step(&self, at: usize) -> u64 {
        self.nodes[at].0
    }

    /// How many calls are not open.
    pub fn closed(&self) -> usize {
        self.operations
            .partition_point(|operation| operation.end != End::Open)
    }

    /// Takes a call out.
    pub fn lift(&mut self, operation: usize) {
        for &at in &self.places[operation] {
            self.next[self.previous[at]] = self.next[at];
            self.previous[self.next[at]] = self.previous[at];
            self.ends -= usize::from(self.nodes[at].1.is_end());
        }
    }

    /// Puts the call back that was taken out last.
    pub fn restore(&mut self, operation: usize) {
        for &at in self.places[operation].iter().rev() {
            self.next[self.previous[at]] = at;
            self.previous[self.next[at]] = at;
            self.ends += usize::from(self.nodes[at].1.is_end());
        }
    }
}
