//! A directory lock at the directory: the library's [`Entry`], and the messages that tell of its changes.
//!
//! While the memory is asked for the data of a grant, the messages that arrive wait, in their order. So no message
//! about a later change overtakes a grant.

use std::collections::VecDeque;

use cenote::sync::directory::entry::{Answer, Entry};
use cenote::sync::directory::node::Node;
use cenote::sync::directory::queue::{Handover, Permission, Request};

use super::data::Data;
use super::message::{LockMessage, Place};

/// A lock's entry.
#[derive(Default)]
pub struct Home {
    entry: Entry,
    /// Bytes that the lock covers.
    bytes: u64,
    /// Whether the next writer has been a reader until it asked to write, so that it has the data.
    next_has_data: bool,
    /// The grant whose data the memory was asked for.
    granting: Option<(Node, Permission)>,
    waiting: VecDeque<LockMessage>,
}

/// Messages to send.
pub type Sends = Vec<(Place, LockMessage)>;

impl Home {
    /// The entry of a lock that nobody has.
    pub fn new(bytes: u64) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// A message about the lock arrives.
    pub fn receive(&mut self, message: LockMessage) -> Sends {
        let mut sends = Sends::new();
        match message {
            LockMessage::Fetched(data) => {
                if let Some((node, permission)) = self.granting.take() {
                    sends.push((Place::Node(node), granted(permission, Some(data))));
                }
            }
            other => self.waiting.push_back(other),
        }
        while self.granting.is_none()
            && let Some(message) = self.waiting.pop_front()
        {
            self.serve(message, &mut sends);
        }
        sends
    }

    fn serve(&mut self, message: LockMessage, sends: &mut Sends) {
        match message {
            LockMessage::Acquire(node, wants) => self.acquire(node, wants, sends),
            LockMessage::GiveUp(node) => self.give_up(node, sends),
            LockMessage::Transfer {
                from,
                version,
                handover,
                data,
            } => self.transfer((from, version), handover, data, sends),
            // The directory sends these, or has taken it above.
            LockMessage::Granted { .. }
            | LockMessage::Asked
            | LockMessage::Forward(..)
            | LockMessage::Queue(_)
            | LockMessage::Accepted
            | LockMessage::Denied
            | LockMessage::Fetch
            | LockMessage::Fetched(_)
            | LockMessage::WriteBack(_) => {}
        }
    }

    fn acquire(&mut self, node: Node, wants: Permission, sends: &mut Sends) {
        let has_data = self.entry.sharers().contains(node);
        if wants == Permission::Exclusive {
            // Asking to write, a reader has given up reading.
            self.give_up(node, sends);
        }
        match self.entry.request(node, wants) {
            Answer::Granted => self.grant(node, wants, has_data, sends),
            Answer::Forwarded { holder, version } => {
                let request = Request { node, wants };
                sends.push((Place::Node(holder), LockMessage::Forward(request, version)));
            }
            Answer::Next { sharers } => {
                self.next_has_data = has_data;
                let asked = |reader| (Place::Node(reader), LockMessage::Asked);
                sends.extend(sharers.iter().map(asked));
            }
        }
    }

    fn give_up(&mut self, node: Node, sends: &mut Sends) {
        if let Some(writer) = self.entry.give_up(node) {
            self.grant(writer, Permission::Exclusive, self.next_has_data, sends);
        }
    }

    fn grant(&mut self, node: Node, permission: Permission, has_data: bool, sends: &mut Sends) {
        match has_data || self.bytes == 0 {
            true => sends.push((Place::Node(node), granted(permission, None))),
            false => {
                self.granting = Some((node, permission));
                sends.push((Place::Memory, LockMessage::Fetch));
            }
        }
    }

    fn transfer(&mut self, (from, version): (Node, u16), handover: Handover, data: Data, sends: &mut Sends) {
        if !self.entry.transfer(from, version, &handover) {
            sends.push((Place::Node(from), LockMessage::Denied));
            return;
        }
        self.next_has_data = false;
        let Handover {
            readers,
            writer,
            rest,
        } = handover;
        if let Some(writer) = writer.filter(|_| readers.is_empty()) {
            let message = LockMessage::Granted {
                permission: Permission::Exclusive,
                data: Some(data),
                queue: Some(rest),
                is_asked: false,
            };
            sends.push((Place::Node(writer), message));
        } else {
            for reader in readers.iter() {
                let message = LockMessage::Granted {
                    permission: Permission::Shared,
                    data: Some(data.clone()),
                    queue: None,
                    is_asked: writer.is_some(),
                };
                sends.push((Place::Node(reader), message));
            }
            if let Some(writer) = writer {
                sends.push((Place::Node(writer), LockMessage::Queue(rest)));
            }
            if self.bytes != 0 {
                sends.push((Place::Memory, LockMessage::WriteBack(data)));
            }
        }
        sends.push((Place::Node(from), LockMessage::Accepted));
    }
}

/// A grant without a queue, of which nobody has asked anything yet.
fn granted(permission: Permission, data: Option<Data>) -> LockMessage {
    LockMessage::Granted {
        permission,
        data,
        queue: None,
        is_asked: false,
    }
}
