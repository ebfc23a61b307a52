//! The directory of a memory node: its locks, and the nodes that have joined. Pure: it is told what has arrived, and says what is to be sent.

use std::collections::BTreeMap;

use super::locked::{Locked, Replies};
use super::message::{DATA_MAX, DirectorySays, LockId, NodeSays, Session, ToDirectory, ToNode};
use crate::mutant::{self, Mutant};
use crate::sync::directory::node::{NODES_MAX, Node};

/// A directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Directory {
    locks: BTreeMap<LockId, Locked>,
    sessions: BTreeMap<Node, Session>,
    /// How many nodes have joined.
    joined: u32,
}

impl Directory {
    /// A directory without locks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a lock over this data, if there is none of this name. Returns whether it did; it does not if the data is longer than [`DATA_MAX`].
    pub fn create(&mut self, lock: LockId, data: Vec<u8>) -> bool {
        if data.len() > DATA_MAX || self.locks.contains_key(&lock) {
            return false;
        }
        self.locks.insert(lock, Locked::new(data));
        true
    }

    /// A lock, if there is one of this name.
    pub fn lock(&self, lock: LockId) -> Option<&Locked> {
        self.locks.get(&lock)
    }

    /// A node joins. `None` if all numbers are taken, or all counts were given.
    pub fn join(&mut self) -> Option<Session> {
        let node = (0..NODES_MAX)
            .filter_map(Node::new)
            .find(|node| !self.sessions.contains_key(node))?;
        self.joined = self.joined.checked_add(1)?;
        let session = Session::new(node, self.joined);
        self.sessions.insert(node, session);
        Some(session)
    }

    /// Whether a session goes on.
    pub fn is_current(&self, session: Session) -> bool {
        self.sessions.get(&session.node()) == Some(&session)
    }

    /// A message has arrived. One of a session that has ended changes nothing; the sender of one that no node sends is taken for dead.
    pub fn receive(&mut self, message: ToDirectory) -> Vec<ToNode> {
        let ToDirectory { session, lock, says } = message;
        let is_heard = self.is_current(session) || mutant::is(Mutant::DirectoryEndedSessionHeard);
        if !is_heard {
            return Vec::new();
        }
        let node = session.node();
        let outcome = match (self.locks.get_mut(&lock), says) {
            (Some(locked), says) => locked.receive(node, says),
            (None, NodeSays::Request { ticket, .. }) => {
                Ok(vec![(node, DirectorySays::NoSuchLock { ticket })])
            }
            (None, _) => Ok(Vec::new()),
        };
        match outcome {
            Ok(replies) => self.addressed(lock, replies),
            Err(_) => self.lose(session),
        }
    }

    /// A session has ended: the node is dead, or is treated so from now on. Nothing that it has sent is heard any more.
    pub fn lose(&mut self, session: Session) -> Vec<ToNode> {
        if !self.is_current(session) {
            return Vec::new();
        }
        self.sessions.remove(&session.node());
        let mut replies = Vec::new();
        for (lock, locked) in &mut self.locks {
            replies.push((*lock, locked.lose(session)));
        }
        replies
            .into_iter()
            .flat_map(|(lock, replies)| self.addressed(lock, replies))
            .collect()
    }

    /// Time has passed: what is to be sent again.
    pub fn tick(&mut self) -> Vec<ToNode> {
        let locks = self.locks.iter();
        locks
            .flat_map(|(lock, locked)| self.addressed(*lock, locked.tick()))
            .collect()
    }

    fn addressed(&self, lock: LockId, replies: Replies) -> Vec<ToNode> {
        let to = |(node, says)| {
            let session = *self.sessions.get(&node)?;
            Some(ToNode { session, lock, says })
        };
        replies.into_iter().filter_map(to).collect()
    }
}
