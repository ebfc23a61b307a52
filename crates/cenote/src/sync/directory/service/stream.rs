//! Sockets of either kind, and frames out of their bytes, which come in pieces of any length.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::link::LinkError;
use crate::sync::directory::messages::frame::{self, FRAME_MAX, FrameError, HEAD};

/// How many bytes are read at once.
const PIECE: usize = 16 << 10;

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// Between processes of a machine.
    Unix(UnixStream),
    /// Between machines.
    Tcp(TcpStream),
}

macro_rules! either {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Unix($inner) => $call,
            Stream::Tcp($inner) => $call,
        }
    };
}

impl Stream {
    /// Another descriptor of the same connection.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    /// Small messages go out at once.
    pub fn hurry(&self) -> io::Result<()> {
        match self {
            Self::Unix(_) => Ok(()),
            Self::Tcp(stream) => stream.set_nodelay(true),
        }
    }

    /// For so long a read waits.
    pub fn set_read_timeout(&self, longest: Option<Duration>) -> io::Result<()> {
        either!(self, stream => stream.set_read_timeout(longest))
    }

    /// For so long a write waits in which the other side reads nothing.
    pub fn set_write_timeout(&self, longest: Option<Duration>) -> io::Result<()> {
        either!(self, stream => stream.set_write_timeout(longest))
    }

    /// Ends it, on both sides.
    pub fn cut(&self) {
        // An error says that it has ended already.
        let _ = either!(self, stream => stream.shutdown(Shutdown::Both));
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        either!(self, stream => stream.read(bytes))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, stream => stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        either!(self, stream => stream.flush())
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        either!(self, stream => stream.as_raw_fd())
    }
}

/// What has arrived on a connection.
pub struct Frames {
    stream: Stream,
    /// Bytes that have arrived and are no whole frame yet.
    arrived: Vec<u8>,
    /// The most bytes of a frame's body.
    longest: usize,
}

impl Frames {
    /// Of a connection from which nothing was read. As long as nobody knows who is at its other end, frames are not
    /// longer than this.
    pub fn new(stream: Stream, longest: usize) -> Self {
        Self {
            stream,
            arrived: Vec::new(),
            longest,
        }
    }

    /// From now on frames may be as long as any.
    pub fn admit_all(&mut self) {
        self.longest = FRAME_MAX;
    }

    /// The body of the next frame; `None` if all of it has not come by a moment, however many pieces have. Without one
    /// it waits.
    ///
    /// Errors: [`LinkError::Cut`] at the end of the connection, also within a frame; [`LinkError::Frame`] for a length
    /// that no frame has.
    pub fn next(&mut self, until: Option<Instant>) -> Result<Option<Vec<u8>>, LinkError> {
        loop {
            if let Some(len) = frame::body_len(&self.arrived)? {
                if len > self.longest {
                    return Err(FrameError::TooLong(len as u32).into());
                }
                if self.arrived.len() >= HEAD + len {
                    let rest = self.arrived.split_off(HEAD + len);
                    let frame = std::mem::replace(&mut self.arrived, rest);
                    return Ok(Some(frame[HEAD..].to_vec()));
                }
            }
            let longest = until.map(|until| until.saturating_duration_since(Instant::now()));
            if longest.is_some_and(|longest| longest.is_zero()) {
                return Ok(None);
            }
            // The system takes no time of 0.
            let longest = longest.map(|longest| longest.max(Duration::from_micros(100)));
            self.stream.set_read_timeout(longest)?;
            let mut piece = [0; PIECE];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(LinkError::Cut),
                Ok(len) => self.arrived.extend_from_slice(&piece[..len]),
                Err(error) if is_late(error.kind()) || error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_cut(error.kind()) => return Err(LinkError::Cut),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether an error says that nothing came, or nothing went, in time.
pub fn is_late(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Whether an error says that the other side is gone.
pub fn is_cut(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
    )
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
