//! The words of a directory lock's entry in a pool: the entry, its queue, and who died writing.
//!
//! ```text
//! word 0   bits 0..7    the holder's number plus one, or 0
//!          bits 8..15   how many requests wait
//!          bits 16..31  the entry's version
//!          bits 32..63  how often a node got the lock exclusively, modulo 2^32
//! word 1   a bit for each sharer
//! word 2-6 a byte for each request: the node's number, and 128 if it wants to write
//! word 7   identity of a worker that died or panicked while its node could write, until a writer has unlocked; else 0
//! ```

use super::entry::{Answer, Entry, Left};
use super::node::{NODES_MAX, Node, Nodes};
use super::queue::{Permission, Queue, Request};

/// Marks a request to write.
const EXCLUSIVE: u8 = 128;

/// Entry and queue, which change together in a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The entry.
    pub entry: Entry,
    /// The queue of its holder.
    pub queue: Queue,
    /// How often a node got the lock exclusively.
    pub grants: u32,
    /// Who died writing.
    pub former: u64,
}

impl State {
    /// The state that these words say, unless they say none.
    pub fn decode(words: [u64; 8]) -> Option<Self> {
        let [head, sharers, .., former] = words;
        let holder = match head as u8 {
            0 => None,
            number => Some(Node::new(number - 1)?),
        };
        let waiting = usize::from((head >> 8) as u8);
        let bytes = words[2..7].iter().flat_map(|word| word.to_le_bytes());
        let mut queue = Queue::default();
        for byte in bytes.take(waiting) {
            let node = Node::new(byte & !EXCLUSIVE)?;
            let wants = match byte & EXCLUSIVE {
                0 => Permission::Shared,
                _ => Permission::Exclusive,
            };
            queue.push(Request { node, wants });
        }
        let entry = Entry::from_parts(Nodes::from_bits(sharers)?, holder, (head >> 16) as u16)?;
        // A node stands in the queue once, and nobody stands in a queue that nobody holds.
        let is_whole = queue.requests().len() == waiting && (holder.is_some() || waiting == 0);
        is_whole.then_some(Self {
            entry,
            queue,
            grants: (head >> 32) as u32,
            former,
        })
    }

    /// The words that say it.
    pub fn encode(&self) -> [u64; 8] {
        let holder = self
            .entry
            .holder()
            .map_or(0, |holder| u64::from(holder.number()) + 1);
        let requests = self.queue.requests();
        let mut bytes = [0; NODES_MAX as usize];
        for (byte, request) in bytes.iter_mut().zip(requests) {
            *byte = request.node.number()
                | match request.wants {
                    Permission::Shared => 0,
                    Permission::Exclusive => EXCLUSIVE,
                };
        }
        let mut words = [0; 8];
        words[0] = holder
            | (requests.len() as u64) << 8
            | u64::from(self.entry.version()) << 16
            | u64::from(self.grants) << 32;
        words[1] = self.entry.sharers().bits();
        for (word, bytes) in words[2..7].iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words[7] = self.former;
        words
    }

    /// Whether a node is asked to give the lock up.
    pub fn is_asked(&self, node: Node) -> bool {
        self.entry.is_asked(node, self.queue.is_empty())
    }

    /// A node asks for the lock. Returns whether it has it. A reader that asks to write gives up reading.
    pub fn request(&mut self, node: Node, wants: Permission) -> bool {
        if wants == Permission::Exclusive {
            self.give_up(node);
        }
        let owner = self.entry.owner();
        match self.entry.request(node, wants) {
            Answer::Granted => {
                self.count_grant(owner);
                true
            }
            Answer::Forwarded { .. } => {
                self.queue.push(Request { node, wants });
                false
            }
            Answer::Next { .. } => false,
        }
    }

    /// A reader gives the lock up.
    pub fn give_up(&mut self, reader: Node) {
        let owner = self.entry.owner();
        self.entry.give_up(reader);
        self.count_grant(owner);
    }

    /// The writer hands the lock over to those that come next, or to nobody. Returns whether it was the writer.
    pub fn hand_over(&mut self, writer: Node) -> bool {
        let mut queue = self.queue.clone();
        let handover = queue.hand_over();
        let is_transferred = self.entry.transfer(writer, self.entry.version(), &handover);
        if is_transferred {
            self.queue = handover.rest;
            self.count_grant(None);
        }
        is_transferred
    }

    /// A node has died. Returns whether it could write.
    pub fn lose(&mut self, node: Node) -> bool {
        let owner = self.entry.owner();
        self.queue.remove(node);
        let wrote = match self.entry.lose(node) {
            Left::Queue { wrote } => {
                let handover = self.queue.hand_over();
                self.entry.rebuild(&handover);
                self.queue = handover.rest;
                wrote
            }
            Left::Granted(_) | Left::Nothing => false,
        };
        self.count_grant(owner.filter(|owner| *owner != node));
        wrote
    }

    /// All nodes that have the lock, wait for it, or hold its queue.
    pub fn nodes(&self) -> Nodes {
        let waiting = self.queue.requests().iter().map(|request| request.node);
        self.entry
            .sharers()
            .iter()
            .chain(self.entry.holder())
            .chain(waiting)
            .collect()
    }

    /// Counts that another node than before has the lock exclusively.
    fn count_grant(&mut self, before: Option<Node>) {
        let owner = self.entry.owner();
        if owner.is_some() && owner != before {
            self.grants = self.grants.wrapping_add(1);
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
