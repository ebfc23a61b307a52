//! The view: who holds which region, under which key.

use std::rc::Rc;

use crate::verbs::Address;

/// A memory node. Numbers never come twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// What a verb has to show to be executed in a region. Later keys are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(pub u64);

/// What clients may do in a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// They read and write.
    Open,
    /// They read: the master makes its copies equal.
    Closed,
}

/// A region of the view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// The nodes that hold it; the first is the primary, the others are backups. Empty if all are lost.
    pub nodes: Vec<NodeId>,
    /// Its key.
    pub key: Key,
    /// What clients may do.
    pub access: Access,
}

impl Region {
    /// Its primary; `None` if it is lost.
    pub fn primary(&self) -> Option<NodeId> {
        self.nodes.first().copied()
    }

    /// Its backups.
    pub fn backups(&self) -> &[NodeId] {
        self.nodes.get(1..).unwrap_or_default()
    }
}

/// What the master has decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// The view's number. Later views have greater ones.
    pub number: u64,
    /// The regions, by number.
    pub regions: Vec<Region>,
}

impl View {
    /// A region; `None` if there is none of this number.
    pub fn region(&self, number: u16) -> Option<&Region> {
        self.regions.get(usize::from(number))
    }
}

/// The eras of a map: what was retired in one is free once the least of all clients' is two beyond it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eras {
    /// The present one.
    pub now: u64,
    /// The least in which an operation of any client began that has not ended.
    pub least: u64,
}

/// What the master tells a client.
pub trait Control {
    /// The newest view that this client knows of.
    fn view(&self) -> Rc<View>;

    /// The eras, as this client knows them.
    fn eras(&self) -> Eras;

    /// How many sessions of the map have ended, each of which had begun nothing that is not decided by now; as this
    /// client knows it.
    fn sessions_ended(&self) -> u64;

    /// Says that a verb in a region came back refused or unknown under a view, or that somebody's round in it does not
    /// end, and waits for a later view. What this client had begun in that region has then been completed or undone,
    /// and its objects say which.
    fn later(&self, than: u64, region: u16) -> impl Future<Output = Result<(), SessionEnded>>;

    /// A block for this client, for objects of a size: all zeros, or one that a client had for that size that has gone.
    /// `None` if no node has one.
    fn block(&self, size: u32) -> impl Future<Output = Result<Option<Address>, SessionEnded>>;
}

/// This client counts as dead: its session has ended, and its verbs are refused. What it had begun was completed or
/// undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the session of this client has ended: the master took it for dead; connect again")]
pub struct SessionEnded;
