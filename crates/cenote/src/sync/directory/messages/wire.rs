//! The parts of a [frame](super::frame): numbers, nodes, queues, data.

use super::frame::{FrameError, HEAD};
use super::message::{DATA_MAX, LockId, Session};
use crate::sync::directory::node::{NODES_MAX, Node, Nodes};
use crate::sync::directory::queue::{Handover, Permission, Queue, Request};

/// Stands for no node.
const NOBODY: u8 = u8::MAX;

/// A frame that is being written.
pub struct Writer(Vec<u8>);

impl Writer {
    /// A frame with the part that all have.
    pub fn frame(kind: u8, session: Session, lock: LockId) -> Self {
        Self(vec![0; HEAD]).byte(kind).u64(session.bits()).u64(lock)
    }

    /// The frame, with its length.
    pub fn finish(mut self) -> Vec<u8> {
        let len = (self.0.len() - HEAD) as u32;
        self.0[..HEAD].copy_from_slice(&len.to_le_bytes());
        self.0
    }

    /// Adds a byte.
    pub fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    /// Adds a number.
    pub fn u16(mut self, number: u16) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    /// Adds a number.
    pub fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    /// Adds a permission.
    pub fn permission(self, permission: Permission) -> Self {
        self.byte(u8::from(permission == Permission::Exclusive))
    }

    /// Adds a request.
    pub fn request(self, request: Request) -> Self {
        self.byte(request.node.number()).permission(request.wants)
    }

    /// Adds a queue.
    pub fn queue(self, queue: &Queue) -> Self {
        let requests = queue.requests();
        let writer = self.byte(requests.len() as u8);
        requests
            .iter()
            .fold(writer, |writer, request| writer.request(*request))
    }

    /// Adds what a writer hands over.
    pub fn handover(self, handover: &Handover) -> Self {
        let writer = handover.writer.map_or(NOBODY, Node::number);
        self.u64(handover.readers.bits())
            .byte(writer)
            .queue(&handover.rest)
    }

    /// Adds who died writing.
    pub fn former(self, former: Option<Session>) -> Self {
        self.u64(former.map_or(0, Session::bits))
    }

    /// Adds data, the last part.
    pub fn data(mut self, data: &[u8]) -> Self {
        self.0.extend((data.len() as u32).to_le_bytes());
        self.0.extend(data);
        self
    }
}

/// A body that is being read.
pub struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    /// From its beginning.
    pub fn new(body: &'b [u8]) -> Self {
        Self(body)
    }

    /// Fails if something is left.
    pub fn end(&self) -> Result<(), FrameError> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(FrameError::Rest),
        }
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (chunk, rest) = self.0.split_first_chunk::<N>().ok_or(FrameError::Cut)?;
        self.0 = rest;
        Ok(*chunk)
    }

    /// A byte.
    pub fn byte(&mut self) -> Result<u8, FrameError> {
        self.chunk::<1>().map(|[byte]| byte)
    }

    /// A number.
    pub fn u16(&mut self) -> Result<u16, FrameError> {
        self.chunk().map(u16::from_le_bytes)
    }

    /// A number.
    pub fn u64(&mut self) -> Result<u64, FrameError> {
        self.chunk().map(u64::from_le_bytes)
    }

    /// A permission.
    pub fn permission(&mut self) -> Result<Permission, FrameError> {
        match self.byte()? {
            0 => Ok(Permission::Shared),
            1 => Ok(Permission::Exclusive),
            _ => Err(FrameError::Value("permission")),
        }
    }

    /// A node.
    pub fn node(&mut self) -> Result<Node, FrameError> {
        Node::new(self.byte()?).ok_or(FrameError::Value("node"))
    }

    /// A request.
    pub fn request(&mut self) -> Result<Request, FrameError> {
        let node = self.node()?;
        let wants = self.permission()?;
        Ok(Request { node, wants })
    }

    /// A queue, in which no node stands twice.
    pub fn queue(&mut self) -> Result<Queue, FrameError> {
        let count = self.byte()?;
        if count > NODES_MAX {
            return Err(FrameError::Value("queue"));
        }
        let requests = (0..count).map(|_| self.request());
        let queue: Queue = requests.collect::<Result<Vec<_>, _>>()?.into_iter().collect();
        match queue.requests().len() == usize::from(count) {
            true => Ok(queue),
            false => Err(FrameError::Value("queue")),
        }
    }

    /// What a writer hands over.
    pub fn handover(&mut self) -> Result<Handover, FrameError> {
        let readers = Nodes::from_bits(self.u64()?).ok_or(FrameError::Value("set of readers"))?;
        let writer = match self.byte()? {
            NOBODY => None,
            number => Some(Node::new(number).ok_or(FrameError::Value("node"))?),
        };
        let rest = self.queue()?;
        Ok(Handover {
            readers,
            writer,
            rest,
        })
    }

    /// Who died writing.
    pub fn former(&mut self) -> Result<Option<Session>, FrameError> {
        match self.u64()? {
            0 => Ok(None),
            bits => Session::from_bits(bits)
                .map(Some)
                .ok_or(FrameError::Value("session")),
        }
    }

    /// Data.
    pub fn data(&mut self) -> Result<Vec<u8>, FrameError> {
        let len = usize::try_from(u32::from_le_bytes(self.chunk()?)).unwrap_or(usize::MAX);
        if len > DATA_MAX {
            return Err(FrameError::Value("length of data"));
        }
        let (data, rest) = self.0.split_at_checked(len).ok_or(FrameError::Cut)?;
        self.0 = rest;
        Ok(data.to_vec())
    }
}
