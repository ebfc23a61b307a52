//! A directory at work: one thread to which all connections bring what they receive. It waits for no node: what a node
//! does not fetch in time is lost, and comes again.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::clock::now;
use super::inspect::{Died, LockStatus, NodeStatus, Status, WaitingNode};
use super::link::RESEND;
use super::outbox::Outbox;
use super::pace::Pace;
use crate::memory::{ForkWatch, forked, watch_fork};
use crate::sync::directory::messages::Directory;
use crate::sync::directory::messages::instant::Moment;
use crate::sync::directory::messages::locked::Locked;
use crate::sync::directory::messages::message::{DirectorySays, Session, ToDirectory, ToNode};
use crate::sync::directory::queue::Permission;

/// The most messages that wait for the directory, each with all data of a lock perhaps; a connection that brings more
/// waits.
const ARRIVED_MAX: usize = 64;
/// Leases are checked at least so often in the time of one, and what may have been lost is sent again at least so
/// often.
const CHECKS: u64 = 20;

/// What a connection brings.
enum Event {
    /// A node asks to join.
    Join(Joining),
    Message(ToDirectory),
    /// A node is dead.
    Ended(Session),
    /// A node's connection is cut, and nobody knows whether the node is dead.
    Lost(Session),
    /// Somebody wants to see who has which lock.
    Status(Sender<Status>),
    Stop,
}

struct Joining {
    label: String,
    tell: Sender<Option<(Session, Outbox<ToNode>)>>,
}

/// Brings messages to a directory.
#[derive(Clone)]
pub struct Hub {
    events: SyncSender<Event>,
    lease: u64,
}

impl Hub {
    /// A node joins: its session, and where it receives. `None` if there is no number for it, or the directory has
    /// ended.
    pub fn join(&self, label: String) -> Option<(Session, Outbox<ToNode>)> {
        let (tell, told) = mpsc::channel();
        self.events.send(Event::Join(Joining { label, tell })).ok()?;
        told.recv().ok()?
    }

    /// Microseconds after which a node is declared dead of which nothing is heard.
    pub fn lease(&self) -> u64 {
        self.lease
    }

    /// A message has arrived; waits until the directory can take it. Returns whether the directory goes on.
    pub fn receive(&self, message: ToDirectory) -> bool {
        self.events.send(Event::Message(message)).is_ok()
    }

    /// A message has arrived; it is lost if the directory cannot take it now. Returns whether the directory goes on.
    pub fn offer(&self, message: ToDirectory) -> bool {
        let offered = self.events.try_send(Event::Message(message));
        !matches!(offered, Err(TrySendError::Disconnected(_)))
    }

    /// A node is dead, or has cut its connection itself.
    pub fn end(&self, session: Session) {
        // If the directory has ended, nobody needs to know.
        let _ = self.events.send(Event::Ended(session));
    }

    /// A node's connection is cut, and the node may live, and believe that it has its locks: it is declared dead when
    /// its lease has run out.
    pub fn lose(&self, session: Session) {
        // As above.
        let _ = self.events.send(Event::Lost(session));
    }

    /// Who has which lock. `None` if the directory has ended.
    pub fn status(&self) -> Option<Status> {
        let (tell, told) = mpsc::channel();
        self.events.send(Event::Status(tell)).ok()?;
        told.recv().ok()
    }
}

/// The thread of a directory. It ends when this is dropped, and with it all sessions.
pub struct DirectoryThread {
    hub: Hub,
    watch: ForkWatch,
    thread: Option<JoinHandle<()>>,
}

impl DirectoryThread {
    /// Starts a directory. Errors: the system gives no thread.
    pub fn start(directory: Directory) -> std::io::Result<Self> {
        Self::start_with(directory, RESEND)
    }

    /// The same; what may have been lost is first sent again after so long.
    pub fn start_with(directory: Directory, resend: Duration) -> std::io::Result<Self> {
        let watch = watch_fork().map_err(std::io::Error::other)?;
        let (events, arrived) = mpsc::sync_channel(ARRIVED_MAX);
        let lease = directory.limits().lease;
        let served = Served {
            directory,
            nodes: BTreeMap::new(),
            pace: Pace::new(resend),
            pause: Duration::from_micros(lease / CHECKS).min(resend),
        };
        let thread = std::thread::Builder::new()
            .name("cenote-directory".to_owned())
            .spawn(move || served.serve(&arrived))?;
        Ok(Self {
            hub: Hub { events, lease },
            watch,
            thread: Some(thread),
        })
    }

    /// What brings it messages.
    pub fn hub(&self) -> Hub {
        self.hub.clone()
    }
}

impl Drop for DirectoryThread {
    fn drop(&mut self) {
        if forked(self.watch) {
            // The parent's thread is not here.
            std::mem::forget(self.thread.take());
            return;
        }
        // An error says that it has ended by itself.
        let _ = self.hub.events.send(Event::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Connected {
    outbox: Outbox<ToNode>,
    label: String,
}

struct Served {
    directory: Directory,
    nodes: BTreeMap<Session, Connected>,
    pace: Pace,
    /// How long it waits for the next event before it checks what is due.
    pause: Duration,
}

impl Served {
    fn serve(mut self, arrived: &Receiver<Event>) {
        let mut due = now();
        loop {
            match arrived.recv_timeout(self.pause) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let moment = now();
            if moment >= due {
                due = moment.after(self.pause.as_micros() as u64);
                self.check(moment);
            }
        }
        for node in self.nodes.values() {
            node.outbox.close(None);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Join(joining) => self.join(joining),
            Event::Message(message) => {
                let lock = message.lock;
                let replies = self.directory.receive(message, now());
                if self.directory.is_restless(lock) {
                    self.pace.restart(lock, now());
                }
                self.send(replies);
            }
            Event::Ended(session) => {
                let replies = self.directory.lose(session);
                self.send(replies);
            }
            Event::Lost(session) => {
                if let Some(node) = self.nodes.get(&session) {
                    node.outbox.close(None);
                }
            }
            Event::Status(tell) => {
                // The process that asked may have gone.
                let _ = tell.send(self.status());
            }
            Event::Stop => {}
        }
    }

    /// Declares silent nodes dead, and sends again what may have been lost.
    fn check(&mut self, moment: Moment) {
        let replies = self.directory.check_silence(moment);
        self.send(replies);
        let (directory, mut again) = (&self.directory, Vec::new());
        self.pace.take_due(moment, |lock| {
            let messages = directory.again(lock);
            let is_restless = !messages.is_empty();
            again.extend(messages);
            is_restless
        });
        self.send(again);
    }

    fn join(&mut self, joining: Joining) {
        let Joining { label, tell } = joining;
        let Some(session) = self.directory.join(now()) else {
            // The process that asked may have gone.
            let _ = tell.send(None);
            return;
        };
        let outbox = Outbox::default();
        let connected = Connected {
            outbox: outbox.clone(),
            label,
        };
        self.nodes.insert(session, connected);
        if tell.send(Some((session, outbox))).is_err() {
            let replies = self.directory.lose(session);
            self.send(replies);
        }
    }

    fn send(&mut self, replies: Vec<ToNode>) {
        let moment = now();
        for reply in replies {
            if self.directory.is_restless(reply.lock) {
                self.pace.restart(reply.lock, moment);
            }
            if reply.says == DirectorySays::Ended {
                // It is told, and cut.
                if let Some(node) = self.nodes.remove(&reply.session) {
                    node.outbox.close(Some(reply));
                }
            } else if let Some(node) = self.nodes.get(&reply.session) {
                // If its connection is cut, that is reported, or was.
                node.outbox.put(reply);
            }
        }
    }

    fn status(&self) -> Status {
        let (limits, moment) = (self.directory.limits(), now());
        let lease = Duration::from_micros(limits.lease);
        let mut status = Status::empty(lease, limits.locks as u64, limits.bytes as u64);
        for (session, heard) in self.directory.members() {
            status.nodes.push(NodeStatus {
                node: session.node().number(),
                session: session.owner().generation,
                label: self
                    .nodes
                    .get(&session)
                    .map_or_else(String::new, |node| node.label.clone()),
                silent_ms: moment.since(heard) / 1000,
            });
        }
        for (name, lock) in self.directory.names() {
            let lock = self.directory.lock(lock);
            status.locks.extend(lock.map(|lock| lock_status(name, lock)));
        }
        status
    }
}

fn lock_status(name: &str, lock: &Locked) -> LockStatus {
    let (entry, lens) = (lock.entry(), lock.data().lens());
    let mut waiting = lock.waiting();
    let next = entry
        .holder()
        .filter(|holder| entry.permission(*holder) != Some(Permission::Exclusive));
    // The next writer has come out of the queue, and waits for the readers.
    waiting.sort_by_key(|request| Some(request.node) != next);
    LockStatus {
        name: name.to_owned(),
        regions: lens.len() as u16,
        bytes: lens.iter().map(|len| u64::from(*len)).sum(),
        writer: entry.owner().map(|node| node.number()),
        readers: entry.sharers().iter().map(|node| node.number()).collect(),
        next_writer: next.map(|node| node.number()),
        waiting: waiting.iter().map(WaitingNode::of).collect(),
        transfers: lock.transfers(),
        note: lock.note(),
        died: lock.former().map(|former| Died::of(former.session, former.note)),
    }
}
