//! The directory of a memory node: its locks and their names, and the nodes that have joined. Pure: it is told what has
//! arrived, and says what is to be sent.

use std::collections::BTreeMap;

use super::instant::Moment;
use super::locked::{Impossible, Locked, Replies};
use super::message::{
    DirectorySays, LockId, NAME_MAX, NO_LOCK, NodeSays, Open, Refusal, Session, ToDirectory, ToNode,
};
use super::region::is_possible;
use crate::mutant::{self, Mutant};
use crate::sync::directory::node::{NODES_MAX, Node};

/// If the directory itself did nothing for this part of a lease, it does not know how long its nodes have been silent.
const PAUSES: u64 = 4;

/// What a directory is bounded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Microseconds after which a node is declared dead of which nothing is heard.
    pub lease: u64,
    /// The most locks.
    pub locks: usize,
    /// The most bytes of all regions of all locks.
    pub bytes: usize,
}

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Directory {
    limits: Limits,
    names: BTreeMap<String, LockId>,
    locks: BTreeMap<LockId, Locked>,
    /// Bytes of all regions.
    bytes: usize,
    members: BTreeMap<Node, Member>,
    /// How many nodes have joined.
    joined: u32,
    /// When it last checked whether nodes are silent.
    checked: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Member {
    session: Session,
    /// When something of it was last heard.
    heard: Moment,
}

impl Directory {
    /// A directory without locks.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            names: BTreeMap::new(),
            locks: BTreeMap::new(),
            bytes: 0,
            members: BTreeMap::new(),
            joined: 0,
            checked: Moment::default(),
        }
    }

    /// What it is bounded by.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The lock of a name, if there is one; else it is made, with regions of these lengths, zeroes at first.
    pub fn open(&mut self, name: &str, regions: Option<&[u32]>) -> Result<LockId, Refusal> {
        if let Some(lock) = self.names.get(name) {
            return Ok(*lock);
        }
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(Refusal::Name);
        }
        let regions = regions.ok_or(Refusal::Missing)?;
        if !is_possible(regions) {
            return Err(Refusal::Regions);
        }
        let more: usize = regions.iter().map(|len| *len as usize).sum();
        if self.locks.len() >= self.limits.locks || more > self.limits.bytes.saturating_sub(self.bytes) {
            return Err(Refusal::Full);
        }
        self.bytes += more;
        let lock = self.locks.len() as LockId + 1;
        self.names.insert(name.to_owned(), lock);
        self.locks.insert(lock, Locked::new(regions));
        Ok(lock)
    }

    /// A lock, if there is one of this number.
    pub fn lock(&self, lock: LockId) -> Option<&Locked> {
        self.locks.get(&lock)
    }

    /// The names of all locks, with their numbers.
    pub fn names(&self) -> impl Iterator<Item = (&str, LockId)> {
        self.names.iter().map(|(name, lock)| (name.as_str(), *lock))
    }

    /// All sessions, each with the moment at which it was heard last.
    pub fn members(&self) -> impl Iterator<Item = (Session, Moment)> {
        self.members.values().map(|member| (member.session, member.heard))
    }

    /// A node joins. `None` if all numbers are taken, or all counts were given.
    pub fn join(&mut self, now: Moment) -> Option<Session> {
        let node = (0..NODES_MAX)
            .filter_map(Node::new)
            .find(|node| !self.members.contains_key(node))?;
        self.joined = self.joined.checked_add(1)?;
        let session = Session::new(node, self.joined);
        let heard = now;
        self.members.insert(node, Member { session, heard });
        Some(session)
    }

    /// Whether a session goes on.
    pub fn is_current(&self, session: Session) -> bool {
        let member = self.members.get(&session.node());
        member.is_some_and(|member| member.session == session)
    }

    /// A message has arrived. One of a session that has ended changes nothing; the sender of one that no node sends is
    /// declared dead.
    pub fn receive(&mut self, message: ToDirectory, now: Moment) -> Vec<ToNode> {
        let ToDirectory { session, lock, says } = message;
        match self.members.get_mut(&session.node()) {
            Some(member) if member.session == session => member.heard = now.max(member.heard),
            _ if mutant::is(Mutant::DirectoryEndedSessionHeard) => {}
            _ => return vec![about_no_lock(session, DirectorySays::Ended)],
        }
        let node = session.node();
        let outcome = match says {
            NodeSays::Open(open) => return vec![self.answer(session, *open)],
            NodeSays::Alive { heartbeat } => {
                return vec![about_no_lock(session, DirectorySays::Heard { heartbeat })];
            }
            NodeSays::Leave => return self.end(&[session], !mutant::is(Mutant::RemoteLeaverCountsAsDead)),
            says => match self.locks.get_mut(&lock) {
                Some(locked) => locked.receive(node, says),
                None => Err(Impossible),
            },
        };
        match outcome {
            Ok(replies) => self.addressed(lock, replies),
            Err(Impossible) => self.lose(session),
        }
    }

    fn answer(&mut self, session: Session, open: Open) -> ToNode {
        let Open {
            serial,
            name,
            regions,
        } = open;
        match self.open(&name, regions.as_deref()) {
            Ok(lock) => {
                let regions = self.lock(lock).map_or_else(Vec::new, |lock| lock.data().lens());
                let says = DirectorySays::Opened { serial, regions };
                ToNode { session, lock, says }
            }
            Err(why) => about_no_lock(session, DirectorySays::Refused { serial, why }),
        }
    }

    /// A session has ended: the node is dead, or is treated so from now on. Nothing that it has sent is heard any more.
    pub fn lose(&mut self, session: Session) -> Vec<ToNode> {
        self.end(&[session], false)
    }

    /// Sessions have ended, all at once: none of their nodes is granted anything in between.
    fn end(&mut self, sessions: &[Session], in_order: bool) -> Vec<ToNode> {
        let current = sessions
            .iter()
            .copied()
            .filter(|session| self.is_current(*session));
        let mut ended: Vec<Session> = current.collect();
        for session in &ended {
            self.members.remove(&session.node());
        }
        let mut of_locks = Vec::new();
        for (lock, locked) in &mut self.locks {
            ended.iter().for_each(|session| locked.forget(session.node()));
            // The holder first: what the others gave up would be its to write.
            let holder = locked.entry().holder();
            ended.sort_by_key(|session| Some(session.node()) != holder);
            for session in &ended {
                of_locks.push((*lock, locked.lose(*session, in_order)));
            }
        }
        let told = ended
            .iter()
            .map(|session| about_no_lock(*session, DirectorySays::Ended));
        let mut replies: Vec<ToNode> = told.collect();
        for (lock, of_lock) in of_locks {
            replies.extend(self.addressed(lock, of_lock));
        }
        replies
    }

    /// Whether there may be something to send again of a lock.
    pub fn is_restless(&self, lock: LockId) -> bool {
        self.lock(lock).is_some_and(Locked::is_restless)
    }

    /// What is to be sent again of a lock, as it may have been lost.
    pub fn again(&self, lock: LockId) -> Vec<ToNode> {
        let replies = self.lock(lock).map_or_else(Replies::new, Locked::again);
        self.addressed(lock, replies)
    }

    /// Declares nodes dead that were silent for a lease. To be called often: a directory that has not called it for a
    /// while has been stopped itself, and waits for its nodes anew.
    pub fn check_silence(&mut self, now: Moment) -> Vec<ToNode> {
        let paused = now.since(self.checked) > self.limits.lease / PAUSES;
        self.checked = now;
        if paused && !mutant::is(Mutant::RemotePauseCounted) {
            self.members.values_mut().for_each(|member| member.heard = now);
        }
        let is_silent = |member: &&Member| now.since(member.heard) >= self.limits.lease;
        let silent: Vec<Session> = self
            .members
            .values()
            .filter(is_silent)
            .map(|member| member.session)
            .collect();
        self.end(&silent, false)
    }

    fn addressed(&self, lock: LockId, replies: Replies) -> Vec<ToNode> {
        let to = |(node, says)| {
            let session = self.members.get(&node)?.session;
            Some(ToNode { session, lock, says })
        };
        replies.into_iter().filter_map(to).collect()
    }
}

fn about_no_lock(session: Session, says: DirectorySays) -> ToNode {
    ToNode {
        session,
        lock: NO_LOCK,
        says,
    }
}
