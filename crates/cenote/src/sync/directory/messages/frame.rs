//! Messages as bytes of a connection: a length of four bytes, then so many bytes, all numbers with their lowest byte
//! first.
//!
//! ```text
//! frame      length u32, at most FRAME_MAX; body
//! body       kind u8, session u64, lock u64 (0: about none), then by kind:
//!   1 request      ticket u64, permission u8, known u64
//!   2 arrived      epoch u64, version u16
//!   3 transfer     epoch u64, version u16, readers u64, writer u8 (255: none), queue, former, changes
//!   4 gave up      ticket u64
//!   5 note         epoch u64, number u32, note u64
//!   6 open         serial u64, name, made u8 (0: not made if there is none; 1: lengths)
//!   7 alive        heartbeat u64
//!   8 leave        nothing
//!  16 grant        ticket u64, permission u8, epoch u64, queue, former, changes
//!  17 next         ticket u64, epoch u64, queue
//!  18 forward      epoch u64, number u16, node u8, permission u8
//!  19 transferred  epoch u64
//!  20 denied       epoch u64, version u16
//!  21 yield        ticket u64, next u8
//!  22 noted        epoch u64, number u32
//!  23 opened       serial u64, lengths
//!  24 refused      serial u64, why u8 (0 missing, 1 name, 2 regions, 3 full)
//!  25 heard        heartbeat u64
//!  26 ended        nothing
//! queue      count u8, then node u8 and permission u8 of each
//! permission 0 shared, 1 exclusive
//! former     session u64 (0: nobody died, and that is all), note u64
//! name       length u8, UTF-8
//! lengths    count u16, then u32 each
//! changes    count u16, then of each region that has changed its number u16, length u32, bytes
//! ```
//!
//! What is said before a connection has a session, and about the directory as a whole, is in `service/greeting.rs` and
//! `service/inspect.rs`.
//!
//! What comes from a connection is not trusted: each number is checked before it is used, a frame is as long as its
//! content, and no more memory is allocated than bytes have arrived.

use super::message::{
    DirectorySays, Grant, LockId, NodeSays, Open, Refusal, Session, ToDirectory, ToNode, Transfer,
};
use super::region::{DATA_MAX, REGIONS_MAX};
use super::wire::{Reader, Writer};

/// The most bytes of a frame's body: those of a message with all regions of a lock.
pub const FRAME_MAX: usize = DATA_MAX + 6 * REGIONS_MAX + 512;
/// Bytes of a frame's length.
pub const HEAD: usize = 4;

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Its length is above `FRAME_MAX`.
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
            NodeSays::Request { ticket, wants, known } => {
                frame(1).u64(*ticket).permission(*wants).u64(*known)
            }
            NodeSays::Arrived { epoch, version } => frame(2).u64(*epoch).u16(*version),
            NodeSays::Transfer(transfer) => frame(3)
                .u64(transfer.epoch)
                .u16(transfer.version)
                .handover(&transfer.handover)
                .former(transfer.former)
                .changes(&transfer.changes),
            NodeSays::GaveUp { ticket } => frame(4).u64(*ticket),
            NodeSays::Note { epoch, number, note } => frame(5).u64(*epoch).u32(*number).u64(*note),
            NodeSays::Open(open) => frame(6)
                .u64(open.serial)
                .text(&open.name)
                .lens_if_any(open.regions.as_deref()),
            NodeSays::Alive { heartbeat } => frame(7).u64(*heartbeat),
            NodeSays::Leave => frame(8),
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
                known: reader.u64()?,
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
                changes: reader.changes()?,
            })),
            4 => NodeSays::GaveUp {
                ticket: reader.u64()?,
            },
            5 => NodeSays::Note {
                epoch: reader.u64()?,
                number: reader.u32()?,
                note: reader.u64()?,
            },
            6 => NodeSays::Open(Box::new(Open {
                serial: reader.u64()?,
                name: reader.name()?,
                regions: reader.lens_if_any()?,
            })),
            7 => NodeSays::Alive {
                heartbeat: reader.u64()?,
            },
            8 => NodeSays::Leave,
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
                .changes(&grant.changes),
            DirectorySays::Next { ticket, epoch, queue } => frame(17).u64(*ticket).u64(*epoch).queue(queue),
            DirectorySays::Forward {
                epoch,
                number,
                request,
            } => frame(18).u64(*epoch).u16(*number).request(*request),
            DirectorySays::Transferred { epoch } => frame(19).u64(*epoch),
            DirectorySays::Denied { epoch, version } => frame(20).u64(*epoch).u16(*version),
            DirectorySays::Yield { ticket, next } => frame(21).u64(*ticket).byte(next.number()),
            DirectorySays::Noted { epoch, number } => frame(22).u64(*epoch).u32(*number),
            DirectorySays::Opened { serial, regions } => frame(23).u64(*serial).lens(regions),
            DirectorySays::Refused { serial, why } => frame(24).u64(*serial).byte(number_of(*why)),
            DirectorySays::Heard { heartbeat } => frame(25).u64(*heartbeat),
            DirectorySays::Ended => frame(26),
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
                changes: reader.changes()?,
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
            22 => DirectorySays::Noted {
                epoch: reader.u64()?,
                number: reader.u32()?,
            },
            23 => DirectorySays::Opened {
                serial: reader.u64()?,
                regions: reader.lens()?,
            },
            24 => DirectorySays::Refused {
                serial: reader.u64()?,
                why: refusal(reader.byte()?)?,
            },
            25 => DirectorySays::Heard {
                heartbeat: reader.u64()?,
            },
            26 => DirectorySays::Ended,
            _ => return Err(FrameError::Value("kind")),
        };
        reader.end()?;
        Ok(Self { session, lock, says })
    }
}

fn number_of(why: Refusal) -> u8 {
    match why {
        Refusal::Missing => 0,
        Refusal::Name => 1,
        Refusal::Regions => 2,
        Refusal::Full => 3,
    }
}

fn refusal(number: u8) -> Result<Refusal, FrameError> {
    match number {
        0 => Ok(Refusal::Missing),
        1 => Ok(Refusal::Name),
        2 => Ok(Refusal::Regions),
        3 => Ok(Refusal::Full),
        _ => Err(FrameError::Value("refusal")),
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
