//! What the words of the index mean.
//!
//! | bits | of an object's slot | of a vacant slot |
//! |---|---|---|
//! | 0 to 39 | address, in granules of 64 bytes | nonce |
//! | 40 to 47 | fingerprint of the key | nonce |
//! | 48 to 57 | length, in granules of 64 bytes; 1023: longer | nonce |
//! | 58 | 0 | 0 |
//! | 59 | replacing | 0 |
//! | 60 | conditional | 0 |
//! | 61 | tentative | 0 |
//! | 62 | sealed | sealed |
//! | 63 | 0 | 1 |
//!
//! Zero is vacant as well: a slot that nothing was ever in. A tentative object does not count yet: its key may be in
//! another slot. Only words without backups are ever tentative. A conditional object came in the place of the very one
//! that its change had asked for: no other change can have come just before it. A replacing object came in the place of
//! another one of its key, so it is nobody's twin. Its change sees that when it has read the slots: one change may have
//! tried to put its object into a vacant slot first, so that these are two values of one object.

use crate::verbs::{Address, GRANULE};

const LEN_AT: u32 = 48;
const FINGERPRINT_AT: u32 = 40;
const ADDRESS_MASK: u64 = (1 << FINGERPRINT_AT) - 1;
const LEN_MAX: u64 = (1 << 10) - 1;
const NONCE_MASK: u64 = (1 << 58) - 1;
const REPLACING: u64 = 1 << 59;
const CONDITIONAL: u64 = 1 << 60;
const TENTATIVE: u64 = 1 << 61;
const SEALED: u64 = 1 << 62;
const VACANT: u64 = 1 << 63;

/// A word of the index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u64);

/// What a slot has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Nothing.
    Vacant,
    /// Something that is taken back, or becomes an object.
    Tentative,
    /// An object.
    Object {
        /// Its first byte.
        at: Address,
        /// Of its key.
        fingerprint: u8,
        /// Its bytes, a multiple of 64; `None` if it is longer than a slot can say.
        len: Option<u32>,
    },
    /// No writer makes such a word.
    Damaged,
}

impl Slot {
    /// A slot that nothing was ever in.
    pub const UNUSED: Slot = Slot(0);

    /// The slot of an object of so many bytes. The address is a multiple of 64.
    pub fn object(at: Address, fingerprint: u8, bytes: u32) -> Self {
        let len = u64::from(bytes.div_ceil(GRANULE)).min(LEN_MAX);
        let granules = at.bits() / u64::from(GRANULE);
        Slot(granules | u64::from(fingerprint) << FINGERPRINT_AT | len << LEN_AT)
    }

    /// A vacant slot with a nonce below 2^58.
    pub fn vacant(nonce: u64) -> Self {
        Slot(VACANT | nonce & NONCE_MASK)
    }

    /// The same, sealed.
    #[must_use]
    pub fn sealed(self) -> Self {
        Slot(self.0 | SEALED)
    }

    /// The same, as it was before it was sealed.
    #[must_use]
    pub fn unsealed(self) -> Self {
        Slot(self.0 & !SEALED)
    }

    /// The same object, tentative.
    #[must_use]
    pub fn tentative(self) -> Self {
        Slot(self.0 | TENTATIVE)
    }

    /// The same object, conditional.
    #[must_use]
    pub fn conditional(self) -> Self {
        Slot(self.0 | CONDITIONAL)
    }

    /// Whether its object came in the place of the very one that its change had asked for.
    pub fn is_conditional(self) -> bool {
        self.0 & (VACANT | CONDITIONAL) == CONDITIONAL
    }

    /// The same object, in the place of another one of its key.
    #[must_use]
    pub fn replacing(self) -> Self {
        Slot(self.0 | REPLACING)
    }

    /// Whether its object came in the place of another one of its key.
    pub fn is_replacing(self) -> bool {
        self.0 & (VACANT | REPLACING) == REPLACING
    }

    /// What its change has wanted, before it knew whether there was an object to replace, and before it was sealed.
    #[must_use]
    pub fn wanted(self) -> Self {
        Slot(self.0 & !SEALED & !REPLACING)
    }

    /// The object that a tentative slot is to have; any other slot as it is.
    #[must_use]
    pub fn confirmed(self) -> Self {
        Slot(self.0 & !TENTATIVE)
    }

    /// Whether it never changes any more.
    pub fn is_sealed(self) -> bool {
        self.0 & SEALED != 0
    }

    /// Whether nothing is in it.
    pub fn is_vacant(self) -> bool {
        self.content() == Content::Vacant
    }

    /// What it has.
    pub fn content(self) -> Content {
        let word = self.0 & !SEALED;
        if word == 0 || word & VACANT != 0 {
            return match word & !VACANT & !NONCE_MASK {
                0 => Content::Vacant,
                _ => Content::Damaged,
            };
        }
        if word & TENTATIVE != 0 {
            return match Slot(word & !TENTATIVE).content() {
                Content::Object { .. } => Content::Tentative,
                _ => Content::Damaged,
            };
        }
        let len = word >> LEN_AT & LEN_MAX;
        let at = Address::from_bits((word & ADDRESS_MASK) * u64::from(GRANULE));
        match at {
            Some(at) if word & !NONCE_MASK & !CONDITIONAL & !REPLACING == 0 && len != 0 => Content::Object {
                at,
                fingerprint: (word >> FINGERPRINT_AT) as u8,
                len: (len < LEN_MAX).then_some(len as u32 * GRANULE),
            },
            _ => Content::Damaged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, Slot};
    use crate::verbs::Address;

    #[test]
    fn objects_come_back() {
        let at = Address::new(16_383, u32::MAX - 63);
        for (bytes, len) in [
            (1, Some(64)),
            (64, Some(64)),
            (65, Some(128)),
            (65_408, Some(65_408)),
            (65_409, None),
        ] {
            let slot = Slot::object(at, 0xa5, bytes);
            let content = Content::Object {
                at,
                fingerprint: 0xa5,
                len,
            };
            assert_eq!(slot.content(), content);
            assert_eq!(slot.sealed().content(), content);
            assert!(slot.sealed().is_sealed() && !slot.is_sealed());
            assert_eq!(slot.sealed().unsealed(), slot);
            assert_eq!(slot.conditional().content(), content);
            assert!(slot.conditional().sealed().is_conditional() && !slot.is_conditional());
            assert_eq!(slot.replacing().content(), content);
            assert!(slot.replacing().sealed().is_replacing() && !slot.is_replacing());
            assert_eq!(slot.replacing().sealed().wanted(), slot);
            assert_eq!(slot.conditional().replacing().wanted(), slot.conditional());
            assert_eq!(slot.tentative().content(), Content::Tentative);
            assert_eq!(slot.tentative().confirmed(), slot);
        }
    }

    #[test]
    fn vacant_slots_differ_and_hold_nothing() {
        let slots = [
            Slot::UNUSED,
            Slot::vacant(0),
            Slot::vacant(1),
            Slot::vacant((1 << 58) - 1),
        ];
        for (n, slot) in slots.into_iter().enumerate() {
            assert!(slot.is_vacant() && slot.sealed().is_vacant() && !slot.is_conditional());
            assert!(!slot.is_replacing() && slot.sealed().wanted() == slot);
            assert!(slots[..n].iter().all(|earlier| *earlier != slot));
        }
    }

    #[test]
    fn what_nobody_writes_is_damaged() {
        for word in [
            1,
            1 << 58,
            1 << 63 | 1 << 60,
            1 << 63 | 1 << 59,
            1 << 40,
            u64::MAX,
        ] {
            assert_eq!(Slot(word).content(), Content::Damaged, "{word:x}");
        }
    }
}
