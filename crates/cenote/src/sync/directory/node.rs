//! Nodes of a directory lock, and sets of them.

use std::fmt;

/// The most nodes that a lock can have.
pub const NODES_MAX: u8 = 40;

/// One of those that cache a lock, by its number: a process in a pool, a client of a directory by messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u8);

impl Node {
    /// The node of a number below [`NODES_MAX`].
    pub const fn new(number: u8) -> Option<Self> {
        match number < NODES_MAX {
            true => Some(Self(number)),
            false => None,
        }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// A set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Nodes(u64);

impl Nodes {
    /// No node.
    pub const NONE: Self = Self(0);

    /// The set whose bits these are, unless one of them stands for no node.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match bits >> NODES_MAX {
            0 => Some(Self(bits)),
            _ => None,
        }
    }

    /// A bit for each node, the first one's lowest.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether a node is among them.
    pub const fn contains(self, node: Node) -> bool {
        self.0 >> node.0 & 1 != 0
    }

    /// Adds a node.
    pub fn insert(&mut self, node: Node) {
        self.0 |= 1 << node.0;
    }

    /// Takes a node away. Returns whether it was there.
    pub fn remove(&mut self, node: Node) -> bool {
        let was = self.contains(node);
        self.0 &= !(1 << node.0);
        was
    }

    /// All of them, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Node> {
        (0..NODES_MAX)
            .filter_map(Node::new)
            .filter(move |node| self.contains(*node))
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Node::number)).finish()
    }
}

impl FromIterator<Node> for Nodes {
    fn from_iter<I: IntoIterator<Item = Node>>(nodes: I) -> Self {
        let mut set = Self::NONE;
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}
