//! What has to hold in every state, and what has to occur in some.

use cenote_replica::object::Outcome;
use stateright::{Model, Property};

use super::client::{Call, Plan, Stage};
use super::{SLOTS, State, Twins, shown};

impl Twins {
    /// What has to hold in every state.
    pub(super) fn holds(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("linearizable", |_: &Self, state: &State| {
                state.history.is_linearizable()
            }),
            Property::always("one slot is shown", |model: &Self, state: &State| {
                model.shown(state, model.home(state).0).len() <= 1
            }),
            Property::always("no deadlock", |model: &Self, state: &State| {
                let mut steps = Vec::new();
                model.actions(state, &mut steps);
                !steps.is_empty() || (0..state.clients.len()).all(|client| model.has_finished(state, client))
            }),
            Property::always("copies are equal at the end", |model: &Self, state: &State| {
                let words = |node: &usize| state.nodes[*node].slots;
                let nodes = model.view(state, &model.slots);
                let mut rest = nodes.iter().skip(1);
                !model.is_quiet(state) || rest.all(|node| words(node) == words(&nodes[0]))
            }),
            Property::always(
                "the key is bound to what it has to be at the end",
                |model, state| {
                    let objects = model.shown(state, model.home(state).0);
                    !model.is_quiet(state) || state.history.allows(objects.first().copied())
                },
            ),
        ]
    }

    /// The objects that a node shows.
    fn shown(&self, state: &State, node: usize) -> Vec<usize> {
        let words = state.nodes[node].slots.into_iter();
        words.filter_map(shown).collect()
    }

    /// Whether everybody has finished, and nothing is left to be done.
    fn is_quiet(&self, state: &State) -> bool {
        !self.needs_closing(state)
            && state.late.is_empty()
            && (0..state.clients.len()).all(|client| self.has_finished(state, client))
    }

    /// If the primary is lost, and the backup shows two objects: which of their logs say that they stay.
    fn twins_left(&self, state: &State) -> Option<[bool; SLOTS]> {
        let (primary, backup) = self.home(state);
        if state.nodes[primary].is_alive {
            return None;
        }
        let objects = self.shown(state, backup?);
        let objects: [usize; SLOTS] = objects.try_into().ok()?;
        Some(objects.map(|object| {
            let said = self.said(state, object).said;
            said.is_some_and(Outcome::stays)
        }))
    }

    /// What has to occur, for these clients, nodes and crashes.
    pub(super) fn reached(&self) -> Vec<Property<Self>> {
        let mut properties: Vec<Property<Self>> = Vec::new();
        let inserts = |plan: &&Plan| plan.calls.first() == Some(&Call::Insert);
        let has_twins = self.clients.iter().filter(inserts).count() > 1;
        if has_twins {
            properties.push(Property::sometimes("an insert gives up", |_, state| {
                any(state, |stage| matches!(stage, Stage::Leaves(..)))
            }));
            properties.push(Property::sometimes("an insert waits for its twin", |_, state| {
                any(state, |stage| matches!(stage, Stage::Lurks(..)))
            }));
        }
        let has = |call| self.clients.iter().any(|plan| plan.calls.contains(&call));
        if has(Call::Get) {
            properties.push(Property::sometimes("a reader tells", |model, state| {
                model.does(state, Call::Get, |stage| matches!(stage, Stage::TellsFirst(..)))
            }));
        }
        // A client knows what the log of its own object says.
        if self
            .clients
            .iter()
            .any(|plan| plan.calls.first() == Some(&Call::Remove))
        {
            properties.push(Property::sometimes("who removes tells", |model, state| {
                model.does(state, Call::Remove, |stage| {
                    matches!(stage, Stage::TellsFirst(..))
                })
            }));
        }
        if has_twins && self.node_crashes > 0 && self.slots.len() > 1 {
            properties.push(Property::sometimes(
                "a closing finds twins that say nothing",
                |model, state| model.twins_left(state) == Some([false, false]),
            ));
            properties.push(Property::sometimes(
                "a closing chooses by the log",
                |model, state| model.twins_left(state) == Some([false, true]),
            ));
            properties.push(Property::sometimes(
                "undone though it was shown",
                |model: &Self, state: &State| {
                    let undone = Some(Outcome::Undone);
                    (0..state.clients.len()).any(|client| {
                        let is_shown = state.clients[client].stage == Stage::Asks { is_shown: true };
                        is_shown && model.said(state, model.own(state, client)).said == undone
                    })
                },
            ));
        }
        properties
    }

    /// Whether a client is in such a call and such a stage.
    fn does(&self, state: &State, call: Call, is: impl Fn(Stage) -> bool) -> bool {
        let mut clients = state.clients.iter().enumerate();
        clients.any(|(number, client)| self.call(state, number) == Some(call) && is(client.stage))
    }
}

/// Whether a client is in such a stage.
fn any(state: &State, is: impl Fn(Stage) -> bool) -> bool {
    state.clients.iter().any(|client| is(client.stage))
}
