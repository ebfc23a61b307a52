//! One replicated word: SNAPSHOT, with crashes of clients, nodes and the master (`docs/protocols/replicated-map.md`).
//!
//! Shipped code is run for everything that a client does to the word ([`client`]), for the rules, and for what the
//! master writes to the log of a change. What is modelled is what lies between: the network, the view, the order of the
//! master's steps.
//!
//! | one step | |
//! |---|---|
//! | a verb takes effect | at one node; those of a batch in any order; also after its client has given it up, or has crashed |
//! | a client gets the completions of a batch | all of them; until then it may crash, and so may the nodes, so what was done may stay unknown |
//! | a client gives a batch up | if a node that it needs is dead, and [`Snapshot::delays`] times for no reason |
//! | the master decides on a closing; gives the key to one node; makes one copy equal; opens | in this order, each for any node |
//!
//! A fruitless look of a loser is no step. So a state without a next one, in which a client has not finished, is a
//! deadlock, and all runs end: what could be repeated for ever is not there.

pub mod client;
pub mod history;
#[cfg(test)]
mod history_tests;
mod master;
mod properties;

use std::collections::BTreeSet;

use cenote_replica::object::Outcome;
use cenote_replica::slot::snapshot::Verdict;
use cenote_replica::verbs::Completion;
use cenote_replica::view::{Access, Key, NodeId, Region};
use stateright::{Model, Property};

use client::{Act, Answer, Call, Client, Flight, Progress, Stage};
use history::History;
use master::Closing;

/// The value that the word has at first.
const FIRST: u64 = 1;

/// The model.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// How many nodes hold the word.
    pub nodes: usize,
    /// For each client: its calls, one after the other.
    pub calls: Vec<Vec<Call>>,
    /// How many clients may crash.
    pub client_crashes: usize,
    /// How many nodes may crash. The last one does not.
    pub node_crashes: usize,
    /// How often a master may crash while it closes the region.
    pub master_crashes: usize,
    /// How often a client may give up a batch although all nodes are alive.
    pub delays: usize,
    /// A planted fault.
    pub fault: Option<Fault>,
}

/// Something that is done wrongly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nodes go on taking verbs with the keys of before.
    KeysKept,
    /// The region is opened with its copies as they are.
    CopiesKept,
    /// The smallest value wins although the round may be over: the primary is not read.
    SmallestUnchecked,
    /// A loser does not wait for the winner.
    LoserReturns,
    /// A client whose round was interrupted does not ask what became of it, and begins again.
    NeverAsks,
    /// A client whose round was interrupted takes it for done.
    NeverUndone,
    /// A winner does not write its log.
    NoLog,
    /// Clients read while the region is closed, although its primary is lost and its copies differ.
    ReadEarly,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// Whether it has not crashed.
    pub is_alive: bool,
    /// The region's key.
    pub key: u64,
    /// The word.
    pub word: u64,
    /// For each client: what the log of its change says.
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
    /// The newest view that clients know.
    pub view: Region,
    /// What the master is doing.
    pub closing: Option<Closing>,
    /// Masters that have crashed.
    pub masters_lost: usize,
    /// Batches that were given up for no reason.
    pub delays: usize,
    /// What clients were told.
    pub history: History,
}

/// A step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A client begins its next call.
    Calls(usize),
    /// A verb of a client's batch takes effect.
    Acts(usize, usize),
    /// A client gets the completions of its batch.
    Completes(usize),
    /// A client does not get them.
    GivesUp(usize),
    /// A client learns a later view, and goes on.
    Resumes(usize),
    /// A verb takes effect that nobody waits for.
    Late(Flight),
    /// A client crashes.
    ClientCrashes(usize),
    /// A node crashes.
    NodeCrashes(usize),
    /// The master decides that the region is closed.
    Closes,
    /// The master crashes, and the next one closes the region again.
    MasterCrashes,
    /// The master gives the new key to a node.
    Gives(usize),
    /// The master makes a node's copy equal to that of the first node.
    Copies(usize),
    /// The master writes how each change has gone, and opens the region.
    Opens,
}

impl Snapshot {
    /// The value that a client writes in the present call, or would.
    fn value(&self, state: &State, client: usize) -> u64 {
        let call = state.clients[client].begun.saturating_sub(1);
        FIRST + 1 + (call * self.calls.len() + client) as u64
    }

    /// The call that a client is in, if it has begun one.
    fn call(&self, state: &State, client: usize) -> Option<Call> {
        let begun = state.clients[client].begun.checked_sub(1)?;
        self.calls[client].get(begun).copied()
    }

    fn has_finished(&self, state: &State, client: usize) -> bool {
        match state.clients[client].stage {
            Stage::Idle => state.clients[client].begun == self.calls[client].len(),
            stage => matches!(stage, Stage::Crashed(_)),
        }
    }

    /// A client begins its next call.
    fn begin(&self, state: &mut State, client: usize) {
        state.clients[client].begun += 1;
        match self.call(state, client) {
            Some(Call::Write) => {
                let value = self.value(state, client);
                state.history.begins_write(client, value);
                self.begin_write(state, client);
            }
            Some(Call::Read) => {
                state.history.begins_read(client);
                self.enter(state, client, Stage::Reads);
            }
            None => {}
        }
    }

    /// A client writes its object, whose log is empty, and looks at the word.
    fn begin_write(&self, state: &mut State, client: usize) {
        if state.view.access == Access::Closed {
            return self.wait(state, client, false);
        }
        for node in &mut state.nodes {
            node.logs[client] = None;
        }
        self.enter(state, client, Stage::Looks);
    }

    /// A client begins a stage. A call, and what follows a wait, is for the newest view.
    fn enter(&self, state: &mut State, client: usize, stage: Stage) {
        if matches!(stage, Stage::Reads | Stage::Looks | Stage::Asks) {
            state.clients[client].region = state.view.clone();
        }
        state.clients[client].stage = stage;
        state.clients[client].done.clear();
        let region = &state.clients[client].region;
        let to = |node: &NodeId, act| Flight {
            client,
            node: node.0 as usize,
            key: region.key.0,
            act,
        };
        let batch: Vec<Flight> = match stage {
            Stage::Logs(old) => region.nodes.iter().map(|node| to(node, Act::Log(old))).collect(),
            Stage::Asks => region
                .nodes
                .first()
                .map(|node| to(node, Act::Ask))
                .into_iter()
                .collect(),
            _ => return self.go_on(state, client, Vec::new()),
        };
        state.clients[client].batch = batch.into_iter().map(|flight| (flight, None)).collect();
    }

    /// Runs the shipped part of a client's stage, as far as it comes with these completions of its last batch.
    fn go_on(&self, state: &mut State, client: usize, last: Vec<Completion>) {
        let value = self.value(state, client);
        let Client {
            stage,
            region,
            done,
            batch,
            ..
        } = &mut state.clients[client];
        let stage = *stage;
        batch.clear();
        let words = |words: &Vec<u64>| words.iter().map(|word| Completion::Was(*word)).collect();
        let mut completions: Vec<Vec<Completion>> = done.iter().map(words).collect();
        if !last.is_empty() {
            let words = last.iter().filter_map(|completion| match completion {
                Completion::Was(word) => Some(*word),
                _ => None,
            });
            done.push(words.collect());
            completions.push(last);
        }
        let progress = stage.run(region, value, completions);
        match (progress, stage) {
            (Progress::Posted(requests), _) => {
                let flights = requests.iter().map(|request| (Flight::of(client, request), None));
                batch.extend(flights);
                let is_check = matches!(
                    (stage, &batch[..]),
                    (Stage::Swaps(_), [(Flight { act: Act::Read, .. }, _)])
                );
                if let (Some(Fault::SmallestUnchecked), true, Stage::Swaps(old)) =
                    (self.fault, is_check, stage)
                {
                    self.go_on(state, client, vec![Completion::Was(old)]);
                }
            }
            (Progress::Interrupted, _) => {
                let has_begun = matches!(stage, Stage::Swaps(_) | Stage::Ends(_) | Stage::Awaits(_));
                self.wait(state, client, has_begun);
            }
            (Progress::Read(word), Stage::Reads) => {
                state.history.ends_read(client, word);
                self.finish(state, client);
            }
            (Progress::Read(word), Stage::Looks) => self.enter(state, client, Stage::Swaps(word)),
            (Progress::Judged(Verdict::Won), Stage::Swaps(old)) if self.fault == Some(Fault::NoLog) => {
                self.enter(state, client, Stage::Ends(old));
            }
            (Progress::Judged(Verdict::Won), Stage::Swaps(old)) => {
                self.enter(state, client, Stage::Logs(old))
            }
            (Progress::Judged(Verdict::Lost), Stage::Swaps(old) | Stage::Ends(old))
                if self.fault != Some(Fault::LoserReturns) =>
            {
                self.enter(state, client, Stage::Awaits(old));
            }
            // It has won; or it has lost, and it is as if its write had come just before the winner's.
            _ => self.end_write(state, client),
        }
    }

    fn end_write(&self, state: &mut State, client: usize) {
        state.history.ends_write(client);
        self.finish(state, client);
    }

    /// A call is over.
    fn finish(&self, state: &mut State, client: usize) {
        for node in &mut state.nodes {
            node.logs[client] = None;
        }
        state.clients[client] = Client {
            begun: state.clients[client].begun,
            stage: Stage::Idle,
            region: nowhere(),
            done: Vec::new(),
            batch: Vec::new(),
        };
    }

    /// A client waits for a later view.
    fn wait(&self, state: &mut State, client: usize, has_begun: bool) {
        let Client {
            stage, done, batch, ..
        } = &mut state.clients[client];
        *stage = Stage::Waits(has_begun);
        done.clear();
        batch.clear();
    }

    /// Whether a client that waits knows a view under which it goes on.
    fn may_resume(&self, state: &State, client: usize) -> bool {
        let region = &state.clients[client].region;
        let is_open = state.view.access == Access::Open;
        match (state.clients[client].stage, self.call(state, client)) {
            (Stage::Waits(true), _) => is_open && state.view.key > region.key,
            (Stage::Waits(false), Some(Call::Read)) => state.view != *region,
            (Stage::Waits(false), _) => is_open && state.view != *region,
            _ => false,
        }
    }

    fn resume(&self, state: &mut State, client: usize) {
        match (state.clients[client].stage, self.call(state, client), self.fault) {
            (Stage::Waits(true), _, Some(Fault::NeverUndone)) => self.end_write(state, client),
            (Stage::Waits(true), _, Some(Fault::NeverAsks)) => self.begin_write(state, client),
            (Stage::Waits(true), ..) => self.enter(state, client, Stage::Asks),
            (_, Some(Call::Read), _) => self.enter(state, client, Stage::Reads),
            _ => self.begin_write(state, client),
        }
    }

    /// A client gets the completions of its batch.
    fn complete(&self, state: &mut State, client: usize) {
        let batch = std::mem::take(&mut state.clients[client].batch);
        let answers: Vec<Answer> = batch.into_iter().filter_map(|(_, answer)| answer).collect();
        match state.clients[client].stage {
            Stage::Logs(_) if answers.contains(&Answer::Refused) => self.wait(state, client, true),
            Stage::Logs(old) => self.enter(state, client, Stage::Ends(old)),
            Stage::Asks => match answers.first() {
                Some(Answer::Said(Some(Outcome::Decided))) => self.end_write(state, client),
                Some(Answer::Said(_)) => self.begin_write(state, client),
                _ => self.wait(state, client, true),
            },
            _ => {
                let completions = answers.into_iter().map(Answer::completion).collect();
                self.go_on(state, client, completions);
            }
        }
    }

    /// Verbs of a batch that nobody waits for any more may still come.
    fn give_up(&self, state: &mut State, client: usize) {
        let batch = std::mem::take(&mut state.clients[client].batch);
        let unanswered = batch.into_iter().filter(|(_, answer)| answer.is_none());
        state.late.extend(unanswered.map(|(flight, _)| flight));
        self.drop_refused(state);
    }

    /// Late verbs that no node takes any more are as if they were not there; and so are late reads.
    fn drop_refused(&self, state: &mut State) {
        let nodes = &state.nodes;
        state.late.retain(|flight| {
            !matches!(flight.act, Act::Read | Act::Ask) && self.takes(&nodes[flight.node], flight)
        });
    }

    fn takes(&self, node: &Node, flight: &Flight) -> bool {
        node.is_alive && (node.key == flight.key || self.fault == Some(Fault::KeysKept))
    }

    /// A verb takes effect at its node, which is alive.
    fn act(&self, state: &mut State, flight: &Flight) -> Answer {
        let node = &mut state.nodes[flight.node];
        if !self.takes(node, flight) {
            return Answer::Refused;
        }
        let was = node.word;
        match flight.act {
            Act::Read => Answer::Was(was),
            Act::Swap(expected, new) => {
                if was == expected {
                    node.word = new;
                }
                Answer::Was(was)
            }
            Act::Log(old) => {
                node.logs[flight.client] = Some(Outcome::Won { old, former: 1 });
                Answer::Logged
            }
            Act::Ask => Answer::Said(node.logs[flight.client]),
        }
    }

    /// Whether a verb is a loser's look that would find the round going on.
    fn is_fruitless(&self, state: &State, client: usize, flight: &Flight) -> bool {
        let node = &state.nodes[flight.node];
        matches!(state.clients[client].stage, Stage::Awaits(old) if node.word == old && self.takes(node, flight))
    }

    fn crash_client(&self, state: &mut State, client: usize) {
        self.give_up(state, client);
        if self.call(state, client) == Some(Call::Read) {
            state.history.forgets_read(client);
        }
        self.wait(state, client, false);
        state.clients[client].region = nowhere();
        state.clients[client].stage = Stage::Crashed(false);
    }

    fn crash_node(&self, state: &mut State, node: usize) {
        let clients = self.calls.len();
        state.nodes[node] = Node {
            is_alive: false,
            key: 0,
            word: 0,
            logs: vec![None; clients],
        };
        self.drop_refused(state);
    }

    /// What a client can do next, or what can happen to it.
    fn client_steps(&self, state: &State, number: usize, steps: &mut Vec<Step>) {
        let client = &state.clients[number];
        if client.stage == Stage::Idle && client.begun < self.calls[number].len() {
            steps.push(Step::Calls(number));
        }
        if self.may_resume(state, number) {
            steps.push(Step::Resumes(number));
        }
        let is_alive = |node: usize| state.nodes[node].is_alive;
        for (place, (flight, answer)) in client.batch.iter().enumerate() {
            if answer.is_none() && is_alive(flight.node) && !self.is_fruitless(state, number, flight) {
                steps.push(Step::Acts(number, place));
            }
        }
        if !client.batch.is_empty() {
            if client.batch.iter().all(|(_, answer)| answer.is_some()) {
                steps.push(Step::Completes(number));
            }
            let is_lost = client.batch.iter().any(|(flight, _)| !is_alive(flight.node));
            if is_lost || state.delays < self.delays {
                steps.push(Step::GivesUp(number));
            }
        }
        let crashed = state.clients.iter().filter(|client| client.has_crashed()).count();
        if client.stage.is_calling() && crashed < self.client_crashes {
            steps.push(Step::ClientCrashes(number));
        }
    }
}

/// The view of who does not act.
fn nowhere() -> Region {
    Region {
        nodes: Vec::new(),
        key: Key(0),
        access: Access::Open,
    }
}

impl Client {
    fn has_crashed(&self) -> bool {
        matches!(self.stage, Stage::Crashed(_))
    }
}

impl State {
    /// The node that is the primary of the newest view.
    fn primary(&self) -> Option<&Node> {
        let NodeId(primary) = self.view.primary()?;
        self.nodes.get(primary as usize)
    }
}

impl Model for Snapshot {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let clients = self.calls.len();
        let node = Node {
            is_alive: true,
            key: 1,
            word: FIRST,
            logs: vec![None; clients],
        };
        let client = Client {
            begun: 0,
            stage: Stage::Idle,
            region: nowhere(),
            done: Vec::new(),
            batch: Vec::new(),
        };
        vec![State {
            nodes: vec![node; self.nodes],
            clients: vec![client; clients],
            late: BTreeSet::new(),
            view: Region {
                nodes: (0..self.nodes as u32).map(NodeId).collect(),
                key: Key(1),
                access: Access::Open,
            },
            closing: None,
            masters_lost: 0,
            delays: 0,
            history: History::new(clients, FIRST),
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for client in 0..state.clients.len() {
            self.client_steps(state, client, steps);
        }
        let alive = |node: &usize| state.nodes[*node].is_alive;
        let crashed = (0..self.nodes).filter(|node| !alive(node)).count();
        if crashed < self.node_crashes.min(self.nodes - 1) {
            steps.extend((0..self.nodes).filter(alive).map(Step::NodeCrashes));
        }
        steps.extend(state.late.iter().map(|flight| Step::Late(*flight)));
        self.master_steps(state, steps);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Calls(client) => self.begin(&mut next, client),
            Step::Acts(client, place) => {
                let (flight, _) = state.clients[client].batch[place];
                let answer = self.act(&mut next, &flight);
                next.clients[client].batch[place].1 = Some(answer);
            }
            Step::Completes(client) => self.complete(&mut next, client),
            Step::GivesUp(client) => {
                let is_alive = |(flight, _): &(Flight, _)| state.nodes[flight.node].is_alive;
                if state.clients[client].batch.iter().all(is_alive) {
                    next.delays += 1;
                }
                let has_begun = !matches!(state.clients[client].stage, Stage::Reads | Stage::Looks);
                self.give_up(&mut next, client);
                self.wait(&mut next, client, has_begun);
            }
            Step::Resumes(client) => self.resume(&mut next, client),
            Step::Late(flight) => {
                next.late.remove(&flight);
                self.act(&mut next, &flight);
            }
            Step::ClientCrashes(client) => self.crash_client(&mut next, client),
            Step::NodeCrashes(node) => self.crash_node(&mut next, node),
            step => self.master_step(&mut next, step),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = self.holds();
        properties.extend(self.reached());
        properties
    }
}
