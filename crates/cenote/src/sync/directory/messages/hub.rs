//! A directory at work: one thread to which all connections bring what they receive. It waits for no node: what a node does not fetch in time is lost, and comes again.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::directory::Directory;
use super::link::TICK;
use super::message::{Session, ToDirectory, ToNode};

/// The most messages that wait for one node.
const WAITING_MAX: usize = 256;
/// The most messages that wait for the directory; who brings more waits.
const ARRIVED_MAX: usize = 1024;

/// What a connection brings.
enum Event {
    /// A node asks to join, and receives here.
    Join(SyncSender<ToNode>, Sender<Option<Session>>),
    Message(ToDirectory),
    /// A node's connection is cut.
    Ended(Session),
    Stop,
}

/// Brings messages to a directory.
#[derive(Clone)]
pub struct Hub {
    events: SyncSender<Event>,
}

impl Hub {
    /// A node joins: its session, and where it receives. `None` if there is no number for it, or the directory has ended.
    pub fn join(&self) -> Option<(Session, Receiver<ToNode>)> {
        let (outgoing, incoming) = mpsc::sync_channel(WAITING_MAX);
        let (tell, told) = mpsc::channel();
        self.events.send(Event::Join(outgoing, tell)).ok()?;
        Some((told.recv().ok()??, incoming))
    }

    /// A message has arrived. Returns whether the directory goes on.
    pub fn receive(&self, message: ToDirectory) -> bool {
        self.events.send(Event::Message(message)).is_ok()
    }

    /// A node's connection is cut.
    pub fn end(&self, session: Session) {
        // If the directory has ended, nobody needs to know.
        let _ = self.events.send(Event::Ended(session));
    }
}

/// The thread of a directory. It ends when this is dropped, and with it all sessions.
pub struct DirectoryThread {
    hub: Hub,
    thread: Option<JoinHandle<()>>,
}

impl DirectoryThread {
    /// Starts a directory. Errors: the system gives no thread.
    pub fn start(directory: Directory) -> std::io::Result<Self> {
        let (events, arrived) = mpsc::sync_channel(ARRIVED_MAX);
        let served = Served {
            directory,
            nodes: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("cenote-directory".to_owned())
            .spawn(move || served.serve(&arrived))?;
        Ok(Self {
            hub: Hub { events },
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
        // An error says that it has ended by itself.
        let _ = self.hub.events.send(Event::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Served {
    directory: Directory,
    nodes: BTreeMap<Session, SyncSender<ToNode>>,
}

impl Served {
    fn serve(mut self, arrived: &Receiver<Event>) {
        let mut due = Instant::now() + TICK;
        loop {
            let event = arrived.recv_timeout(due.saturating_duration_since(Instant::now()));
            let replies = match event {
                Ok(Event::Join(outgoing, tell)) => {
                    self.join(outgoing, &tell);
                    continue;
                }
                Ok(Event::Message(message)) => self.directory.receive(message),
                Ok(Event::Ended(session)) => self.directory.lose(session),
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => Vec::new(),
            };
            self.send(replies);
            if Instant::now() >= due {
                due = Instant::now() + TICK;
                let again = self.directory.tick();
                self.send(again);
            }
        }
    }

    fn join(&mut self, outgoing: SyncSender<ToNode>, tell: &Sender<Option<Session>>) {
        let session = self.directory.join();
        if let Some(session) = session {
            self.nodes.insert(session, outgoing);
        }
        if let (Err(_), Some(session)) = (tell.send(session), session) {
            let replies = self.directory.lose(session);
            self.send(replies);
        }
    }

    /// Sends. Who cannot be reached is dead, which may lead to more messages.
    fn send(&mut self, mut replies: Vec<ToNode>) {
        while !replies.is_empty() {
            let mut more = Vec::new();
            for reply in replies {
                let session = reply.session;
                let sent = self.nodes.get(&session).map(|node| node.try_send(reply));
                // A full channel is a loss like others.
                if let Some(Err(TrySendError::Disconnected(_))) = sent {
                    more.extend(self.directory.lose(session));
                }
            }
            replies = more;
        }
        // Connections of sessions that have ended are cut.
        let directory = &self.directory;
        self.nodes.retain(|session, _| directory.is_current(*session));
    }
}
