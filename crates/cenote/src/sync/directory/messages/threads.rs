//! A node and its threads: who of them has which lock, and who waits. Pure, as the [client](super::client) in it.
//!
//! The threads share what the node has as those of a process share a lock in a pool ([`cohort`](super::super::cohort)).
//! A thread gets a lock only while the node's lease has not run out. The data goes with the thread that writes, and
//! comes back when it unlocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::client::{Client, LeaseState};
use super::copy::Copy;
use super::instant::Moment;
use super::message::{Former, LockId, ToDirectory, ToNode};
use super::region::Data;
use crate::mutant::{self, Mutant};
use crate::sync::directory::cohort::{Local, Step};
use crate::sync::directory::queue::Permission;

/// A node, its threads and its locks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeState {
    client: Client,
    locals: BTreeMap<LockId, Local>,
    /// No thread gets a lock any more, and what threads give up is handed over at once.
    is_closing: bool,
}

/// What a thread has got.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// What the lock covers. A writer's own.
    pub data: Arc<Data>,
    /// Who died or panicked writing, if no thread has written and unlocked since.
    pub former: Option<Former>,
    /// A writer's epoch: greater than that of all other nodes that wrote before.
    pub epoch: u64,
}

/// What becomes of a thread that asks for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It has it.
    Got(Held),
    /// It waits. This is to be sent.
    Waits(Vec<ToDirectory>),
}

/// Why a thread cannot ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// It has the lock, or waits for it.
    Deadlock,
    /// The node is being closed.
    Closing,
}

/// How a thread gives a lock up that it has to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlock {
    /// The node keeps the lock, with what the thread has written.
    Kept,
    /// The node hands it over at once.
    HandedOver,
    /// The next owner is told of this one.
    Poisoned,
}

impl NodeState {
    /// A node without threads.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            locals: BTreeMap::new(),
            is_closing: false,
        }
    }

    /// The node.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same, to be told of what concerns no thread.
    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Whether threads may get locks.
    fn is_confirmed(&self, now: Moment) -> bool {
        let lease_state = self.client.lease_state(now);
        lease_state == LeaseState::Confirmed || mutant::is(Mutant::RemoteLeaseIgnored)
    }

    /// A thread asks for a lock.
    pub fn ask(
        &mut self,
        lock: LockId,
        thread: u64,
        wants: Permission,
        now: Moment,
    ) -> Result<Asked, Misuse> {
        let is_confirmed = self.is_confirmed(now);
        if self.is_closing && !mutant::is(Mutant::RemoteEnteredClosing) {
            return Err(Misuse::Closing);
        }
        let local = self.locals.entry(lock).or_default();
        if local.is_used_by(thread) {
            return Err(Misuse::Deadlock);
        }
        if is_confirmed && local.is_open(wants) {
            local.enter(thread, wants);
            return Ok(Asked::Got(self.held(lock, wants)));
        }
        local.wait(thread, wants);
        Ok(Asked::Waits(self.drive(lock)))
    }

    /// A thread that waits gets the lock, if its turn has come.
    pub fn enter(&mut self, lock: LockId, thread: u64, wants: Permission, now: Moment) -> Option<Held> {
        if !self.is_confirmed(now) {
            return None;
        }
        let local = self.locals.get_mut(&lock)?;
        local.enter_in_turn(thread).then(|| self.held(lock, wants))
    }

    /// A thread has got the lock.
    fn held(&mut self, lock: LockId, wants: Permission) -> Held {
        let Some(copy) = self.client.copy_mut(lock) else {
            // Only the directory's answers make locals that are open.
            return Held {
                data: Data::none(),
                former: None,
                epoch: 0,
            };
        };
        let (former, epoch) = (copy.former(), copy.epoch().unwrap_or_default());
        let data = match wants {
            Permission::Shared => copy.data().clone(),
            Permission::Exclusive => std::mem::replace(copy.written().0, Data::none()),
        };
        Held { data, former, epoch }
    }

    /// A thread waits no longer. Returns what is to be sent.
    pub fn withdraw(&mut self, lock: LockId, thread: u64) -> Vec<ToDirectory> {
        if let Some(local) = self.locals.get_mut(&lock) {
            local.withdraw(thread);
        }
        self.drive(lock)
    }

    /// A thread gives a lock up that it has to read. Returns what is to be sent.
    pub fn leave_read(&mut self, lock: LockId, thread: u64) -> Vec<ToDirectory> {
        if let Some(local) = self.locals.get_mut(&lock) {
            local.leave(thread);
        }
        self.drive(lock)
    }

    /// A thread gives a lock up that it has to write, with what it has written. Returns what is to be sent.
    pub fn leave_written(
        &mut self,
        lock: LockId,
        thread: u64,
        mut written: Arc<Data>,
        unlock: Unlock,
    ) -> Vec<ToDirectory> {
        let session = self.client.session();
        let mut messages = Vec::new();
        if let Some(copy) = self.client.copy_mut(lock) {
            let note = copy.note();
            if mutant::is(Mutant::RemoteChangesForgotten) && unlock == Unlock::Kept {
                Arc::make_mut(&mut written).forget_changes();
            }
            let (data, former) = copy.written();
            *data = written;
            *former = (unlock == Unlock::Poisoned).then_some(Former { session, note });
            if unlock != Unlock::Poisoned && note != 0 {
                messages = self.client.set_note(lock, 0);
            }
        }
        if let Some(local) = self.locals.get_mut(&lock) {
            local.leave(thread);
            local.is_yielding |= unlock == Unlock::HandedOver;
        }
        messages.extend(self.drive(lock));
        messages
    }

    /// Whether the directory has what was written in an epoch that the node has ended.
    pub fn is_committed(&self, lock: LockId, epoch: u64) -> bool {
        let has_epoch = |copy: &Copy| copy.epoch() == Some(epoch);
        !self.client.copy(lock).is_some_and(has_epoch) || mutant::is(Mutant::RemoteCommitEarly)
    }

    /// A message has arrived. Returns what is to be sent.
    pub fn receive(&mut self, message: ToNode, now: Moment) -> Vec<ToDirectory> {
        let lock = message.lock;
        let mut messages = self.client.receive(message, now);
        messages.extend(self.drive(lock));
        messages
    }

    /// Does what is due for a lock: asks for it, or gives it up. Returns what is to be sent.
    fn drive(&mut self, lock: LockId) -> Vec<ToDirectory> {
        let mut messages = Vec::new();
        let Some(local) = self.locals.get_mut(&lock) else {
            return messages;
        };
        loop {
            learn(&self.client, lock, local, self.is_closing);
            let sent = match local.next_step(false) {
                Step::Request(wants) => self.client.request(lock, wants),
                Step::Yield(_) => self.client.give_up(lock),
                _ => return messages,
            };
            if sent.is_empty() {
                // The session has ended, or the lock is not known.
                return messages;
            }
            messages.extend(sent);
        }
    }

    /// No thread gets a lock any more; those that nobody has are handed over. Returns what is to be sent.
    pub fn close(&mut self) -> Vec<ToDirectory> {
        self.is_closing = true;
        let locks: Vec<LockId> = self.locals.keys().copied().collect();
        let hand_over = |lock| match mutant::is(Mutant::RemoteEnteredClosing) {
            true => self.client.give_up(lock),
            false => self.drive(lock),
        };
        locks.into_iter().flat_map(hand_over).collect()
    }

    /// Whether the node is being closed.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// A lock that a thread has.
    pub fn first_held(&self) -> Option<LockId> {
        let is_held = |(_, local): &(&LockId, &Local)| !local.is_idle();
        self.locals.iter().find(is_held).map(|(lock, _)| *lock)
    }

    /// Whether a lock is being handed over, or is the node's to write.
    pub fn is_handing_over(&self) -> bool {
        let mut copies = self.client.locks().filter_map(|lock| self.client.copy(lock));
        copies.any(|copy| copy.epoch().is_some())
    }
}

/// Takes over what the node has of a lock.
fn learn(client: &Client, lock: LockId, local: &mut Local, is_closing: bool) {
    let Some(copy) = client.copy(lock) else {
        return;
    };
    match (local.has, copy.permission()) {
        (None, Some(permission)) => local.granted(permission, 0),
        (_, permission) => local.has = permission,
    }
    local.is_asked = copy.is_asked();
    local.is_pending = copy.is_busy();
    if is_closing && !mutant::is(Mutant::RemoteEnteredClosing) {
        local.is_yielding = true;
    } else if local.has.is_none() && !copy.is_handing_over() {
        local.is_yielding = false;
    }
}
