//! Heartbeats: the master asks its nodes, and is asked by its clients.
//!
//! Silence counts only while this process runs: one that was stopped itself takes nobody for dead. A node is given up
//! once it has been silent for a lease, so the lease that it had has run out by then ([`crate::node`]); it gets no
//! heartbeat any more, so it never has one again.
//!
//! A node's silence counts only while each region that it holds has another node that answers. Without that, to give it
//! up would lose what it holds, and gain nothing: a master that is cut off itself would lose everything. Such a node
//! comes back, or another process is at its address, or a person says that it does not
//! ([`crate::control::Request::GiveUp`]).

use std::rc::Rc;
use std::time::{Duration, Instant};

use cenote_replica::view::NodeId;

use super::{Heard, Master};
use crate::Refusal;
use crate::wire::{Answer, Item};

/// The time between two heartbeats.
const INTERVAL: Duration = Duration::from_millis(20);
/// The most time that counts as silence between two looks at the clock: more than that, and this process stood still.
const COUNTED_AT_ONCE: Duration = Duration::from_millis(100);

impl Heard {
    /// Counts the time since it was counted last.
    fn count(&mut self) -> Duration {
        let now = Instant::now();
        self.silent += now.duration_since(self.counted).min(COUNTED_AT_ONCE);
        self.counted = now;
        self.silent
    }

    /// Passes over the time since it was counted last.
    fn skip(&mut self) {
        self.counted = Instant::now();
    }
}

impl Master {
    /// Why a node cannot be given up by a person's word: while it has a lease, it may answer with what is old by then.
    pub(super) fn may_give_up(&self, node: u32) -> Result<(), Refusal> {
        if !self.state.borrow().is_alive(node) {
            return Err(Refusal::NodeGivenUp { node });
        }
        match self.nodes.borrow().get(&node) {
            Some(heard) if heard.answers => Err(Refusal::NodeAnswers { node }),
            Some(heard) if heard.at.elapsed() <= self.options.node_lease => Err(Refusal::NodeLeased {
                node,
                lease: self.options.node_lease,
            }),
            _ => Ok(()),
        }
    }

    /// Waits until a lease has ended that a node has had. Its process has gone, but who has mapped its memory executes
    /// verbs there as long as the lease lasts.
    async fn outlast_lease(&self, node: u32) {
        let is_mapped = self
            .state
            .borrow()
            .nodes
            .get(&node)
            .is_some_and(|node| node.mapped);
        let left = {
            let mut nodes = self.nodes.borrow_mut();
            let Some(heard) = nodes.get_mut(&node) else { return };
            heard.answers = false;
            // Counted from later than the node has.
            self.options.node_lease.saturating_sub(heard.at.elapsed())
        };
        if is_mapped {
            tokio::time::sleep(left).await;
        }
    }

    /// Whether each region that a node holds has another one that answers.
    fn can_spare(&self, node: u32) -> bool {
        let heard = self.nodes.borrow();
        let answers = |other: &u32| *other != node && heard.get(other).is_some_and(|heard| heard.answers);
        let state = self.state.borrow();
        let mut held = state.regions.iter().filter(|region| region.nodes.contains(&node));
        held.all(|region| {
            region
                .nodes
                .iter()
                .any(|other| state.is_alive(*other) && answers(other))
        })
    }
}

/// Asks a node until it is given up.
pub async fn node(master: Rc<Master>, node: u32) {
    let lease = master.options.node_lease.as_micros() as u64;
    let (mut number, mut answered) = (first_number(), 0);
    let outlives = |node| {
        master
            .state
            .borrow()
            .nodes
            .get(&node)
            .is_some_and(|node| node.outlives)
    };
    // Until it has answered once.
    let mut timeout = match outlives(node) {
        true => master.options.node_lease.max(master.options.start_grace),
        false => master.options.node_lease,
    };
    while master.state.borrow().is_alive(node) {
        number += 1;
        let ping = Item::Ping {
            number,
            answered,
            lease,
        };
        let asked = Instant::now();
        let known = master
            .state
            .borrow()
            .nodes
            .get(&node)
            .map(|known| known.incarnation);
        let items = [ping, Item::Info];
        let answer = tokio::time::timeout(INTERVAL * 2, master.network.ask(NodeId(node), &items)).await;
        if master.is_contested() {
            return;
        }
        let is_answered = match answer.as_ref().map(Option::as_deref) {
            Ok(Some([Answer::Done, Answer::Info([incarnation, ..])])) => {
                if known != Some(*incarnation) {
                    master.outlast_lease(node).await;
                    return give_up(&master, node, "is another process by now").await;
                }
                true
            }
            _ => false,
        };
        let can_spare = is_answered || master.can_spare(node);
        if let Some(heard) = master.nodes.borrow_mut().get_mut(&node) {
            match (is_answered, can_spare) {
                (true, _) => {
                    answered = number;
                    timeout = master.options.node_lease;
                    *heard = Heard::now();
                }
                (false, true) => drop(heard.count()),
                (false, false) => heard.skip(),
            }
            heard.answers = is_answered;
        }
        let silent = master
            .nodes
            .borrow()
            .get(&node)
            .map_or(Duration::ZERO, |heard| heard.silent);
        if silent > timeout {
            return give_up(&master, node, "is silent").await;
        }
        tokio::time::sleep(INTERVAL.saturating_sub(asked.elapsed())).await;
    }
}

/// Heartbeats of a master have numbers that no master before it had.
fn first_number() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_micros() as u64)
}

/// Gives a node up: one change in the store, of which the next view begins.
pub async fn give_up(master: &Master, node: u32, why: &str) {
    eprintln!("cenote cluster: memory node {node} {why}, and is given up");
    master.state.borrow_mut().give_up(node);
    master.save_or_end().await;
    master.work.notify_one();
}

/// Ends the sessions of clients that are silent.
pub async fn clients(master: Rc<Master>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        master.act_on_suspicions();
        let lease = master.options.client_lease;
        let silent: Vec<u32> = master
            .clients
            .borrow_mut()
            .iter_mut()
            .filter_map(|(session, client)| (client.heard.count() > lease).then_some(*session))
            .collect();
        for session in silent {
            // It stays in the eras until nothing of it can go on.
            if !master.is_in(session) {
                continue;
            }
            eprintln!("cenote cluster: client {session} is silent, and is given up");
            if let Some(known) = master.state.borrow_mut().sessions.get_mut(&session) {
                known.ended = true;
            }
            master.save_or_end().await;
            master.work.notify_one();
        }
    }
}
