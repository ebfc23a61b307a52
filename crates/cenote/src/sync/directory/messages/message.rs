//! What nodes and the directory say to each other. `docs/protocols/directory-messages.md` says what each message means, and what its loss leads to.

use std::sync::Arc;

use crate::sync::Owner;
use crate::sync::directory::node::{NODES_MAX, Node};
use crate::sync::directory::queue::{Handover, Permission, Queue, Request};

/// The name of a lock at its directory.
pub type LockId = u64;

/// The most bytes of a lock's data.
pub const DATA_MAX: usize = 1 << 20;

/// A node's membership, from its join to its end: its number, and how many had joined before. It does not come twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(u64);

impl Session {
    /// The session of a node, the so-maniest of the directory.
    pub fn new(node: Node, count: u32) -> Self {
        Self(u64::from(count) << 32 | (u64::from(node.number()) + 1))
    }

    /// The session of a number on the wire, unless there is none.
    pub fn from_bits(bits: u64) -> Option<Self> {
        (1..=u64::from(NODES_MAX))
            .contains(&(bits & 0xffff_ffff))
            .then_some(Self(bits))
    }

    /// Its number on the wire; never 0.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The node.
    pub fn node(self) -> Node {
        const FIRST: Node = Node::new(0).unwrap();
        Node::new((self.0 as u8).wrapping_sub(1)).unwrap_or(FIRST)
    }

    /// As the next owner of a lock is told of it: the node in the place of a worker, the count in that of the generation.
    pub fn owner(self) -> Owner {
        Owner::of(self.0)
    }
}

/// A message to the directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToDirectory {
    /// Who says it.
    pub session: Session,
    /// Of which lock.
    pub lock: LockId,
    /// What.
    pub says: NodeSays,
}

/// A message to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToNode {
    /// Who it is for.
    pub session: Session,
    /// Of which lock.
    pub lock: LockId,
    /// What.
    pub says: DirectorySays,
}

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeSays {
    /// It asks for the lock. If it reads, it reads no more.
    Request {
        /// The number of the request.
        ticket: u64,
        /// For what it asks.
        wants: Permission,
    },
    /// As the holder of the queue it has got all requests up to this number.
    Arrived {
        /// The epoch in which it holds the queue.
        epoch: u64,
        /// How many.
        version: u16,
    },
    /// It wrote, and hands the lock over.
    Transfer(Box<Transfer>),
    /// It read, and reads no more.
    GaveUp {
        /// The request by which it read.
        ticket: u64,
    },
}

/// A writer hands the lock over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// The epoch in which it holds the queue.
    pub epoch: u64,
    /// How many requests have arrived in this epoch.
    pub version: u16,
    /// To whom, and the rest of the queue.
    pub handover: Handover,
    /// What the lock protects.
    pub data: Arc<Vec<u8>>,
    /// Who died or panicked writing, if no thread has written and unlocked since.
    pub former: Option<Session>,
}

/// What the directory says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DirectorySays {
    /// The node has the lock.
    Grant(Box<Grant>),
    /// The node is the next writer, and holds the queue.
    Next {
        /// Its request.
        ticket: u64,
        /// The epoch in which it holds the queue.
        epoch: u64,
        /// What the queue held when the epoch began.
        queue: Queue,
    },
    /// A request for the queue that the node holds.
    Forward {
        /// The epoch.
        epoch: u64,
        /// The number of the request in the epoch, from 1 on.
        number: u16,
        /// The request.
        request: Request,
    },
    /// The lock was handed over.
    Transferred {
        /// The epoch that this has ended.
        epoch: u64,
    },
    /// The lock was not handed over.
    Denied {
        /// The epoch.
        epoch: u64,
        /// How many requests were forwarded.
        version: u16,
    },
    /// A writer waits for this reader.
    Yield {
        /// The request by which it reads.
        ticket: u64,
        /// The writer.
        next: Node,
    },
    /// There is no such lock.
    NoSuchLock {
        /// The request.
        ticket: u64,
    },
}

/// A node has got a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Its request.
    pub ticket: u64,
    /// What it may do.
    pub permission: Permission,
    /// The epoch in which a writer holds the queue.
    pub epoch: u64,
    /// What a writer's queue held when the epoch began.
    pub queue: Queue,
    /// What the lock protects.
    pub data: Arc<Vec<u8>>,
    /// Who died or panicked writing, if no thread has written and unlocked since.
    pub former: Option<Session>,
}
