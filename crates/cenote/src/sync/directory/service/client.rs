//! A process as a node of a lock service: its connection, a thread that receives, and what its threads have of each
//! lock.
//!
//! All of it lies under one mutex, which no thread holds while it waits. Threads that wait sleep by one condition
//! variable.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::address::Address;
use super::clock::now;
use super::connect;
use super::error::Error;
use super::link::{ConnectError, Incoming, Link, Outgoing};
use super::pace::Pace;
use crate::memory::{ForkWatch, forked, watch_fork};
use crate::sync::directory::messages::client::{Client, LeaseState};
use crate::sync::directory::messages::instant::Moment;
use crate::sync::directory::messages::message::{DirectorySays, LockId, NO_LOCK, Session, ToDirectory};
use crate::sync::directory::messages::threads::NodeState;
use crate::sync::{Owner, Timeout};

/// How long a process waits for a lock service to let it in.
const CONNECTING: Duration = Duration::from_secs(10);
/// How long a client that is dropped waits until the service has what it wrote.
const LEAVING: Duration = Duration::from_secs(2);
/// How long a client that has left waits until the service has heard that.
const FAREWELL: Duration = Duration::from_secs(1);
/// The longest sleep of the thread that receives, between two checks of what is due; and in parts of a lease.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
const SLEEPS: u32 = 20;

/// A process as a node of a lock service. Threads share one.
///
/// Locks that its threads have used stay with it, each with its data, until another node asks. Dropping the client
/// gives them up; [`close`](Self::close) reports whether all that was written has arrived.
///
/// A node is declared dead of which the service hears nothing for the lease: [the module](crate::remote) says what a
/// holder may believe.
pub struct LockClient {
    shared: Arc<Shared>,
    receiver: Option<JoinHandle<()>>,
}

/// What the threads of a node have in common.
pub(super) struct Shared {
    state: Mutex<Runtime>,
    /// Something has changed that a thread may wait for.
    changed: Condvar,
    watch: ForkWatch,
    lease: u64,
    session: Session,
}

/// The state of a node.
pub(super) struct Runtime {
    pub(super) node: NodeState,
    /// `None` when the node is cut off.
    outgoing: Option<Box<dyn Outgoing>>,
    pace: Pace,
    /// Why the session has ended, if it has.
    ending: Option<Error>,
    /// How many threads sleep.
    sleepers: usize,
}

impl LockClient {
    /// Connects this process to the lock service that listens at an address. Waits for 10 s at most.
    ///
    /// Cost: a round trip, three threads.
    ///
    /// Errors: [`ConnectError`].
    pub fn connect(address: &Address) -> Result<Self, ConnectError> {
        Self::connect_as(address, &own_label(), CONNECTING)
    }

    /// The same, under a label of up to 100 bytes by which `cenote lockd --status` names this node, and within a time.
    ///
    /// Errors: [`ConnectError`].
    pub fn connect_as(address: &Address, label: &str, time: Duration) -> Result<Self, ConnectError> {
        Ok(Self::over(connect::connect(address, label, time)?)?)
    }

    /// The node of a connection. Errors: the system gives no thread, or no page to see forks by.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn over(link: Link) -> std::io::Result<Self> {
        let watch = watch_fork().map_err(std::io::Error::other)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(Runtime {
                node: NodeState::new(Client::new(link.session, link.lease, link.joined)),
                outgoing: Some(link.outgoing),
                pace: Pace::new(link.resend),
                ending: None,
                sleepers: 0,
            }),
            changed: Condvar::new(),
            watch,
            lease: link.lease,
            session: link.session,
        });
        let lease = Duration::from_micros(link.lease);
        let longest = LONGEST_SLEEP.min(link.resend).min(lease / SLEEPS);
        let (theirs, incoming) = (shared.clone(), link.incoming);
        let receiver = std::thread::Builder::new()
            .name("cenote-node".to_owned())
            .spawn(move || theirs.receive_all(incoming, longest))?;
        Ok(Self {
            shared,
            receiver: Some(receiver),
        })
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether the service has declared this node dead, as far as is known here.
    pub fn lease_state(&self) -> LeaseState {
        match self.shared.is_forked() {
            true => LeaseState::Ended,
            false => self.shared.state().node.client().lease_state(now()),
        }
    }

    /// For how long the service waits before it declares a node dead of which it hears nothing.
    pub fn lease(&self) -> Duration {
        Duration::from_micros(self.shared.lease)
    }

    /// How others are told of this node, should it die: its number in the place of a worker, and how many nodes had
    /// joined before in that of the generation.
    pub fn owner(&self) -> Owner {
        self.shared.session.owner()
    }

    /// Gives all locks up, and waits until the service has all that was written. If that fails, the connection is cut
    /// all the same: what the service does not have is lost, and the next owners are told.
    ///
    /// Errors: [`Error::Held`] if a thread has a lock; [`Error::Fenced`], [`Error::Disconnected`],
    /// [`Error::Unconfirmed`].
    pub fn close(mut self) -> Result<(), Error> {
        if self.shared.is_forked() {
            return Err(Error::Forked);
        }
        let time = Duration::from_micros(self.shared.lease);
        let left = self.shared.leave(time);
        self.end(Error::Closed);
        left
    }

    /// Cuts the connection at once, as a death would: nothing is given up, and the next owners are told.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn cut(mut self) {
        self.end(Error::Disconnected);
    }

    fn end(&mut self, why: Error) {
        self.shared.state().cut(why);
        self.shared.changed.notify_all();
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
    }
}

impl Drop for LockClient {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // The connection is the parent's, and the threads are there.
            std::mem::forget((self.shared.clone(), self.receiver.take()));
        } else if self.receiver.is_some() {
            // Who wants to know calls `close`.
            let _ = self.shared.leave(LEAVING);
            self.end(Error::Closed);
        }
    }
}

/// What this process says of itself.
fn own_label() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let name = program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    format!("{name}[{}]", std::process::id())
}

impl Shared {
    /// Whether this process is a child of the node's. Then the state may be locked for ever.
    pub(super) fn is_forked(&self) -> bool {
        forked(self.watch)
    }

    /// The state, while no other thread changes it.
    pub(super) fn state(&self) -> MutexGuard<'_, Runtime> {
        // No step that panics leaves it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until something has changed, or a moment has come.
    pub(super) fn sleep<'s>(
        &'s self,
        mut state: MutexGuard<'s, Runtime>,
        until: Option<Instant>,
    ) -> MutexGuard<'s, Runtime> {
        state.sleepers += 1;
        let mut state = match until {
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let longest = until.saturating_duration_since(Instant::now());
                let waited = self.changed.wait_timeout(state, longest);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.sleepers -= 1;
        state
    }

    /// Wakes the threads that sleep, if there are any.
    pub(super) fn wake(&self, state: MutexGuard<'_, Runtime>) {
        let sleepers = state.sleepers;
        drop(state);
        if sleepers > 0 {
            self.changed.notify_all();
        }
    }

    fn receive_all(&self, mut incoming: Box<dyn Incoming>, longest: Duration) {
        loop {
            let received = incoming.receive(longest);
            let mut state = self.state();
            let moment = now();
            match received {
                Ok(Some(message)) => {
                    let lock = message.lock;
                    if message.says == DirectorySays::Ended {
                        state.cut(Error::Fenced);
                    }
                    let replies = state.node.receive(message, moment);
                    if lock != NO_LOCK && !state.node.client().again(lock).is_empty() {
                        state.pace.restart(lock, moment);
                    }
                    state.send(replies);
                }
                Ok(None) => {}
                Err(_) => state.cut(Error::Disconnected),
            }
            state.send_what_is_due(moment);
            let is_over = state.outgoing.is_none();
            self.wake(state);
            if is_over {
                return;
            }
        }
    }

    /// Hands over all that threads do not have, and waits until the service has it.
    fn leave(&self, time: Duration) -> Result<(), Error> {
        let until = Instant::now() + time;
        let mut state = self.state();
        let messages = state.node.close();
        state.send(messages);
        self.changed.notify_all();
        while state.node.is_handing_over() && state.node.first_held().is_none() {
            state.check()?;
            if Instant::now() >= until {
                return Err(Error::Unconfirmed);
            }
            state = self.sleep(state, Some(until));
        }
        state.check()?;
        if let Some(lock) = state.node.first_held() {
            let name = state.node.client().name(lock).to_owned();
            return Err(Error::Held { name });
        }
        let leave = state.node.client_mut().leave();
        state.send(vec![leave]);
        state.ending = Some(Error::Closed);
        let until = Instant::now() + FAREWELL;
        while state.outgoing.is_some() && Instant::now() < until {
            state = self.sleep(state, Some(until));
        }
        Ok(())
    }
}

impl Runtime {
    /// Fails if the session has ended.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.ending.clone().map_or(Ok(()), Err)
    }

    /// Fails if the session has ended, or may have.
    pub(super) fn confirm(&self) -> Result<(), Error> {
        self.check()?;
        match self.node.client().lease_state(now()) {
            LeaseState::Confirmed => Ok(()),
            _ => Err(Error::Unconfirmed),
        }
    }

    /// The connection is cut. The first reason counts.
    fn cut(&mut self, why: Error) {
        self.outgoing = None;
        self.ending.get_or_insert(why);
        self.node.client_mut().end();
    }

    /// Sends, if the node is not cut off; if it turns out to be, it is from then on.
    pub(super) fn send(&mut self, messages: Vec<ToDirectory>) {
        let moment = now();
        for message in messages {
            self.pace.restart(message.lock, moment);
            let Some(outgoing) = &mut self.outgoing else {
                return;
            };
            if outgoing.send(message).is_err() {
                self.cut(Error::Disconnected);
            }
        }
    }

    /// Sends a heartbeat now. Returns its number, which is answered.
    pub(super) fn send_heartbeat(&mut self) -> u64 {
        let (heartbeat, message) = self.node.client_mut().send_heartbeat(now());
        self.send(vec![message]);
        heartbeat
    }

    fn send_what_is_due(&mut self, moment: Moment) {
        if moment >= self.node.client().lease().next_heartbeat() {
            self.send_heartbeat();
        }
        let (client, mut again) = (self.node.client(), Vec::new());
        self.pace.take_due(moment, |lock: LockId| {
            let messages = client.again(lock);
            let is_restless = !messages.is_empty();
            again.extend(messages);
            is_restless
        });
        for message in again {
            if let Some(outgoing) = &mut self.outgoing
                && outgoing.send(message).is_err()
            {
                self.cut(Error::Disconnected);
            }
        }
    }
}

/// Until when a timeout waits; `None` for ever. One that does not wait ends now.
pub(super) fn until(timeout: Timeout) -> Option<Instant> {
    match timeout {
        Timeout::Forever => None,
        Timeout::Until(moment) => Some(moment),
        Timeout::None | Timeout::Polls(_) => Some(Instant::now()),
    }
}
