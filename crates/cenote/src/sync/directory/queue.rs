//! The wait queue of a directory lock: requests that a node has not been granted, in the order in which the directory
//! forwarded them.
//!
//! There is a queue only where a writer has the lock or waits for readers, and one node holds it: that writer, or the
//! next one (Soul, section 4.2).

use super::node::{Node, Nodes};

/// What a node asks for, or has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Reads, beside others that read.
    Shared,
    /// Reads and writes, alone.
    Exclusive,
}

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Who asks.
    pub node: Node,
    /// For what.
    pub wants: Permission,
}

/// The requests that wait, first come first served; at most one of each node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    requests: Vec<Request>,
}

/// To whom a writer hands the lock over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handover {
    /// The readers that have it at once, all that stood in front of the next writer.
    pub readers: Nodes,
    /// The next writer, which holds the queue from now on: at once if there are no such readers, else when they have
    /// given the lock up.
    pub writer: Option<Node>,
    /// What the next writer's queue holds. Empty if there is no next writer.
    pub rest: Queue,
}

impl Queue {
    /// Appends a request. A node that stands in the queue already keeps its place, and asks for the greater of both
    /// permissions.
    pub fn push(&mut self, request: Request) {
        match self
            .requests
            .iter_mut()
            .find(|standing| standing.node == request.node)
        {
            Some(standing) => standing.wants = standing.wants.max(request.wants),
            None => self.requests.push(request),
        }
    }

    /// Takes a node's request out. Returns whether there was one.
    pub fn remove(&mut self, node: Node) -> bool {
        let before = self.requests.len();
        self.requests.retain(|request| request.node != node);
        self.requests.len() != before
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The requests, the first one first.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Takes those off that come next: a writer, or all readers in front of the next writer and that writer (Soul,
    /// algorithm 1, lines 8 to 15).
    pub fn hand_over(&mut self) -> Handover {
        let is_reader = |request: &Request| request.wants == Permission::Shared;
        let readers = self
            .requests
            .iter()
            .take_while(|request| is_reader(request))
            .count();
        let mut rest = self.requests.split_off(readers);
        let readers = self.requests.drain(..).map(|request| request.node).collect();
        let writer = (!rest.is_empty()).then(|| rest.remove(0).node);
        Handover {
            readers,
            writer,
            rest: Self { requests: rest },
        }
    }
}

impl FromIterator<Request> for Queue {
    fn from_iter<I: IntoIterator<Item = Request>>(requests: I) -> Self {
        let mut queue = Self::default();
        requests.into_iter().for_each(|request| queue.push(request));
        queue
    }
}
