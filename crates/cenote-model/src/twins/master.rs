//! What the master does: a closing of all regions, in one step.

use std::collections::BTreeSet;

use cenote_replica::index::candidates::Seen;
use cenote_replica::master::equalise::{Log, gives_way, outcome};
use cenote_replica::object::Outcome;
use cenote_replica::slot::value::{Content, Slot};
use cenote_replica::verbs::Address;

use super::client::{Call, Stage};
use super::stages::removed;
use super::{CALLS, Fault, SLOTS, State, Twins, object_of, slot_of};

impl Twins {
    /// Whether somebody has failed, or waits for a closing.
    pub(super) fn needs_closing(&self, state: &State) -> bool {
        let is_lost = |node: &usize| !state.nodes[*node].is_alive && !state.lost.contains(node);
        let stages = || state.clients.iter().map(|client| client.stage);
        (0..self.nodes).any(|node| is_lost(&node))
            || stages().any(|stage| matches!(stage, Stage::Waits { .. } | Stage::Crashed(false)))
    }

    /// Closes the regions, makes the copies equal, decides changes, and opens the regions.
    pub(super) fn close(&self, state: &mut State) {
        state.closings += 1;
        let dead = (0..self.nodes).filter(|node| !state.nodes[*node].is_alive);
        state.lost.extend(dead.collect::<BTreeSet<_>>());
        state.late.clear();
        self.equalise(state);
        for object in self.going(state) {
            self.decide(state, object);
        }
        for client in 0..state.clients.len() {
            match state.clients[client].stage {
                Stage::Crashed(_) => state.clients[client].stage = Stage::Crashed(true),
                _ => self.resume(state, client),
            }
        }
    }

    /// The objects that in-flight cells name: those of the clients' last changes.
    fn going(&self, state: &State) -> Vec<usize> {
        let last = |(client, plan): (usize, &super::Plan)| {
            let begun = 0..state.clients[client].begun;
            let is_change = |call: &usize| matches!(plan.calls[*call], Call::Insert | Call::Remove);
            begun.rev().find(is_change).map(|call| client * CALLS + call)
        };
        self.clients.iter().enumerate().filter_map(last).collect()
    }

    fn call_of(&self, object: usize) -> Call {
        self.clients[object / CALLS].calls[object % CALLS]
    }

    /// Makes the copies of the slots equal.
    fn equalise(&self, state: &mut State) {
        let primary = self.home(state).0;
        for slot in 0..SLOTS {
            let first = Slot(state.nodes[primary].slots[slot]);
            let value = match (first.content(), object_of(first.0)) {
                (Content::Tentative, Some(object)) if self.call_of(object) == Call::Remove => removed(object),
                (Content::Tentative, _) => self.fresh(state, slot),
                _ => first,
            };
            self.write_slot(state, slot, value);
        }
    }

    /// A vacant value that nobody else has.
    fn fresh(&self, state: &State, slot: usize) -> Slot {
        Slot::vacant(0x4000 + SLOTS as u64 * state.closings + slot as u64)
    }

    fn write_slot(&self, state: &mut State, slot: usize, value: Slot) {
        for node in self.view(state, &self.slots) {
            state.nodes[node].slots[slot] = value.0;
        }
    }

    /// What the copies of an object's log say.
    pub(super) fn said(&self, state: &State, object: usize) -> Log {
        let alive = |node: &usize| state.nodes[*node].is_alive;
        let nodes = self.log(state, object).into_iter().filter(alive);
        let copies: Vec<Option<Outcome>> = nodes.map(|node| state.nodes[node].logs[object]).collect();
        Log::of(&copies)
    }

    /// Decides how a change has gone, and writes it to its log.
    fn decide(&self, state: &mut State, object: usize) {
        let primary = self.home(state).0;
        let slots = state.nodes[primary].slots;
        let is_removal = self.call_of(object) == Call::Remove;
        let wants = if is_removal {
            removed(object)
        } else {
            slot_of(object)
        };
        let said = self.said(state, object);
        let seen = |slot: usize| Seen {
            at: Address::new(0, 8 * slot as u32),
            slot: Slot(slots[slot]),
        };
        let mine = (0..SLOTS).find(|slot| slots[*slot] == wants.0);
        if let Some(mine) = mine.filter(|_| !is_removal) {
            let other = SLOTS - 1 - mine;
            let is_twin = object_of(slots[other]).is_some_and(|twin| {
                let gives_way = gives_way((seen(mine), said), (seen(other), self.said(state, twin)));
                if self.has(Fault::SmallerAlways) {
                    other < mine
                } else {
                    gives_way
                }
            });
            if is_twin {
                let vacant = self.fresh(state, mine);
                self.write_slot(state, mine, vacant);
                return self.tell(state, object, said, Outcome::Undone);
            }
        }
        let tells = outcome(wants, said.said, &slots.map(Slot));
        self.tell(state, object, said, tells);
    }

    fn tell(&self, state: &mut State, object: usize, said: Log, outcome: Outcome) {
        if said.is_whole && said.said == Some(outcome) {
            return;
        }
        for node in self.log(state, object) {
            state.nodes[node].logs[object] = Some(outcome);
        }
    }
}
