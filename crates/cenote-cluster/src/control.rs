//! The control protocol, between clients and the master: JSON in frames of a length (4 bytes, little-endian), after a
//! [greeting](crate::wire::Hello).
//!
//! The client sends [`Request`]s. The master answers each with a [`Response`], before it reads the next one.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use cenote_replica::client::{Layout, Session};
use cenote_replica::index::layout::Segments;
use cenote_replica::verbs::Address;
use cenote_replica::view::Eras;
use cenote_replica::view::{Access, Key, NodeId, Region, View};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::Refusal;
use crate::ofi::Transport;
use crate::wire::FRAME_MAX;

/// How a map lies in its regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LayoutText {
    /// Groups of a segment.
    pub groups: u32,
    /// Where the directory is.
    pub directory: u64,
    /// Bits of its prefixes.
    pub depth: u32,
    /// Bytes of a block.
    pub block: u32,
}

impl LayoutText {
    /// The layout; `None` if it is none.
    pub fn layout(&self) -> Option<Layout> {
        Some(Layout {
            segments: Segments::new(self.groups)?,
            directory: Address::from_bits(self.directory)?,
            depth: self.depth,
            block: self.block,
        })
    }
}

/// A client's session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionText {
    /// Its number.
    pub number: u32,
    /// Where its in-flight cells are.
    pub cells: u64,
    /// How many.
    pub count: u32,
}

impl SessionText {
    /// The session; `None` if it is none.
    pub fn session(&self) -> Option<Session> {
        Some(Session {
            number: self.number,
            cells: Address::from_bits(self.cells)?,
            count: self.count,
        })
    }
}

/// A region of a view.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegionText {
    /// The nodes that hold it; the first is the primary.
    pub nodes: Vec<u32>,
    /// Its key.
    pub key: u64,
    /// Whether clients may only read it.
    pub closed: bool,
}

/// A view, and where its nodes are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ViewText {
    /// The view's number.
    pub number: u64,
    /// The regions.
    pub regions: Vec<RegionText>,
    /// The nodes' addresses.
    pub nodes: Vec<(u32, SocketAddr)>,
}

impl ViewText {
    /// The view.
    pub fn view(&self) -> View {
        let region = |region: &RegionText| Region {
            nodes: region.nodes.iter().copied().map(NodeId).collect(),
            key: Key(region.key),
            access: match region.closed {
                true => Access::Closed,
                false => Access::Open,
            },
        };
        View {
            number: self.number,
            regions: self.regions.iter().map(region).collect(),
        }
    }
}

/// The eras.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ErasText {
    /// The present one.
    pub now: u64,
    /// The least in which an operation began that goes on.
    pub least: u64,
    /// How many sessions have ended, all told.
    pub sessions_ended: u64,
}

impl ErasText {
    /// Earlier than all: who knows any keeps those.
    pub const NONE: Self = Self {
        now: 0,
        least: 0,
        sessions_ended: 0,
    };

    /// The eras.
    pub fn eras(self) -> Eras {
        Eras {
            now: self.now,
            least: self.least,
        }
    }
}

/// A request to the master.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// To be a client.
    Join {
        /// What it says of itself, for people.
        name: String,
    },
    /// A heartbeat.
    Heartbeat {
        /// The session.
        session: u32,
        /// The era of its oldest operation; the present one, as it knows it, if there is none.
        oldest: u64,
        /// The view that it knows.
        view: u64,
        /// Regions that it suspects: verbs there came back refused or unknown under that view.
        suspect_regions: Vec<u16>,
    },
    /// A block.
    Block {
        /// The session.
        session: u32,
        /// Bytes of the objects that it is for.
        size: u32,
        /// How many such requests were answered since the session began: one that comes again has the same number, and
        /// the same answer.
        number: u64,
        /// How many blocks have come since then. If there is one more, an earlier master has given it, and its answer
        /// was lost.
        received: u32,
    },
    /// The session is over. What it began has ended.
    Leave {
        /// The session.
        session: u32,
    },
    /// Whether this master leads: done, if so.
    Leads,
    /// How the cluster is.
    Status,
    /// Another node.
    AddNode {
        /// Where it listens.
        address: SocketAddr,
    },
    /// To move all that a node holds to others, and to forget it.
    Drain {
        /// The node.
        node: u32,
    },
    /// To go on without a node that does not come back, although it may be the last that holds something.
    GiveUp {
        /// The node.
        node: u32,
    },
    /// To end.
    Stop,
}

/// The master's response.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The client has a session.
    Joined {
        /// It.
        session: SessionText,
        /// How the map lies.
        layout: LayoutText,
        /// The view.
        view: ViewText,
        /// The eras.
        eras: ErasText,
        /// Microseconds without a heartbeat after which the session ends.
        lease_us: u64,
        /// How verbs go to the nodes.
        transport: Transport,
    },
    /// The answer to a heartbeat.
    Heartbeat {
        /// A later view than the client's, if there is one.
        view: Option<ViewText>,
        /// The eras.
        eras: ErasText,
    },
    /// The session has ended.
    Ended,
    /// A block, if there is one.
    Block(Option<u64>),
    /// How the cluster is.
    Status(Status),
    /// This master does not lead.
    Standby {
        /// Where the one is that does, if this one knows it.
        leader: Option<SocketAddr>,
    },
    /// It is done, or will be.
    Done,
    /// It cannot be done.
    Refused(Refusal),
}

/// How a cluster is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The number of the term in which the master leads.
    pub term: u64,
    /// The view's number.
    pub view: u64,
    /// Copies of each region.
    pub replicas: usize,
    /// The nodes.
    pub nodes: Vec<NodeStatus>,
    /// The clients.
    pub sessions: Vec<SessionStatus>,
    /// Bytes of a region.
    pub region_bytes: u32,
    /// How many regions there are.
    pub regions: usize,
    /// Those that are closed just now.
    pub closed: usize,
    /// Those with fewer copies than wanted.
    pub under_replicated: usize,
    /// Those without a node that is alive: what was in them is lost.
    pub unavailable: usize,
    /// Blocks that clients have.
    pub blocks: u64,
    /// Blocks that there are.
    pub blocks_max: u64,
    /// Closings since the master began.
    pub closings: u64,
    /// What the last closing took, in microseconds.
    pub last_closing_us: u64,
    /// The present era.
    pub era: u64,
}

/// How a node is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its number.
    pub node: u32,
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether the master has not given it up.
    pub alive: bool,
    /// Whether it answered the last heartbeat.
    pub answers: bool,
    /// Whether it is being emptied.
    pub draining: bool,
    /// Bytes that it offers.
    pub memory: u64,
    /// Regions whose primary it is.
    pub primary_of: usize,
    /// Regions whose backup it is.
    pub backup_of: usize,
}

/// How a client is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Its number.
    pub session: u32,
    /// What it says of itself.
    pub name: String,
    /// Blocks that it has.
    pub blocks: u64,
    /// Microseconds since its last heartbeat.
    pub silent_us: u64,
}

/// The bytes of a message, with their length in front.
pub fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(message)?;
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend(text);
    Ok(bytes)
}

/// The length of a message that follows these bytes.
pub fn length(prefix: [u8; 4]) -> io::Result<usize> {
    let len = u32::from_le_bytes(prefix) as usize;
    match len <= FRAME_MAX {
        true => Ok(len),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the other side does not speak this protocol",
        )),
    }
}

/// Sends a message, and waits for the answer.
pub fn exchange<T: DeserializeOwned>(
    stream: &mut (impl Read + Write),
    message: &impl Serialize,
) -> io::Result<T> {
    stream.write_all(&frame(message)?)?;
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix)?;
    let mut text = vec![0; length(prefix)?];
    stream.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}
