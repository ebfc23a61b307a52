//! A node of a directory: what it has of each lock. Pure, as the [directory](super::directory).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::copy::Copy;
use super::message::{LockId, NodeSays, Session, ToDirectory, ToNode};
use crate::sync::directory::queue::Permission;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    session: Session,
    copies: BTreeMap<LockId, Copy>,
}

impl Client {
    /// The node of a session, which has nothing.
    pub fn new(session: Session) -> Self {
        Self {
            session,
            copies: BTreeMap::new(),
        }
    }

    /// Its session.
    pub fn session(&self) -> Session {
        self.session
    }

    /// What it has of a lock; `None` if it never asked for it.
    pub fn copy(&self, lock: LockId) -> Option<&Copy> {
        self.copies.get(&lock)
    }

    /// What it may do under a lock.
    pub fn permission(&self, lock: LockId) -> Option<Permission> {
        self.copy(lock)?.permission()
    }

    /// Whether another node asks for what this one has.
    pub fn is_asked(&self, lock: LockId) -> bool {
        self.copy(lock).is_some_and(Copy::is_asked)
    }

    /// Asks for a lock, unless it has it or has asked. Returns what is to be sent.
    pub fn request(&mut self, lock: LockId, wants: Permission) -> Vec<ToDirectory> {
        let says = self.copies.entry(lock).or_default().request(wants);
        self.addressed(lock, says)
    }

    /// Gives up what it has of a lock; its threads have given it up. Returns what is to be sent.
    pub fn give_up(&mut self, lock: LockId) -> Vec<ToDirectory> {
        let says = self.copies.get_mut(&lock).and_then(Copy::give_up);
        self.addressed(lock, says)
    }

    /// A lock's data and who died writing, for a thread that writes. `None` if the node does not have the lock exclusively.
    pub fn written(&mut self, lock: LockId) -> Option<(&mut Arc<Vec<u8>>, &mut Option<Session>)> {
        let copy = self.copies.get_mut(&lock)?;
        (copy.permission() == Some(Permission::Exclusive)).then(|| copy.written())
    }

    /// A message has arrived. One for another session changes nothing. Returns what is to be sent.
    pub fn receive(&mut self, message: ToNode) -> Vec<ToDirectory> {
        let ToNode { session, lock, says } = message;
        if session != self.session {
            return Vec::new();
        }
        let says = self.copies.entry(lock).or_default().receive(says);
        self.addressed(lock, says)
    }

    /// Time has passed. Returns what is to be sent again.
    pub fn tick(&mut self) -> Vec<ToDirectory> {
        let copies = self.copies.iter();
        copies
            .flat_map(|(lock, copy)| self.addressed(*lock, copy.tick()))
            .collect()
    }

    fn addressed(&self, lock: LockId, says: Option<NodeSays>) -> Vec<ToDirectory> {
        let session = self.session;
        let to = |says| ToDirectory { session, lock, says };
        says.map(to).into_iter().collect()
    }
}
