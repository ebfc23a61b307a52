//! A change that is going on, and the round of a slot that it is in.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::cache::Moment;
use super::change::Changed;
use super::extents::Long;
use super::get::Found;
use crate::index::candidates::{Seen, Segment};
use crate::index::layout::Hash;
use crate::mutant::{self, Mutant};
use crate::object::{Identity, Kind};
use crate::slot::value::Slot;
use crate::verbs::Address;
use crate::view::Key;

/// A change that is going on.
pub(super) struct Pending<'a> {
    pub kind: Kind,
    /// Whose object the key has to be bound to, if the change is conditional.
    pub expected: Option<Identity>,
    pub key: &'a [u8],
    pub hash: Hash,
    pub identity: Identity,
    /// Where its object is.
    pub at: Address,
    /// The object.
    pub bytes: Rc<[u8]>,
    /// The value, if the object has no room for it.
    pub long: Option<Long<'a>>,
    /// Its in-flight cell.
    pub cell: Address,
    /// When it began.
    pub begun: Moment,
    /// The round that it is in.
    pub round: RefCell<Option<Round>>,
    /// How often it has given up a slot for another client that inserts the key, since it was interrupted last.
    pub given_up: Cell<u32>,
}

/// A round of a slot that a change has begun and not ended.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// The segment.
    pub segment: Segment,
    /// The slot as it was.
    pub seen: Seen,
    /// The object that was in it.
    pub found: Option<Found>,
    /// The region's key. Under a later one the round is over: it was completed or undone.
    pub key: Key,
    /// What the change knows of it.
    pub stage: Stage,
}

/// What a change knows of its round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// All its verbs on the word are done: it goes on where it was.
    Going,
    /// One of them is unknown: only who makes the copies equal can tell.
    Unknown,
    /// The index has its object; its log does not say so yet.
    Shown,
}

/// How an attempt has gone that was not interrupted.
pub(super) enum Attempt {
    /// The index has its object, or had it.
    Shown,
    /// It is over, and the index never had its object.
    Over(Changed),
    /// It is over: the key is bound to another object than the change has asked for, or to none.
    Differs(Option<Box<Found>>),
    /// It begins again.
    Again,
}

impl Pending<'_> {
    /// What it wants in its slot.
    pub fn new_slot(&self) -> Slot {
        match self.kind {
            Kind::Remove => Slot::vacant(self.identity.0),
            _ => self.object_slot(),
        }
    }

    /// The same, if the slot has another object of the key.
    pub fn replacing_slot(&self) -> Slot {
        match self.kind {
            Kind::Remove => self.new_slot(),
            _ if mutant::is(Mutant::ReplacingUnsaid) => self.new_slot(),
            _ => self.new_slot().replacing(),
        }
    }

    /// Whether it asks for another object than the one of this change.
    pub fn refuses(&self, found: Identity) -> bool {
        let differs = self.expected.is_some_and(|expected| expected != found);
        differs && !mutant::is(Mutant::ConditionUnasked)
    }

    /// The slot of its object, and what its cell holds.
    pub fn object_slot(&self) -> Slot {
        let slot = Slot::object(self.at, self.hash.fingerprint, self.bytes.len() as u32);
        match self.kind {
            Kind::Replace => slot.conditional(),
            _ => slot,
        }
    }
}
