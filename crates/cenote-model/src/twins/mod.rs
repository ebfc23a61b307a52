//! Inserts of one key into two slots, with closings (`docs/protocols/replicated-map.md`, "No key has two slots",
//! "Logs", "Failures").
//!
//! What a closing decides is shipped code: which slot gives way to which, how a change has gone, and what the copies of
//! a log say together. What clients do is written again here ([`client`]), as `client/{change,twins,late,get}.rs` have
//! it.
//!
//! | one step | |
//! |---|---|
//! | a verb takes effect | at one node; those of a batch in any order; also after its client was cut off, or has crashed |
//! | a client gets the completions of a batch | with the last of them, and it sends the next one |
//! | a client is cut off | it loses what a batch comes back with, and asks for a closing; [`Twins::cuts`] times |
//! | a closing | all of it: verbs on their way are refused, copies are made equal, changes decided, and clients that waited go on |
//!
//! Three planted faults are what was shipped before the model found what that leads to: [`Fault::BackupsFirst`],
//! [`Fault::BackupAlone`] and [`Fault::BoundOverwrites`].
//!
//! A fruitless look of who waits is no step. So a state without a next one, in which a client has not finished, is a
//! deadlock.

pub mod client;
pub mod history;
mod master;
mod properties;
mod stages;

use std::collections::BTreeSet;

use cenote_replica::object::Outcome;
use cenote_replica::slot::value::{Content, Slot};
use cenote_replica::verbs::Address;
use stateright::{Model, Property};

use client::{Act, Answer, Call, Client, Flight, Plan, Stage};
use history::History;

/// Slots that the key may have.
const SLOTS: usize = 2;
/// Calls of a client, at most.
const CALLS: usize = 4;

/// The model.
#[derive(Clone, Debug)]
pub struct Twins {
    /// How many nodes there are.
    pub nodes: usize,
    /// Nodes that hold the slots: the primary, and one backup or none.
    pub slots: Vec<usize>,
    /// The clients.
    pub clients: Vec<Plan>,
    /// How many nodes may crash. A region keeps its last one.
    pub node_crashes: usize,
    /// How many clients may crash.
    pub client_crashes: usize,
    /// How often a client may be cut off.
    pub cuts: usize,
    /// Planted faults.
    pub faults: Vec<Fault>,
}

/// Something that is done wrongly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An insert writes its log to the backups alone, before it returns; who reads *bound* at the primary believes it.
    BackupsFirst,
    /// An insert looks for its twin at the backup alone, where a removal comes before it comes to the primary.
    BackupAlone,
    /// An insert writes *bound* over whatever its log says.
    BoundOverwrites,
    /// A reader believes a log that says *bound* at its primary, though it has backups.
    ReaderBelieves,
    /// A reader returns what a slot shows, whatever its log says.
    ReaderSilent,
    /// Who removes an object writes its log after the backups of the slot have changed.
    ToldLate,
    /// A client that knows that its change was shown does not ask, after a closing, whether it was undone.
    UndoneShown,
    /// A closing chooses the smaller slot, whatever the logs say.
    SmallerAlways,
    /// Who removes an object believes a log that says *bound*.
    BoundBelieved,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// Whether it has not crashed.
    pub is_alive: bool,
    /// The slots.
    pub slots: [u64; SLOTS],
    /// For each object: its log.
    pub logs: Vec<Option<Outcome>>,
}

/// A state of clients, nodes, network and master.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The clients.
    pub clients: Vec<Client>,
    /// Verbs on their way that nobody waits for any more.
    pub late: BTreeSet<Flight>,
    /// How many closings there were.
    pub closings: u64,
    /// Nodes that the view does not have any more.
    pub lost: BTreeSet<usize>,
    /// How often a client was cut off.
    pub cuts: usize,
    /// What clients were told.
    pub history: History,
}

/// A step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A client begins its next call.
    Calls(usize),
    /// A verb of a client's batch takes effect. If it is the last, the client goes on.
    Acts(usize, usize),
    /// A verb takes effect that nobody waits for.
    Lands(Flight),
    /// A client that waited looks again.
    Looks(usize),
    /// A client loses what its batch comes back with.
    Cuts(usize),
    /// A client crashes.
    ClientCrashes(usize),
    /// A node crashes.
    NodeCrashes(usize),
    /// The master closes the regions and opens them.
    Closes,
}

/// The slot of an object.
fn slot_of(object: usize) -> Slot {
    Slot::object(Address::new(1 + object as u16, 64), 0, 64)
}

/// The object of a slot, also of a tentative one.
fn object_of(word: u64) -> Option<usize> {
    match Slot(word).confirmed().content() {
        Content::Object { at, .. } => Some(at.region() as usize - 1),
        _ => None,
    }
}

/// The object of a slot that readers see.
fn shown(word: u64) -> Option<usize> {
    match Slot(word).content() {
        Content::Object { .. } => object_of(word),
        _ => None,
    }
}

impl Twins {
    fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// Those of some nodes that the view has.
    fn view(&self, state: &State, nodes: &[usize]) -> Vec<usize> {
        let is_left = |node: &usize| !state.lost.contains(node);
        nodes.iter().copied().filter(is_left).collect()
    }

    /// Nodes that hold the slots: the primary, and the backup.
    fn home(&self, state: &State) -> (usize, Option<usize>) {
        let nodes = self.view(state, &self.slots);
        (nodes[0], nodes.get(1).copied())
    }

    /// Nodes that hold the log of an object, the primary first.
    fn log(&self, state: &State, object: usize) -> Vec<usize> {
        self.view(state, &self.clients[object / CALLS].log)
    }

    /// The call that a client is in, or was in last.
    fn call(&self, state: &State, client: usize) -> Option<Call> {
        let begun = state.clients[client].begun.checked_sub(1)?;
        self.clients[client].calls.get(begun).copied()
    }

    /// The object of the call that a client is in, or was in last.
    fn own(&self, state: &State, client: usize) -> usize {
        client * CALLS + state.clients[client].begun.saturating_sub(1)
    }

    fn has_finished(&self, state: &State, client: usize) -> bool {
        match state.clients[client].stage {
            Stage::Idle => state.clients[client].begun == self.clients[client].calls.len(),
            stage => matches!(stage, Stage::Crashed(_)),
        }
    }

    /// A verb takes effect at its node, which is alive.
    fn act(&self, state: &mut State, flight: &Flight) -> Answer {
        let overwrites = self.has(Fault::BoundOverwrites);
        let node = &mut state.nodes[flight.node];
        match flight.act {
            Act::Read(slot) => Answer::Was(node.slots[slot]),
            Act::Swap(slot, expected, new) => {
                let was = node.slots[slot];
                if was == expected {
                    node.slots[slot] = new;
                }
                Answer::Was(was)
            }
            Act::Write(object, outcome) => {
                node.logs[object] = outcome;
                Answer::Written
            }
            Act::Bind(object) => {
                let log = &mut node.logs[object];
                if log.is_none() || overwrites {
                    *log = Some(Outcome::Bound);
                }
                Answer::Written
            }
            Act::Hear(object) => Answer::Said(node.logs[object]),
        }
    }

    /// What a client can do next, or what can happen to it.
    fn client_steps(&self, state: &State, number: usize, steps: &mut Vec<Step>) {
        let client = &state.clients[number];
        if client.stage == Stage::Idle && client.begun < self.clients[number].calls.len() {
            steps.push(Step::Calls(number));
        }
        for (place, (flight, answer)) in client.batch.iter().enumerate() {
            if answer.is_none() && state.nodes[flight.node].is_alive {
                steps.push(Step::Acts(number, place));
            }
        }
        if self.sees_news(state, number) {
            steps.push(Step::Looks(number));
        }
        let is_calling = !matches!(client.stage, Stage::Idle | Stage::Crashed(_));
        if is_calling && state.cuts < self.cuts && !matches!(client.stage, Stage::Waits { .. }) {
            steps.push(Step::Cuts(number));
        }
        let has_crashed = |client: &&Client| matches!(client.stage, Stage::Crashed(_));
        if is_calling && state.clients.iter().filter(has_crashed).count() < self.client_crashes {
            steps.push(Step::ClientCrashes(number));
        }
    }

    /// Whether a node may crash: each region keeps one that the view has.
    fn may_crash(&self, state: &State, node: usize) -> bool {
        let crashed = state.nodes.iter().filter(|node| !node.is_alive).count();
        let keeps_one = |nodes: &[usize]| {
            nodes
                .iter()
                .any(|other| *other != node && state.nodes[*other].is_alive)
        };
        state.nodes[node].is_alive
            && crashed < self.node_crashes
            && keeps_one(&self.slots)
            && self.clients.iter().all(|plan| keeps_one(&plan.log))
    }

    /// Verbs of a batch that nobody waits for any more may still come.
    fn give_up(&self, state: &mut State, client: usize) {
        let batch = std::mem::take(&mut state.clients[client].batch);
        let nodes = &state.nodes;
        let may_come = |(flight, answer): &(Flight, Option<Answer>)| {
            answer.is_none() && flight.act.changes() && nodes[flight.node].is_alive
        };
        let left = batch.into_iter().filter(may_come).map(|(flight, _)| flight);
        state.late.extend(left);
    }

    fn crash_node(&self, state: &mut State, node: usize) {
        state.nodes[node] = Node {
            is_alive: false,
            slots: [0; SLOTS],
            logs: vec![None; self.clients.len() * CALLS],
        };
        state.late.retain(|flight| flight.node != node);
    }
}

impl Model for Twins {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let clients = self.clients.len();
        let node = Node {
            is_alive: true,
            slots: [0; SLOTS],
            logs: vec![None; clients * CALLS],
        };
        let client = Client {
            begun: 0,
            stage: Stage::Idle,
            batch: Vec::new(),
            late: None,
            nonces: 0,
        };
        let mut state = State {
            nodes: vec![node; self.nodes],
            clients: vec![client; clients],
            late: BTreeSet::new(),
            closings: 0,
            lost: BTreeSet::new(),
            cuts: 0,
            history: History::new(clients),
        };
        for client in 0..clients {
            if self.clients[client].calls.first() == Some(&Call::Insert) {
                self.begin(&mut state, client);
            }
        }
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for client in 0..state.clients.len() {
            self.client_steps(state, client, steps);
        }
        steps.extend(
            (0..self.nodes)
                .filter(|node| self.may_crash(state, *node))
                .map(Step::NodeCrashes),
        );
        steps.extend(state.late.iter().copied().map(Step::Lands));
        if self.needs_closing(state) {
            steps.push(Step::Closes);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Calls(client) => self.begin(&mut next, client),
            Step::Acts(client, place) => {
                let (flight, _) = state.clients[client].batch[place];
                let answer = self.act(&mut next, &flight);
                next.clients[client].batch[place].1 = Some(answer);
                self.complete(&mut next, client);
            }
            Step::Lands(flight) => {
                next.late.remove(&flight);
                self.act(&mut next, &flight);
            }
            Step::Looks(client) => self.look_again(&mut next, client),
            Step::Cuts(client) => {
                next.cuts += 1;
                let stage = state.clients[client].interrupted();
                self.give_up(&mut next, client);
                next.clients[client].stage = stage;
            }
            Step::ClientCrashes(client) => {
                self.give_up(&mut next, client);
                next.clients[client].stage = Stage::Crashed(false);
                next.clients[client].late = None;
            }
            Step::NodeCrashes(node) => self.crash_node(&mut next, node),
            Step::Closes => self.close(&mut next),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = self.holds();
        properties.extend(self.reached());
        properties
    }
}
