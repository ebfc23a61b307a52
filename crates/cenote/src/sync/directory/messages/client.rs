//! A node of a directory: what it has of each lock, and until when. Pure, as the [directory](super::directory).

use std::collections::BTreeMap;

use super::copy::Copy;
use super::instant::Moment;
use super::lease::Lease;
use super::message::{DirectorySays, LockId, NO_LOCK, NodeSays, Open, Refusal, Session, ToDirectory, ToNode};
use super::region::is_possible;
use crate::sync::directory::queue::Permission;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    session: Session,
    lease: Lease,
    is_ended: bool,
    /// It has ended its session itself, and waits to hear that the directory knows.
    is_leaving: bool,
    copies: BTreeMap<LockId, Copy>,
    /// The names by which it has asked for them.
    names: BTreeMap<LockId, String>,
    /// Locks whose names it asks for, each with the answer if there is one.
    openings: BTreeMap<u64, Opening>,
    /// How many it has asked for.
    opened: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Opening {
    name: String,
    regions: Option<Vec<u32>>,
    answer: Option<Opened>,
}

/// What came of a name: the lock and the lengths of its regions, or why there is none.
pub type Opened = Result<(LockId, Vec<u32>), Refusal>;

/// Whether the lease of a node stands, and with it the node's membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// The directory has not declared it dead.
    Confirmed,
    /// The lease has run out; nobody knows whether the directory has declared it dead.
    Unconfirmed,
    /// The directory has.
    Ended,
}

impl Client {
    /// The node of a session, which has nothing. It said at a moment that it joins, and the directory waits for so many
    /// microseconds.
    pub fn new(session: Session, lease: u64, joined: Moment) -> Self {
        Self {
            session,
            lease: Lease::new(lease, joined),
            is_ended: false,
            is_leaving: false,
            copies: BTreeMap::new(),
            names: BTreeMap::new(),
            openings: BTreeMap::new(),
            opened: 0,
        }
    }

    /// Its session.
    pub fn session(&self) -> Session {
        self.session
    }

    /// Its lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The state of its lease at a moment.
    pub fn lease_state(&self, now: Moment) -> LeaseState {
        match self.is_ended || self.is_leaving {
            true => LeaseState::Ended,
            false if now < self.lease.until() => LeaseState::Confirmed,
            false => LeaseState::Unconfirmed,
        }
    }

    /// The locks that it knows.
    pub fn locks(&self) -> impl Iterator<Item = LockId> {
        self.copies.keys().copied()
    }

    /// The name of a lock that it knows.
    pub fn name(&self, lock: LockId) -> &str {
        self.names.get(&lock).map_or("", String::as_str)
    }

    /// What it has of a lock; `None` if it does not know it.
    pub fn copy(&self, lock: LockId) -> Option<&Copy> {
        self.copies.get(&lock)
    }

    /// The same, to be changed by a thread that has the lock.
    pub fn copy_mut(&mut self, lock: LockId) -> Option<&mut Copy> {
        self.copies.get_mut(&lock)
    }

    /// What it may do under a lock.
    pub fn permission(&self, lock: LockId) -> Option<Permission> {
        self.copy(lock)?.permission()
    }

    /// Asks for a lock by its name; if there is none it is made, if there are lengths for its regions. Returns the
    /// number of the question, and what is to be sent.
    pub fn open(&mut self, name: &str, regions: Option<&[u32]>) -> (u64, Vec<ToDirectory>) {
        self.opened += 1;
        let opening = Opening {
            name: name.to_owned(),
            regions: regions.map(<[u32]>::to_vec),
            answer: None,
        };
        self.openings.insert(self.opened, opening);
        (self.opened, self.ask_for(self.opened))
    }

    /// What came of a name, if it is known. It is forgotten with that.
    pub fn take_opened(&mut self, serial: u64) -> Option<Opened> {
        self.openings.get(&serial)?.answer.as_ref()?;
        self.openings.remove(&serial)?.answer
    }

    /// Does not want to know any more what comes of a name.
    pub fn forget_opening(&mut self, serial: u64) {
        self.openings.remove(&serial);
    }

    /// Asks for a lock, unless it has it or has asked. Returns what is to be sent.
    pub fn request(&mut self, lock: LockId, wants: Permission) -> Vec<ToDirectory> {
        let says = self.copies.get_mut(&lock).and_then(|copy| copy.request(wants));
        self.addressed(lock, says)
    }

    /// Gives up what it has of a lock; its threads have given it up. Returns what is to be sent.
    pub fn give_up(&mut self, lock: LockId) -> Vec<ToDirectory> {
        let says = self.copies.get_mut(&lock).and_then(Copy::give_up);
        self.addressed(lock, says)
    }

    /// A thread that writes leaves a note. Returns what is to be sent.
    pub fn set_note(&mut self, lock: LockId, note: u64) -> Vec<ToDirectory> {
        let says = self.copies.get_mut(&lock).and_then(|copy| copy.set_note(note));
        self.addressed(lock, says)
    }

    /// A message has arrived. One for another session changes nothing. Returns what is to be sent.
    pub fn receive(&mut self, message: ToNode, now: Moment) -> Vec<ToDirectory> {
        let ToNode { session, lock, says } = message;
        if session != self.session {
            return Vec::new();
        }
        match says {
            DirectorySays::Heard { heartbeat } => self.lease.hear(heartbeat, now),
            DirectorySays::Ended => self.is_ended = true,
            DirectorySays::Refused { serial, why } => self.answer(serial, Err(why)),
            DirectorySays::Opened { serial, regions } if is_possible(&regions) => {
                let copy = self.copies.get(&lock);
                // No directory says two things of a lock, nor that a lock has no number.
                let is_said = lock != NO_LOCK && copy.is_none_or(|copy| copy.has_lengths(&regions));
                if let Some(opening) = self.openings.get(&serial).filter(|_| is_said) {
                    self.names.entry(lock).or_insert_with(|| opening.name.clone());
                    self.copies.entry(lock).or_insert_with(|| Copy::new(&regions));
                    self.answer(serial, Ok((lock, regions)));
                }
            }
            says => {
                let says = self.copies.get_mut(&lock).and_then(|copy| copy.receive(says));
                return self.addressed(lock, says);
            }
        }
        Vec::new()
    }

    fn answer(&mut self, serial: u64, answer: Opened) {
        if let Some(opening) = self.openings.get_mut(&serial) {
            opening.answer.get_or_insert(answer);
        }
    }

    /// What is to be sent again of a lock, as it may have been lost; of no lock, the names that it asks for.
    pub fn again(&self, lock: LockId) -> Vec<ToDirectory> {
        match lock {
            NO_LOCK if self.is_ended => Vec::new(),
            NO_LOCK if self.is_leaving => vec![self.about_no_lock(NodeSays::Leave)],
            NO_LOCK => {
                let serials = self.openings.keys();
                serials.flat_map(|serial| self.ask_for(*serial)).collect()
            }
            lock => self.addressed(lock, self.copy(lock).and_then(Copy::again)),
        }
    }

    /// Sends a heartbeat. Returns it, and what is to be sent.
    pub fn send_heartbeat(&mut self, now: Moment) -> (u64, ToDirectory) {
        let heartbeat = self.lease.send_heartbeat(now);
        (heartbeat, self.about_no_lock(NodeSays::Alive { heartbeat }))
    }

    /// Ends its session. It has nothing that it has written and not handed over.
    pub fn leave(&mut self) -> ToDirectory {
        self.is_leaving = true;
        self.about_no_lock(NodeSays::Leave)
    }

    /// Its session has ended: the connection is cut.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    fn ask_for(&self, serial: u64) -> Vec<ToDirectory> {
        let open = self
            .openings
            .get(&serial)
            .filter(|opening| opening.answer.is_none());
        let ask = |opening: &Opening| {
            self.about_no_lock(NodeSays::Open(Box::new(Open {
                serial,
                name: opening.name.clone(),
                regions: opening.regions.clone(),
            })))
        };
        open.map(ask).into_iter().collect()
    }

    fn about_no_lock(&self, says: NodeSays) -> ToDirectory {
        ToDirectory {
            session: self.session,
            lock: NO_LOCK,
            says,
        }
    }

    fn addressed(&self, lock: LockId, says: Option<NodeSays>) -> Vec<ToDirectory> {
        let session = self.session;
        let to = |says| ToDirectory { session, lock, says };
        says.filter(|_| !self.is_ended && !self.is_leaving)
            .map(to)
            .into_iter()
            .collect()
    }
}
