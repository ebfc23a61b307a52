//! Links between the directory and all others. A message occupies its link for its bytes, one after another in each
//! direction, and then takes a hop.

use cenote::sync::directory::node::Node;

use super::message::Place;
use super::profile::Costs;

/// A link's directions: when each is free.
#[derive(Clone, Copy, Default)]
struct Link {
    to_directory: u64,
    from_directory: u64,
}

/// All links, and the bytes that have passed those of nodes.
pub struct Network {
    costs: Costs,
    nodes: Vec<Link>,
    memory: Link,
    bytes: Vec<u64>,
}

impl Network {
    pub fn new(costs: Costs, nodes: u8) -> Self {
        Self {
            costs,
            nodes: vec![Link::default(); nodes.into()],
            memory: Link::default(),
            bytes: vec![0; nodes.into()],
        }
    }

    /// When a message that leaves now has come to the directory, and has been looked at.
    pub fn towards_directory(&mut self, from: Place, now: u64, payload: u64) -> u64 {
        let (hop, time) = self.passage(from, payload);
        let free = &mut self.link(from).to_directory;
        *free = now.max(*free) + time;
        *free + hop + self.costs.directory
    }

    /// When a message that leaves the directory now has arrived.
    pub fn away_from_directory(&mut self, to: Place, now: u64, payload: u64) -> u64 {
        let (hop, time) = self.passage(to, payload);
        let free = &mut self.link(to).from_directory;
        *free = now.max(*free) + time;
        *free + hop
    }

    /// Bytes that have passed a node's link, both ways.
    pub fn bytes(&self, node: Node) -> u64 {
        self.bytes[usize::from(node.number())]
    }

    /// A hop, and the time on the link; counts the bytes.
    fn passage(&mut self, place: Place, payload: u64) -> (u64, u64) {
        let bytes = self.costs.header + payload;
        match place {
            Place::Node(node) => {
                self.bytes[usize::from(node.number())] += bytes;
                (self.costs.hop, (bytes as f64 * self.costs.node_byte) as u64)
            }
            Place::Memory => (
                self.costs.memory_hop,
                (bytes as f64 * self.costs.memory_byte) as u64,
            ),
        }
    }

    fn link(&mut self, place: Place) -> &mut Link {
        match place {
            Place::Node(node) => &mut self.nodes[usize::from(node.number())],
            Place::Memory => &mut self.memory,
        }
    }
}
