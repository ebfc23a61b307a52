//! What nodes and the directory say to each other. `docs/protocols/directory-messages.md` says what each message means,
//! and what its loss leads to.

use super::region::Change;
use crate::sync::Owner;
use crate::sync::directory::node::{NODES_MAX, Node};
use crate::sync::directory::queue::{Handover, Permission, Queue, Request};

/// The number of a lock at its directory, from 1 on.
pub type LockId = u64;

/// Stands in messages that are about no lock.
pub const NO_LOCK: LockId = 0;

/// The most bytes of a lock's name.
pub const NAME_MAX: usize = 180;

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

    /// As the next owner of a lock is told of it: the node in the place of a worker, the count in that of the
    /// generation.
    pub fn owner(self) -> Owner {
        Owner::of(self.0)
    }
}

/// Who died or panicked writing, until a writer has unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Former {
    /// Its session.
    pub session: Session,
    /// Its note.
    pub note: u64,
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
        /// It has the regions as they were when this epoch began.
        known: u64,
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
    /// It writes, and this is what it is doing.
    Note {
        /// The epoch in which it writes.
        epoch: u64,
        /// The number of the note in the epoch, from 1 on.
        number: u32,
        /// The note.
        note: u64,
    },
    /// It wants to know a lock by its name. About no lock.
    Open(Box<Open>),
    /// A heartbeat. About no lock.
    Alive {
        /// Which one.
        heartbeat: u64,
    },
    /// It ends its session, and has nothing that it has written and not handed over. About no lock.
    Leave,
}

/// A node wants to know a lock by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Open {
    /// The number of the question.
    pub serial: u64,
    /// The name.
    pub name: String,
    /// Lengths of the regions that the lock is made with if there is none. Without them it is not made.
    pub regions: Option<Vec<u32>>,
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
    /// What the lock protects and the node has changed.
    pub changes: Vec<Change>,
    /// Who died or panicked writing, if no thread has written and unlocked since.
    pub former: Option<Former>,
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
    /// The note is known.
    Noted {
        /// The epoch.
        epoch: u64,
        /// The number of the latest note of the epoch.
        number: u32,
    },
    /// There is such a lock: the one that the message is about.
    Opened {
        /// The number of the question.
        serial: u64,
        /// Lengths of its regions.
        regions: Vec<u32>,
    },
    /// There is no such lock, or none can be made.
    Refused {
        /// The number of the question.
        serial: u64,
        /// Why.
        why: Refusal,
    },
    /// A heartbeat has arrived. About no lock.
    Heard {
        /// Which one.
        heartbeat: u64,
    },
    /// The session has ended. About no lock.
    Ended,
}

/// Why a lock cannot be had by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// There is none, and it was not to be made.
    Missing,
    /// No lock can have this name.
    Name,
    /// No lock can have such regions.
    Regions,
    /// The directory has as many locks, or bytes of them, as it may have.
    Full,
}

/// A node has got a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Its request.
    pub ticket: u64,
    /// What it may do.
    pub permission: Permission,
    /// The epoch: the one in which a writer holds the queue, and that whose regions the node has from now on.
    pub epoch: u64,
    /// What a writer's queue held when the epoch began.
    pub queue: Queue,
    /// What the lock protects and others have changed since the epoch that the node knew.
    pub changes: Vec<Change>,
    /// Who died or panicked writing, if no thread has written and unlocked since.
    pub former: Option<Former>,
}
