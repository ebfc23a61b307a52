//! A process as a node of a directory: its connection, a thread that receives, and what its threads have of each lock.
//!
//! The threads share what the node has as those of a process share a lock in a pool ([`cohort`](super::super::cohort)), and all under one mutex, which no thread holds
//! while it waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::Client;
use super::link::{Incoming, Link, Outgoing, TICK};
use super::message::{LockId, ToDirectory};
use crate::memory::{ForkWatch, forked, watch_fork};
use crate::sync::directory::cohort::{Local, Step};
use crate::sync::directory::queue::Permission;

/// How long a node that leaves waits until the directory has what it wrote.
const LEAVING: Duration = Duration::from_secs(2);

/// Why a thread does not get a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The thread has it, or waits for it.
    #[error("this thread has the lock already, and would wait for itself")]
    Deadlock,
    /// The directory has no lock of this name.
    #[error("the directory has no lock {0}; it creates them")]
    NoSuchLock(LockId),
    /// The node's session has ended.
    #[error("the node is cut off from its directory, which treats it as dead; connect anew")]
    CutOff,
    /// This process was forked from the one that is the node.
    #[error(
        "this process was forked from the one that is connected to the directory; connect anew in the child"
    )]
    Forked,
}

/// A process as a node. Dropping it gives up what it has; locks that are still open are cut off.
pub struct RemoteNode {
    shared: Arc<Shared>,
    receiver: Option<JoinHandle<()>>,
}

impl RemoteNode {
    /// The node of a connection. Errors: the system gives no thread, or no page to see forks by.
    pub fn new(link: Link) -> std::io::Result<Self> {
        let watch = watch_fork().map_err(std::io::Error::other)?;
        let Link {
            session,
            outgoing,
            incoming,
        } = link;
        let shared = Arc::new(Shared {
            state: Mutex::new(NodeState {
                client: Client::new(session),
                locals: BTreeMap::new(),
                outgoing: Some(outgoing),
            }),
            changed: Condvar::new(),
            watch,
        });
        let theirs = shared.clone();
        let receiver = std::thread::Builder::new()
            .name("cenote-node".to_owned())
            .spawn(move || theirs.receive_all(incoming))?;
        Ok(Self {
            shared,
            receiver: Some(receiver),
        })
    }

    /// What handles on its locks use.
    pub(super) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Cuts the connection at once, as a death would: nothing is given up, and the next owners are told.
    pub fn cut(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if self.shared.is_forked() {
            return;
        }
        self.shared.state().outgoing = None;
        self.shared.changed.notify_all();
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
    }
}

impl Drop for RemoteNode {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // The connection is the parent's, and the thread is there.
            std::mem::forget((self.shared.clone(), self.receiver.take()));
        } else if self.receiver.is_some() {
            self.shared.leave();
            self.end();
        }
    }
}

/// What the threads of a node have in common.
pub(super) struct Shared {
    state: Mutex<NodeState>,
    /// Something has changed that a thread may wait for.
    pub(super) changed: Condvar,
    watch: ForkWatch,
}

/// The state of a node.
pub(super) struct NodeState {
    pub(super) client: Client,
    pub(super) locals: BTreeMap<LockId, Local>,
    /// `None` when the node is cut off.
    outgoing: Option<Box<dyn Outgoing>>,
}

impl Shared {
    /// Whether this process is a child of the node's. Then the state may be locked for ever.
    pub(super) fn is_forked(&self) -> bool {
        forked(self.watch)
    }

    /// The state, while no other thread changes it.
    pub(super) fn state(&self) -> MutexGuard<'_, NodeState> {
        // No step that panics leaves it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive_all(&self, mut incoming: Box<dyn Incoming>) {
        let mut due = Instant::now() + TICK;
        loop {
            let longest = due.saturating_duration_since(Instant::now());
            let received = incoming.receive(longest);
            let mut state = self.state();
            match received {
                Ok(Some(message)) => {
                    let lock = message.lock;
                    let replies = state.client.receive(message);
                    state.send(replies);
                    state.drive(lock);
                }
                Ok(None) => {}
                Err(_) => state.outgoing = None,
            }
            if Instant::now() >= due {
                due = Instant::now() + TICK;
                let again = state.client.tick();
                state.send(again);
            }
            self.changed.notify_all();
            if state.is_cut_off() {
                return;
            }
        }
    }

    /// Gives up what threads do not hold, and waits until the directory has it.
    fn leave(&self) {
        let until = Instant::now() + LEAVING;
        let mut state = self.state();
        for lock in state.locals.keys().copied().collect::<Vec<_>>() {
            if state
                .locals
                .get(&lock)
                .is_some_and(|local| local.identities().is_empty())
            {
                let messages = state.client.give_up(lock);
                state.send(messages);
            }
        }
        while state.is_giving_up() && !state.is_cut_off() && Instant::now() < until {
            state = match self.changed.wait_timeout(state, TICK) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

impl NodeState {
    /// Whether the directory treats the node as dead.
    pub(super) fn is_cut_off(&self) -> bool {
        self.outgoing.is_none()
    }

    fn is_giving_up(&self) -> bool {
        let copies = self.locals.keys().filter_map(|lock| self.client.copy(*lock));
        copies.into_iter().any(|copy| copy.is_handing_over())
    }

    fn send(&mut self, messages: Vec<ToDirectory>) {
        send(&mut self.outgoing, messages);
    }

    /// Asks for a lock that the directory did not have when it was asked last.
    pub(super) fn ask_again(&mut self, lock: LockId, wants: Permission) {
        if self.is_missing(lock) {
            let messages = self.client.request(lock, wants);
            self.send(messages);
        }
    }

    /// Whether the directory has no such lock.
    pub(super) fn is_missing(&self, lock: LockId) -> bool {
        self.client.copy(lock).is_some_and(|copy| copy.is_missing())
    }

    /// Does what is due for a lock: asks for it, or gives it up.
    pub(super) fn drive(&mut self, lock: LockId) {
        let Some(local) = self.locals.get_mut(&lock) else {
            return;
        };
        loop {
            let is_missing = learn(&self.client, lock, local);
            let messages = match local.next_step(false) {
                Step::Request(wants) if !is_missing => self.client.request(lock, wants),
                Step::Yield(_) => self.client.give_up(lock),
                _ => return,
            };
            send(&mut self.outgoing, messages);
        }
    }
}

/// Takes over what the node has of a lock. Returns whether there is no such lock.
fn learn(client: &Client, lock: LockId, local: &mut Local) -> bool {
    let Some(copy) = client.copy(lock) else {
        return false;
    };
    match (local.has, copy.permission()) {
        (None, Some(permission)) => local.granted(permission, 0),
        (_, permission) => local.has = permission,
    }
    local.is_asked = copy.is_asked();
    local.is_pending = copy.is_busy();
    copy.is_missing()
}

/// Sends, if the node is not cut off; if it turns out to be, it is from then on.
fn send(outgoing: &mut Option<Box<dyn Outgoing>>, messages: Vec<ToDirectory>) {
    for message in messages {
        if outgoing
            .as_mut()
            .is_some_and(|outgoing| outgoing.send(&message).is_err())
        {
            *outgoing = None;
        }
    }
}
