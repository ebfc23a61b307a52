//! What a node has of a lock: its permission, its data, and, if it writes or is the next writer, the queue.
//!
//! A node that dies leaves nothing: the directory has all that is needed to go on without it.
//!
//! What the node had of the data stays when it gives the lock up: the next grant brings what has changed since.

use std::sync::Arc;

use super::message::{DirectorySays, Former, Grant, NodeSays, Transfer};
use super::region::Data;
use crate::mutant::{self, Mutant};
use crate::sync::directory::node::Node;
use crate::sync::directory::queue::{Permission, Queue, Request};

/// The queue of an epoch, at its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    epoch: u64,
    /// How many requests have arrived in this epoch.
    arrived: u16,
    queue: Queue,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum State {
    #[default]
    Nothing,
    Waits {
        wants: Permission,
        held: Option<Held>,
    },
    Reads {
        asked_by: Option<Node>,
    },
    Writes {
        held: Held,
        noted: Noted,
    },
    /// It has sent a transfer.
    HandsOver {
        held: Held,
        /// How many requests the directory has forwarded, as far as is known.
        forwarded: u16,
    },
}

/// What a writer has let the directory know of what it is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Noted {
    note: u64,
    /// How many notes there were in this epoch.
    number: u32,
    /// How many of them the directory has, as far as is known.
    known: u32,
}

/// A lock, as a node has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Copy {
    state: State,
    /// The number of the last request.
    ticket: u64,
    /// The data is as it was when this epoch began, but for what the node itself has changed.
    known: u64,
    data: Arc<Data>,
    lens: Vec<u32>,
    former: Option<Former>,
}

impl Copy {
    /// A new lock's, with regions of these lengths.
    pub fn new(lens: &[u32]) -> Self {
        Self {
            data: Arc::new(Data::zeroed(lens)),
            lens: lens.to_vec(),
            ..Self::default()
        }
    }

    /// Whether the lock's regions have these lengths.
    pub fn has_lengths(&self, lens: &[u32]) -> bool {
        self.lens == lens
    }

    /// What the node may do.
    pub fn permission(&self) -> Option<Permission> {
        match &self.state {
            State::Reads { .. } => Some(Permission::Shared),
            State::Writes { .. } => Some(Permission::Exclusive),
            _ => None,
        }
    }

    /// The epoch in which the node writes, or has written and hands over.
    pub fn epoch(&self) -> Option<u64> {
        match &self.state {
            State::Writes { held, .. } | State::HandsOver { held, .. } => Some(held.epoch),
            _ => None,
        }
    }

    /// Whether it waits for a message before it can ask for the lock.
    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Waits { .. } | State::HandsOver { .. })
    }

    /// Whether a transfer of it was sent, and not answered.
    pub fn is_handing_over(&self) -> bool {
        matches!(self.state, State::HandsOver { .. })
    }

    /// Whether another node asks for what this one has.
    pub fn is_asked(&self) -> bool {
        self.asked_by().is_some()
    }

    /// The node that comes next, if one asks for what this one has.
    pub fn asked_by(&self) -> Option<Node> {
        match &self.state {
            State::Reads { asked_by } => *asked_by,
            State::Writes { held, .. } => held.queue.requests().first().map(|request| request.node),
            _ => None,
        }
    }

    /// The data. It says what the lock protects only while the node has the lock.
    pub fn data(&self) -> &Arc<Data> {
        &self.data
    }

    /// The data, for a writer; and who died or panicked writing since a writer has unlocked.
    pub fn written(&mut self) -> (&mut Arc<Data>, &mut Option<Former>) {
        (&mut self.data, &mut self.former)
    }

    /// Who died or panicked writing.
    pub fn former(&self) -> Option<Former> {
        self.former
    }

    /// What the directory would tell the next owner that the writer was doing.
    pub fn note(&self) -> u64 {
        match &self.state {
            State::Writes { noted, .. } if noted.number > 0 => noted.note,
            _ => self.former.map_or(0, |former| former.note),
        }
    }

    /// How many notes a writer has left in this epoch.
    pub fn notes(&self) -> u32 {
        match &self.state {
            State::Writes { noted, .. } => noted.number,
            _ => 0,
        }
    }

    /// Whether the directory has the writer's last note.
    pub fn is_noted(&self) -> bool {
        match &self.state {
            State::Writes { noted, .. } => noted.known == noted.number,
            _ => true,
        }
    }

    /// A writer leaves a note.
    pub fn set_note(&mut self, note: u64) -> Option<NodeSays> {
        if let State::Writes { noted, .. } = &mut self.state {
            noted.note = note;
            noted.number += 1;
        }
        self.again()
    }

    /// Asks for the lock, unless the node has it already or has asked. A reader that asks to write reads no more.
    pub fn request(&mut self, wants: Permission) -> Option<NodeSays> {
        if self.is_busy() || self.permission() >= Some(wants) {
            return None;
        }
        self.ticket += 1;
        self.state = State::Waits { wants, held: None };
        self.again()
    }

    /// Gives up what the node has; its threads have given it up.
    pub fn give_up(&mut self) -> Option<NodeSays> {
        match std::mem::take(&mut self.state) {
            State::Reads { .. } => Some(NodeSays::GaveUp { ticket: self.ticket }),
            State::Writes { held, .. } => {
                let forwarded = held.arrived;
                self.state = State::HandsOver { held, forwarded };
                self.again()
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    /// What is to be sent again, as it may have been lost.
    pub fn again(&self) -> Option<NodeSays> {
        match &self.state {
            State::Waits { wants, .. } => Some(NodeSays::Request {
                ticket: self.ticket,
                wants: *wants,
                known: self.known,
            }),
            State::Writes { held, noted } if noted.known < noted.number => Some(NodeSays::Note {
                epoch: held.epoch,
                number: noted.number,
                note: noted.note,
            }),
            State::HandsOver { held, forwarded } if held.arrived >= *forwarded => {
                let mut queue = held.queue.clone();
                Some(NodeSays::Transfer(Box::new(Transfer {
                    epoch: held.epoch,
                    version: held.arrived,
                    handover: queue.hand_over(),
                    changes: self.data.changes(),
                    former: self.former,
                })))
            }
            _ => None,
        }
    }

    /// The directory says something.
    pub fn receive(&mut self, says: DirectorySays) -> Option<NodeSays> {
        match says {
            DirectorySays::Grant(grant) => self.be_granted(*grant),
            DirectorySays::Next { ticket, epoch, queue } => {
                if let State::Waits { held, .. } = &mut self.state
                    && ticket == self.ticket
                    && held.is_none()
                {
                    *held = Some(Held::new(epoch, queue));
                }
                return None;
            }
            DirectorySays::Forward {
                epoch,
                number,
                request,
            } => return self.enqueue(epoch, number, request),
            DirectorySays::Transferred { epoch } => {
                if self.is_handing_over() && self.epoch() == Some(epoch) {
                    self.state = State::Nothing;
                    // The next epoch began with what this node had.
                    self.known = epoch + 1;
                    Arc::make_mut(&mut self.data).forget_changes();
                }
            }
            DirectorySays::Denied { epoch, version } => {
                if let State::HandsOver { held, forwarded } = &mut self.state
                    && held.epoch == epoch
                {
                    *forwarded = version.max(*forwarded);
                }
            }
            DirectorySays::Yield { ticket, next } => return self.be_asked(ticket, next),
            DirectorySays::Noted { epoch, number } => {
                if let State::Writes { held, noted } = &mut self.state
                    && held.epoch == epoch
                {
                    noted.known = number.clamp(noted.known, noted.number);
                }
            }
            DirectorySays::Opened { .. }
            | DirectorySays::Refused { .. }
            | DirectorySays::Heard { .. }
            | DirectorySays::Ended => {}
        }
        None
    }

    fn be_granted(&mut self, grant: Grant) {
        let is_this = grant.ticket == self.ticket || mutant::is(Mutant::DirectoryGrantOfOldTicket);
        let State::Waits { held, .. } = &mut self.state else {
            return;
        };
        if !is_this || !Arc::make_mut(&mut self.data).apply(&grant.changes) {
            return;
        }
        let held = held.take();
        self.state = match grant.permission {
            Permission::Shared => State::Reads { asked_by: None },
            Permission::Exclusive => State::Writes {
                held: match held {
                    Some(held) if held.epoch == grant.epoch => held,
                    _ => Held::new(grant.epoch, grant.queue),
                },
                noted: Noted::default(),
            },
        };
        (self.known, self.former) = (grant.epoch, grant.former);
    }

    fn be_asked(&mut self, ticket: u64, by: Node) -> Option<NodeSays> {
        match &mut self.state {
            State::Reads { asked_by } if ticket == self.ticket => {
                *asked_by = Some(by);
                None
            }
            // The grant is on its way.
            State::Waits { .. } if ticket == self.ticket => None,
            _ => Some(NodeSays::GaveUp { ticket }),
        }
    }

    fn enqueue(&mut self, epoch: u64, number: u16, request: Request) -> Option<NodeSays> {
        let held = match &mut self.state {
            State::Waits { held: Some(held), .. }
            | State::Writes { held, .. }
            | State::HandsOver { held, .. } => held,
            _ => return None,
        };
        if held.epoch != epoch {
            return None;
        }
        let next = held.arrived.wrapping_add(1);
        let is_next = number == next || mutant::is(Mutant::DirectoryForwardCountedTwice);
        if is_next {
            held.arrived = next;
            held.queue.push(request);
        }
        let version = held.arrived;
        // A transfer that was sent before is denied, or will be.
        match &self.state {
            State::HandsOver { forwarded, .. } if is_next && version >= *forwarded => self.again(),
            _ => Some(NodeSays::Arrived { epoch, version }),
        }
    }
}

impl Held {
    fn new(epoch: u64, queue: Queue) -> Self {
        Self {
            epoch,
            arrived: 0,
            queue,
        }
    }
}
