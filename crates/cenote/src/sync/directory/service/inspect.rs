//! What a lock service says of itself: its nodes and its locks, for people to read. Frames, beside those of
//! [greetings](super::greeting):
//!
//! ```text
//!  34 service      lease u64 in milliseconds, the most locks u64, the most bytes u64
//!  35 node         number u8, session u32, silent u64 in milliseconds, label
//!  36 lock         name, regions u16, bytes u64, transfers u64, note u64, writer u8 (255: none), next u8, readers u64,
//!                  waiting (a queue), died u8 (0 nobody; 1: number u8, session u32, note u64)
//!  37 end          nothing
//! ```

use std::time::Duration;

use serde::Serialize;

use super::link::LinkError;
use crate::sync::directory::messages::frame::FrameError;
use crate::sync::directory::messages::message::Session;
use crate::sync::directory::messages::wire::{Reader, Writer};
use crate::sync::directory::node::{Node, Nodes};
use crate::sync::directory::queue::{Permission, Queue, Request};

/// What a lock service says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// After so many milliseconds the service declares a node dead of which it hears nothing.
    pub lease_ms: u64,
    /// The most locks that it keeps.
    pub locks_max: u64,
    /// The most bytes that all regions of its locks may have.
    pub bytes_max: u64,
    /// The nodes, in the order of their numbers.
    pub nodes: Vec<NodeStatus>,
    /// The locks, in the order of their names.
    pub locks: Vec<LockStatus>,
}

/// A node of a lock service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Its number. Another node may have it later.
    pub node: u8,
    /// How many nodes had joined before.
    pub session: u32,
    /// What it says of itself, and from where it is connected.
    pub label: String,
    /// For so many milliseconds nothing was heard of it.
    pub silent_ms: u64,
}

/// A lock of a lock service. Nodes are named by their numbers. A node keeps a lock until another one asks for it,
/// whether a thread of it uses it or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LockStatus {
    /// Its name.
    pub name: String,
    /// How many regions it covers.
    pub regions: u16,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The node that has it to write.
    pub writer: Option<u8>,
    /// The nodes that have it to read.
    pub readers: Vec<u8>,
    /// The node that writes when all of these have given it up.
    pub next_writer: Option<u8>,
    /// The nodes that wait, in their order; the next writer is the first of them.
    pub waiting: Vec<WaitingNode>,
    /// How often a writer has handed it over.
    pub transfers: u64,
    /// The writer's note, which the next owner is told if the writer's node dies; 0 if there is none.
    pub note: u64,
    /// Who died or panicked writing, if no writer has unlocked since.
    pub died: Option<Died>,
}

/// A node that waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WaitingNode {
    /// Its number.
    pub node: u8,
    /// Whether it waits to read.
    pub is_shared: bool,
}

/// Who died writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Died {
    /// The number that it had.
    pub node: u8,
    /// How many nodes had joined before it.
    pub session: u32,
    /// Its note.
    pub note: u64,
}

impl Died {
    pub(super) fn of(session: Session, note: u64) -> Self {
        let owner = session.owner();
        Self {
            node: session.node().number(),
            session: owner.generation,
            note,
        }
    }
}

impl Status {
    pub(super) fn empty(lease: Duration, locks_max: u64, bytes_max: u64) -> Self {
        Self {
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
            locks_max,
            bytes_max,
            nodes: Vec::new(),
            locks: Vec::new(),
        }
    }

    /// The frames that say it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let service = Writer::of_kind(34)
            .u64(self.lease_ms)
            .u64(self.locks_max)
            .u64(self.bytes_max);
        let nodes = self.nodes.iter().map(encode_node);
        let locks = self.locks.iter().map(encode_lock);
        let all = [service].into_iter().chain(nodes).chain(locks);
        all.chain([Writer::of_kind(37)])
            .flat_map(Writer::finish)
            .collect()
    }

    /// Reads it from the bodies of frames.
    pub(super) fn decode(mut next: impl FnMut() -> Result<Vec<u8>, LinkError>) -> Result<Self, LinkError> {
        let body = next()?;
        let mut reader = Reader::new(&body);
        if reader.byte()? != 34 {
            return Err(FrameError::Value("kind").into());
        }
        let mut status = Self {
            lease_ms: reader.u64()?,
            locks_max: reader.u64()?,
            bytes_max: reader.u64()?,
            nodes: Vec::new(),
            locks: Vec::new(),
        };
        reader.end()?;
        loop {
            let body = next()?;
            let mut reader = Reader::new(&body);
            match reader.byte()? {
                35 => status.nodes.push(decode_node(&mut reader)?),
                36 => status.locks.push(decode_lock(&mut reader)?),
                37 => return Ok(status),
                _ => return Err(FrameError::Value("kind").into()),
            }
            reader.end()?;
        }
    }
}

fn encode_node(node: &NodeStatus) -> Writer {
    Writer::of_kind(35)
        .byte(node.node)
        .u32(node.session)
        .u64(node.silent_ms)
        .text(&node.label)
}

fn decode_node(reader: &mut Reader<'_>) -> Result<NodeStatus, FrameError> {
    Ok(NodeStatus {
        node: reader.node()?.number(),
        session: reader.u32()?,
        silent_ms: reader.u64()?,
        label: reader.text()?,
    })
}

fn encode_lock(lock: &LockStatus) -> Writer {
    let waiting: Queue = lock.waiting.iter().filter_map(request_of).collect();
    let readers: Nodes = lock.readers.iter().copied().filter_map(Node::new).collect();
    let writer = Writer::of_kind(36)
        .text(&lock.name)
        .u16(lock.regions)
        .u64(lock.bytes)
        .u64(lock.transfers)
        .u64(lock.note)
        .node_if_any(lock.writer.and_then(Node::new))
        .node_if_any(lock.next_writer.and_then(Node::new))
        .u64(readers.bits())
        .queue(&waiting);
    match lock.died {
        None => writer.byte(0),
        Some(died) => writer.byte(1).byte(died.node).u32(died.session).u64(died.note),
    }
}

fn request_of(waiting: &WaitingNode) -> Option<Request> {
    let wants = match waiting.is_shared {
        true => Permission::Shared,
        false => Permission::Exclusive,
    };
    let node = Node::new(waiting.node)?;
    Some(Request { node, wants })
}

fn decode_lock(reader: &mut Reader<'_>) -> Result<LockStatus, FrameError> {
    let (name, regions, bytes) = (reader.text()?, reader.u16()?, reader.u64()?);
    let (transfers, note) = (reader.u64()?, reader.u64()?);
    let writer = reader.node_if_any()?.map(Node::number);
    let next_writer = reader.node_if_any()?.map(Node::number);
    let readers = Nodes::from_bits(reader.u64()?).ok_or(FrameError::Value("set of readers"))?;
    let waiting = reader.queue()?;
    let died = match reader.byte()? {
        0 => None,
        1 => Some(Died {
            node: reader.node()?.number(),
            session: reader.u32()?,
            note: reader.u64()?,
        }),
        _ => return Err(FrameError::Value("death")),
    };
    Ok(LockStatus {
        name,
        regions,
        bytes,
        writer,
        readers: readers.iter().map(Node::number).collect(),
        next_writer,
        waiting: waiting.requests().iter().map(WaitingNode::of).collect(),
        transfers,
        note,
        died,
    })
}

impl WaitingNode {
    pub(super) fn of(request: &Request) -> Self {
        Self {
            node: request.node.number(),
            is_shared: request.wants == Permission::Shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::directory::messages::frame::{HEAD, body_len};

    fn status() -> Status {
        let mut status = Status::empty(Duration::from_secs(10), 5, 6);
        status.nodes.push(NodeStatus {
            node: 39,
            session: 7,
            label: "batch[12] on 10.0.0.3".to_owned(),
            silent_ms: 4,
        });
        for died in [
            None,
            Some(Died {
                node: 1,
                session: 2,
                note: 3,
            }),
        ] {
            status.locks.push(LockStatus {
                name: "stock".to_owned(),
                regions: 2,
                bytes: 4160,
                writer: died.map(|_| 3),
                readers: vec![0, 4],
                next_writer: Some(5),
                waiting: vec![
                    WaitingNode {
                        node: 5,
                        is_shared: false,
                    },
                    WaitingNode {
                        node: 6,
                        is_shared: true,
                    },
                ],
                transfers: 9,
                note: 10,
                died,
            });
        }
        status
    }

    fn bodies(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut bodies = Vec::new();
        while let Some(len) = body_len(bytes).unwrap() {
            bodies.push(bytes[HEAD..HEAD + len].to_vec());
            bytes = &bytes[HEAD + len..];
        }
        bodies
    }

    #[test]
    fn what_a_service_says_of_itself_is_read() {
        let bodies = bodies(&status().encode());
        let read = |bodies: &[Vec<u8>]| {
            let mut left = bodies.iter();
            Status::decode(|| left.next().cloned().ok_or(LinkError::Cut))
        };
        assert_eq!(read(&bodies).unwrap(), status());
        assert!(read(&bodies[1..]).is_err() && read(&bodies[..bodies.len() - 1]).is_err());
        for cut in 0..bodies.len() {
            let mut changed = bodies.clone();
            changed[cut].pop();
            assert!(read(&changed).is_err());
        }
    }
}
