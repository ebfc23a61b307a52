//! Connections between processes of a machine, by Unix sockets. The kernel closes a dead process's connections, also after `kill -9`: so the directory learns of the
//! death at once.
//!
//! The directory has two threads for each connection. One reads, and gives what it has read to the [hub](super::hub); at the end of the connection, at a frame that is none, or at
//! one that speaks for another session it ends the node's session. One writes; it ends when the hub ends the session, and cuts the connection.
//!
//! A child of a node's process closes its copies of the connection: else it would keep its parent alive in the eyes of the directory.
//!
//! Who may connect may take and hold every lock of the directory: put the socket into a folder that only trusted users may enter.

use std::io::Write;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::frame;
use super::hub::Hub;
use super::link::{Incoming, Link, LinkError, Outgoing};
use super::message::{Session, ToDirectory, ToNode};
use super::stream::{Frames, is_cut};
use crate::memory::{CloseOnFork, on_fork_close, watch_fork};

/// The time a directory has to say its welcome.
const WELCOME: Duration = Duration::from_secs(10);

/// The time after which a node is cut that reads nothing, while more is sent to it than its connection holds.
const UNREAD: Duration = Duration::from_secs(10);

/// Accepts connections until it is dropped. Those that are there go on.
pub struct Listener {
    path: PathBuf,
    is_stopped: Arc<Mutex<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens at a path, which must not exist. Errors: the system's.
    pub fn start(path: &Path, hub: Hub) -> std::io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let is_stopped = Arc::new(Mutex::new(false));
        let stop = is_stopped.clone();
        let thread = Builder::new().name("cenote-listener".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                if *stop.lock().unwrap_or_else(PoisonError::into_inner) {
                    return;
                }
                match stream {
                    // A connection for which there is no thread is cut.
                    Ok(stream) => drop(serve(stream, &hub)),
                    // Too many open files: others may close some.
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                }
            }
        })?;
        Ok(Self {
            path: path.to_owned(),
            is_stopped,
            thread: Some(thread),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        // One more connection, for which it looks whether to stop. If that fails, it stays until the process ends.
        if UnixStream::connect(&self.path).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Starts the threads of a connection.
fn serve(stream: UnixStream, hub: &Hub) -> std::io::Result<()> {
    stream.set_write_timeout(Some(UNREAD))?;
    let (read, hub) = (stream.try_clone()?, hub.clone());
    let reader = Builder::new().name("cenote-node".to_owned());
    reader.spawn(move || {
        let Some((session, messages)) = hub.join() else {
            return;
        };
        let writer = Builder::new().name("cenote-node".to_owned());
        if writer
            .spawn(move || write_all(&stream, session, &messages))
            .is_ok()
        {
            read_all(read, session, &hub);
        }
        hub.end(session);
    })?;
    Ok(())
}

fn read_all(stream: UnixStream, session: Session, hub: &Hub) {
    let mut frames = Frames::new(stream);
    while let Ok(Some(body)) = frames.next(None) {
        let message = ToDirectory::decode(&body).ok();
        let Some(message) = message.filter(|message| message.session == session) else {
            return;
        };
        if !hub.receive(message) {
            return;
        }
    }
}

fn write_all(mut stream: &UnixStream, session: Session, messages: &Receiver<ToNode>) {
    let mut is_written = stream.write_all(&frame::welcome(session)).is_ok();
    while is_written && let Ok(message) = messages.recv() {
        is_written = stream.write_all(&message.encode()).is_ok();
    }
    // The reader sees the end.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Connects this process to the directory that listens at a path. Cost: a connection, two context switches.
///
/// Errors: [`LinkError::Cut`] if the directory has no number left, [`LinkError::Io`], [`LinkError::Frame`] if it is none.
pub fn connect(path: &Path) -> Result<Link, LinkError> {
    let stream = UnixStream::connect(path)?;
    let copy = stream.try_clone()?;
    let on_fork = [close_on_fork(&stream)?, close_on_fork(&copy)?];
    let mut frames = Frames::new(copy);
    let body = frames.next(Some(WELCOME))?.ok_or(LinkError::Cut)?;
    let [outgoing, incoming] = on_fork;
    Ok(Link {
        session: frame::read_welcome(&body)?,
        outgoing: Box::new(ToSocket {
            _on_fork: outgoing,
            stream,
        }),
        incoming: Box::new(FromSocket {
            _on_fork: incoming,
            frames,
        }),
    })
}

fn close_on_fork(stream: &UnixStream) -> Result<CloseOnFork, LinkError> {
    watch_fork()
        .and_then(|_| on_fork_close(stream.as_raw_fd()))
        .map_err(|error| LinkError::Io(std::io::Error::other(error)))
}

struct ToSocket {
    /// Ends before the stream: its descriptor may soon be another file's.
    _on_fork: CloseOnFork,
    stream: UnixStream,
}

impl Outgoing for ToSocket {
    fn send(&mut self, message: &ToDirectory) -> Result<(), LinkError> {
        match self.stream.write_all(&message.encode()) {
            Err(error) if is_cut(error.kind()) => Err(LinkError::Cut),
            outcome => Ok(outcome?),
        }
    }
}

impl Drop for ToSocket {
    fn drop(&mut self) {
        // The other half ends too.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

struct FromSocket {
    /// Ends before the stream.
    _on_fork: CloseOnFork,
    frames: Frames,
}

impl Incoming for FromSocket {
    fn receive(&mut self, longest: Duration) -> Result<Option<ToNode>, LinkError> {
        match self.frames.next(Some(longest))? {
            Some(body) => Ok(Some(ToNode::decode(&body)?)),
            None => Ok(None),
        }
    }
}
