//! Messages as bytes of a connection: a length of four bytes, then so many bytes, all numbers with their lowest byte first.
//!
//! ```text
//! frame      length u32, at most FRAME_MAX; body
//! body       kind u8, session u64, lock u64, then by kind:
//!   1 request      ticket u64, permission u8
//!   2 arrived      epoch u64, version u16
//!   3 transfer     epoch u64, version u16, readers u64, writer u8 (255: none), queue, former u64 (0: none), data
//!   4 gave up      ticket u64
//!  16 grant        ticket u64, permission u8, epoch u64, queue, former u64, data
//!  17 next         ticket u64, epoch u64, queue
//!  18 forward      epoch u64, number u16, node u8, permission u8
//!  19 transferred  epoch u64
//!  20 denied       epoch u64, version u16
//!  21 yield        ticket u64, next u8
//!  22 no such lock ticket u64
//!  32 welcome      nothing: the session is the reader's from now on
//! queue      count u8, then node u8 and permission u8 of each
//! permission 0 shared, 1 exclusive
//! data       length u32, bytes
//! ```
//!
//! What comes from a connection is not trusted: each number is checked before it is used, a frame is as long as its content, and no more memory is allocated than bytes
//! have arrived.

use std::sync::Arc;

use super::message::{
    DATA_MAX, DirectorySays, Grant, LockId, NodeSays, Session, ToDirectory, ToNode, Transfer,
};
use super::wire::{Reader, Writer};

/// The most bytes of a frame's body.
pub const FRAME_MAX: usize = DATA_MAX + 256;
/// Bytes of a frame's length.
pub const HEAD: usize = 4;

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Its length is above [`FRAME_MAX`].
    #[error("a frame of {0} bytes; none is so long")]
    TooLong(u32),
    /// The body ends before its content does.
    #[error("a frame is cut off")]
    Cut,
    /// The body goes on after its content.
    #[error("a frame is longer than what it says")]
    Rest,
    /// A number has a value that it cannot have.
    #[error("a frame whose {0} cannot be right")]
    Value(&'static str),
}

/// The body's length, from the frame's first bytes. `None` if they are too few.
pub fn body_len(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some(head) = bytes.first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let len = u32::from_le_bytes(*head);
    match usize::try_from(len) {
        Ok(len) if len <= FRAME_MAX => Ok(Some(len)),
        _ => Err(FrameError::TooLong(len)),
    }
}

/// The first frame that a node gets.
pub fn welcome(session: Session) -> Vec<u8> {
    Writer::frame(32, session, 0).finish()
}

/// Reads a [`welcome`]'s body.
pub fn read_welcome(body: &[u8]) -> Result<Session, FrameError> {
    let mut reader = Reader::new(body);
    let (kind, session, _) = head(&mut reader)?;
    reader.end()?;
    match kind {
        32 => Ok(session),
        _ => Err(FrameError::Value("kind")),
    }
}

fn head(reader: &mut Reader<'_>) -> Result<(u8, Session, LockId), FrameError> {
    let kind = reader.byte()?;
    let session = Session::from_bits(reader.u64()?).ok_or(FrameError::Value("session"))?;
    Ok((kind, session, reader.u64()?))
}

impl ToDirectory {
    /// The frame that says it.
    pub fn encode(&self) -> Vec<u8> {
        let frame = |kind| Writer::frame(kind, self.session, self.lock);
        match &self.says {
            NodeSays::Request { ticket, wants } => frame(1).u64(*ticket).permission(*wants),
            NodeSays::Arrived { epoch, version } => frame(2).u64(*epoch).u16(*version),
            NodeSays::Transfer(transfer) => frame(3)
                .u64(transfer.epoch)
                .u16(transfer.version)
                .handover(&transfer.handover)
                .former(transfer.former)
                .data(&transfer.data),
            NodeSays::GaveUp { ticket } => frame(4).u64(*ticket),
        }
        .finish()
    }

    /// Reads a frame's body.
    pub fn decode(body: &[u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body);
        let (kind, session, lock) = head(&mut reader)?;
        let says = match kind {
            1 => NodeSays::Request {
                ticket: reader.u64()?,
                wants: reader.permission()?,
            },
            2 => NodeSays::Arrived {
                epoch: reader.u64()?,
                version: reader.u16()?,
            },
            3 => NodeSays::Transfer(Box::new(Transfer {
                epoch: reader.u64()?,
                version: reader.u16()?,
                handover: reader.handover()?,
                former: reader.former()?,
                data: Arc::new(reader.data()?),
            })),
            4 => NodeSays::GaveUp {
                ticket: reader.u64()?,
            },
            _ => return Err(FrameError::Value("kind")),
        };
        reader.end()?;
        Ok(Self { session, lock, says })
    }
}

impl ToNode {
    /// The frame that says it.
    pub fn encode(&self) -> Vec<u8> {
        let frame = |kind| Writer::frame(kind, self.session, self.lock);
        match &self.says {
            DirectorySays::Grant(grant) => frame(16)
                .u64(grant.ticket)
                .permission(grant.permission)
                .u64(grant.epoch)
                .queue(&grant.queue)
                .former(grant.former)
                .data(&grant.data),
            DirectorySays::Next { ticket, epoch, queue } => frame(17).u64(*ticket).u64(*epoch).queue(queue),
            DirectorySays::Forward {
                epoch,
                number,
                request,
            } => frame(18).u64(*epoch).u16(*number).request(*request),
            DirectorySays::Transferred { epoch } => frame(19).u64(*epoch),
            DirectorySays::Denied { epoch, version } => frame(20).u64(*epoch).u16(*version),
            DirectorySays::Yield { ticket, next } => frame(21).u64(*ticket).byte(next.number()),
            DirectorySays::NoSuchLock { ticket } => frame(22).u64(*ticket),
        }
        .finish()
    }

    /// Reads a frame's body.
    pub fn decode(body: &[u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body);
        let (kind, session, lock) = head(&mut reader)?;
        let says = match kind {
            16 => DirectorySays::Grant(Box::new(Grant {
                ticket: reader.u64()?,
                permission: reader.permission()?,
                epoch: reader.u64()?,
                queue: reader.queue()?,
                former: reader.former()?,
                data: Arc::new(reader.data()?),
            })),
            17 => DirectorySays::Next {
                ticket: reader.u64()?,
                epoch: reader.u64()?,
                queue: reader.queue()?,
            },
            18 => DirectorySays::Forward {
                epoch: reader.u64()?,
                number: reader.u16()?,
                request: reader.request()?,
            },
            19 => DirectorySays::Transferred { epoch: reader.u64()? },
            20 => DirectorySays::Denied {
                epoch: reader.u64()?,
                version: reader.u16()?,
            },
            21 => DirectorySays::Yield {
                ticket: reader.u64()?,
                next: reader.node()?,
            },
            22 => DirectorySays::NoSuchLock {
                ticket: reader.u64()?,
            },
            _ => return Err(FrameError::Value("kind")),
        };
        reader.end()?;
        Ok(Self { session, lock, says })
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
