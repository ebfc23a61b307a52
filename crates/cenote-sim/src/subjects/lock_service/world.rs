//! Nodes with threads, a directory, and a network between them that loses, repeats and reorders; and what must hold
//! after each step. The nodes and the directory are the library's own; so are their leases, by clocks that differ.
//!
//! Each lock covers two numbers: a count of the writers that have unlocked, and the greatest even count. A writer
//! changes the second one only when it must, so that a region may travel without the other.
//!
//! What must hold:
//!
//! - one thread writes a lock or several read it, of those whose nodes have not been declared dead;
//! - who gets a lock finds what was written last, and is told who died or panicked writing, with the note that the
//!   directory had, and of nobody else;
//! - a node whose lease has not run out has not been declared dead;
//! - nobody is declared dead who was heard within the lease, while the directory was awake, or who said what no node
//!   says;
//! - what was committed is not lost;
//! - requests are granted in the order in which the directory accepts them.

use std::collections::VecDeque;

use cenote::sync::directory::messages::client::LeaseState;
use cenote::sync::directory::messages::directory::Limits;
use cenote::sync::directory::messages::instant::Moment;
use cenote::sync::directory::messages::locked::Locked;
use cenote::sync::directory::messages::message::{
    DirectorySays, LockId, NO_LOCK, NodeSays, Session, ToDirectory, ToNode,
};
use cenote::sync::directory::messages::region::{Change, Data};
use cenote::sync::directory::messages::{Client, Directory, NodeState};
use cenote::sync::directory::node::Node;
use cenote::sync::directory::queue::Request;

use super::hash::hash_of;
use super::peers::{Doing, Op, Packet, Peer, RATE, Thread, clock_at};

/// Microseconds after which the directory declares a node dead.
pub const LEASE: u64 = 8_000;

/// Something that must not be.
pub type Fault = String;

/// What must be found under a lock.
#[derive(Clone, Debug, Hash)]
pub(super) struct Truth {
    /// What a thread must find under the lock.
    pub(super) current: u64,
    /// What the last accepted transfer has brought.
    pub(super) written_back: u64,
    /// Who a thread must be told of.
    pub(super) former: Option<Session>,
    /// The notes that the directory may have.
    pub(super) notes: Vec<u64>,
}

/// What is known of a session beside the directory.
#[derive(Clone, Debug, Hash)]
pub(super) struct Known {
    pub(super) session: Session,
    /// Whether it is that of a node that runs the library's code.
    pub(super) is_honest: bool,
    /// When something of it arrived last.
    pub(super) heard: Moment,
}

/// All of it.
#[derive(Clone, Debug, Hash)]
pub struct World {
    /// The directory.
    pub directory: Directory,
    /// `None` for nodes that are dead.
    pub peers: Vec<Option<Peer>>,
    /// What is on its way.
    pub network: Vec<Packet>,
    pub(super) now: Moment,
    /// Since when the directory has checked often.
    pub(super) awake: Moment,
    pub(super) truths: Vec<Truth>,
    pub(super) known: Vec<Known>,
}
pub(super) fn count_in(data: &Data) -> [u64; 2] {
    let number = |region| {
        let bytes = data.region(region).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(u64::MAX, u64::from_le_bytes)
    };
    [number(0), number(1)]
}

impl World {
    /// A directory with so many locks, numbered from 1 on, and no nodes.
    pub fn new(locks: usize) -> Self {
        let mut directory = Directory::new(Limits {
            lease: LEASE,
            locks,
            bytes: 16 * locks,
        });
        for lock in 1..=locks {
            let opened = directory.open(&format!("lock {lock}"), Some(&[8, 8]));
            assert_eq!(opened, Ok(lock as LockId));
        }
        let truth = Truth {
            current: 0,
            written_back: 0,
            former: None,
            notes: vec![0],
        };
        Self {
            directory,
            peers: Vec::new(),
            network: Vec::new(),
            now: Moment(0),
            awake: Moment(0),
            truths: vec![truth; locks],
            known: Vec::new(),
        }
    }

    /// A directory with one lock, and nodes with one thread each.
    pub fn of_scripts(scripts: &[&[Op]]) -> Self {
        let mut world = Self::new(1);
        for script in scripts {
            let script = script.iter().map(|op| (1, *op)).collect();
            let n = world.add_place();
            world.join(n, vec![script], (0, RATE));
        }
        world
    }

    /// A place for one more node. Returns its number.
    pub fn add_place(&mut self) -> usize {
        self.peers.push(None);
        self.peers.len() - 1
    }

    /// A node joins in a place that is free, with threads that do what their scripts say, and a clock that shows so
    /// much and has so many sixteenths of the directory's rate. Returns whether there was a number for it.
    pub fn join(&mut self, n: usize, scripts: Vec<VecDeque<(LockId, Op)>>, clock: (u64, u64)) -> bool {
        let Some(session) = self.directory.join(self.now) else {
            return false;
        };
        let now = clock_at(clock, self.now);
        let mut client = Client::new(session, LEASE, now);
        // It knows all locks: their names are asked for at once.
        for lock in 1..=self.truths.len() {
            let (serial, asked) = client.open(&format!("lock {lock}"), None);
            for message in asked {
                for reply in self.directory.receive(message, self.now) {
                    client.receive(reply, now);
                }
            }
            client.take_opened(serial);
        }
        let threads = scripts.into_iter().map(|script| Thread {
            doing: Doing::Nothing,
            script,
        });
        self.peers[n] = Some(Peer {
            node: NodeState::new(client),
            threads: threads.collect(),
            clock,
            is_apart: false,
            is_leaving: false,
            notes: 0,
        });
        self.know(session, true);
        true
    }

    /// Whether all threads have done what their scripts say.
    pub fn is_done(&self) -> bool {
        let is_done = |thread: &Thread| thread.doing == Doing::Nothing && thread.script.is_empty();
        self.peers
            .iter()
            .flatten()
            .flat_map(|peer| &peer.threads)
            .all(is_done)
    }

    pub(super) fn thread(&self, n: usize, t: usize) -> Option<&Thread> {
        self.peers[n].as_ref()?.threads.get(t)
    }

    /// The session of the node in a place.
    pub fn session(&self, n: usize) -> Option<Session> {
        Some(self.peers[n].as_ref()?.node.client().session())
    }

    /// Whether a thread can ask for a lock.
    pub fn can_start(&self, n: usize, t: usize) -> bool {
        let can = |thread: &Thread| thread.doing == Doing::Nothing && !thread.script.is_empty();
        self.thread(n, t).is_some_and(can)
    }

    /// Whether a thread has a lock.
    pub fn holds(&self, n: usize, t: usize) -> bool {
        self.thread(n, t)
            .is_some_and(|thread| matches!(thread.doing, Doing::Holds(..)))
    }

    /// Whether a thread waits for something.
    pub fn waits(&self, n: usize, t: usize) -> bool {
        let waits = |thread: &Thread| matches!(thread.doing, Doing::Waits(..) | Doing::Commits(..));
        self.thread(n, t).is_some_and(waits)
    }

    /// Whether a node can neither get a lock nor is about to: it has heard that it was declared dead, or leaves.
    pub fn is_over(&self, n: usize) -> bool {
        let lease_state = |peer: &Peer| peer.node.client().lease_state(clock_at(peer.clock, self.now));
        self.peers[n]
            .as_ref()
            .is_none_or(|peer| lease_state(peer) == LeaseState::Ended)
    }

    pub(super) fn send(&mut self, messages: Vec<ToDirectory>) {
        self.network.extend(messages.into_iter().map(Packet::ToDirectory));
    }

    /// The directory sends. What is for nobody who lives is lost.
    pub(super) fn send_to_nodes(&mut self, messages: Vec<ToNode>) {
        let lives = |message: &ToNode| {
            let mut peers = self.peers.iter().flatten();
            peers.any(|peer| peer.node.client().session() == message.session)
        };
        let messages: Vec<Packet> = messages.into_iter().filter(lives).map(Packet::ToNode).collect();
        self.network.extend(messages);
    }

    /// A message arrives.
    pub fn deliver(&mut self, packet: Packet) -> Result<(), Fault> {
        match packet {
            Packet::ToNode(message) => {
                // What is for a dead node may come to the next one of its number.
                let place = |is_it: &dyn Fn(Session) -> bool| {
                    let sessions = (0..self.peers.len()).filter_map(|n| Some((n, self.session(n)?)));
                    sessions.into_iter().find(|(_, session)| is_it(*session))
                };
                let found = place(&|session| session == message.session)
                    .or_else(|| place(&|session| session.node() == message.session.node()));
                let Some((n, _)) = found else {
                    return Ok(());
                };
                let Some(peer) = self.peers[n].as_mut() else {
                    return Ok(());
                };
                let is_end =
                    message.says == DirectorySays::Ended && message.session == peer.node.client().session();
                let sent = peer.node.receive(message, clock_at(peer.clock, self.now));
                self.send(sent);
                self.go_on(n)?;
                if is_end {
                    // It knows now: its process ends, or connects anew.
                    self.peers[n] = None;
                }
                self.check_leases()
            }
            Packet::ToDirectory(message) => self.deliver_to_directory(message),
        }
    }

    pub(super) fn deliver_to_directory(&mut self, message: ToDirectory) -> Result<(), Fault> {
        let (session, lock) = (message.session, message.lock);
        let is_current = self.directory.is_current(session);
        let brought = match &message.says {
            NodeSays::Transfer(transfer) => Some((brought_by(&transfer.changes), transfer.former)),
            _ => None,
        };
        let leaves = message.says == NodeSays::Leave;
        let (owner, waited, owned) = (self.owner(lock), self.all_waiting(), self.owned_by(session));
        let known = self.known.iter_mut().find(|known| known.session == session);
        let is_honest = known.is_some_and(|known| {
            known.heard = self.now;
            known.is_honest
        });
        let sent = self.directory.receive(message, self.now);
        self.send_to_nodes(sent);
        if is_current && !self.directory.is_current(session) {
            if is_honest && !leaves {
                return Err(format!(
                    "{session:?} is declared dead, as if it had said what no node says"
                ));
            }
            for lock in owned {
                let truth = &mut self.truths[lock as usize - 1];
                if leaves && is_honest && truth.current != truth.written_back {
                    return Err(format!("{session:?} leaves with what it has written"));
                }
                if !leaves {
                    self.told_of_death_of_owner(session, lock, Some(session.node()));
                }
            }
            self.forget(session);
            self.check_all_orders(&waited)?;
            return self.check_sessions();
        }
        if let (Some((brought, former)), true) = (
            brought,
            owner == Some(session.node()) && self.owner(lock) != owner,
        ) {
            let truth = &mut self.truths[lock as usize - 1];
            let brought = brought.unwrap_or(truth.written_back);
            if !is_current || brought != truth.current {
                return Err(format!(
                    "a transfer brings {brought}, which is not {}",
                    truth.current
                ));
            }
            truth.written_back = brought;
            truth.notes = vec![former.map_or(0, |former| former.note)];
        }
        self.check_all_orders(&waited)?;
        self.check_sessions()
    }

    /// A lock, as the directory has it.
    pub fn lock(&self, lock: LockId) -> Option<&Locked> {
        self.directory.lock(lock)
    }

    pub(super) fn owner(&self, lock: LockId) -> Option<Node> {
        self.lock(lock)?.entry().owner()
    }

    pub(super) fn waiting(&self, lock: LockId) -> Vec<Request> {
        self.lock(lock).map_or_else(Vec::new, Locked::waiting)
    }
    /// What a thread must find under a lock, and be told of.
    pub fn truth(&self, lock: LockId) -> (u64, Option<Session>) {
        let truth = &self.truths[lock as usize - 1];
        (truth.current, truth.former)
    }

    /// Somebody who is none of the peers joins.
    pub fn join_stranger(&mut self) -> Option<Session> {
        let session = self.directory.join(self.now)?;
        self.know(session, false);
        Some(session)
    }

    fn know(&mut self, session: Session, is_honest: bool) {
        self.known.push(Known {
            session,
            is_honest,
            heard: self.now,
        });
    }

    /// Somebody who is none of the peers says something, which arrives at once.
    pub fn say(&mut self, session: Session, lock: LockId, says: NodeSays) -> Result<(), Fault> {
        self.deliver_to_directory(ToDirectory { session, lock, says })
    }
    /// A node, or the directory, sends again what may have been lost, of all locks.
    pub fn send_again(&mut self, n: Option<usize>) {
        let locks = NO_LOCK..=self.truths.len() as LockId;
        match n {
            None => {
                let sent = locks.flat_map(|lock| self.directory.again(lock)).collect();
                self.send_to_nodes(sent);
            }
            Some(n) => {
                if let Some(peer) = &self.peers[n] {
                    let sent = locks.flat_map(|lock| peer.node.client().again(lock)).collect();
                    self.send(sent);
                }
            }
        }
    }

    /// A node sends a heartbeat, if one is due.
    pub fn send_heartbeat(&mut self, n: usize) {
        let Some(peer) = self.peers[n].as_mut() else {
            return;
        };
        let (now, client) = (clock_at(peer.clock, self.now), peer.node.client_mut());
        if now >= client.lease().next_heartbeat() {
            let (_, message) = client.send_heartbeat(now);
            self.send(vec![message]);
        }
    }

    /// Whether a packet can arrive: no node at one of its ends is apart.
    pub fn is_reachable(&self, packet: &Packet) -> bool {
        let is_apart = |peer: &Peer| peer.is_apart && peer.node.client().session() == packet.session();
        !self.peers.iter().flatten().any(is_apart)
    }

    /// Brings messages into an order that does not depend on when they were sent.
    pub fn sort_network(&mut self) {
        self.network.sort_by_cached_key(hash_of);
    }
}

/// The count that changes bring, if they bring one.
fn brought_by(changes: &[Change]) -> Option<u64> {
    let first = changes.first().filter(|change| change.region == 0)?;
    let bytes: &[u8] = &first.bytes;
    Some(bytes.try_into().map_or(u64::MAX, u64::from_le_bytes))
}
