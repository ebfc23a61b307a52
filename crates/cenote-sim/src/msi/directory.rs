//! The directory's entries of lines: MSI (Soul, section 2.1).
//!
//! | has it | wants to read | wants to write |
//! |---|---|---|
//! | nobody (I) | from memory | from memory |
//! | readers (S) | from memory | the other readers are invalidated; from memory, unless the node has it |
//! | a writer (M) | the writer writes it back, and keeps it to read | the writer is invalidated, its data go on |
//!
//! One request for a line is served at a time, until the answer has left. The ways of messages keep their order, so
//! that an invalidation never overtakes the grant that it is about.

use std::collections::{HashMap, VecDeque};

use cenote::sync::directory::node::{Node, Nodes};
use cenote::sync::directory::queue::Permission;

use super::data::Data;
use super::message::{LineMessage, Place};

/// Who has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Shared(Nodes),
    Modified(Node),
}

/// A request that is served now.
struct Served {
    node: Node,
    wants: Permission,
    /// Acknowledgements that are awaited.
    awaited: u32,
    /// Whether the answer needs data that have not come.
    needs_data: bool,
    data: Option<Data>,
}

/// A line's entry.
struct Entry {
    state: State,
    served: Option<Served>,
    waiting: VecDeque<(Node, Permission)>,
}

/// All entries.
#[derive(Default)]
pub struct Directory {
    lines: HashMap<u64, Entry>,
}

/// Messages to send.
pub type Sends = Vec<(Place, LineMessage)>;

impl Directory {
    /// A message about a line arrives.
    pub fn receive(&mut self, line: u64, message: LineMessage) -> Sends {
        let entry = self.lines.entry(line).or_insert(Entry {
            state: State::Shared(Nodes::NONE),
            served: None,
            waiting: VecDeque::new(),
        });
        let mut sends = Sends::new();
        match message {
            LineMessage::Request(node, wants) => entry.waiting.push_back((node, wants)),
            LineMessage::Acknowledge(data) => entry.acknowledged(data),
            LineMessage::Fetched(data) => entry.fetched(data),
            // The directory sends these.
            LineMessage::Invalidate { .. }
            | LineMessage::Grant(..)
            | LineMessage::Fetch
            | LineMessage::WriteBack(_) => {}
        }
        entry.finish(&mut sends);
        while entry.served.is_none()
            && let Some((node, wants)) = entry.waiting.pop_front()
        {
            entry.begin(node, wants, &mut sends);
            entry.finish(&mut sends);
        }
        sends
    }
}

impl Entry {
    fn begin(&mut self, node: Node, wants: Permission, sends: &mut Sends) {
        let mut served = Served {
            node,
            wants,
            awaited: 0,
            needs_data: true,
            data: None,
        };
        match (self.state, wants) {
            (State::Modified(owner), _) => {
                let keeps = wants == Permission::Shared;
                served.awaited = 1;
                sends.push((Place::Node(owner), LineMessage::Invalidate { keeps }));
            }
            (State::Shared(_), Permission::Shared) => sends.push((Place::Memory, LineMessage::Fetch)),
            (State::Shared(mut others), Permission::Exclusive) => {
                served.needs_data = !others.remove(node);
                for other in others.iter() {
                    served.awaited += 1;
                    sends.push((Place::Node(other), LineMessage::Invalidate { keeps: false }));
                }
                if served.needs_data {
                    sends.push((Place::Memory, LineMessage::Fetch));
                }
            }
        }
        self.served = Some(served);
    }

    fn acknowledged(&mut self, data: Option<Data>) {
        if let Some(served) = &mut self.served {
            served.awaited = served.awaited.saturating_sub(1);
            served.data = data.or(served.data.take());
        }
    }

    fn fetched(&mut self, data: Data) {
        if let Some(served) = &mut self.served {
            served.data = Some(data);
        }
    }

    /// Answers the request that is served, if all that it needs has come.
    fn finish(&mut self, sends: &mut Sends) {
        let is_complete =
            |served: &mut Served| served.awaited == 0 && (!served.needs_data || served.data.is_some());
        let Some(served) = self.served.take_if(is_complete) else {
            return;
        };
        self.state = match (self.state, served.wants) {
            (_, Permission::Exclusive) => State::Modified(served.node),
            (State::Modified(owner), Permission::Shared) => {
                if let Some(data) = &served.data {
                    sends.push((Place::Memory, LineMessage::WriteBack(data.clone())));
                }
                State::Shared([owner, served.node].into_iter().collect())
            }
            (State::Shared(mut nodes), Permission::Shared) => {
                nodes.insert(served.node);
                State::Shared(nodes)
            }
        };
        let grant = LineMessage::Grant(served.wants, served.data);
        sends.push((Place::Node(served.node), grant));
    }
}
