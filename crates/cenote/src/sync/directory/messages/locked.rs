//! A lock, as its directory has it: the [entry](super::super::entry), the data, and what nodes have asked for.
//!
//! The directory remembers each node's request for as long as the node waits or has the lock, and what it has forwarded
//! in the epoch. It needs that to send again what was lost, and it is all that is needed to build the queue anew when
//! its holder dies. A crash of the directory is not survived.

use std::collections::BTreeMap;

use super::message::{DirectorySays, Former, Grant, NodeSays, Session, Transfer};
use super::region::Stored;
use crate::mutant::{self, Mutant};
use crate::sync::directory::entry::{Answer, Entry, Left};
use crate::sync::directory::node::{Node, Nodes};
use crate::sync::directory::queue::{Handover, Permission, Queue, Request};

/// What becomes of a message that no node sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible;

/// Messages to nodes.
pub type Replies = Vec<(Node, DirectorySays)>;

/// The last request of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NodeRequest {
    ticket: u64,
    wants: Permission,
    /// The epoch whose regions the node has.
    known: u64,
    /// How many requests for the lock were accepted before.
    order: u64,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Progress {
    Waits,
    Has,
    HasHad,
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Locked {
    entry: Entry,
    /// How often the queue got another holder, or lost its holder.
    epoch: u64,
    /// What the queue held when the epoch began.
    initial: Queue,
    /// Requests forwarded since, the one of number 1 first.
    forwarded: Vec<Request>,
    /// How many of them have arrived, as far as is known.
    arrived: u16,
    requests: BTreeMap<Node, NodeRequest>,
    /// How many requests were accepted.
    accepted: u64,
    /// How many transfers were accepted.
    transfers: u64,
    data: Stored,
    former: Option<Former>,
    /// What the next owner is told that the writer was doing, should it die.
    note: u64,
    /// How many notes the writer has left in this epoch.
    notes: u32,
}

impl Locked {
    /// A lock that nobody has, over regions of these lengths.
    pub fn new(lens: &[u32]) -> Self {
        Self {
            entry: Entry::default(),
            epoch: 0,
            initial: Queue::default(),
            forwarded: Vec::new(),
            arrived: 0,
            requests: BTreeMap::new(),
            accepted: 0,
            transfers: 0,
            data: Stored::zeroed(lens),
            former: None,
            note: 0,
            notes: 0,
        }
    }

    /// The entry.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// How often the queue got another holder, or lost its holder.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The data that was written back last.
    pub fn data(&self) -> &Stored {
        &self.data
    }

    /// Who died or panicked writing, if no thread has written and unlocked since.
    pub fn former(&self) -> Option<Former> {
        self.former
    }

    /// What the next owner would be told that the writer was doing; 0 if nothing.
    pub fn note(&self) -> u64 {
        self.note
    }

    /// How many transfers were accepted.
    pub fn transfers(&self) -> u64 {
        self.transfers
    }

    /// The nodes that wait, in the order in which their requests were accepted.
    pub fn waiting(&self) -> Vec<Request> {
        let mut waiting: Vec<(u64, Request)> = Vec::new();
        for (node, request) in &self.requests {
            if request.progress == Progress::Waits {
                let (node, wants) = (*node, request.wants);
                waiting.push((request.order, Request { node, wants }));
            }
        }
        waiting.sort_unstable_by_key(|(order, _)| *order);
        waiting.into_iter().map(|(_, request)| request).collect()
    }

    /// A node says something.
    pub fn receive(&mut self, node: Node, says: NodeSays) -> Result<Replies, Impossible> {
        match says {
            NodeSays::Request { ticket, wants, known } => self.request(node, ticket, wants, known),
            NodeSays::Arrived { epoch, version } => self.have_arrived(node, epoch, version),
            NodeSays::Transfer(transfer) => self.transfer(node, *transfer),
            NodeSays::GaveUp { ticket } => Ok(self.give_up(node, ticket)),
            NodeSays::Note { epoch, number, note } => self.be_noted(node, epoch, number, note),
            NodeSays::Open(_) | NodeSays::Alive { .. } | NodeSays::Leave => Err(Impossible),
        }
    }

    fn request(
        &mut self,
        node: Node,
        ticket: u64,
        wants: Permission,
        known: u64,
    ) -> Result<Replies, Impossible> {
        if let Some(request) = self.requests.get(&node) {
            if ticket <= request.ticket {
                return Ok(match ticket == request.ticket {
                    true => self.answer_again(node),
                    false => Vec::new(),
                });
            }
            let writes = self.entry.owner() == Some(node);
            if writes || request.progress == Progress::Waits {
                return Err(Impossible);
            }
        }
        if self.entry.version() == u16::MAX {
            // It comes again, and meets another epoch.
            return Ok(Vec::new());
        }
        // A reader that asks reads no more.
        let mut replies = self.remove_reader(node);
        let (order, progress) = (self.accepted, Progress::Waits);
        self.accepted += 1;
        self.requests.insert(
            node,
            NodeRequest {
                ticket,
                wants,
                known,
                order,
                progress,
            },
        );
        match self.entry.request(node, wants) {
            Answer::Forwarded { holder, version } => {
                let request = Request { node, wants };
                self.forwarded.push(request);
                replies.push((holder, self.forward(version, request)));
            }
            Answer::Granted if wants == Permission::Shared => replies.extend(self.grants()),
            Answer::Granted | Answer::Next { .. } => {
                self.begin_epoch(Queue::default());
                replies.extend(self.tell_all());
            }
        }
        Ok(replies)
    }

    fn have_arrived(&mut self, node: Node, epoch: u64, version: u16) -> Result<Replies, Impossible> {
        if self.entry.holder() == Some(node) && self.epoch == epoch {
            if version > self.entry.version() {
                return Err(Impossible);
            }
            self.arrived = self.arrived.max(version);
        }
        Ok(Vec::new())
    }

    fn give_up(&mut self, node: Node, ticket: u64) -> Replies {
        let has = |request: &NodeRequest| {
            let is_this = request.ticket == ticket || mutant::is(Mutant::DirectoryGiveUpOfOldTicket);
            is_this && request.progress == Progress::Has
        };
        match self.requests.get(&node).is_some_and(has) {
            true => self.remove_reader(node),
            false => Vec::new(),
        }
    }

    fn remove_reader(&mut self, node: Node) -> Replies {
        if self.entry.permission(node) != Some(Permission::Shared) {
            return Vec::new();
        }
        self.set_progress(node, Progress::HasHad);
        self.entry.give_up(node);
        self.grants()
    }

    fn transfer(&mut self, node: Node, transfer: Transfer) -> Result<Replies, Impossible> {
        let epoch = transfer.epoch;
        let is_over = epoch < self.epoch && !mutant::is(Mutant::DirectoryEpochNotChecked);
        if is_over {
            // A living node's epoch ends by its transfer alone.
            return Ok(vec![(node, DirectorySays::Transferred { epoch })]);
        }
        let is_whole = self.data.admits(&transfer.changes) && transfer.version <= self.entry.version();
        if !is_whole || epoch > self.epoch || self.entry.owner() != Some(node) {
            return Err(Impossible);
        }
        let handover = self.without_the_dead(&transfer.handover, transfer.version)?;
        if !self.entry.transfer(node, transfer.version, &handover) {
            let version = self.entry.version();
            let mut replies = vec![(node, DirectorySays::Denied { epoch, version })];
            replies.extend(self.forwards_after(transfer.version));
            return Ok(replies);
        }
        self.set_progress(node, Progress::HasHad);
        self.transfers += 1;
        self.former = transfer.former;
        self.note = transfer.former.map_or(0, |former| former.note);
        self.begin_epoch(handover.rest);
        if !mutant::is(Mutant::DirectoryDataNotKept) {
            self.data.keep(transfer.changes, self.epoch);
        }
        let mut replies = vec![(node, DirectorySays::Transferred { epoch })];
        replies.extend(self.tell_all());
        Ok(replies)
    }

    /// What a writer hands over, but for nodes that have died since they stood in its queue. One that has joined and
    /// asked since stands where its new request does. What each one asked for is known here, too. A writer that has got
    /// all requests cannot leave one out.
    fn without_the_dead(&self, handover: &Handover, version: u16) -> Result<Handover, Impossible> {
        let readers = handover.readers.iter();
        let rest = handover.rest.requests().iter().map(|request| request.node);
        let named: Vec<Node> = readers.chain(handover.writer).chain(rest).collect();
        let mut waiting = self.waiting();
        let all = waiting.len();
        waiting.retain(|request| named.contains(&request.node));
        if version == self.entry.version() && waiting.len() < all {
            return Err(Impossible);
        }
        let mut handover = waiting.into_iter().collect::<Queue>().hand_over();
        if mutant::is(Mutant::DirectoryNextReadersForgotten) {
            handover.readers = Nodes::NONE;
        }
        Ok(handover)
    }

    fn be_noted(&mut self, node: Node, epoch: u64, number: u32, note: u64) -> Result<Replies, Impossible> {
        if epoch < self.epoch {
            // It has handed the lock over since.
            return Ok(Vec::new());
        }
        if epoch > self.epoch || self.entry.owner() != Some(node) {
            return Err(Impossible);
        }
        if number > self.notes || mutant::is(Mutant::RemoteNoteOutOfOrder) {
            (self.notes, self.note) = (number, note);
        }
        let number = self.notes;
        Ok(vec![(node, DirectorySays::Noted { epoch, number })])
    }

    /// A node waits no more: its session is about to end.
    pub fn forget(&mut self, node: Node) {
        self.requests.remove(&node);
    }

    /// A node's session has ended: in order, if the node has nothing that it has written and not handed over; else it
    /// has died.
    pub fn lose(&mut self, session: Session, in_order: bool) -> Replies {
        let node = session.node();
        self.requests.remove(&node);
        match self.entry.lose(node) {
            Left::Nothing => Vec::new(),
            Left::Granted(_) => self.grants(),
            Left::Queue { wrote } => {
                if wrote && !in_order {
                    let note = self.note;
                    self.former = Some(Former { session, note });
                }
                let mut queue: Queue = match mutant::is(Mutant::DirectoryQueueLost) {
                    true => Queue::default(),
                    false => self.waiting().into_iter().collect(),
                };
                let handover = queue.hand_over();
                self.entry.rebuild(&handover);
                self.begin_epoch(handover.rest);
                self.tell_all()
            }
        }
    }

    /// Whether there may be something to send again.
    pub fn is_restless(&self) -> bool {
        let is_next_waiting = self.entry.holder().is_some() && !self.entry.sharers().is_empty();
        usize::from(self.arrived) < self.forwarded.len() || is_next_waiting
    }

    /// What may have been lost and would not come again by itself: requests on their way to the holder, and what
    /// readers are told.
    pub fn again(&self) -> Replies {
        let mut replies = match mutant::is(Mutant::DirectoryForwardNotRepeated) {
            true => Vec::new(),
            false => self.forwards_after(self.arrived),
        };
        replies.extend(self.yields());
        replies
    }

    fn begin_epoch(&mut self, initial: Queue) {
        self.epoch += 1;
        self.initial = initial;
        self.forwarded.clear();
        (self.arrived, self.notes) = (0, 0);
    }

    fn set_progress(&mut self, node: Node, progress: Progress) {
        if let Some(request) = self.requests.get_mut(&node) {
            request.progress = progress;
        }
    }

    /// At the begin of an epoch: who has the lock, who is next, who is waited for.
    fn tell_all(&mut self) -> Replies {
        let mut replies = self.grants();
        if let Some(holder) = self.entry.holder()
            && self.entry.owner().is_none()
        {
            replies.extend(self.answer_again(holder));
            replies.extend(self.yields());
        }
        replies
    }

    /// Grants for all that have waited, and wait no more.
    fn grants(&mut self) -> Replies {
        let mut replies = Vec::new();
        for node in self.waiting().into_iter().map(|request| request.node) {
            if self.entry.permission(node).is_some() {
                self.set_progress(node, Progress::Has);
                replies.extend(self.answer_again(node));
            }
        }
        replies
    }

    /// What a node was answered to its last request, if it was answered.
    fn answer_again(&self, node: Node) -> Replies {
        let Some(request) = self.requests.get(&node) else {
            return Vec::new();
        };
        let (ticket, epoch) = (request.ticket, self.epoch);
        let says = match (request.progress, self.entry.permission(node)) {
            (Progress::Has, Some(permission)) => DirectorySays::Grant(Box::new(Grant {
                ticket,
                permission,
                epoch,
                queue: match permission {
                    Permission::Shared => Queue::default(),
                    Permission::Exclusive => self.initial.clone(),
                },
                changes: self.data.changed_since(request.known),
                former: self.former,
            })),
            (Progress::Waits, None) if self.entry.holder() == Some(node) => DirectorySays::Next {
                ticket,
                epoch,
                queue: self.initial.clone(),
            },
            _ => return Vec::new(),
        };
        vec![(node, says)]
    }

    fn forward(&self, number: u16, request: Request) -> DirectorySays {
        DirectorySays::Forward {
            epoch: self.epoch,
            number,
            request,
        }
    }

    fn forwards_after(&self, arrived: u16) -> Replies {
        let Some(holder) = self.entry.holder() else {
            return Vec::new();
        };
        (1..=u16::MAX)
            .zip(&self.forwarded)
            .skip(usize::from(arrived))
            .map(|(number, request)| (holder, self.forward(number, *request)))
            .collect()
    }

    /// Tells readers of the writer that waits for them.
    fn yields(&self) -> Replies {
        let Some(next) = self.entry.holder() else {
            return Vec::new();
        };
        let ticket = |reader: Node| Some(self.requests.get(&reader)?.ticket);
        self.entry
            .sharers()
            .iter()
            .filter_map(|reader| {
                let ticket = ticket(reader)?;
                Some((reader, DirectorySays::Yield { ticket, next }))
            })
            .collect()
    }
}
