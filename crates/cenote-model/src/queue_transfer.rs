//! The transfer of a directory lock's queue while requests for it are on their way
//! (`docs/protocols/directory-messages.md`, *Transfers*).
//!
//! The directory's entry and the holders' queues are the library's own. What is modelled is what lies between them:
//! forwards that arrive in any order, one transfer that is on its way, and a death. A transfer or a death is one step
//! of the directory, and who is granted the lock, or the queue, has it with that step: losses and repetitions of
//! messages are the matter of `crates/cenote-sim/tests/lock_service`.

use std::collections::BTreeSet;

use cenote::sync::directory::entry::{Answer, Entry, Left};
use cenote::sync::directory::node::Node;
use cenote::sync::directory::queue::{Handover, Permission, Queue, Request};
use stateright::{Model, Property};

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct QueueTransfer {
    /// How many nodes there are.
    pub nodes: u8,
    /// How many may die.
    pub deaths: u8,
    /// Whether the directory compares versions: the planted fault is that it does not.
    pub checks_version: bool,
}

/// The holder's queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Held {
    queue: Queue,
    arrived: u16,
}

/// A state of directory, nodes and network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    entry: Entry,
    /// All that wait, in the order in which they asked, as the directory knows them.
    waiting: Vec<Request>,
    /// At the entry's holder.
    held: Held,
    /// Requests on their way to the holder, with their numbers.
    forwards: BTreeSet<(u16, Node, Permission)>,
    /// The transfer on its way: its version, and what is handed over.
    transfer: Option<(u16, Handover)>,
    deaths: u8,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A node asks.
    Request(Node, Permission),
    /// A forward arrives, the one of this number.
    Arrives(u16),
    /// The writer sends a transfer.
    HandsOver,
    /// The directory gets the transfer.
    Decides,
    /// A reader gives the lock up.
    GivesUp(Node),
    /// A node dies.
    Dies(Node),
}

impl QueueTransfer {
    fn nodes(self) -> impl Iterator<Item = Node> {
        (0..self.nodes).filter_map(Node::new)
    }
}

impl State {
    fn waits(&self, node: Node) -> bool {
        self.waiting.iter().any(|request| request.node == node)
    }

    /// A node that has the lock waits no more.
    fn drop_granted(&mut self) {
        let entry = self.entry;
        self.waiting
            .retain(|request| entry.permission(request.node).is_none());
    }

    fn begin(&mut self, rest: Queue) {
        let arrived = 0;
        self.held = Held { queue: rest, arrived };
        self.forwards.clear();
        self.transfer = None;
        self.drop_granted();
    }

    fn request(&mut self, node: Node, wants: Permission) {
        self.entry.give_up(node);
        self.waiting.push(Request { node, wants });
        match self.entry.request(node, wants) {
            Answer::Forwarded { version, .. } => {
                self.forwards.insert((version, node, wants));
            }
            Answer::Granted if wants == Permission::Shared => {}
            Answer::Granted | Answer::Next { .. } => self.begin(Queue::default()),
        }
        self.drop_granted();
    }

    fn decide(&mut self, checks_version: bool) {
        let (Some((version, handover)), Some(holder)) = (self.transfer.take(), self.entry.holder()) else {
            return;
        };
        // Who has died is not handed anything.
        let rest = handover.rest.requests().iter().map(|request| request.node);
        let standing: Vec<Node> = handover
            .readers
            .iter()
            .chain(handover.writer)
            .chain(rest)
            .collect();
        let living = self.waiting.iter().copied();
        let mut queue: Queue = living
            .filter(|request| standing.contains(&request.node))
            .collect();
        let handover = queue.hand_over();
        let version = if checks_version {
            version
        } else {
            self.entry.version()
        };
        if self.entry.transfer(holder, version, &handover) {
            self.begin(handover.rest);
        }
    }

    fn lose(&mut self, node: Node) {
        self.deaths += 1;
        self.waiting.retain(|request| request.node != node);
        match self.entry.lose(node) {
            Left::Queue { .. } => {
                let handover = self.waiting.iter().copied().collect::<Queue>().hand_over();
                self.entry.rebuild(&handover);
                self.begin(handover.rest);
            }
            Left::Granted(_) | Left::Nothing => self.drop_granted(),
        }
    }
}

impl Model for QueueTransfer {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        for node in self.nodes() {
            let has = state.entry.permission(node);
            if !state.waits(node) {
                let wants = [Permission::Shared, Permission::Exclusive].into_iter();
                let lacks = wants.filter(|wants| has < Some(*wants));
                actions.extend(lacks.map(|wants| Step::Request(node, wants)));
            }
            if has == Some(Permission::Shared) {
                actions.push(Step::GivesUp(node));
            }
            if state.deaths < self.deaths {
                actions.push(Step::Dies(node));
            }
        }
        actions.extend(state.forwards.iter().map(|(number, ..)| Step::Arrives(*number)));
        match state.transfer {
            Some(_) => actions.push(Step::Decides),
            None if state.entry.owner().is_some() => actions.push(Step::HandsOver),
            None => {}
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Request(node, wants) => next.request(node, wants),
            Step::Arrives(number) => {
                // One that comes before its turn is ignored, and comes again.
                if number != state.held.arrived + 1 {
                    return None;
                }
                let forward = *state.forwards.iter().find(|(other, ..)| *other == number)?;
                next.forwards.remove(&forward);
                let (_, node, wants) = forward;
                next.held.queue.push(Request { node, wants });
                next.held.arrived = number;
            }
            Step::HandsOver => {
                let handover = next.held.queue.clone().hand_over();
                next.transfer = Some((next.held.arrived, handover));
            }
            Step::Decides => next.decide(self.checks_version),
            Step::GivesUp(node) => {
                next.entry.give_up(node);
                next.drop_granted();
            }
            Step::Dies(node) => next.lose(node),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one writer or readers", |model: &Self, state: &State| {
                let may = |wants| {
                    let has = |node: &Node| state.entry.permission(*node) == Some(wants);
                    model.nodes().filter(has).count()
                };
                let writers = may(Permission::Exclusive);
                writers == 0 || (writers == 1 && may(Permission::Shared) == 0)
            }),
            Property::always(
                "every waiter is next, in the queue, or on its way there",
                |_, state: &State| {
                    state.waiting.iter().all(|request| {
                        let is = |other: &Request| other.node == request.node;
                        state.entry.holder() == Some(request.node)
                            || state.held.queue.requests().iter().any(is)
                            || state.forwards.iter().any(|(_, node, _)| *node == request.node)
                    })
                },
            ),
            Property::always(
                "while somebody waits, somebody has the lock",
                |model: &Self, state: &State| {
                    let has = |node: Node| state.entry.permission(node).is_some();
                    state.waiting.is_empty() || model.nodes().any(has)
                },
            ),
            Property::sometimes("a transfer meets a request on its way", |_, state: &State| {
                let version = state.transfer.as_ref().map(|(version, _)| *version);
                version.is_some_and(|version| version != state.entry.version())
            }),
            Property::sometimes(
                "readers and a next writer are handed the lock",
                |_, state: &State| {
                    let handover = state.transfer.as_ref().map(|(_, handover)| handover);
                    handover.is_some_and(|handover| !handover.readers.is_empty() && handover.writer.is_some())
                },
            ),
        ]
    }
}
