//! The parts of a [frame](super::frame): numbers, nodes, queues, regions.

use std::sync::Arc;

use super::frame::{FrameError, HEAD};
use super::message::{Former, LockId, NAME_MAX, Session};
use super::region::{Change, DATA_MAX, REGIONS_MAX, Region, is_possible};
use crate::sync::directory::node::{NODES_MAX, Node, Nodes};
use crate::sync::directory::queue::{Handover, Permission, Queue, Request};

/// Stands for no node.
const NOBODY: u8 = u8::MAX;

/// A frame that is being written.
pub struct Writer(Vec<u8>);

impl Writer {
    /// A frame of a kind.
    pub fn of_kind(kind: u8) -> Self {
        Self(vec![0; HEAD]).byte(kind)
    }

    /// A frame with the part that all messages have.
    pub fn frame(kind: u8, session: Session, lock: LockId) -> Self {
        Self::of_kind(kind).u64(session.bits()).u64(lock)
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
    pub fn u32(mut self, number: u32) -> Self {
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
        self.u64(handover.readers.bits())
            .node_if_any(handover.writer)
            .queue(&handover.rest)
    }

    /// Adds a node, or that there is none.
    pub fn node_if_any(self, node: Option<Node>) -> Self {
        self.byte(node.map_or(NOBODY, Node::number))
    }

    /// Adds who died writing, with its note.
    pub fn former(self, former: Option<Former>) -> Self {
        match former {
            None => self.u64(0),
            Some(Former { session, note }) => self.u64(session.bits()).u64(note),
        }
    }

    /// Adds text of up to 255 bytes; what is longer is cut.
    pub fn text(mut self, text: &str) -> Self {
        let mut len = text.len().min(usize::from(u8::MAX));
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        self.0.push(len as u8);
        self.0.extend(&text.as_bytes()[..len]);
        self
    }

    /// Adds lengths of regions.
    pub fn lens(self, lens: &[u32]) -> Self {
        let writer = self.u16(lens.len() as u16);
        lens.iter().fold(writer, |writer, len| writer.u32(*len))
    }

    /// Adds lengths of regions, if there are any to be made.
    pub fn lens_if_any(self, lens: Option<&[u32]>) -> Self {
        match lens {
            None => self.byte(0),
            Some(lens) => self.byte(1).lens(lens),
        }
    }

    /// Adds regions that have changed.
    pub fn changes(self, changes: &[Change]) -> Self {
        let mut writer = self.u16(changes.len() as u16);
        for Change { region, bytes } in changes {
            writer = writer.u16(*region).u32(bytes.len() as u32);
            writer.0.extend(&bytes[..]);
        }
        writer
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
    pub fn u32(&mut self) -> Result<u32, FrameError> {
        self.chunk().map(u32::from_le_bytes)
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

    /// A node, or that there is none.
    pub fn node_if_any(&mut self) -> Result<Option<Node>, FrameError> {
        match self.byte()? {
            NOBODY => Ok(None),
            number => Node::new(number).map(Some).ok_or(FrameError::Value("node")),
        }
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
        let writer = self.node_if_any()?;
        let rest = self.queue()?;
        Ok(Handover {
            readers,
            writer,
            rest,
        })
    }

    /// So many bytes.
    fn bytes(&mut self, len: usize) -> Result<&'b [u8], FrameError> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(FrameError::Cut)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Who died writing, with its note.
    pub fn former(&mut self) -> Result<Option<Former>, FrameError> {
        let bits = self.u64()?;
        if bits == 0 {
            return Ok(None);
        }
        let session = Session::from_bits(bits).ok_or(FrameError::Value("session"))?;
        let note = self.u64()?;
        Ok(Some(Former { session, note }))
    }

    /// Text.
    pub fn text(&mut self) -> Result<String, FrameError> {
        let len = usize::from(self.byte()?);
        let text = std::str::from_utf8(self.bytes(len)?);
        text.map(str::to_owned).map_err(|_| FrameError::Value("text"))
    }

    /// The name of a lock.
    pub fn name(&mut self) -> Result<String, FrameError> {
        let name = self.text()?;
        match name.len() <= NAME_MAX {
            true => Ok(name),
            false => Err(FrameError::Value("name")),
        }
    }

    /// Lengths of regions.
    pub fn lens(&mut self) -> Result<Vec<u32>, FrameError> {
        let count = usize::from(self.u16()?);
        if count > REGIONS_MAX {
            return Err(FrameError::Value("number of regions"));
        }
        let lens: Vec<u32> = (0..count).map(|_| self.u32()).collect::<Result<_, _>>()?;
        match is_possible(&lens) {
            true => Ok(lens),
            false => Err(FrameError::Value("length of regions")),
        }
    }

    /// Lengths of regions, if there are any to be made.
    pub fn lens_if_any(&mut self) -> Result<Option<Vec<u32>>, FrameError> {
        match self.byte()? {
            0 => Ok(None),
            1 => self.lens().map(Some),
            _ => Err(FrameError::Value("list of regions")),
        }
    }

    /// Regions that have changed: each once, in their order.
    pub fn changes(&mut self) -> Result<Vec<Change>, FrameError> {
        let count = usize::from(self.u16()?);
        if count > REGIONS_MAX {
            return Err(FrameError::Value("number of regions"));
        }
        let (mut changes, mut all) = (Vec::<Change>::new(), 0);
        for _ in 0..count {
            let (region, len) = (self.u16()?, self.u32()? as usize);
            all += len;
            let is_next = changes.last().is_none_or(|last| last.region < region);
            if !is_next || usize::from(region) >= REGIONS_MAX {
                return Err(FrameError::Value("region"));
            }
            if len > DATA_MAX || all > DATA_MAX {
                return Err(FrameError::Value("length of regions"));
            }
            let bytes = Arc::new(Region::of(self.bytes(len)?));
            changes.push(Change { region, bytes });
        }
        Ok(changes)
    }
}
