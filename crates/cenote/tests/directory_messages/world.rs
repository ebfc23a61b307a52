//! Nodes, a directory, and a network between them that loses, repeats and reorders; and what must hold after each step.
//!
//! Each node has one thread, which gets the lock and gives it up as its script says. The lock protects a count of the writers that have unlocked.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use cenote::sync::directory::messages::locked::Locked;
use cenote::sync::directory::messages::message::{NodeSays, Session, ToDirectory, ToNode};
use cenote::sync::directory::messages::{Client, Directory};
use cenote::sync::directory::node::Node;
use cenote::sync::directory::queue::{Permission, Request};

/// The lock.
const LOCK: u64 = 7;

/// What a node's thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thread {
    Idle,
    Wants(Permission),
    Holds(Permission),
}

/// A node that lives.
#[derive(Clone, Debug, Hash)]
pub struct Peer {
    pub client: Client,
    pub thread: Thread,
    /// What the thread will ask for.
    pub script: VecDeque<Permission>,
}

/// A message on its way.
#[derive(Clone, Debug, Hash)]
pub enum Packet {
    ToDirectory(ToDirectory),
    ToNode(ToNode),
}

/// Something that must not be.
pub type Fault = String;

/// All of it.
#[derive(Clone, Debug, Hash)]
pub struct World {
    pub directory: Directory,
    /// `None` for nodes that are dead.
    pub peers: Vec<Option<Peer>>,
    pub network: Vec<Packet>,
    /// What a thread must find under the lock.
    current: u64,
    /// What the last accepted transfer has brought.
    written_back: u64,
    /// Who a thread must be told of.
    former: Option<Session>,
}

fn count_in(data: &[u8]) -> u64 {
    u64::from_le_bytes(data.try_into().unwrap())
}

impl World {
    pub fn new(scripts: &[&[Permission]]) -> Self {
        let mut directory = Directory::new();
        assert!(directory.create(LOCK, vec![0; 8]));
        let mut world = Self {
            directory,
            peers: Vec::new(),
            network: Vec::new(),
            current: 0,
            written_back: 0,
            former: None,
        };
        for script in scripts {
            let peer = world.join(script.iter().copied().collect());
            world.peers.push(Some(peer));
        }
        world
    }

    fn join(&mut self, script: VecDeque<Permission>) -> Peer {
        Peer {
            client: Client::new(self.directory.join().unwrap()),
            thread: Thread::Idle,
            script,
        }
    }

    /// A node joins in the place of a dead one.
    pub fn rejoin(&mut self, n: usize, script: VecDeque<Permission>) {
        let peer = self.join(script);
        self.peers[n] = Some(peer);
    }

    /// Whether all threads have had what their scripts say.
    pub fn is_done(&self) -> bool {
        let is_done = |peer: &Peer| peer.thread == Thread::Idle && peer.script.is_empty();
        self.peers.iter().flatten().all(is_done)
    }

    /// Whether a thread can ask.
    pub fn can_start(&self, n: usize) -> bool {
        let can = |peer: &Peer| peer.thread == Thread::Idle && !peer.script.is_empty();
        self.peers[n].as_ref().is_some_and(can)
    }

    /// Whether a thread has the lock.
    pub fn holds(&self, n: usize) -> bool {
        let holds = |peer: &Peer| matches!(peer.thread, Thread::Holds(_));
        self.peers[n].as_ref().is_some_and(holds)
    }

    /// A thread asks for the lock.
    pub fn start(&mut self, n: usize) -> Result<(), Fault> {
        let peer = self.peers[n].as_mut().unwrap();
        peer.thread = Thread::Wants(peer.script.pop_front().unwrap());
        self.go_on(n)
    }

    /// A thread unlocks.
    pub fn finish(&mut self, n: usize) -> Result<(), Fault> {
        let peer = self.peers[n].as_mut().unwrap();
        if peer.thread == Thread::Holds(Permission::Exclusive) {
            let (data, former) = peer.client.written(LOCK).ok_or("a writer has lost the lock")?;
            self.current = count_in(data) + 1;
            *data = Arc::new(self.current.to_le_bytes().to_vec());
            (*former, self.former) = (None, None);
        }
        peer.thread = Thread::Idle;
        self.go_on(n)
    }

    /// What a node does by itself: its thread gets the lock, it asks for it, or gives it up.
    fn go_on(&mut self, n: usize) -> Result<(), Fault> {
        let peer = self.peers[n].as_mut().unwrap();
        let has = peer.client.permission(LOCK);
        let sent = match peer.thread {
            Thread::Idle if peer.client.is_asked(LOCK) => peer.client.give_up(LOCK),
            Thread::Wants(wants) if has >= Some(wants) => {
                peer.thread = Thread::Holds(wants);
                return self.check_entered(n, wants);
            }
            Thread::Wants(wants) => peer.client.request(LOCK, wants),
            _ => Vec::new(),
        };
        self.network.extend(sent.into_iter().map(Packet::ToDirectory));
        Ok(())
    }

    fn check_entered(&self, n: usize, wants: Permission) -> Result<(), Fault> {
        let copy = self.peers[n].as_ref().unwrap().client.copy(LOCK).unwrap();
        if count_in(copy.data()) != self.current {
            let found = count_in(copy.data());
            return Err(format!("node {n} finds {found} and not {}", self.current));
        }
        if copy.former() != self.former {
            let told = copy.former();
            return Err(format!("node {n} is told of {told:?}, not of {:?}", self.former));
        }
        for (other, peer) in self.peers.iter().enumerate().filter(|(other, _)| *other != n) {
            let Some(Thread::Holds(has)) = peer.as_ref().map(|peer| peer.thread) else {
                continue;
            };
            if wants == Permission::Exclusive || has == Permission::Exclusive {
                return Err(format!("node {n} has {wants:?} while node {other} has {has:?}"));
            }
        }
        Ok(())
    }

    /// A message arrives.
    pub fn deliver(&mut self, packet: Packet) -> Result<(), Fault> {
        match packet {
            Packet::ToNode(message) => {
                let session = message.session;
                let is_it = |peer: &Option<Peer>| {
                    peer.as_ref()
                        .is_some_and(|peer| peer.client.session().node() == session.node())
                };
                let Some(n) = self.peers.iter().position(is_it) else {
                    return Ok(());
                };
                let sent = self.peers[n].as_mut().unwrap().client.receive(message);
                self.network.extend(sent.into_iter().map(Packet::ToDirectory));
                self.go_on(n)
            }
            Packet::ToDirectory(message) => {
                let brought = match &message.says {
                    NodeSays::Transfer(transfer) if transfer.data.len() == 8 => {
                        Some(count_in(&transfer.data))
                    }
                    _ => None,
                };
                let (session, node) = (message.session, message.session.node());
                let is_current = self.directory.is_current(session);
                let owner = self.owner();
                let waited = self.lock().waiting();
                let sent = self.directory.receive(message);
                self.network.extend(sent.into_iter().map(Packet::ToNode));
                if is_current && !self.directory.is_current(session) {
                    // It said what no node says.
                    if owner == Some(node) {
                        (self.current, self.former) = (self.written_back, Some(session));
                    }
                    self.check_order(&waited)?;
                    return self.check_sessions();
                }
                if let (Some(brought), true) = (brought, owner == Some(node) && self.owner() != owner) {
                    if !is_current || brought != self.current {
                        return Err(format!(
                            "a transfer brings {brought}, which is not {}",
                            self.current
                        ));
                    }
                    self.written_back = brought;
                }
                self.check_order(&waited)?;
                self.check_sessions()
            }
        }
    }

    /// The lock, as the directory has it.
    pub fn lock(&self) -> &Locked {
        self.directory.lock(LOCK).unwrap()
    }

    fn owner(&self) -> Option<Node> {
        self.lock().entry().owner()
    }

    /// Nobody is granted what it has asked for while somebody waits whose request was accepted earlier.
    fn check_order(&self, waited: &[Request]) -> Result<(), Fault> {
        let (lock, waits) = (self.lock(), self.lock().waiting());
        let first = waited.iter().position(|request| waits.contains(request));
        for request in &waited[first.unwrap_or(waited.len())..] {
            if !waits.contains(request) && lock.entry().permission(request.node).is_some() {
                return Err(format!("{request:?} has overtaken somebody"));
            }
        }
        Ok(())
    }

    /// What a thread must find under the lock, and be told of.
    pub fn truth(&self) -> (u64, Option<Session>) {
        (self.current, self.former)
    }

    /// Somebody who is none of the peers says something, which arrives at once.
    pub fn say(&mut self, session: Session, says: NodeSays) -> Result<(), Fault> {
        let lock = LOCK;
        self.deliver(Packet::ToDirectory(ToDirectory { session, lock, says }))
    }

    /// Somebody dies who is none of the peers.
    pub fn lose_stranger(&mut self, session: Session) -> Result<(), Fault> {
        let waited = self.lock().waiting();
        self.told_of_death(session);
        let sent = self.directory.lose(session);
        self.network.extend(sent.into_iter().map(Packet::ToNode));
        self.check_order(&waited)?;
        self.check_sessions()
    }

    /// A session is about to end.
    fn told_of_death(&mut self, session: Session) {
        if self.directory.is_current(session) && self.owner() == Some(session.node()) {
            (self.current, self.former) = (self.written_back, Some(session));
        }
    }

    fn check_sessions(&self) -> Result<(), Fault> {
        for (n, peer) in self.peers.iter().enumerate() {
            if let Some(peer) = peer
                && !self.directory.is_current(peer.client.session())
            {
                return Err(format!("node {n} lives, and is taken for dead"));
            }
        }
        Ok(())
    }

    /// A node dies; if it is cut off instead, it goes on for a moment: what it sends then must not be heard.
    pub fn kill(&mut self, n: usize, is_cut_off: bool) -> Result<(), Fault> {
        let mut peer = self.peers[n].take().unwrap();
        let session = peer.client.session();
        let waited = self.lock().waiting();
        self.told_of_death(session);
        let sent = self.directory.lose(session);
        self.network.extend(sent.into_iter().map(Packet::ToNode));
        if is_cut_off {
            let mut late = peer.client.tick();
            late.extend(peer.client.give_up(LOCK));
            self.network.extend(late.into_iter().map(Packet::ToDirectory));
        }
        self.check_order(&waited)?;
        self.check_sessions()
    }

    /// Time passes for a node, or for the directory.
    pub fn tick(&mut self, n: Option<usize>) {
        let Some(n) = n else {
            let sent = self.directory.tick();
            return self.network.extend(sent.into_iter().map(Packet::ToNode));
        };
        if let Some(peer) = &mut self.peers[n] {
            let sent = peer.client.tick();
            self.network.extend(sent.into_iter().map(Packet::ToDirectory));
        }
    }

    /// Brings messages into an order that does not depend on when they were sent.
    pub fn sort_network(&mut self) {
        self.network.sort_by_cached_key(hash_of);
    }
}

/// A number that equal things have in common, and hardly any others.
pub fn hash_of(thing: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    hasher.finish()
}
