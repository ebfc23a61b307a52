//! Connecting to a lock service by a socket.
//!
//! A node has two threads for its connection, one that writes and, in [`client`](super::client), one that reads. So no
//! thread that uses a lock waits for the service to read. The kernel closes a dead process's connections, also after
//! `kill -9`: so the service learns of the death at once.
//!
//! A child of a node's process closes its copies of the connection: else it would keep its parent alive in the eyes of
//! the service.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::address::Address;
use super::clock::now;
use super::greeting::{Answer, GREETING_MAX, Purpose, hello, read_answer};
use super::inspect::Status;
use super::link::{ConnectError, Incoming, Link, LinkError, Outgoing, RESEND};
use super::outbox::{Outbox, Taken};
use super::stream::{Frames, Stream, is_late};
use crate::memory::{CloseOnFork, on_fork_close, watch_fork};
use crate::sync::directory::messages::frame::FRAME_MAX;
use crate::sync::directory::messages::message::{ToDirectory, ToNode};

/// What a time comes to that no clock can say.
const LONGEST: Duration = Duration::from_secs(3600);

/// Connects this process to the lock service that listens at an address, within a time.
///
/// Errors: [`ConnectError`].
pub fn connect(address: &Address, label: &str, time: Duration) -> Result<Link, ConnectError> {
    let (until, failed) = (until(time), Failed { address, time });
    let mut stream = reach(address, time)?;
    let copy = stream.try_clone()?;
    let (on_fork, of_copy) = (close_on_fork(&stream)?, close_on_fork(&copy)?);
    let joined = now();
    say(&mut stream, &hello(Purpose::Join, label), until).map_err(|error| failed.by(error))?;
    let mut frames = Frames::new(copy, GREETING_MAX);
    let body = frames.next(Some(until)).map_err(|error| failed.by(error))?;
    let body = body.ok_or_else(|| failed.silent())?;
    let (session, lease) = match read_answer(&body).map_err(|why| failed.by(why.into()))? {
        Answer::Welcome(session, lease) => (session, lease),
        Answer::TurnedAway => return Err(ConnectError::TooManyNodes),
    };
    frames.admit_all();
    Ok(Link {
        session,
        lease,
        joined,
        resend: RESEND,
        outgoing: Box::new(ToSocket::new(stream, on_fork)?),
        incoming: Box::new(FromSocket {
            _on_fork: of_copy,
            frames,
        }),
    })
}

/// What the lock service that listens at an address says of itself, within a time. Takes no node's number.
///
/// Errors: [`ConnectError`].
pub fn status(address: &Address, time: Duration) -> Result<Status, ConnectError> {
    let (until, failed) = (until(time), Failed { address, time });
    let mut stream = reach(address, time)?;
    say(&mut stream, &hello(Purpose::Status, ""), until).map_err(|error| failed.by(error))?;
    let mut frames = Frames::new(stream, FRAME_MAX);
    let mut is_late = false;
    let status = Status::decode(|| {
        let body = frames.next(Some(until))?;
        is_late |= body.is_none();
        body.ok_or(LinkError::Cut)
    });
    match is_late {
        true => Err(failed.silent()),
        false => status.map_err(|error| failed.by(error)),
    }
}

/// When a time is over. No process waits for ever: a time that no clock can say is an hour.
fn until(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now + LONGEST)
}

/// What a failure is reported with.
struct Failed<'a> {
    address: &'a Address,
    time: Duration,
}

impl Failed<'_> {
    fn silent(&self) -> ConnectError {
        ConnectError::Silent {
            address: self.address.clone(),
            waited: self.time,
        }
    }

    fn by(&self, error: LinkError) -> ConnectError {
        match error {
            LinkError::Cut => ConnectError::Cut,
            LinkError::Io(error) if is_late(error.kind()) => self.silent(),
            LinkError::Io(error) => error.into(),
            LinkError::Frame(why) => ConnectError::NotALockService {
                address: self.address.clone(),
                why,
            },
        }
    }
}

fn say(stream: &mut Stream, frame: &[u8], until: Instant) -> Result<(), LinkError> {
    let longest = until.saturating_duration_since(Instant::now());
    stream.set_write_timeout(Some(longest.max(Duration::from_millis(1))))?;
    match stream.write_all(frame) {
        Err(error) if super::stream::is_cut(error.kind()) => Err(LinkError::Cut),
        outcome => Ok(outcome?),
    }
}

/// A connection to the process that listens at an address.
fn reach(address: &Address, time: Duration) -> Result<Stream, ConnectError> {
    let unreachable = |source| ConnectError::Unreachable {
        address: address.clone(),
        source,
    };
    let reached = match address {
        Address::Unix(path) => reach_unix(path, time).map(Stream::Unix),
        Address::Tcp(host) => reach_tcp(host, time).map(Stream::Tcp),
    };
    let stream = reached.map_err(unreachable)?;
    stream.hurry()?;
    Ok(stream)
}

fn reach_tcp(host: &str, time: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, time) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects to a Unix socket. A listener that is stopped, and has many that wait, would have this wait for ever: that
/// is left to another thread.
pub(super) fn reach_unix(path: &Path, time: Duration) -> io::Result<UnixStream> {
    let (tell, told) = mpsc::sync_channel(1);
    let path = path.to_owned();
    Builder::new()
        .name("cenote-connect".to_owned())
        .spawn(move || tell.send(UnixStream::connect(path)))?;
    told.recv_timeout(time).unwrap_or_else(|_| {
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "too many wait there to be let in",
        ))
    })
}

/// Has forked children close a socket, as long as the result lives. It ends before the socket does.
pub(super) fn close_on_fork(stream: &impl AsRawFd) -> Result<CloseOnFork, ConnectError> {
    watch_fork()
        .and_then(|_| on_fork_close(stream.as_raw_fd()))
        .map_err(|error| ConnectError::Io(io::Error::other(error)))
}

/// Sends by a thread of its own.
struct ToSocket {
    /// Ends before the stream: its descriptor may soon be another file's.
    _on_fork: CloseOnFork,
    stream: Stream,
    outbox: Outbox<ToDirectory>,
}

impl ToSocket {
    fn new(stream: Stream, on_fork: CloseOnFork) -> io::Result<Self> {
        let outbox = Outbox::<ToDirectory>::default();
        let (mut writes, waiting) = (stream.try_clone()?, outbox.clone());
        let of_writer = close_on_fork(&writes).map_err(io::Error::other)?;
        stream.set_write_timeout(None)?;
        Builder::new().name("cenote-node".to_owned()).spawn(move || {
            let _on_fork = of_writer;
            while let Taken::Message(message) = waiting.take(None) {
                if writes.write_all(&message.encode()).is_err() {
                    break;
                }
            }
            waiting.close(None);
            // The reader sees the end.
            writes.cut();
        })?;
        Ok(Self {
            _on_fork: on_fork,
            stream,
            outbox,
        })
    }
}

impl Outgoing for ToSocket {
    fn send(&mut self, message: ToDirectory) -> Result<(), LinkError> {
        match self.outbox.put(message) {
            true => Ok(()),
            false => Err(LinkError::Cut),
        }
    }
}

impl Drop for ToSocket {
    fn drop(&mut self) {
        self.outbox.close(None);
        // The thread that reads or writes sees the end.
        self.stream.cut();
    }
}

struct FromSocket {
    /// Ends before the stream.
    _on_fork: CloseOnFork,
    frames: Frames,
}

impl Incoming for FromSocket {
    fn receive(&mut self, longest: Duration) -> Result<Option<ToNode>, LinkError> {
        match self.frames.next(Some(Instant::now() + longest))? {
            Some(body) => Ok(Some(ToNode::decode(&body)?)),
            None => Ok(None),
        }
    }
}
