//! Nodes of a simulated network, their threads and their clocks, and messages on their way.

use std::collections::VecDeque;

use cenote::sync::directory::messages::NodeState;
use cenote::sync::directory::messages::instant::Moment;
use cenote::sync::directory::messages::message::{LockId, Session, ToDirectory, ToNode};
use cenote::sync::directory::messages::threads::Held;
use cenote::sync::directory::queue::Permission;

/// A clock that runs at the directory's rate does so many sixteenths of it.
pub const RATE: u64 = 16;

/// What a thread does under a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Reads.
    Read,
    /// Writes, and unlocks.
    Write,
    /// Leaves a note, writes, and unlocks.
    WriteNoted,
    /// Writes, and waits until the directory has it.
    Commit,
    /// Writes, and panics.
    Panic,
}

impl Op {
    pub(super) fn wants(self) -> Permission {
        match self {
            Self::Read => Permission::Shared,
            _ => Permission::Exclusive,
        }
    }
}

/// What a node's thread does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    Nothing,
    Waits(LockId, Op),
    Holds(LockId, Op, Held),
    /// Waits until the directory has the count that it wrote in an epoch.
    Commits(LockId, u64, u64),
}

/// A thread of a node that lives.
#[derive(Clone, Debug, Hash)]
pub struct Thread {
    pub(super) doing: Doing,
    /// What it will do.
    pub script: VecDeque<(LockId, Op)>,
}

/// A node that lives.
#[derive(Clone, Debug, Hash)]
pub struct Peer {
    pub(super) node: NodeState,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// What its clock shows when the directory's shows 0, and by how many sixteenths of the directory's rate it goes
    /// on.
    pub(super) clock: (u64, u64),
    /// It neither hears nor is heard.
    pub is_apart: bool,
    pub(super) is_leaving: bool,
    /// How many notes its threads have left.
    pub(super) notes: u64,
}

/// A message on its way.
#[derive(Clone, Debug, Hash)]
pub enum Packet {
    /// From a node.
    ToDirectory(ToDirectory),
    /// From the directory.
    ToNode(ToNode),
}

impl Packet {
    /// The session at one of its ends.
    pub fn session(&self) -> Session {
        match self {
            Self::ToDirectory(message) => message.session,
            Self::ToNode(message) => message.session,
        }
    }
}

/// What a node's clock shows when the directory's shows something.
pub(super) fn clock_at((offset, rate): (u64, u64), now: Moment) -> Moment {
    Moment(offset + now.0 * rate / RATE)
}
