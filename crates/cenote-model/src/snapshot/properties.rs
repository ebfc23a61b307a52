//! What has to hold in every state, and what has to occur in some.

use cenote_replica::object::Outcome;
use cenote_replica::slot::rules::{Judgement, judge};
use cenote_replica::view::NodeId;
use stateright::{Model, Property};

use super::client::{Act, Answer, Call, Client, Flight, Stage};
use super::{Node, Snapshot, State};

impl Snapshot {
    /// What has to hold in every state.
    pub(super) fn holds(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("linearizable", |_: &Self, state: &State| {
                state.history.is_linearizable()
            }),
            Property::always("no deadlock", |model: &Self, state: &State| {
                let mut steps = Vec::new();
                model.actions(state, &mut steps);
                !steps.is_empty() || (0..state.clients.len()).all(|client| model.has_finished(state, client))
            }),
            Property::always("copies are equal at the end", |model: &Self, state: &State| {
                let word = state.primary().map(|node| node.word);
                let is_equal = |NodeId(node): &NodeId| Some(state.nodes[*node as usize].word) == word;
                !model.is_quiet(state) || state.view.nodes.iter().all(is_equal)
            }),
            Property::always("nothing is late at the end", |model: &Self, state: &State| {
                !model.is_quiet(state) || state.late.is_empty()
            }),
        ]
    }

    /// Whether everybody has finished, and nothing is left to be done.
    fn is_quiet(&self, state: &State) -> bool {
        state.closing.is_none()
            && !self.needs_closing(state)
            && (0..state.clients.len()).all(|client| self.has_finished(state, client))
    }

    /// Whether a client has, just now, what it needs to judge this.
    fn judges(&self, state: &State, judgement: Judgement) -> bool {
        let clients = state.clients.iter().enumerate();
        let mut writers = clients.filter(|(_, client)| client.done.is_empty());
        writers.any(|(number, client)| {
            let new = self.value(state, number);
            client
                .held(new)
                .is_some_and(|held| judge(&held, new) == judgement)
        })
    }

    /// Whether the smallest has read at the primary that its round goes on, or that it is over.
    fn checks(&self, state: &State, goes_on: bool) -> bool {
        state
            .clients
            .iter()
            .any(|client| match (client.stage, &client.batch[..]) {
                (Stage::Swaps(old), [(Flight { act: Act::Read, .. }, Some(Answer::Was(was)))]) => {
                    (*was == old) == goes_on
                }
                _ => false,
            })
    }

    /// Whether a client has crashed with its round won and not ended.
    fn leaves_a_round(&self, state: &State) -> bool {
        let is_primary = |flight: &Flight| state.view.primary() == Some(NodeId(flight.node as u32));
        state.late.iter().any(|flight| {
            is_primary(flight)
                && matches!(flight.act, Act::Swap(..))
                && state.clients[flight.client].has_crashed()
        })
    }

    /// What has to occur, for these clients, nodes and crashes.
    pub(super) fn reached(&self) -> Vec<Property<Self>> {
        let mut properties = vec![Property::<Self>::sometimes("rule 1: a winner", |model, state| {
            model.judges(state, Judgement::All)
        })];
        let writers = self
            .calls
            .iter()
            .filter(|calls| calls.contains(&Call::Write))
            .count();
        if writers > 1 {
            properties.push(Property::sometimes("a loser", |model, state| {
                model.judges(state, Judgement::Lost)
            }));
        }
        if writers > 1 && self.nodes > 3 {
            properties.push(Property::sometimes("rule 2: a winner", |model, state| {
                model.judges(state, Judgement::Majority)
            }));
        }
        // Of two writers one has more than half of three backups.
        if self.nodes > 2 && (writers > 2 || (writers == 2 && self.nodes % 2 == 1)) {
            properties.push(Property::sometimes("rule 3: a winner", |model, state| {
                model.checks(state, true)
            }));
        }
        if writers > 2 && self.nodes > 2 {
            properties.push(Property::sometimes(
                "rule 3: the round is over",
                |model, state| model.checks(state, false),
            ));
        }
        // What a client has shown at the primary it knows, unless completions are lost.
        if self.node_crashes + self.delays > 0 {
            properties.push(Property::sometimes(
                "a change is decided by a closing",
                |_, state| told(state, Outcome::Decided),
            ));
        }
        if self.node_crashes + self.client_crashes + self.delays > 0 && (writers > 1 || self.node_crashes > 0)
        {
            properties.push(Property::sometimes(
                "a change is undone by a closing",
                |_, state| told(state, Outcome::Undone),
            ));
        }
        if self.node_crashes > 0 {
            properties.push(Property::sometimes(
                "the primary crashes in a round",
                |_: &Self, state: &State| {
                    let is_going = |client: &Client| matches!(client.stage, Stage::Swaps(_));
                    state.primary().is_some_and(|node| !node.is_alive) && state.clients.iter().any(is_going)
                },
            ));
            properties.push(Property::sometimes(
                "a backup crashes in a round",
                |_: &Self, state: &State| {
                    let is_going = |client: &Client| matches!(client.stage, Stage::Swaps(_));
                    let is_dead = |NodeId(node): &NodeId| !state.nodes[*node as usize].is_alive;
                    state.view.backups().iter().any(is_dead) && state.clients.iter().any(is_going)
                },
            ));
        }
        if self.client_crashes > 0 {
            properties.push(Property::sometimes(
                "a client crashes between backups and primary",
                |model, state| model.leaves_a_round(state),
            ));
        }
        if self.client_crashes > 0 && self.node_crashes > 0 {
            properties.push(Property::sometimes(
                "a client and a node crash",
                |model, state| {
                    let is_lost = |node: &Node| !node.is_alive;
                    model.leaves_a_round(state) && state.nodes.iter().any(is_lost)
                },
            ));
        }
        properties
    }
}

/// Whether a client that waited reads this in its log.
fn told(state: &State, outcome: Outcome) -> bool {
    let said = Some(Answer::Said(Some(outcome)));
    let hears = |client: &Client| client.batch.iter().any(|(_, answer)| *answer == said);
    state.clients.iter().any(hears)
}
