//! Nodes, directory, memory and network together: what each event leads to.

mod accesses;
mod letters;
mod locks;

use std::collections::{HashMap, VecDeque};

use cenote::sync::directory::node::{Node, Nodes};
use cenote::sync::directory::queue::Permission;

use super::agenda::Agenda;
use super::cache::Cache;
use super::data::Data;
use super::directory::Directory;
use super::holder::Holder;
use super::home::Home;
use super::message::{LineMessage, LockMessage, Message, Place};
use super::network::Network;
use super::op::{Answer, Op, Reply};
use super::profile::{Costs, NetworkProfile};
use crate::locks::mail::Letter;
use accesses::Access;

/// What a machine consists of.
#[derive(Clone, Debug)]
pub struct Shape {
    /// How many nodes there are, at most 40.
    pub nodes: u8,
    /// The node of each thread. Each has a port of its own, of the same number.
    pub threads: Vec<u8>,
    /// Directory locks, and the bytes that each covers.
    pub locks: u32,
    /// What each lock covers, in bytes.
    pub covered_bytes: u64,
    /// Whether a directory lock and its data stay at a node that has released them.
    pub keeps: bool,
}

/// What a node has caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Coherence transactions on lines.
    pub lines: u64,
    /// Coherence transactions on directory locks.
    pub locks: u64,
    /// Bytes that have passed its link, both ways.
    pub bytes: u64,
}

impl Counts {
    /// All coherence transactions.
    pub fn transactions(self) -> u64 {
        self.lines + self.locks
    }
}

enum Event {
    /// A thread goes on.
    Resume(u32, Answer),
    /// A message leaves a node or the memory.
    Leave(Place, Message),
    /// A message arrives at the directory.
    AtDirectory(Message),
    /// A message arrives at a node or the memory.
    At(Place, Message),
}

struct Thread {
    node: Node,
    crossings: u64,
    access: Option<Access>,
}

struct OfNode {
    cache: Cache,
    locks: HashMap<u32, Holder>,
    /// When the last message about a directory lock leaves, so that they keep their order.
    last_leaves: u64,
    counts: Counts,
}

#[derive(Default)]
struct Port {
    letters: VecDeque<(Node, Letter)>,
    waits: bool,
}

/// A simulated machine.
pub struct Machine {
    costs: Costs,
    shape: Shape,
    agenda: Agenda<Event>,
    network: Network,
    directory: Directory,
    memory: HashMap<u64, Data>,
    homes: Vec<Home>,
    covered: HashMap<u32, Data>,
    nodes: Vec<OfNode>,
    threads: Vec<Thread>,
    ports: Vec<Port>,
}

/// The node of a number, or the first one.
fn node(number: u8) -> Node {
    Node::new(number)
        .or(Node::new(0))
        .unwrap_or_else(|| unreachable!("0 is a node"))
}

impl Machine {
    /// A machine on which nothing has happened.
    pub fn new(profile: &NetworkProfile, shape: Shape) -> Self {
        let costs = Costs::of(profile);
        let of_node = || OfNode {
            cache: Cache::default(),
            locks: HashMap::new(),
            last_leaves: 0,
            counts: Counts::default(),
        };
        let thread = |&number: &u8| Thread {
            node: node(number),
            crossings: 0,
            access: None,
        };
        Self {
            costs,
            agenda: Agenda::new(),
            network: Network::new(costs, shape.nodes),
            directory: Directory::default(),
            memory: HashMap::new(),
            homes: (0..shape.locks).map(|_| Home::new(shape.covered_bytes)).collect(),
            covered: HashMap::new(),
            nodes: (0..shape.nodes).map(|_| of_node()).collect(),
            threads: shape.threads.iter().map(thread).collect(),
            ports: shape.threads.iter().map(|_| Port::default()).collect(),
            shape,
        }
    }

    /// All threads begin.
    pub fn begin(&mut self) {
        for thread in 0..self.threads.len() as u32 {
            self.agenda.plan(0, Event::Resume(thread, Answer::Nothing));
        }
    }

    /// The time of what happened last, in picoseconds.
    pub fn now_ps(&self) -> u64 {
        self.agenda.now()
    }

    /// What each node has caused so far.
    pub fn counts(&self) -> Vec<Counts> {
        let counts = |(number, of): (u8, &OfNode)| Counts {
            bytes: self.network.bytes(node(number)),
            ..of.counts
        };
        (0..).zip(&self.nodes).map(counts).collect()
    }

    /// The nodes that may read a line, and the one that may write it, as their caches say; for tests of single writer
    /// or many readers.
    pub fn permissions(&self, at: u64) -> (Nodes, Nodes) {
        let line = at / self.costs.line_bytes;
        let with = |wanted| {
            (0..)
                .zip(&self.nodes)
                .filter(|(_, of)| of.cache.permission(line) == Some(wanted))
                .map(|(number, _)| node(number))
                .collect()
        };
        (with(Permission::Shared), with(Permission::Exclusive))
    }

    /// The next thread that goes on, when all that comes before has happened. None if nothing is left to happen.
    pub fn advance(&mut self) -> Option<(u32, Reply)> {
        loop {
            match self.agenda.next()? {
                Event::Resume(thread, answer) => {
                    let reply = Reply {
                        now: self.agenda.now(),
                        crossings: self.threads[thread as usize].crossings,
                        answer,
                    };
                    return Some((thread, reply));
                }
                Event::Leave(from, message) => {
                    let arrives = self
                        .network
                        .towards_directory(from, self.agenda.now(), message.payload());
                    self.agenda.plan(arrives, Event::AtDirectory(message));
                }
                Event::AtDirectory(message) => self.at_directory(message),
                Event::At(Place::Memory, message) => self.at_memory(message),
                Event::At(Place::Node(node), message) => self.at_node(node, message),
            }
        }
    }

    /// A thread begins an operation.
    pub fn submit(&mut self, thread: u32, op: Op) {
        match op {
            Op::Word(at, op) => self.begin_access(thread, Access::word(at, op, self.costs.line_bytes)),
            Op::Range { at, len, writes } => {
                self.begin_access(thread, Access::range(at, len, writes, self.costs.line_bytes));
            }
            Op::Park(at, seen) => self.park(thread, at, seen),
            Op::Sleep(time) => self.resume(thread, time, Answer::Nothing),
            Op::Acquire(lock, wants) => self.acquire(thread, lock, wants),
            Op::Release(lock) => self.release(thread, lock),
            Op::Covered { lock, writes } => self.access_covered(thread, lock, writes),
            Op::Send(port, letter) => self.send_letter(thread, port, letter),
            Op::Receive(port) => self.receive_letter(thread, port),
        }
    }

    /// A thread goes on after so long.
    fn resume(&mut self, thread: u32, after: u64, answer: Answer) {
        let at = self.agenda.now() + after;
        self.agenda.plan(at, Event::Resume(thread, answer));
    }

    fn node_of(&self, thread: u32) -> Node {
        self.threads[thread as usize].node
    }

    fn of_node(&mut self, node: Node) -> &mut OfNode {
        &mut self.nodes[usize::from(node.number())]
    }

    /// The directory sends a message now.
    fn send(&mut self, to: Place, message: Message) {
        let arrives = self
            .network
            .away_from_directory(to, self.agenda.now(), message.payload());
        self.agenda.plan(arrives, Event::At(to, message));
    }

    fn at_directory(&mut self, message: Message) {
        match message {
            Message::Line(line, message) => {
                for (to, message) in self.directory.receive(line, message) {
                    self.send(to, Message::Line(line, message));
                }
            }
            Message::Lock(lock, message) => {
                for (to, message) in self.homes[lock as usize].receive(message) {
                    self.send(to, Message::Lock(lock, message));
                }
            }
            Message::Letter(port, ..) => {
                let to = Place::Node(self.node_of(port));
                self.send(to, message);
            }
        }
    }

    fn at_memory(&mut self, message: Message) {
        let answer = match message {
            Message::Line(line, LineMessage::WriteBack(data)) => {
                self.memory.insert(line, data);
                None
            }
            Message::Line(line, LineMessage::Fetch) => {
                let zeroed = || Data::zeroed(self.costs.line_bytes);
                let data = self.memory.get(&line).cloned().unwrap_or_else(zeroed);
                Some(Message::Line(line, LineMessage::Fetched(data)))
            }
            Message::Lock(lock, LockMessage::WriteBack(data)) => {
                self.covered.insert(lock, data);
                None
            }
            Message::Lock(lock, LockMessage::Fetch) => {
                let zeroed = || Data::zeroed(self.shape.covered_bytes);
                let data = self.covered.get(&lock).cloned().unwrap_or_else(zeroed);
                Some(Message::Lock(lock, LockMessage::Fetched(data)))
            }
            _ => None,
        };
        if let Some(answer) = answer {
            let leaves = self.agenda.now() + self.costs.memory;
            self.agenda.plan(leaves, Event::Leave(Place::Memory, answer));
        }
    }

    fn at_node(&mut self, node: Node, message: Message) {
        match message {
            Message::Line(line, message) => self.line_at_node(node, line, message),
            Message::Lock(lock, message) => self.lock_at_node(node, lock, message),
            Message::Letter(port, from, letter) => self.deliver(port, from, letter),
        }
    }
}
