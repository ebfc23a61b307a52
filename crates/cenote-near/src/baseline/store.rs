//! What a module executes for the distributed trees: a store of nodes by their numbers, and a copy of the tree's upper
//! levels.
//!
//! A command names a node that the module has. Reaching it is a chase, a search within it takes as many accesses as
//! halving it does. The upper levels are a list of separators with nodes; searching it takes as many chases as a
//! balanced tree of them is deep.
//!
//! | byte | command | then | answer |
//! |---|---|---|---|
//! | 1 | top | key | a node |
//! | 2 | step | node, key | a node below it |
//! | 3 | read | node | the node |
//! | 4 | write | node, the node | |
//! | 5 | leaf | node, code, key, and its values | see [`on_leaf`] |
//! | 6 | range | node, first, last | how many in 4 bytes, nodes or pairs with a byte that says which |
//! | 7 | top range | first, last | the same |
//! | 8 | add to top | key, node | |
//!
//! A node is its level in a byte, its least key, how many pairs in 4 bytes, pairs. A pair of an inner node is a
//! separator with a node.

use std::collections::HashMap;

use crate::device::command::Reader;
use crate::modules::{Malformed, Meter, Program};

/// A node of a distributed tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub level: u8,
    /// No key of it is less.
    pub low: u64,
    pub pairs: Vec<(u64, u64)>,
}

impl Node {
    pub fn write(&self, to: &mut Vec<u8>) {
        to.push(self.level);
        to.extend_from_slice(&self.low.to_le_bytes());
        to.extend_from_slice(&(self.pairs.len() as u32).to_le_bytes());
        for (key, value) in &self.pairs {
            to.extend_from_slice(&key.to_le_bytes());
            to.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            level: from.byte()?,
            low: from.long()?,
            pairs: from.pairs()?.collect(),
        })
    }

    /// Of an inner node, the child of a key.
    pub fn child(&self, key: u64) -> Option<u64> {
        let at = self.pairs.partition_point(|pair| pair.0 <= key).saturating_sub(1);
        self.pairs.get(at).map(|pair| pair.1)
    }

    /// Of an inner node, the children that may have keys from the first to the last.
    pub fn children(&self, first: u64, last: u64) -> &[(u64, u64)] {
        let from = self
            .pairs
            .partition_point(|pair| pair.0 <= first)
            .saturating_sub(1);
        let to = self.pairs.partition_point(|pair| pair.0 <= last).max(from);
        &self.pairs[from..to]
    }
}

/// A point operation on a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnLeaf {
    Get(u64),
    Predecessor(u64),
    Insert(u64, u64),
    Delete(u64),
    CompareSwap(u64, u64, u64),
}

/// Executes a point operation. The pair that it found: of a predecessor with its key, else with the operation's. A
/// predecessor that the leaf does not have is none.
pub(super) fn on_leaf(node: &mut Node, operation: OnLeaf) -> Option<(u64, u64)> {
    let pairs = &mut node.pairs;
    let find = |pairs: &Vec<(u64, u64)>, key: u64| pairs.binary_search_by_key(&key, |pair| pair.0);
    match operation {
        OnLeaf::Get(key) => find(pairs, key).ok().map(|at| pairs[at]),
        OnLeaf::Predecessor(key) => {
            let at = pairs.partition_point(|pair| pair.0 <= key).checked_sub(1)?;
            Some(pairs[at])
        }
        OnLeaf::Insert(key, value) => match find(pairs, key) {
            Ok(at) => Some(pairs[at]),
            Err(at) => {
                pairs.insert(at, (key, value));
                None
            }
        },
        OnLeaf::Delete(key) => find(pairs, key).ok().map(|at| pairs.remove(at)),
        OnLeaf::CompareSwap(key, expected, value) => {
            let at = find(pairs, key).ok()?;
            let before = pairs[at];
            if before.1 == expected {
                pairs[at].1 = value;
            }
            Some(before)
        }
    }
}

impl OnLeaf {
    pub fn key(self) -> u64 {
        match self {
            Self::Get(key)
            | Self::Predecessor(key)
            | Self::Insert(key, _)
            | Self::Delete(key)
            | Self::CompareSwap(key, ..) => key,
        }
    }

    pub fn write(self, to: &mut Vec<u8>) {
        let (code, longs): (u8, [u64; 3]) = match self {
            Self::Get(key) => (1, [key, 0, 0]),
            Self::Predecessor(key) => (2, [key, 0, 0]),
            Self::Delete(key) => (3, [key, 0, 0]),
            Self::Insert(key, value) => (4, [key, value, 0]),
            Self::CompareSwap(key, expected, value) => (5, [key, expected, value]),
        };
        to.push(code);
        let count = usize::from(code.max(3) - 2);
        for long in &longs[..count] {
            to.extend_from_slice(&long.to_le_bytes());
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            1 => Self::Get(from.long()?),
            2 => Self::Predecessor(from.long()?),
            3 => Self::Delete(from.long()?),
            4 => Self::Insert(from.long()?, from.long()?),
            5 => Self::CompareSwap(from.long()?, from.long()?, from.long()?),
            _ => return None,
        })
    }
}

/// The nodes of one module.
#[derive(Default)]
pub struct NodeStore {
    nodes: HashMap<u64, Node>,
    /// Separators and nodes, ascending.
    top: Vec<(u64, u64)>,
    /// Pairs that a node has room for.
    capacity: usize,
}

/// Chases or accesses of a search among so many.
fn halvings(count: usize) -> u64 {
    u64::from(usize::BITS - count.leading_zeros())
}

impl NodeStore {
    /// An empty one, for nodes of so many pairs.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    fn step(&mut self, from: &mut Reader<'_>, answers: &mut Vec<u8>, meter: &mut Meter) -> Option<()> {
        let code = from.byte()?;
        if matches!(code, 1 | 7 | 8) {
            meter.chases += halvings(self.top.len());
            meter.accesses += 2 * halvings(self.top.len());
        } else {
            meter.chases += 1;
            meter.accesses += 2;
        }
        match code {
            1 => {
                let key = from.long()?;
                let at = self.top.partition_point(|pair| pair.0 <= key).saturating_sub(1);
                answers.extend_from_slice(&self.top.get(at)?.1.to_le_bytes());
            }
            2 => {
                let (id, key) = (from.long()?, from.long()?);
                let node = self.nodes.get(&id)?;
                meter.accesses += halvings(node.pairs.len());
                answers.extend_from_slice(&node.child(key)?.to_le_bytes());
            }
            3 => {
                let node = self.nodes.get(&from.long()?)?;
                meter.streamed += node.pairs.len() as u64 * 16;
                node.write(answers);
            }
            4 => {
                let id = from.long()?;
                let node = Node::read(from)?;
                meter.streamed += node.pairs.len() as u64 * 16;
                self.nodes.insert(id, node);
            }
            5 => {
                let (id, operation) = (from.long()?, OnLeaf::read(from)?);
                let node = self.nodes.get_mut(&id)?;
                meter.accesses += halvings(node.pairs.len()) + 1;
                let before = node.pairs.len();
                let found = on_leaf(node, operation);
                if node.pairs.len() != before {
                    // Half of the pairs make room, or close a gap.
                    meter.streamed += node.pairs.len() as u64 * 8;
                }
                answers.push(u8::from(found.is_some()) | u8::from(node.pairs.len() > self.capacity) << 1);
                match (operation, found) {
                    (OnLeaf::Predecessor(_), Some((key, value))) => {
                        answers.extend_from_slice(&key.to_le_bytes());
                        answers.extend_from_slice(&value.to_le_bytes());
                    }
                    (OnLeaf::Predecessor(_), None) => answers.extend_from_slice(&node.low.to_le_bytes()),
                    (_, Some((_, value))) => answers.extend_from_slice(&value.to_le_bytes()),
                    _ => {}
                }
            }
            6 => {
                let (id, first, last) = (from.long()?, from.long()?, from.long()?);
                let node = self.nodes.get(&id)?;
                meter.accesses += halvings(node.pairs.len());
                put_range(node, first, last, answers, meter);
            }
            7 => {
                let top = Node {
                    level: u8::MAX,
                    low: 0,
                    pairs: self.top.clone(),
                };
                put_range(&top, from.long()?, from.long()?, answers, meter);
            }
            8 => {
                let pair = (from.long()?, from.long()?);
                let at = self.top.partition_point(|other| other.0 < pair.0);
                self.top.insert(at, pair);
            }
            _ => return None,
        }
        Some(())
    }
}

fn put_range(node: &Node, first: u64, last: u64, answers: &mut Vec<u8>, meter: &mut Meter) {
    let leaf = node.level == 0;
    answers.push(u8::from(leaf));
    let part = if leaf {
        let from = node.pairs.partition_point(|pair| pair.0 < first);
        let to = node.pairs.partition_point(|pair| pair.0 <= last).max(from);
        &node.pairs[from..to]
    } else {
        node.children(first, last)
    };
    meter.streamed += part.len() as u64 * 16;
    answers.extend_from_slice(&(part.len() as u32).to_le_bytes());
    for (key, value) in part {
        if leaf {
            answers.extend_from_slice(&key.to_le_bytes());
        }
        answers.extend_from_slice(&value.to_le_bytes());
    }
}

impl Program for NodeStore {
    fn run(&mut self, commands: &[u8], answers: &mut Vec<u8>, meter: &mut Meter) -> Result<(), Malformed> {
        let mut rest = Reader(commands);
        while !rest.0.is_empty() {
            let at = commands.len() - rest.0.len();
            self.step(&mut rest, answers, meter).ok_or(Malformed { at })?;
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        // A node has its header, its place in the table of nodes, and room for all its pairs; the upper levels are
        // lists with two links an entry.
        let nodes = self.nodes.len() * (16 + 24 + self.capacity * 16);
        (nodes + self.top.len() * 24) as u64
    }
}
