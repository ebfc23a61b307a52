//! What the master does: it closes the region, makes its copies equal, and opens it.

use std::collections::BTreeSet;

use cenote_replica::master::equalise::outcome;
use cenote_replica::object::Outcome;
use cenote_replica::slot::value::Slot;
use cenote_replica::view::{Access, Key, NodeId, Region};

use super::client::{Call, Stage};
use super::{Fault, Snapshot, State, Step};

/// A closing that goes on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Closing {
    /// The view that it decides on: the nodes that are left, the first of them the primary, and the new key.
    region: Region,
    /// Clients whose sessions it ends.
    ended: Vec<usize>,
    /// Nodes that have the key.
    given: BTreeSet<usize>,
    /// Nodes whose copies are equal to that of the first.
    equal: BTreeSet<usize>,
}

impl Closing {
    fn nodes(&self) -> impl Iterator<Item = usize> {
        self.region.nodes.iter().map(|NodeId(node)| *node as usize)
    }

    fn first(&self) -> Option<usize> {
        self.nodes().next()
    }

    /// Whether all nodes have the key.
    fn has_keys(&self) -> bool {
        self.given.len() == self.region.nodes.len()
    }
}

impl Snapshot {
    /// Whether somebody has failed, or waits for a view that is not there.
    pub(super) fn needs_closing(&self, state: &State) -> bool {
        let is_lost = |NodeId(node): &NodeId| !state.nodes[*node as usize].is_alive;
        let complains = |client: usize| {
            let is_newest = state.clients[client].region == state.view;
            matches!(state.clients[client].stage, Stage::Waits(_)) && is_newest
        };
        state.view.access == Access::Closed
            || state.view.nodes.iter().any(is_lost)
            || state
                .clients
                .iter()
                .any(|client| client.stage == Stage::Crashed(false))
            || (0..state.clients.len()).any(complains)
    }

    /// What the master can do next.
    pub(super) fn master_steps(&self, state: &State, steps: &mut Vec<Step>) {
        let Some(closing) = &state.closing else {
            if self.needs_closing(state) {
                steps.push(Step::Closes);
            }
            return;
        };
        if state.masters_lost < self.master_crashes {
            steps.push(Step::MasterCrashes);
        }
        let alive = |node: &usize| state.nodes[*node].is_alive;
        if !closing.nodes().all(|node| alive(&node)) {
            // One of its verbs does not come back: it begins again, without that node.
            steps.push(Step::Closes);
        }
        let lacks = |node: &usize| alive(node) && !closing.given.contains(node);
        steps.extend(closing.nodes().filter(lacks).map(Step::Gives));
        if !closing.has_keys() || !closing.first().is_some_and(|first| alive(&first)) {
            return;
        }
        let differs = |node: &usize| alive(node) && !closing.equal.contains(node);
        steps.extend(closing.nodes().filter(differs).map(Step::Copies));
        if closing
            .nodes()
            .all(|node| alive(&node) && closing.equal.contains(&node))
        {
            steps.push(Step::Opens);
        }
    }

    /// A step of the master.
    pub(super) fn master_step(&self, state: &mut State, step: Step) {
        match (step, state.closing.take()) {
            (Step::Closes, before) => self.close(state, before.as_ref()),
            (Step::MasterCrashes, before) => {
                state.masters_lost += 1;
                self.close(state, before.as_ref());
            }
            (Step::Gives(node), Some(mut closing)) => {
                state.nodes[node].key = closing.region.key.0;
                closing.given.insert(node);
                if closing.has_keys() {
                    closing.equal.extend(closing.first());
                    // A backup that has become the first may hold what no other copy has, and be lost as well.
                    let is_primary_left = closing.region.primary() == state.view.primary();
                    if is_primary_left || self.fault == Some(Fault::ReadEarly) {
                        state.view = closing.region.clone();
                    }
                }
                state.closing = Some(closing);
                self.drop_refused(state);
            }
            (Step::Copies(node), Some(mut closing)) => {
                if let Some(first) = closing.first()
                    && self.fault != Some(Fault::CopiesKept)
                {
                    state.nodes[node].word = state.nodes[first].word;
                }
                closing.equal.insert(node);
                state.closing = Some(closing);
            }
            (_, Some(closing)) => self.open(state, &closing),
            (_, None) => {}
        }
    }

    fn close(&self, state: &mut State, before: Option<&Closing>) {
        let key = before.map_or(state.view.key, |closing| closing.region.key);
        let is_left = |NodeId(node): &NodeId| state.nodes[*node as usize].is_alive;
        let left = state.view.nodes.iter().copied().filter(is_left);
        let clients = 0..state.clients.len();
        state.closing = Some(Closing {
            region: Region {
                nodes: left.collect(),
                key: Key(key.0 + 1),
                access: Access::Closed,
            },
            ended: clients
                .filter(|client| matches!(state.clients[*client].stage, Stage::Crashed(_)))
                .collect(),
            given: BTreeSet::new(),
            equal: BTreeSet::new(),
        });
    }

    fn open(&self, state: &mut State, closing: &Closing) {
        let Some(first) = closing.first() else { return };
        let word = state.nodes[first].word;
        for client in 0..state.clients.len() {
            let is_writing = self.call(state, client) == Some(Call::Write);
            if !is_writing || !state.clients[client].stage.is_calling() {
                continue;
            }
            let said = state.nodes[first].logs[client];
            let wants = Slot(self.value(state, client));
            let tells = outcome(wants, said, &[Slot(word)]);
            if said != Some(Outcome::Decided) && said != Some(tells) {
                for node in closing.nodes() {
                    state.nodes[node].logs[client] = Some(tells);
                }
            }
        }
        for client in &closing.ended {
            state.clients[*client].stage = Stage::Crashed(true);
            for node in &mut state.nodes {
                node.logs[*client] = None;
            }
        }
        state.view = closing.region.clone();
        state.view.access = Access::Open;
    }
}
