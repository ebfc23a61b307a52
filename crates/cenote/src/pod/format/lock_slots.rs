//! A worker's slots: the part of its worker area that says which locks it holds or waits for.
//!
//! A slot is a line of sync words. Its worker writes them, but for the event count, while the slot is at rest or in
//! use. If its worker died or gave up waiting, other workers put the slot at rest with a compare-exchange of the turn.
//!
//! | word | |
//! |---|---|
//! | 0 `turn` | a number that grows each time the slot stands in a queue or its worker reads, and in the low 3 bits a [`SlotState`] |
//! | 8 `before` | in a queue: the slot that it stands behind; else the last such slot |
//! | 16 `lock` | the lock's offset, or 0; stays when the slot is at rest |
//! | 24 `owner` | the identity of the worker that used it last |
//! | 32 `event_count` | workers that wait for the turn to end sleep by it |
//! | 40 `announced` | number of the turn whose end its worker announces, so that a sleeper until then needs no barrier |
//!
//! `docs/protocols/locks.md` says which code relies on what.

use std::cell::Cell;

use super::geometry::Geometry;
use crate::memory::checked::sync_word;
use crate::memory::{LINE, SyncWord};

/// Slots of a worker: the most locks that it can hold or wait for at the same time.
pub const SLOTS: usize = 8;
/// Where they begin in the worker area.
const SLOTS_AT: u64 = 128;

/// What a slot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// For nothing, or to name the lock that its worker holds.
    Rest,
    /// It stands in a queue; its worker waits, or owns the lock.
    Queued,
    /// It stands in a queue, and its worker has given up, for good.
    Left,
    /// It stands in a queue; its worker owned the lock, and a panic ended that.
    Poisoned,
    /// Its worker reads under a shared lock.
    Reading,
    /// Its worker waits for a lock that has no queue.
    Waiting,
    /// Not a value that this library writes.
    Damaged,
}

impl SlotState {
    const fn encode(self) -> u64 {
        match self {
            Self::Rest => 0,
            Self::Queued => 1,
            Self::Left => 2,
            Self::Poisoned => 4,
            Self::Reading => 5,
            Self::Waiting => 6,
            Self::Damaged => 7,
        }
    }
}

/// The word `turn` of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn(pub u64);

impl Turn {
    /// What the slot is used for.
    #[inline]
    pub fn state(self) -> SlotState {
        match self.0 & 7 {
            0 => SlotState::Rest,
            1 => SlotState::Queued,
            2 => SlotState::Left,
            4 => SlotState::Poisoned,
            5 => SlotState::Reading,
            6 => SlotState::Waiting,
            _ => SlotState::Damaged,
        }
    }

    /// The number of the turn.
    #[inline]
    pub fn number(self) -> u64 {
        self.0 >> 3 & ((1 << NUMBER_BITS) - 1)
    }

    /// The same turn, used for something else.
    #[inline]
    pub fn to(self, state: SlotState) -> Self {
        Self(self.0 & !7 | state.encode())
    }

    /// Whether no slot that stood behind this one in the turn of this number still does. A slot that is used for
    /// another lock was at rest before.
    #[inline]
    pub fn is_over(self, number: u64) -> bool {
        let rests = matches!(
            self.state(),
            SlotState::Rest | SlotState::Reading | SlotState::Waiting
        );
        rests || self.number() != number
    }

    /// The next turn.
    #[inline]
    pub fn next(self, state: SlotState) -> Self {
        Self(((self.number() + 1) & ((1 << NUMBER_BITS) - 1)) << 3 | state.encode())
    }
}

/// Bits of a turn's number.
const NUMBER_BITS: u32 = 44;

/// A slot in a turn, as others refer to it: worker index plus one in bits 0 to 15, slot in bits 16 to 18, number above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRef(pub u64);

impl SlotRef {
    /// A slot in a turn.
    #[inline]
    pub fn new(me: u16, slot: usize, turn: Turn) -> Self {
        Self(u64::from(me) | (slot as u64 & 7) << 16 | turn.number() << 19)
    }

    /// The slot, if there is such a worker.
    #[inline]
    pub fn slot(self, geometry: &Geometry) -> Option<Slot> {
        let index = (self.0 as u16).checked_sub(1)?;
        (u32::from(index) < geometry.parameters.workers)
            .then(|| Slot::new(geometry, u32::from(index), (self.0 >> 16 & 7) as usize))
    }

    /// The number of the turn.
    #[inline]
    pub fn number(self) -> u64 {
        self.0 >> 19 & ((1 << NUMBER_BITS) - 1)
    }

    /// Whether this is the same slot in another turn.
    #[inline]
    pub fn is_other_turn(self, place: u64) -> bool {
        let difference = self.0 ^ place;
        difference != 0 && difference & !(((1 << NUMBER_BITS) - 1) << 19) == 0
    }
}

/// Where a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u64);

impl Slot {
    /// A slot of a worker.
    #[inline]
    pub fn new(geometry: &Geometry, worker: u32, slot: usize) -> Self {
        Self(geometry.worker_area(worker) + SLOTS_AT).nth(slot)
    }

    /// Another of the same worker's, where this is its first.
    #[inline]
    pub fn nth(self, slot: usize) -> Self {
        Self(self.0 + (slot as u64 & 7) * LINE)
    }

    /// The line.
    pub fn offset(self) -> u64 {
        self.0
    }

    /// Turn and stand.
    #[inline]
    pub fn turn(self) -> SyncWord {
        sync_word(self.0)
    }

    /// The slot that it stands behind.
    #[inline]
    pub fn before(self) -> SyncWord {
        sync_word(self.0 + 8)
    }

    /// The lock.
    #[inline]
    pub fn lock(self) -> SyncWord {
        sync_word(self.0 + 16)
    }

    /// The identity of its worker.
    #[inline]
    pub fn owner(self) -> SyncWord {
        sync_word(self.0 + 24)
    }

    /// Workers that wait for the turn to end sleep by it.
    #[inline]
    pub fn event_count(self) -> SyncWord {
        sync_word(self.0 + 32)
    }

    /// The number of the turn whose end its worker announces.
    #[inline]
    pub fn announced(self) -> SyncWord {
        sync_word(self.0 + 40)
    }
}

/// What a worker remembers of its own slots.
#[derive(Debug, Default)]
pub struct OwnSlots {
    /// Which slots a guard or a waiter uses. Each has a flag of its own, so that a store depends on no load.
    pub used: [Cell<bool>; SLOTS],
    /// One more than the last slot that was ever used.
    pub most: Cell<usize>,
    /// The lock that a slot names, 0 if that is not known.
    pub locks: [Cell<u64>; SLOTS],
    /// The incarnation of the lock in which the slot's last hold of a queue lock was; `u64::MAX` if there was none.
    pub incarnations: [Cell<u64>; SLOTS],
    /// Its turn, where the lock is known.
    pub turns: [Cell<u64>; SLOTS],
    /// The number of the turn whose end is announced; 0 if there was none.
    pub announced: [Cell<u64>; SLOTS],
}
