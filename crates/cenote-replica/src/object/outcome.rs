//! How the change that wrote an object has gone.

use super::record::{Identity, word};

/// Where an outcome is in an object.
pub const OUTCOME_AT: u32 = 32;
/// Where, in an outcome, the word is that says of which kind it is, and has the checksum.
pub const OUTCOME_KIND_AT: u32 = 16;
/// Bytes of an outcome.
pub const OUTCOME_BYTES: usize = 24;

/// How a change has gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// It has won the slot of an object: the primary is still to be swapped, or, without backups, has been.
    Won {
        /// What was in the slot.
        old: u64,
        /// Whose object that was.
        former: u64,
    },
    /// It has won a vacant slot, and no other slot has its key: the primary is being swapped, or has been.
    Bound,
    /// The index has it, or had it: a client that saw it there, or the master that made the copies of its slot equal,
    /// says so.
    Decided,
    /// The index does not have it: the master that made the copies of its slot equal says so.
    Undone,
}

impl Outcome {
    /// Whether it keeps another change of the key from being chosen in the place of this one.
    pub fn stays(self) -> bool {
        self != Outcome::Undone
    }

    /// Whether it says how the change has gone when the index does not have its object any more.
    pub fn outlasts(self) -> bool {
        matches!(self, Outcome::Won { .. } | Outcome::Decided)
    }

    fn parts(self) -> (u32, u64, u64) {
        match self {
            Outcome::Won { old, former } => (1, old, former),
            Outcome::Bound => (4, 0, 0),
            Outcome::Decided => (2, 0, 0),
            Outcome::Undone => (3, 0, 0),
        }
    }

    /// The bytes of it, for the object of a change.
    pub fn encode(self, identity: Identity) -> [u8; OUTCOME_BYTES] {
        let (_, value, former) = self.parts();
        let mut bytes = [0; OUTCOME_BYTES];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        bytes[8..16].copy_from_slice(&former.to_le_bytes());
        bytes[16..].copy_from_slice(&self.kind_word(identity).to_le_bytes());
        bytes
    }

    /// The word of its kind, for the object of a change: all of it, where it has no values.
    pub fn kind_word(self, identity: Identity) -> u64 {
        let (kind, ..) = self.parts();
        u64::from(kind) | u64::from(checksum(self, identity)) << 32
    }

    /// The outcome of an object; `None` if it has none, or half of one.
    pub fn decode(object: &[u8], identity: Identity) -> Option<Self> {
        let word = |at: usize| word(object, OUTCOME_AT as usize + at);
        let (old, former, tail) = (word(0)?, word(8)?, word(16)?);
        let outcome = match tail as u32 {
            1 => Outcome::Won { old, former },
            2 => Outcome::Decided,
            3 => Outcome::Undone,
            4 => Outcome::Bound,
            _ => return None,
        };
        ((tail >> 32) as u32 == checksum(outcome, identity)).then_some(outcome)
    }
}

fn checksum(outcome: Outcome, identity: Identity) -> u32 {
    let (kind, value, former) = outcome.parts();
    [u64::from(kind), value, former]
        .iter()
        .fold(crc32c::crc32c(&identity.0.to_le_bytes()), |sum, word| {
            crc32c::crc32c_append(sum, &word.to_le_bytes())
        })
}

#[cfg(test)]
mod tests {
    use super::{OUTCOME_AT, OUTCOME_BYTES, Outcome};
    use crate::object::{Identity, Kind, Record};

    #[test]
    fn outcomes_come_back_and_halves_are_none() {
        let identity = Identity::new(1, 2).unwrap();
        let record = Record {
            identity,
            kind: Kind::Put,
            key: b"key",
            value: b"value",
            is_long: false,
        };
        let bare = record.encode().unwrap();
        assert_eq!(Outcome::decode(&bare, identity), None);
        for outcome in [
            Outcome::Bound,
            Outcome::Won { old: 77, former: 5 },
            Outcome::Decided,
            Outcome::Undone,
        ] {
            let mut object = bare.clone();
            let at = OUTCOME_AT as usize;
            object[at..at + OUTCOME_BYTES].copy_from_slice(&outcome.encode(identity));
            assert_eq!(Outcome::decode(&object, identity), Some(outcome));
            assert_eq!(Record::decode(&object), Some(record));
            // Of another object in the same place.
            assert_eq!(Outcome::decode(&object, Identity::new(1, 3).unwrap()), None);
            let mut torn = object.clone();
            torn[at + 16..at + 24].fill(0);
            assert_eq!(Outcome::decode(&torn, identity), None);
            if let Outcome::Won { .. } = outcome {
                let mut torn = object;
                torn[at + 8] ^= 2;
                assert_eq!(Outcome::decode(&torn, identity), None);
            }
        }
    }
}
