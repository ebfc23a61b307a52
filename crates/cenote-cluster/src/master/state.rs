//! What the master has decided, and keeps in its store before it acts on it. Pure: no clock, no network.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::Refusal;
use crate::control::{LayoutText, RegionText, SessionText, ViewText};

/// Cells of a session.
const CELLS: u32 = 8;
/// Bytes of a session's cells: a line.
const CELLS_BYTES: u32 = 64;

/// A key that no region ever has.
const NO_KEY: u64 = 0;

/// The largest block. A client reads four of a long value at once, and a frame has room for 8 MiB of reads
/// ([`crate::wire`]).
const BLOCK_MAX: u32 = 2 << 20;

/// A region.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegionState {
    /// The nodes that hold it; the first is the primary.
    pub nodes: Vec<u32>,
    /// Its key.
    pub key: u64,
    /// Whether it is closed.
    pub closed: bool,
    /// The first byte that is in no block yet.
    pub used: u32,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeState {
    /// Where it listens.
    pub address: SocketAddr,
    /// Bytes that it offers.
    pub memory: u64,
    /// Its memory's incarnation: that of another process at its address is another one.
    pub incarnation: u64,
    /// Whether its memory outlives its process.
    #[serde(default)]
    pub outlives: bool,
    /// Whether clients map its memory.
    #[serde(default)]
    pub mapped: bool,
    /// Whether the master has not given it up.
    pub alive: bool,
    /// Whether it is to be emptied.
    pub draining: bool,
}

/// A node that is to be one of a cluster's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Where it listens.
    pub address: SocketAddr,
    /// Bytes that it offers.
    pub memory: u64,
    /// Its memory's incarnation.
    pub incarnation: u64,
    /// Whether its memory outlives its process.
    pub outlives: bool,
    /// Whether clients map its memory.
    pub mapped: bool,
}

/// A client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionState {
    /// What it says of itself.
    pub name: String,
    /// Where its cells are.
    pub cells: u64,
    /// Its blocks.
    pub blocks: Vec<Block>,
    /// Whether it has been given up; it is forgotten once what it had begun is decided.
    pub ended: bool,
}

/// A block that a client has, or had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Block {
    /// Where it is.
    pub at: u64,
    /// Bytes of its objects.
    pub size: u32,
}

/// What a cluster is made of when it is new.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Copies of each region.
    pub replicas: usize,
    /// Bytes of a region.
    pub region_bytes: u32,
    /// Bytes of a block: values are shorter.
    pub block: u32,
    /// Groups of a segment of the index.
    pub groups: u32,
    /// Bits of the directory's prefixes.
    pub depth: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            replicas: 2,
            region_bytes: 16 << 20,
            block: 256 << 10,
            groups: 85,
            depth: 12,
        }
    }
}

/// Everything.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct State {
    /// The view's number.
    pub number: u64,
    /// The last key.
    pub key: u64,
    /// The last node's number.
    pub last_node: u32,
    /// The last session's number.
    pub last_session: u32,
    /// Copies of each region.
    pub replicas: usize,
    /// For how long nodes may execute verbs after an answered heartbeat, in microseconds.
    #[serde(default)]
    pub node_lease_us: u64,
    /// Bytes of a region.
    pub region_bytes: u32,
    /// How the map lies.
    pub layout: LayoutText,
    /// The regions.
    pub regions: Vec<RegionState>,
    /// The nodes.
    pub nodes: BTreeMap<u32, NodeState>,
    /// The clients.
    pub sessions: BTreeMap<u32, SessionState>,
    /// Cells of clients that have gone.
    pub free_cells: Vec<u64>,
    /// Blocks of clients that have gone, for others.
    pub orphans: Vec<Block>,
}

/// Why a cluster cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unfit {
    /// There are fewer nodes than copies.
    #[error("{nodes} memory nodes cannot hold {replicas} copies: start more nodes, or ask for fewer copies")]
    TooFewNodes {
        /// Nodes.
        nodes: usize,
        /// Copies.
        replicas: usize,
    },
    /// The nodes have too little memory.
    #[error("the memory nodes have room for no region of {0} bytes with its copies: give them more memory")]
    TooLittleMemory(u32),
    /// The number of copies is out of range.
    #[error("the number of copies is out of range (1 to 8)")]
    Replicas,
    /// A block has another size than blocks may have.
    #[error("the size of a block is no power of two from 16 KiB to 2 MiB")]
    BlockSize,
    /// A region is too large.
    #[error("a region has more than 2 GiB")]
    RegionSize,
    /// A region is not made of whole blocks, or of too few.
    #[error("a region does not have 8 whole blocks or more")]
    RegionBlocks,
    /// The index does not fit.
    #[error("the directory or a segment does not fit in a block")]
    IndexSize,
}

impl Shape {
    fn check(&self) -> Result<(), Unfit> {
        let range = |is_good, why| if is_good { Ok(()) } else { Err(why) };
        range((1..=8).contains(&self.replicas), Unfit::Replicas)?;
        range(
            self.block.is_power_of_two() && (1 << 14..=BLOCK_MAX).contains(&self.block),
            Unfit::BlockSize,
        )?;
        range(self.region_bytes <= 1 << 31, Unfit::RegionSize)?;
        range(
            self.region_bytes.is_multiple_of(self.block) && self.region_bytes / self.block >= 8,
            Unfit::RegionBlocks,
        )?;
        let directory = 8_u64 << self.depth;
        let segment = u64::from(self.groups) * 192 + 256;
        range(
            directory <= u64::from(self.block) && segment <= u64::from(self.block) / 2,
            Unfit::IndexSize,
        )
    }
}

impl State {
    /// A new cluster of these nodes. Its bytes still have to be written: see [`State::root`].
    pub fn new(shape: Shape, nodes: &[Offer]) -> Result<Self, Unfit> {
        shape.check()?;
        if nodes.len() < shape.replicas {
            return Err(Unfit::TooFewNodes {
                nodes: nodes.len(),
                replicas: shape.replicas,
            });
        }
        let mut state = Self {
            number: 1,
            key: 1,
            last_node: 0,
            last_session: 0,
            replicas: shape.replicas,
            node_lease_us: 0,
            region_bytes: shape.region_bytes,
            layout: LayoutText {
                groups: shape.groups,
                directory: u64::from(shape.block),
                depth: shape.depth,
                block: shape.block,
            },
            regions: Vec::new(),
            nodes: BTreeMap::new(),
            sessions: BTreeMap::new(),
            free_cells: Vec::new(),
            orphans: Vec::new(),
        };
        for node in nodes {
            state.add_node(*node);
        }
        // As much as the others can hold when one of them is lost.
        let mut rooms: Vec<u64> = state.nodes.values().map(|node| node.memory).collect();
        rooms.sort_unstable();
        if rooms.len() > shape.replicas {
            rooms.pop();
        }
        let most = rooms
            .iter()
            .map(|room| room / u64::from(shape.region_bytes))
            .sum::<u64>()
            / shape.replicas as u64;
        for _ in 0..most.min(u64::from(cenote_replica::verbs::REGIONS_MAX)) {
            let mut region = RegionState {
                nodes: Vec::new(),
                key: 1,
                closed: false,
                used: shape.block,
            };
            while region.nodes.len() < shape.replicas {
                match state.roomiest(&region.nodes) {
                    Some(node) => region.nodes.push(node),
                    None => break,
                }
            }
            if region.nodes.len() < shape.replicas {
                break;
            }
            // So that nodes are primaries of as many regions each.
            let by = state.regions.len() % shape.replicas;
            region.nodes.rotate_left(by);
            state.regions.push(region);
        }
        match state.regions.first_mut() {
            // The directory, the first segment, cells.
            Some(first) => first.used = 4 * shape.block,
            None => return Err(Unfit::TooLittleMemory(shape.region_bytes)),
        }
        let cells = 3 * shape.block;
        state.free_cells = (0..shape.block / CELLS_BYTES)
            .rev()
            .map(|n| u64::from(cells + n * CELLS_BYTES))
            .collect();
        Ok(state)
    }

    /// Where the first segment is.
    pub fn root(&self) -> u64 {
        2 * u64::from(self.layout.block)
    }

    /// Another node. Returns its number, which no other node ever has.
    pub fn add_node(&mut self, offer: Offer) -> u32 {
        self.last_node += 1;
        let node = NodeState {
            address: offer.address,
            memory: offer.memory,
            incarnation: offer.incarnation,
            outlives: offer.outlives,
            mapped: offer.mapped,
            alive: true,
            draining: false,
        };
        self.nodes.insert(self.last_node, node);
        self.last_node
    }

    /// Bytes that a node has left.
    fn room(&self, number: u32, node: &NodeState) -> u64 {
        let held = self
            .regions
            .iter()
            .filter(|region| region.nodes.contains(&number))
            .count() as u64;
        node.memory.saturating_sub(held * u64::from(self.region_bytes))
    }

    /// The node with the most room for a region, other than these.
    pub fn roomiest(&self, but: &[u32]) -> Option<u32> {
        self.nodes
            .iter()
            .filter(|(number, node)| node.alive && !node.draining && !but.contains(number))
            .map(|(number, node)| (self.room(*number, node), *number))
            .filter(|(room, _)| *room >= u64::from(self.region_bytes))
            .max_by_key(|(room, number)| (*room, std::cmp::Reverse(*number)))
            .map(|(_, number)| number)
    }

    /// Whether a node is there and has not been given up.
    pub fn is_alive(&self, node: u32) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.alive)
    }

    /// Whether a node that has lost its regions may be given up at once. Who has mapped its memory may have it still,
    /// for a lease.
    pub fn may_lose(&self, node: u32) -> bool {
        self.nodes
            .get(&node)
            .is_some_and(|node| node.alive && !node.mapped)
    }

    /// A node is given up.
    pub fn give_up(&mut self, node: u32) {
        if let Some(known) = self.nodes.get_mut(&node) {
            known.alive = false;
            self.number += 1;
        }
    }

    /// How many regions have fewer copies than they are to have. A copy on a node that is given up is none, also before
    /// the region is closed.
    pub fn under_replicated(&self) -> usize {
        let copies = |region: &&RegionState| region.nodes.iter().filter(|node| self.is_alive(**node)).count();
        self.regions
            .iter()
            .filter(|region| copies(region) < self.replicas)
            .count()
    }

    /// Whether a node of any region is given up.
    pub fn is_broken(&self) -> bool {
        let mut holding = self.regions.iter().flat_map(|region| &region.nodes);
        holding.any(|node| !self.is_alive(*node))
    }

    /// Closes all regions under a new key, without the nodes that are given up.
    pub fn close(&mut self) {
        self.number += 1;
        self.key += 1;
        let key = self.key;
        let nodes = &self.nodes;
        for region in &mut self.regions {
            // Without any it is lost: its clients are told.
            region
                .nodes
                .retain(|node| nodes.get(node).is_some_and(|node| node.alive));
            (region.key, region.closed) = (key, true);
        }
    }

    /// Opens some regions, and forgets the sessions that have ended.
    pub fn open(&mut self, which: impl Fn(u16) -> bool, ended: &BTreeSet<u32>) {
        self.number += 1;
        for (_, region) in (0..).zip(&mut self.regions).filter(|(number, _)| which(*number)) {
            region.closed = false;
        }
        ended.iter().for_each(|session| self.forget(*session));
    }

    /// Forgets a session of which nothing goes on.
    pub fn forget(&mut self, session: u32) {
        if let Some(gone) = self.sessions.remove(&session) {
            self.free_cells.push(gone.cells);
            self.orphans.extend(gone.blocks);
        }
    }

    /// How many sessions have been forgotten.
    pub fn sessions_ended(&self) -> u64 {
        u64::from(self.last_session).saturating_sub(self.sessions.len() as u64)
    }

    /// A new session; `None` if there are too many.
    pub fn join(&mut self, name: String) -> Option<SessionText> {
        let cells = self.free_cells.pop()?;
        self.last_session += 1;
        let session = SessionState {
            name,
            cells,
            blocks: Vec::new(),
            ended: false,
        };
        self.sessions.insert(self.last_session, session);
        self.session(self.last_session)
    }

    /// A session as its client knows it.
    pub fn session(&self, number: u32) -> Option<SessionText> {
        let session = self.sessions.get(&number)?;
        Some(SessionText {
            number,
            cells: session.cells,
            count: CELLS,
        })
    }

    /// A block for a session that has received so many: one for objects of this size that a client had that has gone,
    /// else a new one from the region with the most left; `None` if there is none. One that was given and not received
    /// is given again, so a request may come twice, and late.
    pub fn block(&mut self, session: u32, size: u32, received: u32) -> Option<u64> {
        let (block, bytes) = (self.layout.block, self.region_bytes);
        let session = self.sessions.get_mut(&session)?;
        if let Some(given) = session.blocks.get(received as usize) {
            return (given.size == size).then_some(given.at);
        }
        let regions = &self.regions;
        // What is in a region that is lost stays so.
        let is_there = |block: &Block| {
            let region = regions.get((block.at >> 32) as usize);
            region.is_some_and(|region| !region.nodes.is_empty())
        };
        let fits = |orphan: &Block| orphan.size == size && is_there(orphan);
        if let Some(place) = self.orphans.iter().position(fits) {
            let orphan = self.orphans.swap_remove(place);
            session.blocks.push(orphan);
            return Some(orphan.at);
        }
        let (number, region) = (0_u16..)
            .zip(&mut self.regions)
            .filter(|(_, region)| !region.nodes.is_empty() && bytes - region.used >= block)
            .min_by_key(|(number, region)| (region.used, *number))?;
        let at = cenote_replica::verbs::Address::new(number, region.used).bits();
        region.used += block;
        session.blocks.push(Block { at, size });
        Some(at)
    }

    /// Regions with fewer copies than they are to have, or with one at a node that is being emptied, and the nodes that
    /// get another one; so many at most.
    pub fn copies_to_make(&self, most: usize, unfit: &[u32]) -> Vec<(u16, u32)> {
        let mut planned = self.clone();
        let mut copies = Vec::new();
        for number in 0..self.regions.len() as u16 {
            if copies.len() == most {
                break;
            }
            if let Some(target) = planned.target(number, unfit) {
                planned.gain(number, target);
                copies.push((number, target));
            }
        }
        copies
    }

    /// The node that gets another copy of a region, if the region is short of one; none of the unfit.
    fn target(&self, number: u16, unfit: &[u32]) -> Option<u32> {
        let region = self.regions.get(usize::from(number))?;
        let staying = region.nodes.iter().filter(|node| !self.is_draining(**node));
        let is_short = staying.count() < self.replicas && !region.closed;
        let has_source = region.nodes.iter().any(|node| self.is_alive(*node));
        (is_short && has_source)
            .then(|| self.roomiest(&[&region.nodes, unfit].concat()))
            .flatten()
    }

    /// A node is to be emptied. Refused if the others could not hold as many copies.
    pub fn drain(&mut self, node: u32) -> Result<(), Refusal> {
        let staying = self
            .nodes
            .iter()
            .filter(|(number, other)| **number != node && other.alive && !other.draining)
            .count();
        let replicas = self.replicas;
        match self.nodes.get_mut(&node) {
            None => Err(Refusal::NoSuchNode { node }),
            Some(_) if staying < replicas => Err(Refusal::TooFewNodes {
                node,
                staying,
                replicas,
            }),
            Some(known) => {
                known.draining = true;
                Ok(())
            }
        }
    }

    /// Whether a node is to be emptied.
    pub fn is_draining(&self, node: u32) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.draining)
    }

    /// A region has a copy more; it may leave the nodes that are being emptied.
    pub fn gain(&mut self, region: u16, node: u32) {
        let draining: Vec<u32> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.draining)
            .map(|(number, _)| *number)
            .collect();
        let replicas = self.replicas;
        if let Some(region) = self.regions.get_mut(usize::from(region)) {
            region.nodes.push(node);
            while region.nodes.len() > replicas {
                match region.nodes.iter().position(|node| draining.contains(node)) {
                    Some(place) => drop(region.nodes.remove(place)),
                    None => break,
                }
            }
        }
    }

    /// Nodes that hold nothing, and are given up or being emptied.
    pub fn forget_empty_nodes(&mut self) {
        let regions = &self.regions;
        self.nodes.retain(|number, node| {
            (node.alive && !node.draining) || regions.iter().any(|region| region.nodes.contains(number))
        });
    }

    /// What clients are to know: not the keys of regions that are closed. What is there may be undone yet, and is being
    /// copied.
    pub fn view(&self) -> ViewText {
        let mut view = self.own_view();
        for region in view.regions.iter_mut().filter(|region| region.closed) {
            region.key = NO_KEY;
        }
        view
    }

    /// What the master works with.
    pub fn own_view(&self) -> ViewText {
        let region = |region: &RegionState| RegionText {
            nodes: region.nodes.clone(),
            key: region.key,
            closed: region.closed,
        };
        ViewText {
            number: self.number,
            regions: self.regions.iter().map(region).collect(),
            nodes: self
                .nodes
                .iter()
                .map(|(node, state)| (*node, state.address))
                .collect(),
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
