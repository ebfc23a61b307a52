//! Frames out of a connection's bytes, which come in pieces of any length.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::frame::{self, HEAD};
use super::link::LinkError;

/// How many bytes are read at once.
const PIECE: usize = 16 << 10;

/// What has arrived on a connection.
pub struct Frames {
    stream: UnixStream,
    /// Bytes that have arrived and are no whole frame yet.
    arrived: Vec<u8>,
}

impl Frames {
    /// Of a connection from which nothing was read.
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            arrived: Vec::new(),
        }
    }

    /// The body of the next frame; `None` if it has not come for so long. Without a limit it waits.
    ///
    /// Errors: [`LinkError::Cut`] at the end of the connection, also within a frame; [`LinkError::Frame`] for a length that no frame has.
    pub fn next(&mut self, longest: Option<Duration>) -> Result<Option<Vec<u8>>, LinkError> {
        // The system takes no time of 0.
        let longest = longest.map(|longest| longest.max(Duration::from_millis(1)));
        self.stream.set_read_timeout(longest)?;
        loop {
            if let Some(len) = frame::body_len(&self.arrived)?
                && self.arrived.len() >= HEAD + len
            {
                let rest = self.arrived.split_off(HEAD + len);
                let frame = std::mem::replace(&mut self.arrived, rest);
                return Ok(Some(frame[HEAD..].to_vec()));
            }
            let mut piece = [0; PIECE];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(LinkError::Cut),
                Ok(len) => self.arrived.extend_from_slice(&piece[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) if is_cut(error.kind()) => return Err(LinkError::Cut),
                Err(error) => return Err(error.into()),
            }
        }
    }
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
