//! What nodes, directory and memory tell each other.

use cenote::sync::directory::node::Node;
use cenote::sync::directory::queue::{Handover, Permission, Queue, Request};

use super::data::Data;
use crate::locks::mail::Letter;

/// Who is told something. The directory lies between all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A node.
    Node(Node),
    /// The memory.
    Memory,
}

/// A message.
#[derive(Clone, Debug)]
pub enum Message {
    /// About a line.
    Line(u64, LineMessage),
    /// About a directory lock.
    Lock(u32, LockMessage),
    /// From a thread to a port, and from which node.
    Letter(u32, Node, Letter),
}

/// About a line. The first two go to the directory, the next two to nodes, the others between the directory and the
/// memory.
#[derive(Clone, Debug)]
pub enum LineMessage {
    /// A node wants it.
    Request(Node, Permission),
    /// A node has given it up, or has kept it to read only; with the data if it could write.
    Acknowledge(Option<Data>),
    /// To give it up, or to keep it to read only.
    Invalidate {
        /// Whether the node keeps it to read.
        keeps: bool,
    },
    /// A node has it; with the data unless it has them.
    Grant(Permission, Option<Data>),
    /// Asks the memory for it.
    Fetch,
    /// The memory's answer.
    Fetched(Data),
    /// To the memory.
    WriteBack(Data),
}

/// About a directory lock. The first three go to the directory, the next six to nodes, the others between the directory
/// and the memory.
#[derive(Clone, Debug)]
pub enum LockMessage {
    /// A node asks for it.
    Acquire(Node, Permission),
    /// A reader has given it up.
    GiveUp(Node),
    /// The writer hands it over.
    Transfer {
        /// The writer.
        from: Node,
        /// How many requests were forwarded to it.
        version: u16,
        /// To whom.
        handover: Handover,
        /// What the lock covers.
        data: Data,
    },
    /// A node has it.
    Granted {
        /// For what.
        permission: Permission,
        /// What the lock covers, unless the node has it.
        data: Option<Data>,
        /// The queue, if it comes with the lock.
        queue: Option<Queue>,
        /// Whether the next writer waits for it already.
        is_asked: bool,
    },
    /// The next writer waits for this reader.
    Asked,
    /// A request for the holder's queue, and its number.
    Forward(Request, u16),
    /// The queue, for the next writer, which does not have the lock yet.
    Queue(Queue),
    /// The writer's transfer has taken place.
    Accepted,
    /// It has not: a request is on its way.
    Denied,
    /// Asks the memory for the data.
    Fetch,
    /// The memory's answer.
    Fetched(Data),
    /// To the memory.
    WriteBack(Data),
}

impl Message {
    /// Bytes beside the header.
    pub fn payload(&self) -> u64 {
        let of_queue = |queue: &Queue| 2 * queue.requests().len() as u64;
        match self {
            Self::Line(_, LineMessage::Acknowledge(data) | LineMessage::Grant(_, data)) => {
                data.as_ref().map_or(0, Data::bytes)
            }
            Self::Line(_, LineMessage::Fetched(data) | LineMessage::WriteBack(data)) => data.bytes(),
            Self::Lock(_, LockMessage::Transfer { handover, data, .. }) => {
                data.bytes() + 2 * u64::from(handover.readers.len()) + 2 + of_queue(&handover.rest)
            }
            Self::Lock(_, LockMessage::Granted { data, queue, .. }) => {
                data.as_ref().map_or(0, Data::bytes) + queue.as_ref().map_or(0, of_queue)
            }
            Self::Lock(_, LockMessage::Queue(queue)) => of_queue(queue),
            Self::Lock(_, LockMessage::Fetched(data) | LockMessage::WriteBack(data)) => data.bytes(),
            Self::Letter(_, _, letter) => size_of_val(letter) as u64,
            _ => 0,
        }
    }
}
