//! The side of a lock service that sockets lead to.
//!
//! The service has two threads for each connection. One reads, and gives what it has read to the [hub](super::hub). One
//! writes; it ends when the hub ends the session, and cuts the connection.
//!
//! **A connection that ends** need not be a node's death. If the node's kernel has ended it, the node is dead, or has
//! cut the connection itself: its session ends at once. The same holds for a frame that is none, and for one that
//! speaks for another session. If something else has (the network leads nowhere, the node has read nothing for too
//! long), the node may live, and count on its lease: its session ends when that has run out.
//!
//! Connections are bounded in number, and in what they may have the service keep: before its hello a connection may
//! send no more than that, and it has some seconds for it. Behind it, a frame is as long as a lock's data at most, and
//! what waits to be written to it is bounded ([`outbox`](super::outbox)).
//!
//! A child of the service's process closes its copies of all sockets, else clients would take the service for alive as
//! long as the child lives. It serves nobody.
//!
//! Any process that may connect may take and hold every lock of the service: put a Unix socket into a folder that only
//! trusted users may enter, and listen by TCP on a network that is trusted.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket as Socket2, Type};

use super::address::Address;
use super::connect::{close_on_fork, reach_unix};
use super::greeting::{Answer, GREETING_MAX, Purpose, answer, read_hello};
use super::hub::Hub;
use super::link::{ConnectError, LinkError};
use super::outbox::{Outbox, Taken};
use super::stream::{Frames, Stream, is_cut};
use crate::memory::{CloseOnFork, ForkWatch, forked, watch_fork};
use crate::sync::directory::messages::message::{Session, ToDirectory, ToNode};

/// The time that a connection has for its hello.
const HELLO: Duration = Duration::from_secs(5);
/// The time after which a node is cut that reads nothing, while more is sent to it than its connection holds.
const UNREAD: Duration = Duration::from_secs(10);
/// The most connections to one address at a time: all nodes, and some that come and go.
const CONNECTIONS_MAX: usize = 128;
/// The pause after a connection could not be accepted, as too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Accepts connections until it is dropped. Those that are there go on.
pub struct Listener {
    address: Address,
    /// The Unix socket's file.
    made: Option<Metadata>,
    /// Ends before the socket.
    on_fork: Option<CloseOnFork>,
    /// The listening socket, as one that can be shut down.
    socket: Option<UnixStream>,
    watch: ForkWatch,
    is_stopped: Arc<Mutex<bool>>,
    thread: Option<JoinHandle<()>>,
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        match self {
            Self::Unix(listener) => listener.as_raw_fd(),
            Self::Tcp(listener) => listener.as_raw_fd(),
        }
    }
}

impl Socket {
    fn accept(&self) -> io::Result<(Stream, String)> {
        match self {
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                Ok((Stream::Unix(stream), String::new()))
            }
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept()?;
                Ok((Stream::Tcp(stream), format!(" at {}", from.ip())))
            }
        }
    }

    fn try_clone(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Unix(listener) => Ok(listener.try_clone()?.into()),
            Self::Tcp(listener) => Ok(listener.try_clone()?.into()),
        }
    }
}

impl Listener {
    /// Listens at an address. A Unix socket that an earlier service of this user has left is replaced; any other file
    /// stays, and is an error.
    ///
    /// Errors: [`ConnectError::Unavailable`], [`ConnectError::Io`].
    pub fn start(address: &Address, hub: Hub) -> Result<Self, ConnectError> {
        let unavailable = |why: String| ConnectError::Unavailable {
            address: address.clone(),
            why,
        };
        let (socket, address, made) = match address {
            Address::Unix(path) => {
                let listener = bind(path).map_err(unavailable)?;
                let made = path.symlink_metadata()?;
                (Socket::Unix(listener), address.clone(), Some(made))
            }
            Address::Tcp(host) => {
                let listener = TcpListener::bind(host).map_err(|error| unavailable(error.to_string()))?;
                let actual = Address::Tcp(listener.local_addr()?.to_string());
                (Socket::Tcp(listener), actual, None)
            }
        };
        let is_stopped = Arc::new(Mutex::new(false));
        let (stop, of_thread) = (UnixStream::from(socket.try_clone()?), is_stopped.clone());
        let watch = watch_fork().map_err(|error| ConnectError::Io(io::Error::other(error)))?;
        let (on_fork, of_socket) = (close_on_fork(&stop)?, close_on_fork(&socket)?);
        let thread = Builder::new().name("cenote-listener".to_owned()).spawn(move || {
            let _on_fork = of_socket;
            accept_all(&socket, &hub, &of_thread);
        })?;
        Ok(Self {
            address,
            made,
            on_fork: Some(on_fork),
            socket: Some(stop),
            watch,
            is_stopped,
            thread: Some(thread),
        })
    }

    /// Where it listens, with the port that it has got.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if forked(self.watch) {
            // The socket is closed in this child, and its parent's thread is not here.
            std::mem::forget((self.on_fork.take(), self.socket.take(), self.thread.take()));
            return;
        }
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        // Has `accept` return, on a listening socket of either kind.
        let _ = self
            .socket
            .as_ref()
            .map(|socket| socket.shutdown(std::net::Shutdown::Both));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let (Address::Unix(path), Some(made)) = (&self.address, &self.made)
            && path.symlink_metadata().is_ok_and(|now| is_same(&now, made))
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Makes a Unix socket that this user alone may connect to.
fn bind(path: &Path) -> Result<UnixListener, String> {
    let listener = match listen(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_left(path)?;
            listen(path)
        }
        bound => bound,
    };
    listener.map_err(|error| error.to_string())
}

/// The same, where there is no file yet. The file has its mode from the beginning: the kernel takes the socket's own.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = File::from(OwnedFd::from(Socket2::new(Domain::UNIX, Type::STREAM, None)?));
    socket.set_permissions(Permissions::from_mode(0o600))?;
    let socket = Socket2::from(OwnedFd::from(socket));
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(CONNECTIONS_MAX as i32)?;
    Ok(OwnedFd::from(socket).into())
}

/// Removes the socket of a service that is gone; fails if that is not what has the path.
fn remove_left(path: &Path) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let found = path.symlink_metadata().map_err(text)?;
    if !found.file_type().is_socket() {
        return Err("there is a file that is no socket; it stays".to_owned());
    }
    // What a process sees of itself there belongs to its user.
    let mine = std::fs::metadata("/proc/self").map_err(text)?;
    if found.uid() != mine.uid() {
        return Err("there is a socket of another user's; it stays".to_owned());
    }
    match reach_unix(path, HELLO) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        _ => return Err("somebody listens there already".to_owned()),
    }
    match path.symlink_metadata() {
        Ok(now) if is_same(&now, &found) => std::fs::remove_file(path).map_err(text),
        // Binding reports what is there now.
        _ => Ok(()),
    }
}

fn accept_all(socket: &Socket, hub: &Hub, is_stopped: &Mutex<bool>) {
    let connections = Arc::new(());
    loop {
        let accepted = socket.accept();
        if *is_stopped.lock().unwrap_or_else(PoisonError::into_inner) {
            return;
        }
        match accepted {
            Ok((stream, from)) if Arc::strong_count(&connections) <= CONNECTIONS_MAX => {
                let (hub, counted) = (hub.clone(), connections.clone());
                // A connection for which there is no thread is cut.
                let _ = Builder::new().name("cenote-node".to_owned()).spawn(move || {
                    let _counted = counted;
                    // An error concerns this connection alone, which is cut.
                    let _ = serve(stream, &from, &hub);
                });
            }
            // Too many: cut.
            Ok(_) => {}
            // Too many open files: others may close some.
            Err(_) => std::thread::sleep(ACCEPT_PAUSE),
        }
    }
}

/// Serves a connection until its end.
fn serve(mut stream: Stream, from: &str, hub: &Hub) -> Result<(), LinkError> {
    let on_fork = close_on_fork(&stream).map_err(io::Error::other)?;
    stream.hurry()?;
    stream.set_write_timeout(Some(UNREAD))?;
    let copy = stream.try_clone()?;
    let of_copy = close_on_fork(&copy).map_err(io::Error::other)?;
    let mut frames = Frames::new(copy, GREETING_MAX);
    let Some(body) = frames.next(Some(Instant::now() + HELLO))? else {
        return Ok(());
    };
    let (purpose, label) = read_hello(&body)?;
    if purpose == Purpose::Status {
        if let Some(status) = hub.status() {
            stream.write_all(&status.encode())?;
        }
        return Ok(());
    }
    let Some((session, outbox)) = hub.join(label + from) else {
        return Ok(stream.write_all(&answer(Answer::TurnedAway))?);
    };
    frames.admit_all();
    let cut = stream.try_clone()?;
    let of_cut = close_on_fork(&cut).map_err(io::Error::other)?;
    let is_cut_here = Arc::new(Mutex::new(false));
    let writes = Writes {
        _on_fork: on_fork,
        stream,
        session,
        lease: hub.lease(),
        outbox,
        is_cut_here: is_cut_here.clone(),
    };
    let writer = Builder::new().name("cenote-node".to_owned());
    let is_dead = match writer.spawn(move || writes.write_all()) {
        Ok(_) => read_all(frames, session, hub),
        Err(_) => true,
    };
    match is_dead && !*is_cut_here.lock().unwrap_or_else(PoisonError::into_inner) {
        true => hub.end(session),
        false => hub.lose(session),
    }
    // What is being written to it holds up the writer no longer.
    cut.cut();
    drop((of_cut, cut));
    drop(of_copy);
    Ok(())
}

/// Gives the hub what a node says, until the connection ends. Returns whether the node is dead then.
fn read_all(mut frames: Frames, session: Session, hub: &Hub) -> bool {
    loop {
        let body = match frames.next(None) {
            Ok(Some(body)) => body,
            Ok(None) | Err(LinkError::Io(_)) => return false,
            Err(LinkError::Cut | LinkError::Frame(_)) => return true,
        };
        let message = ToDirectory::decode(&body).ok();
        let Some(message) = message.filter(|message| message.session == session) else {
            return true;
        };
        if !hub.receive(message) {
            return true;
        }
    }
}

/// The half of a connection that writes.
struct Writes {
    /// Ends before the stream.
    _on_fork: CloseOnFork,
    stream: Stream,
    session: Session,
    lease: u64,
    outbox: Outbox<ToNode>,
    /// Set if the connection is cut for another reason than that the node's kernel has ended it.
    is_cut_here: Arc<Mutex<bool>>,
}

impl Writes {
    fn write_all(mut self) {
        let welcome = answer(Answer::Welcome(self.session, self.lease));
        let mut outcome = self.stream.write_all(&welcome);
        while outcome.is_ok()
            && let Taken::Message(message) = self.outbox.take(None)
        {
            outcome = self.stream.write_all(&message.encode());
        }
        if outcome.is_err_and(|error| !is_cut(error.kind())) {
            *self.is_cut_here.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
        self.outbox.close(None);
        // The reader sees the end.
        self.stream.cut();
    }
}
