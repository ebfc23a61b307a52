//! Slots: one sync word each, eight to a line.
//!
//! ```text
//! 63        48 47                     4  3    2  1    0
//! fingerprint   offset / 16               kind    move
//! ```
//!
//! | value | meaning | who may change it, into what |
//! |---|---|---|
//! | 0 | empty | an inserter: an object; an appender (last slot): a link; a migrator: moved |
//! | object | a key's current binding | an updater: another object of the same key; a remover: a tombstone; a migrator: frozen |
//! | tombstone | the key was removed | an inserter of any key, once the remover is done: claimed; a migrator: moved |
//! | object, claimed | nothing: its inserter checks for rivals | the inserter: the object; any worker: cleared; a migrator: cleared and moved |
//! | cleared | a tombstone that names nobody | as a tombstone |
//! | link | the next line of the chain | nobody |
//! | object, frozen | the binding, which will be copied and not changed here | the migrator that has copied it: moved |
//! | anything, moved | look in the next level | nobody |
//!
//! A slot that is not empty never becomes empty again, and binds another key only after it was claimed. Both facts
//! carry the proofs in `docs/protocols/hash.md`. Moved slots keep what they held: recovery reads it there.

use crate::pod::commit::publish::{SLOT_CLAIMED, SLOT_CLEARED, SLOT_MOVE_BITS};

/// A slot's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u64);

const FROZEN: u64 = 0b01;
const MOVED: u64 = 0b11;
const KIND: u64 = 0b1100;
const KIND_SMALL: u64 = 0b0100;
const KIND_TOMBSTONE: u64 = 0b1000;
const KIND_LINK: u64 = 0b1100;
const OFFSET: u64 = 0x0000_ffff_ffff_fff0;
/// The fingerprint's place: what `Memory::tagged` looks for.
const FINGERPRINT_SHIFT: u32 = 48;
/// Where a tombstone has the remover's mark, and its number of this removal.
const MARK_SHIFT: u32 = 4;
const NUMBER_SHIFT: u32 = 20;

impl Slot {
    /// A slot that has never bound anything.
    pub const EMPTY: Self = Self(0);

    /// A binding to the object at `offset`; `small` if it is a key and a value of 8 bytes each and nothing else.
    #[inline]
    pub fn object(offset: u64, small: bool, hash: u64) -> Self {
        let kind = if small { KIND_SMALL } else { 0 };
        Self(u64::from(fingerprint(hash)) << FINGERPRINT_SHIFT | offset | kind)
    }

    /// A tombstone that names nobody: what is left of a claim.
    pub const CLEARED: Self = Self(SLOT_CLEARED);

    /// What the worker with mark `remover` leaves when it removes a key. No other removal has the number
    /// ([`crate::pod::Worker::next_removal`]): so a slot that held this word earlier and holds it now held nothing else
    /// in between.
    #[inline]
    pub fn tombstone(remover: u16, number: u64) -> Self {
        Self(number << NUMBER_SHIFT | u64::from(remover) << MARK_SHIFT | KIND_TOMBSTONE)
    }

    /// The next line of a chain.
    pub fn link(offset: u64) -> Self {
        Self(offset | KIND_LINK)
    }

    /// Whether it has never bound anything, and may.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it says to look in the next level.
    #[inline]
    pub fn is_moved(self) -> bool {
        self.0 & SLOT_MOVE_BITS == MOVED
    }

    /// Whether it is a binding that will be copied and may not be changed here.
    #[inline]
    pub fn is_frozen(self) -> bool {
        self.0 & SLOT_MOVE_BITS == FROZEN
    }

    /// Whether it binds a key: frozen or not, but neither moved nor claimed.
    #[inline]
    pub fn is_binding(self) -> bool {
        // Of the move bits, the higher one is that of moved and of claimed slots.
        self.0 & (KIND_TOMBSTONE | SLOT_CLAIMED) == 0 && self.0 & OFFSET != 0
    }

    /// Whether an inserter has claimed it, and it does not bind yet.
    #[inline]
    pub fn is_claimed(self) -> bool {
        self.0 & SLOT_MOVE_BITS == SLOT_CLAIMED
    }

    /// The remover's mark, if it is a tombstone that has not moved; 0 if the tombstone names nobody.
    pub fn as_tombstone(self) -> Option<u16> {
        (self.0 & (KIND | SLOT_MOVE_BITS) == KIND_TOMBSTONE).then_some((self.0 >> MARK_SHIFT) as u16)
    }

    /// Its fingerprint; meaningless if it is no binding.
    pub fn fingerprint(self) -> u16 {
        (self.0 >> FINGERPRINT_SHIFT) as u16
    }

    /// Whether its object is a small one.
    #[inline]
    pub fn is_small(self) -> bool {
        self.0 & KIND == KIND_SMALL
    }

    /// Whether it binds a key to a small object.
    #[inline]
    pub fn is_small_binding(self) -> bool {
        self.0 & (KIND | SLOT_CLAIMED) == KIND_SMALL
    }

    /// The next line, if it is a link.
    #[inline]
    pub fn as_link(self) -> Option<u64> {
        (self.0 & KIND == KIND_LINK).then_some(self.0 & OFFSET)
    }

    /// The object or line it refers to.
    #[inline]
    pub fn offset(self) -> u64 {
        self.0 & OFFSET
    }

    /// The same slot, frozen: to be copied.
    pub fn frozen(self) -> Self {
        Self(self.0 | FROZEN)
    }

    /// The same slot, claimed: it does not bind yet.
    pub fn claimed(self) -> Self {
        Self(self.0 | SLOT_CLAIMED)
    }

    /// The same slot, moved: it was copied, or had nothing to copy.
    pub fn moved(self) -> Self {
        Self(self.0 | MOVED)
    }

    /// The same slot as it was before it was frozen.
    pub fn unfrozen(self) -> Self {
        Self(self.0 & !SLOT_MOVE_BITS)
    }
}

/// The fingerprint of a hash: its low 16 bits, as the high ones choose the group. Never 0, so that a slot with a
/// fingerprint is never taken for an empty one.
#[inline]
pub fn fingerprint(hash: u64) -> u16 {
    (hash as u16).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_moves_do_not_mix() {
        let object = Slot::object(0x1230, true, 0xabcd_0000_0000_beef);
        assert!(object.is_binding() && object.is_small() && object.fingerprint() == 0xbeef);
        assert!(object.frozen().is_binding() && object.frozen().is_frozen() && !object.frozen().is_moved());
        assert!(object.is_small_binding() && object.frozen().is_small_binding());
        assert!(!object.moved().is_small_binding() && !Slot::EMPTY.is_small_binding());
        assert!(!Slot::link(0x40).is_small_binding() && !Slot::tombstone(7, 9).is_small_binding());
        assert!(!object.moved().is_binding() && object.moved().is_moved() && !object.moved().is_frozen());
        assert_eq!(object.moved().unfrozen(), object);
        assert!(!Slot::tombstone(7, 9).is_binding() && Slot::tombstone(7, 9).as_link().is_none());
        assert!(!Slot::tombstone(7, 9).is_empty() && !Slot::tombstone(7, 9).is_moved());
        assert_eq!(Slot::link(0x40).as_link(), Some(0x40));
        assert!(!Slot::link(0x40).is_binding());
        assert!(Slot::EMPTY.moved().is_moved() && !Slot::EMPTY.moved().is_binding());
        assert_eq!(Slot::tombstone(7, 9).as_tombstone(), Some(7));
        assert_eq!(Slot::tombstone(7, 9).moved().as_tombstone(), None);
        assert_eq!(Slot::CLEARED.as_tombstone(), Some(0));
        assert_eq!(object.as_tombstone().or(Slot::link(0x40).as_tombstone()), None);
        let claimed = object.claimed();
        assert!(claimed.is_claimed() && !claimed.is_binding() && !claimed.is_small_binding());
        assert!(!claimed.is_moved() && !claimed.is_frozen() && !claimed.is_empty());
        assert!(claimed.as_link().is_none() && claimed.as_tombstone().is_none());
        assert!(!object.is_claimed() && !object.frozen().is_claimed() && !object.moved().is_claimed());
        assert_eq!(fingerprint(0x1_0000), 1);
    }
}
